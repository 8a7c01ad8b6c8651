//! Tests of the table of calls.

use futures_util::FutureExt;
use switchboard::Error;

use super::*;

fn subject(name: &str) -> Subject {
    Subject { method: "tools/call", server: Some("github".to_owned()), name: name.to_owned() }
}

fn done(result: &str) -> Outcome {
    Outcome::Done { result: result.parse().unwrap(), is_error: false, is_odd: false }
}

fn begin(table: &Arc<CallTable>, name: &str) -> Ticket {
    match table.begin(subject(name), None).unwrap() {
        Begun::New(ticket) => ticket,
        Begun::Known(_) => unreachable!("there is no key"),
    }
}

fn keyed(table: &Arc<CallTable>, key: &str, print: u64) -> Result<Begun, Problem> {
    table.begin(subject("search"), Some(Key { key: key.to_owned(), print }))
}

async fn end(ticket: Ticket, outcome: Outcome) -> String {
    let id = ticket.follower().id().to_owned();
    ticket.run(async { outcome }).await;
    id
}

#[tokio::test]
async fn a_result_is_kept_byte_for_byte() {
    let table = Arc::new(CallTable::default());
    let id = end(begin(&table, "search"), done(r#"{ "n":1.0 }"#)).await;
    let shown = serde_json::to_string(&table.view(&id).unwrap()).unwrap();
    assert!(shown.contains(r#""state":"done""#) && shown.ends_with(r#""result":{ "n":1.0 }}"#), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn an_ended_call_is_forgotten_after_an_hour_and_a_running_one_is_not() {
    let table = Arc::new(CallTable::default());
    let running = begin(&table, "slow");
    let id = end(begin(&table, "search"), done("{}")).await;
    tokio::time::advance(KEPT_FOR - Duration::from_secs(1)).await;
    assert!(table.view(&id).is_some());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(table.view(&id).is_none());
    assert_eq!(table.view(running.follower().id()).unwrap().state, CallState::Running);
}

#[tokio::test]
async fn the_oldest_ended_calls_make_room_and_running_ones_are_never_forgotten() {
    let table = Arc::new(CallTable::default());
    let first = end(begin(&table, "search"), done("{}")).await;
    let running: Vec<Ticket> = (1..MAX_CALLS).map(|_| begin(&table, "slow")).collect();
    assert!(table.view(&first).is_some());

    let last = begin(&table, "slow");
    assert!(table.view(&first).is_none());
    let refused = table.enter(subject("one more")).unwrap_err();
    assert_eq!(refused.code().text(), "overloaded");

    drop(last);
    assert!(table.enter(subject("one more")).is_ok());
    assert_eq!(table.list(&[CallState::Running]).len(), running.len());
}

#[tokio::test]
async fn kept_results_are_bounded_in_bytes() {
    let table = Arc::new(CallTable::default());
    let large = format!("\"{}\"", "x".repeat(MAX_RESULT_BYTES / 2 - 2));
    let first = end(begin(&table, "a"), done(&large)).await;
    let second = end(begin(&table, "b"), done(&large)).await;
    assert!(table.view(&first).is_some());
    let third = end(begin(&table, "c"), done("{}")).await;
    assert!(table.view(&first).is_none());
    assert!(table.view(&second).is_some() && table.view(&third).is_some());
}

#[tokio::test]
async fn a_cancelled_call_has_failed_and_says_so() {
    let table = Arc::new(CallTable::default());
    let ticket = begin(&table, "slow");
    let id = ticket.follower().id().to_owned();
    let running = ticket.run(std::future::pending());
    assert!(table.cancel(&id));
    assert!(matches!(running.await, Outcome::Cancelled));
    let view = serde_json::to_value(table.view(&id).unwrap()).unwrap();
    assert_eq!((&view["state"], &view["error"]["code"]), (&"failed".into(), &"cancelled".into()));
    assert!(!table.cancel("call-0"));
}

#[tokio::test]
async fn a_call_whose_connection_was_lost_is_lost_unless_it_surely_did_not_run() {
    let table = Arc::new(CallTable::default());
    for (maybe_ran, state) in [(Some(true), CallState::Lost), (None, CallState::Lost), (Some(false), CallState::Failed)]
    {
        let error = Error::new(ErrorKind::ConnectionLost, "gone").with(|data| data.maybe_ran = maybe_ran);
        let id = end(begin(&table, "a"), Outcome::Failed(Arc::new(error))).await;
        assert_eq!(table.view(&id).unwrap().state, state, "{maybe_ran:?}");
    }
}

#[tokio::test]
async fn a_ticket_that_is_dropped_leaves_a_lost_call_and_wakes_who_waits() {
    let table = Arc::new(CallTable::default());
    let ticket = begin(&table, "a");
    let follower = ticket.follower();
    let id = follower.id().to_owned();
    drop(ticket);
    assert!(matches!(follower.outcome().await, Outcome::Cut));
    assert_eq!(table.view(&id).unwrap().state, CallState::Lost);
}

#[tokio::test]
async fn a_call_that_its_caller_waits_for_is_seen_while_it_runs_only() {
    let table = Arc::new(CallTable::default());
    let ticket = table.enter(subject("search")).unwrap();
    assert_eq!(table.list(&[]).len(), 1);
    ticket.run(async { done("{}") }).await;
    assert!(table.list(&[]).is_empty());
}

#[tokio::test]
async fn a_repeated_key_leads_to_the_first_call_and_another_call_may_not_use_it() {
    let table = Arc::new(CallTable::default());
    let Begun::New(ticket) = keyed(&table, "k", 1).unwrap() else { panic!("the key is new") };
    let Begun::Known(early) = keyed(&table, "k", 1).unwrap() else { panic!("the key is known") };
    assert_eq!(early.id(), ticket.follower().id());
    assert!(early.clone().outcome().now_or_never().is_none());
    end(ticket, done("1")).await;

    let Begun::Known(late) = keyed(&table, "k", 1).unwrap() else { panic!("the key is known") };
    for follower in [early, late] {
        let Outcome::Done { result, .. } = follower.outcome().await else { panic!("it is done") };
        assert_eq!(result.as_str(), "1");
    }
    assert_eq!(keyed(&table, "k", 2).unwrap_err().code().text(), "idempotency_key_reused");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_free_again_when_its_call_is_forgotten() {
    let table = Arc::new(CallTable::default());
    let Begun::New(ticket) = keyed(&table, "k", 1).unwrap() else { panic!("the key is new") };
    end(ticket, done("1")).await;
    tokio::time::advance(KEPT_FOR).await;
    assert!(matches!(keyed(&table, "k", 2), Ok(Begun::New(_))));
}

#[tokio::test]
async fn calls_are_listed_in_the_order_in_which_they_began_and_by_state() {
    let table = Arc::new(CallTable::default());
    let first = begin(&table, "a");
    let second = begin(&table, "b");
    end(begin(&table, "c"), done("{}")).await;
    let names = |states: &[CallState]| table.list(states).into_iter().map(|call| call.name).collect::<Vec<_>>();
    assert_eq!(names(&[]), ["a", "b", "c"]);
    assert_eq!(names(&[CallState::Running]), ["a", "b"]);
    assert_eq!(names(&[CallState::Done, CallState::Failed]), ["c"]);
    drop((first, second));
}

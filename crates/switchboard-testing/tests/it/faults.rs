//! Faults by a seed: the same seed makes the same decisions, and what is said to have run has run.

use std::mem::discriminant;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testing::faults::{Decision, Exchange, Fault};
use switchboard_testing::process::wait_until;
use switchboard_testing::{Faults, HttpPeer, Peer};

use crate::client::{Got, HttpClient, modern};

fn call(id: u64) -> Value {
    modern(id, "tools/call", json!({ "name": "write", "arguments": { "id": id } }))
}

#[test]
fn a_decision_hangs_on_the_seed_the_server_the_kind_and_the_number() {
    let all = |seed: u64, server: usize, exchange: Exchange| -> Vec<Option<Fault>> {
        let faults = Faults::seeded(seed);
        (0..1_000).map(|number| faults.decide(server, exchange, number)).collect()
    };
    let one = all(7, 3, Exchange::Call);
    assert_eq!(one, all(7, 3, Exchange::Call));
    for other in [all(8, 3, Exchange::Call), all(7, 4, Exchange::Call), all(7, 3, Exchange::List)] {
        assert_ne!(one, other);
    }
    let faults = one.iter().flatten().count();
    assert!((70..=130).contains(&faults), "one in ten, not {faults} in a thousand");
}

#[test]
fn every_fault_happens_to_some_call() {
    let faults = Faults::seeded(1).per_mille(1000);
    let kinds: Vec<_> = (0..500).filter_map(|number| faults.decide(0, Exchange::Call, number)).collect();
    let mut distinct = Vec::new();
    for fault in &kinds {
        if !distinct.contains(&discriminant(fault)) {
            distinct.push(discriminant(fault));
        }
    }
    assert_eq!((kinds.len(), distinct.len()), (500, 11));
}

/// Makes call number `id` and waits for its answer; where the server takes its time, until it has taken the call.
async fn made(server: &HttpPeer, faults: &Faults, id: u64) -> Option<Got> {
    let message = call(id);
    let mut client = HttpClient::connect(server).await;
    let answer = client.try_post(&message, &[]);
    match faults.decide(0, Exchange::Call, id) {
        Some(fault @ (Fault::Stall | Fault::Slow(_))) => {
            let decision = Decision { server: 0, exchange: Exchange::Call, number: id, fault };
            let is_taken = || faults.decisions().contains(&decision);
            tokio::select! {
                _ = answer => panic!("{fault:?} was answered at once"),
                taken = wait_until(Duration::from_secs(10), is_taken) => assert!(taken),
            }
            None
        }
        _ => answer.await.ok().filter(|got| !got.broken),
    }
}

/// Three hundred calls of one server, one after the other: what was decided, and which of them ran.
async fn small_storm(seed: u64) -> (Vec<Decision>, Vec<u64>) {
    let faults = Faults::seeded(seed).per_mille(300);
    let server = faults.serve(0, &faults.counted(Peer::modern())).await;
    for id in 0..300 {
        made(&server, &faults, id).await;
    }
    let ran = (0..300).filter(|&id| faults.runs_of(id) == 1).collect();
    (faults.decisions(), ran)
}

#[tokio::test]
async fn the_same_seed_is_the_same_storm_again() {
    let (decisions, ran) = small_storm(5).await;
    assert!((60..=120).contains(&decisions.len()), "{} faults", decisions.len());
    assert_eq!((decisions, ran), small_storm(5).await);
}

#[tokio::test]
async fn a_call_ran_or_did_not_run_as_its_fault_says() {
    let faults = Faults::seeded(2).per_mille(1000);
    let server = faults.serve(0, &faults.counted(Peer::modern())).await;
    for id in 0..60 {
        let is_answered = made(&server, &faults, id).await.is_some();
        let fault = faults.decide(0, Exchange::Call, id).unwrap();
        let expected = match fault {
            Fault::CutAfter | Fault::HalfWritten => (1, false),
            Fault::Forgets | Fault::CutStreams => (1, true),
            Fault::Status(_) | Fault::TooMany => (0, true),
            _ => (0, false),
        };
        assert_eq!((faults.runs_of(id), is_answered), expected, "{fault:?}");
    }
}

#[tokio::test]
async fn when_the_faults_stop_what_was_stalled_goes_on() {
    let faults = Faults::seeded(3).per_mille(1000);
    let server = faults.serve(0, &faults.counted(Peer::modern())).await;
    let number = (0..1000).find(|&number| faults.decide(0, Exchange::Call, number) == Some(Fault::Stall)).unwrap();
    for id in 0..number {
        made(&server, &faults, id).await;
    }
    let mut client = HttpClient::connect(&server).await;
    let message = call(number);
    let is_taken = || faults.decisions().last().is_some_and(|last| last.number == number);
    let stop = async {
        assert!(wait_until(Duration::from_secs(10), is_taken).await);
        assert_eq!(faults.runs_of(number), 0);
        faults.stop();
    };
    let (stalled, ()) = tokio::join!(client.try_post(&message, &[]), stop);
    assert_eq!(stalled.unwrap().json()["id"], number);
    assert_eq!(faults.runs_of(number), 1);
    let mut client = HttpClient::connect(&server).await;
    for id in 1000..1050 {
        assert_eq!(client.post(&call(id)).await.status, 200, "no fault any more");
    }
}

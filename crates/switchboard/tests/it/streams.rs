//! The stream on which a legacy server speaks unasked: refused, idle, broken, busy, or ended for good.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::event::{EventKind, EventStream};
use switchboard::{ErrorKind, Filter, Manager, ServerId, State, ToolCall};
use switchboard_testing::{GetStream, HttpPeer, HttpReply, HttpRequest, Peer, Reply, Tool};

use crate::fixture::{manager, over_http, ready, text};

/// A manager of this one server, and its events from the beginning.
struct Setup {
    server: HttpPeer,
    manager: Manager,
    events: EventStream,
    id: ServerId,
}

impl Setup {
    async fn of(server: HttpPeer) -> Self {
        let manager = manager().await;
        let events = manager.events();
        let id = ready(&manager, over_http(&server)).await;
        Self { server, manager, events, id }
    }

    /// Waits for the stream to come to this state, and gives the payload of the event.
    async fn stream(&mut self, state: &str) -> Value {
        loop {
            let event = self.events.next().await.unwrap();
            let event = serde_json::to_value(&event).unwrap();
            if event["type"] == "mcp:client:stream" && event["payload"]["state"] == state {
                return event["payload"].clone();
            }
        }
    }

    async fn event(&mut self, kind: EventKind) -> Value {
        loop {
            let event = self.events.next().await.unwrap();
            if event.kind == kind {
                return serde_json::to_value(&event).unwrap()["payload"].clone();
            }
        }
    }

    async fn works(&self) {
        let result = self.manager.call(ToolCall::new(self.id.clone(), "echo")).await.unwrap();
        assert_eq!(text(&result), "hi");
        assert_eq!(self.manager.status(&self.id).unwrap().state, State::Ready);
    }

    /// All states that it went through after it was ready.
    fn later_states(&self) -> Vec<String> {
        let events = self.manager.events_since(0).0.into_iter().filter(|event| event.kind == EventKind::State);
        let states = events.map(|event| serde_json::to_value(&event).unwrap()["payload"]["to"].clone());
        let states: Vec<_> = states.map(|state| state.as_str().unwrap().to_owned()).collect();
        states.into_iter().skip_while(|state| state != "ready").skip(1).collect()
    }
}

fn peer() -> Peer {
    Peer::legacy().tool(Tool::new("echo").says("hi"))
}

fn is_get(request: &HttpRequest) -> bool {
    request.method == "GET"
}

fn gets(server: &HttpPeer) -> Vec<HttpRequest> {
    server.requests().into_iter().filter(is_get).collect()
}

/// A server whose GETs are answered by `answer`, which is told how many came before.
async fn answering_gets(answer: impl Fn(usize) -> HttpReply + Send + Sync + 'static) -> HttpPeer {
    let count = AtomicUsize::new(0);
    let server = HttpPeer::start(peer()).await;
    server.on_http(move |request| is_get(request).then(|| answer(count.fetch_add(1, Ordering::Relaxed))))
}

fn log(id: u32) -> String {
    let message =
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "logger": id.to_string() } });
    format!("id: {id}\ndata: {message}\n\n")
}

#[tokio::test]
async fn b007_a_server_that_refuses_the_stream_is_used_without_it() {
    let json = HttpReply::json(&json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "no" } }));
    let statuses = [400, 401, 403, 404, 405, 406, 410, 415, 501].map(HttpReply::status);
    let pages = [200, 404, 501].map(|status| HttpReply::html(status, "<p>hello</p>"));
    let others =
        [json.clone(), json.with_status(400), HttpReply::status(204), HttpReply::redirect(302, "//h.example/")];
    for refusal in statuses.into_iter().chain(pages).chain(others) {
        let shown = format!("{refusal:?}");
        let mut setup = Setup::of(answering_gets(move |_| refusal.clone()).await).await;
        let payload = setup.stream("refused").await;
        assert!(payload["error"].is_string(), "{payload}");
        setup.works().await;
        assert_eq!((gets(&setup.server).len(), setup.later_states()), (1, Vec::new()), "{shown}");
        assert_eq!(setup.manager.tools(&Filter::all()).len(), 1);
    }
}

#[tokio::test]
async fn a_stream_is_not_asked_for_again_after_it_was_refused() {
    let mut setup = Setup::of(HttpPeer::start(peer()).await.get_stream(GetStream::Refused(405))).await;
    setup.stream("refused").await;
    setup.manager.close(&setup.id).await.unwrap();
    assert_eq!(gets(&setup.server).len(), 1);
    // A new connection asks once more.
    setup.manager.establish(&setup.id).await.unwrap();
    setup.stream("refused").await;
    assert_eq!(gets(&setup.server).len(), 2);
}

#[tokio::test]
async fn a_server_that_is_busy_is_asked_for_the_stream_again() {
    for reply in [HttpReply::status(409), HttpReply::status(429), HttpReply::status(503), HttpReply::cut()] {
        let busy = reply.clone();
        let open = || HttpReply::event_stream([log(1)]).then_hang();
        let server = answering_gets(move |before| if before == 0 { busy.clone() } else { open() }).await;
        let mut setup = Setup::of(server).await;
        setup.stream("opened").await;
        setup.event(EventKind::Log).await;
        setup.works().await;
        assert_eq!(setup.later_states(), Vec::<String>::new(), "{reply:?}");
    }
}

#[tokio::test]
async fn b023_a_stream_goes_on_behind_its_last_event_and_a_new_session_begins_without_one() {
    let server = HttpPeer::start(peer()).await.on_http(|request| match request.header("last-event-id") {
        _ if !is_get(request) || request.header("mcp-session-id") != Some("session-1") => None,
        None => Some(HttpReply::event_stream([log(1), log(2)]).then_cut()),
        // Event 2 is sent once more, which is not asked for.
        Some("2") => Some(HttpReply::event_stream([log(2), log(3)])),
        Some(_) => Some(HttpReply::status(404)),
    });
    let mut setup = Setup::of(server).await;
    let mut loggers = Vec::new();
    for _ in 0..3 {
        loggers.push(setup.event(EventKind::Log).await["logger"].clone());
    }
    assert_eq!(loggers, ["1", "2", "3"]);
    let second = setup.server.wait_for_request(2, is_get).await;
    assert_eq!(second.header("last-event-id"), Some("2"));
    // The end of the session: the third GET is refused, the probe finds that the session is gone.
    setup.server.forget_sessions();
    setup.event(EventKind::Reconnect).await;
    let fresh =
        setup.server.wait_for_request(1, |get| is_get(get) && get.header("mcp-session-id") == Some("session-2"));
    assert_eq!(fresh.await.header("last-event-id"), None);
    setup.works().await;
}

#[tokio::test]
async fn b043_a_server_that_ends_each_stream_at_once_is_given_up() {
    // A time to come back is no event.
    let server = answering_gets(|_| HttpReply::event_stream(["retry: 10\n\n"])).await;
    let mut setup = Setup::of(server).await;
    setup.stream("opened").await;
    setup.stream("given_up").await;
    assert_eq!(gets(&setup.server).len(), 5);
    setup.works().await;
    assert_eq!(setup.later_states(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_ends_streams_on_purpose_is_asked_again_and_again() {
    let server =
        answering_gets(|before| HttpReply::event_stream([format!("id: {before}\nretry: 10\ndata:\n\n")])).await;
    let mut setup = Setup::of(server).await;
    let tenth = setup.server.wait_for_request(10, is_get).await;
    assert_eq!(tenth.header("last-event-id"), Some("8"));
    assert_eq!(setup.stream("reopened").await["resumed"], true);
    setup.works().await;
}

#[tokio::test]
async fn an_event_that_is_too_large_costs_only_itself() {
    let server = answering_gets(|_| {
        let large = format!("id: 2\ndata: {}\n\n", "x".repeat(100_000));
        HttpReply::event_stream([log(1), large, log(3)]).then_hang()
    })
    .await;
    let manager = manager().await;
    let events = manager.events();
    let mut spec = over_http(&server);
    spec.limits.message_bytes = 64 << 10;
    let id = ready(&manager, spec).await;
    let mut setup = Setup { server, manager, events, id };
    assert_eq!(setup.event(EventKind::Log).await["logger"], "1");
    assert_eq!(setup.event(EventKind::Log).await["logger"], "3");
    let warnings = setup.manager.status(&setup.id).unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.message.contains("larger than the limit")), "{warnings:?}");
    setup.works().await;
    assert_eq!(gets(&setup.server).len(), 1);
}

#[tokio::test]
async fn b045_an_idle_stream_that_is_cut_is_opened_again_in_the_same_session() {
    let mut setup = Setup::of(HttpPeer::start(peer()).await).await;
    setup.stream("opened").await;
    setup.server.wait_for_stream().await;
    setup.server.end_streams();
    setup.stream("reopened").await;
    setup.server.wait_for_stream().await;
    setup.server.cut_streams();
    setup.stream("reopened").await;
    setup.server.wait_for_stream().await;
    setup.works().await;
    assert_eq!((setup.server.open_streams(), setup.server.count("initialize")), (1, 1));
    let sessions: Vec<_> =
        gets(&setup.server).iter().map(|get| get.header("mcp-session-id").map(str::to_owned)).collect();
    assert_eq!(sessions, vec![Some("session-1".to_owned()); 3]);
    assert_eq!(setup.later_states(), Vec::<String>::new());
}

#[tokio::test]
async fn b047_the_time_limit_of_requests_is_none_of_the_stream() {
    let peer = peer().tool(Tool::new("silent").answers(|_, _| Reply::stall())).announces_changes();
    let server = HttpPeer::start(&peer).await;
    let manager = manager().await;
    let mut spec = over_http(&server);
    spec.timeouts.request = Duration::from_millis(300);
    spec.timeouts.list_changed = Duration::ZERO;
    let mut events = manager.events();
    let id = ready(&manager, spec).await;
    peer.wait_for_stream().await;
    for _ in 0..3 {
        let error = manager.call(ToolCall::new(id.clone(), "silent")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
    peer.replace_tools(["one", "two", "three"]);
    assert_eq!(peer.notify("notifications/tools/list_changed"), 1);
    while manager.tools(&Filter::all()).len() != 3 {
        events.next().await.unwrap();
    }
    assert_eq!(gets(&server).len(), 1);
}

#[tokio::test]
async fn lists_are_read_again_after_a_gap() {
    let peer = peer().announces_changes();
    let mut setup = Setup::of(HttpPeer::start(&peer).await).await;
    peer.wait_for_stream().await;
    peer.replace_tools(["one", "two"]);
    peer.end_streams();
    while setup.manager.tools(&Filter::all()).len() != 2 {
        setup.events.next().await.unwrap();
    }
    assert_eq!(peer.count("tools/list"), 2);
    assert_eq!(peer.count("initialize"), 1);
}

#[tokio::test]
async fn a_stream_that_is_refused_after_it_had_worked_shows_that_the_session_is_gone() {
    let mut setup = Setup::of(HttpPeer::start(peer()).await).await;
    setup.server.wait_for_stream().await;
    setup.server.forget_sessions();
    setup.server.cut_streams();
    setup.event(EventKind::Reconnect).await;
    setup.server.wait_for_stream().await;
    setup.works().await;
    let requests = setup.server.requests();
    let last_old = requests.iter().rposition(|it| it.header("mcp-session-id") == Some("session-1")).unwrap();
    let second = requests.iter().rposition(|it| it.calls("initialize")).unwrap();
    assert!(last_old < second, "the old session is not named again");
    assert_eq!(requests[second].header("mcp-session-id"), None);
}

#[tokio::test]
async fn a_stream_that_is_refused_while_the_session_lives_costs_nothing() {
    let server = answering_gets(|before| match before {
        0 => HttpReply::event_stream([log(1)]),
        _ => HttpReply::status(404),
    })
    .await;
    let mut setup = Setup::of(server).await;
    setup.event(EventKind::Log).await;
    setup.server.wait_for("ping").await;
    setup.works().await;
    assert_eq!((gets(&setup.server).len(), setup.server.count("initialize")), (2, 1));
    assert_eq!(setup.later_states(), Vec::<String>::new());
}

#[tokio::test]
async fn an_event_that_the_server_does_not_know_any_more_is_forgotten() {
    let server = answering_gets(|before| match before {
        0 => HttpReply::event_stream([log(1)]),
        1 => HttpReply::status(400).body("Invalid event id"),
        _ => HttpReply::event_stream([": open\n\n"]).then_hang(),
    })
    .await;
    let mut setup = Setup::of(server).await;
    assert_eq!(setup.stream("reopened").await["resumed"], false);
    let ids: Vec<_> = gets(&setup.server).iter().map(|get| get.header("last-event-id").map(str::to_owned)).collect();
    assert_eq!(ids, [None, Some("1".to_owned()), None]);
    setup.works().await;
    assert_eq!(setup.server.count("initialize"), 1);
}

#[tokio::test]
async fn a_server_that_is_gone_is_noticed_by_the_end_of_its_stream() {
    let mut setup = Setup::of(HttpPeer::start(peer()).await).await;
    setup.server.wait_for_stream().await;
    setup.server.stop().await;
    while setup.event(EventKind::State).await["from"] != "ready" {}
    setup.server.start_again().await;
    setup.event(EventKind::Reconnect).await;
    setup.works().await;
}

#[tokio::test]
async fn a_stream_whose_head_never_comes_is_given_up() {
    let mut setup = Setup::of(answering_gets(|_| HttpReply::hang()).await).await;
    setup.server.wait_for_request(1, is_get).await;
    // Nothing else is under way, so the clock may run ahead.
    tokio::time::pause();
    let payload = setup.stream("given_up").await;
    tokio::time::resume();
    assert!(payload["error"].as_str().unwrap().contains("lost"), "{payload}");
    setup.works().await;
    assert_eq!(setup.later_states(), Vec::<String>::new());
}

#[tokio::test]
async fn b187_streams_whose_heads_are_late_do_not_outlive_their_connections() {
    let server = HttpPeer::start(peer()).await.on_http(|request| {
        let late = HttpReply::usual().delay(Duration::from_millis(request.body.len() as u64 + 5));
        is_get(request).then_some(late)
    });
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let manager = manager().await;
    let id = ready(&manager, over_http(&server)).await;
    for _ in 0..200 {
        manager.establish(&id).await.unwrap();
        assert_eq!(manager.tools(&Filter::all()).len(), 1);
        manager.close(&id).await.unwrap();
    }
    server.wait_for_few_sockets(4).await;
    assert_eq!(server.open_streams(), 0);
    manager.shutdown(Duration::from_secs(1)).await;
    drop(manager);
    server.wait_for_open_sockets(0).await;
    while tasks() > before {
        tokio::task::yield_now().await;
    }
}

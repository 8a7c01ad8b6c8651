//! Requests to servers.

use http::Method;
use serde_json::{Value, json};
use switchboard_testing::{Gate, HttpPeer, Peer, Prompt, Reply, Resource, Tool};

use crate::daemon::{Ask, Daemon, Setup};

/// A daemon with `peer` as its server `github`.
async fn with(peer: Peer) -> (Daemon, HttpPeer) {
    let peer = HttpPeer::start(peer).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    (daemon, peer)
}

fn call(name: &str) -> Ask {
    Ask::new(Method::POST, &Daemon::path("tools/call")).json(&json!({"serverId": "github", "name": name}))
}

/// A tool that answers when `gate` opens.
fn held(gate: &Gate) -> Tool {
    let gate = gate.clone();
    Tool::new("slow").answers(move |_, _| Reply::text("at last").when(&gate))
}

#[tokio::test]
async fn a_result_is_passed_on_byte_for_byte() {
    const RESULT: &str = r#"{ "content":[{"type":"text","text":"h\u00e9"}], "resultType":"complete", "n": 1.0e2,"big":12345678901234567890123 }"#;
    let (daemon, _peer) = with(Peer::both().tool(Tool::new("exact").answers(|_, _| Reply::result_text(RESULT)))).await;
    let answer = daemon.ask(call("exact")).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    assert_eq!(answer.text(), RESULT);
}

#[tokio::test]
async fn a_tool_is_called_by_its_key_with_the_arguments_as_given() {
    let (daemon, peer) = with(Peer::both().tool("search")).await;
    let body = r#"{"tool":"tool_github_search","arguments":{"q":"x","n":1.50}}"#;
    let ask = Ask::new(Method::POST, &Daemon::path("tools/call")).body("application/json", body);
    assert_eq!(daemon.ask(ask).await.status, 200);
    assert_eq!(peer.wait_for("tools/call").await["params"]["arguments"], json!({"q": "x", "n": 1.50}));
}

#[tokio::test]
async fn a_call_may_bring_headers_of_its_own() {
    let (daemon, peer) = with(Peer::both().tool("search")).await;
    let mut body = json!({"serverId": "github", "name": "search", "headers": {"X-Tenant": "seven"}});
    assert_eq!(daemon.post(&Daemon::path("tools/call"), &body).await.status, 200);
    assert_eq!(peer.requests_of("tools/call")[0].header("x-tenant"), Some("seven"));
    body["headers"] = json!({"Host": "elsewhere"});
    daemon.post(&Daemon::path("tools/call"), &body).await.problem(422, "invalid_input");
    assert_eq!(peer.count("tools/call"), 1);
}

#[tokio::test]
async fn a_result_that_is_an_error_is_a_result() {
    let (daemon, _peer) =
        with(Peer::both().tool(Tool::new("push").answers(|_, _| Reply::tool_error("rejected")))).await;
    let answer = daemon.ask(call("push")).await;
    assert_eq!((answer.status, &answer.json()["isError"]), (200, &json!(true)));
}

#[tokio::test]
async fn a_servers_own_error_is_shown_with_code_message_and_data() {
    let tool = Tool::new("bad").answers(|_, _| Reply::error_with(-32050, "no such repository", json!({"id": 7})));
    let (daemon, _peer) = with(Peer::both().tool(tool)).await;
    let problem = daemon.ask(call("bad")).await.problem(502, "server_error");
    assert_eq!((&problem["rpcCode"], &problem["rpcMessage"]), (&json!(-32050), &json!("no such repository")));
    assert_eq!((&problem["rpcData"], &problem["serverId"]), (&json!({"id": 7}), &json!("github")));
}

#[tokio::test]
async fn an_unknown_tool_is_told_with_its_neighbours() {
    let (daemon, _peer) = with(Peer::both().tool("search")).await;
    let problem = daemon.ask(call("serach")).await.problem(404, "unknown_tool");
    assert!(problem["nearest"].to_string().contains("search"), "{problem}");
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_told_and_may_have_run() {
    let (daemon, _peer) = with(Peer::both().tool(held(&Gate::new()))).await;
    let body = json!({"serverId": "github", "name": "slow", "timeoutMs": 50});
    let problem = daemon.post(&Daemon::path("tools/call"), &body).await.problem(504, "timeout");
    assert_eq!(problem["maybeRan"], true);
    assert!(problem["afterMs"].as_u64().is_some_and(|millis| millis >= 50), "{problem}");
}

#[tokio::test]
async fn a_caller_who_hangs_up_cancels_the_call() {
    let (daemon, peer) = with(Peer::modern().tool(held(&Gate::new()))).await;
    let held_open = daemon.ask_aside(call("slow"));
    peer.wait_for("tools/call").await;
    held_open.abort();
    peer.wait_abandoned("tools/call").await;
}

#[tokio::test]
async fn an_asynchronous_call_is_begun_and_looked_up() {
    let gate = Gate::new();
    let (daemon, peer) = with(Peer::both().tool(held(&gate))).await;
    let answer = daemon.ask(call("slow").header("prefer", "respond-async")).await;
    assert_eq!((answer.status, answer.header("preference-applied")), (202, "respond-async"));
    let location = answer.header("location").to_owned();
    assert_eq!(location, Daemon::path(&format!("calls/{}", answer.json()["id"].as_str().unwrap())));
    peer.wait_for("tools/call").await;
    let running = daemon.get(&location).await.json();
    assert_eq!((&running["state"], &running["serverId"]), (&json!("running"), &json!("github")));
    assert_eq!(daemon.get(&Daemon::path("calls?state=running")).await.json()["calls"][0]["id"], running["id"]);

    gate.open();
    let done = ended(&daemon, &location).await;
    assert_eq!((&done["state"], &done["result"]["content"][0]["text"]), (&json!("done"), &json!("at last")));
    assert_eq!(daemon.get(&Daemon::path("calls?state=running")).await.json()["calls"], json!([]));
}

/// The call at `path`, when it has ended: the event of its end says when to look.
async fn ended(daemon: &Daemon, path: &str) -> Value {
    let follow = Ask::new(Method::GET, &Daemon::path("events")).header("accept", "text/event-stream");
    let mut events = daemon.open(follow).await;
    loop {
        let view = daemon.get(path).await.json();
        if view["state"] != "running" {
            return view;
        }
        events.next().await.expect("events go on");
    }
}

#[tokio::test]
async fn a_call_is_cancelled_through_the_api() {
    let (daemon, peer) = with(Peer::modern().tool(held(&Gate::new()))).await;
    let answer = daemon.ask(call("slow").header("prefer", "respond-async")).await;
    let location = answer.header("location").to_owned();
    peer.wait_for("tools/call").await;
    let cancel = || daemon.ask(Ask::new(Method::POST, &format!("{location}/cancel")));
    assert_eq!(cancel().await.status, 204);
    peer.wait_abandoned("tools/call").await;
    let view = ended(&daemon, &location).await;
    assert_eq!((&view["state"], &view["error"]["code"]), (&json!("failed"), &json!("cancelled")));
    assert_eq!(cancel().await.status, 204, "doing so again is fine");
    daemon.get(&Daemon::path("calls/nobody")).await.problem(404, "unknown_call");
}

#[tokio::test]
async fn a_call_repeated_with_its_key_is_carried_out_once() {
    let (daemon, peer) = with(Peer::both().tool("pay")).await;
    let body = |amount: i64| json!({"serverId": "github", "name": "pay", "arguments": {"amount": amount}, "idempotencyKey": "order-1"});
    let path = Daemon::path("tools/call");
    let first = daemon.post(&path, &body(5)).await;
    let second = daemon.post(&path, &body(5)).await;
    assert_eq!((first.status, &first.body), (200, &second.body));
    assert_eq!(peer.count("tools/call"), 1);
    daemon.post(&path, &body(6)).await.problem(422, "idempotency_key_reused");
}

#[tokio::test]
async fn resources_prompts_and_completions_are_passed_on() {
    let peer = Peer::both()
        .resource(Resource::text("file:///a.txt", "hello"))
        .prompt(Prompt::new("greet").argument("who", true).text("hi {who}"))
        .completions(&["ann", "anna"]);
    let (daemon, _peer) = with(peer).await;
    let read =
        daemon.post(&Daemon::path("resources/read"), &json!({"serverId": "github", "uri": "file:///a.txt"})).await;
    assert_eq!((read.status, &read.json()["contents"][0]["text"]), (200, &json!("hello")));
    let body = json!({"serverId": "github", "name": "greet", "arguments": {"who": "you"}});
    let prompt = daemon.post(&Daemon::path("prompts/get"), &body).await;
    assert_eq!(prompt.json()["messages"][0]["content"]["text"], "hi you");
    let body = json!({"serverId": "github", "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "who", "value": "an"}});
    let completion = daemon.post(&Daemon::path("complete"), &body).await;
    assert_eq!(completion.json()["completion"]["values"], json!(["ann", "anna"]));
}

#[tokio::test]
async fn calls_are_counted() {
    let (daemon, _peer) =
        with(Peer::both().tool("search").tool(Tool::new("bad").answers(|_, _| Reply::error(-1, "no")))).await;
    daemon.ask(call("search")).await;
    daemon.ask(call("bad")).await;
    let metrics = daemon.get("/metrics").await;
    for line in [
        "switchboard_servers{state=\"ready\"} 1",
        "switchboard_calls_total{outcome=\"ok\"} 1",
        "switchboard_calls_total{outcome=\"server_error\"} 1",
        "switchboard_call_duration_seconds_count 2",
    ] {
        assert!(metrics.text().lines().any(|found| found == line), "{line} in {}", metrics.text());
    }
}

#[tokio::test]
async fn a_result_that_does_not_fit_its_output_schema_is_delivered_whole_with_a_warning() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let tool = Tool::new("odd").output_schema(schema).answers(|_, _| {
        Reply::result(json!({"content": [{"type": "text", "text": "x"}], "structuredContent": {"n": "seven"}}))
    });
    let (daemon, _peer) = with(Peer::both().tool(tool)).await;
    let answer = daemon.ask(call("odd")).await;
    assert_eq!((answer.status, answer.header("switchboard-warning")), (200, "output-schema"));
    assert_eq!(answer.json()["structuredContent"]["n"], "seven");
}

#[tokio::test]
async fn arguments_are_checked_when_the_caller_asks_for_it() {
    let schema = json!({"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}});
    let (daemon, peer) = with(Peer::both().tool(Tool::new("search").schema(schema))).await;
    let body = json!({"serverId": "github", "name": "search", "arguments": {"q": 1}, "validate": true});
    let problem = daemon.post(&Daemon::path("tools/call"), &body).await.problem(422, "invalid_arguments");
    assert!(problem["errors"][0]["path"].as_str().unwrap().contains('q'), "{problem}");
    assert_eq!(peer.count("tools/call"), 0);
}

/// A tool whose first call is cut off, with these annotations.
fn cut_once(annotations: Value) -> Tool {
    let is_first = std::sync::atomic::AtomicBool::new(true);
    Tool::new("pay").annotations(annotations).answers(move |_, _| {
        let is_first = is_first.swap(false, std::sync::atomic::Ordering::SeqCst);
        if is_first { Reply::cut() } else { Reply::text("done") }
    })
}

#[tokio::test]
async fn b095_a_call_that_was_cut_off_is_not_sent_again_unless_the_tool_says_that_it_is_safe() {
    let body = json!({"serverId": "github", "name": "pay", "retryIfSafe": true});
    let (daemon, peer) = with(Peer::both().tool(cut_once(json!({"readOnlyHint": false})))).await;
    let problem = daemon.post(&Daemon::path("tools/call"), &body).await.problem(502, "connection_lost");
    assert_eq!((&problem["maybeRan"], peer.count("tools/call")), (&json!(true), 1));

    let (daemon, peer) = with(Peer::both().tool(cut_once(json!({"idempotentHint": true})))).await;
    let answer = daemon.post(&Daemon::path("tools/call"), &body).await;
    assert_eq!((answer.status, peer.count("tools/call")), (200, 2), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_is_not_ready_says_since_when_and_why() {
    let daemon = Setup::real().start().await;
    let body = json!({"name": "gone", "id": "gone", "url": "http://127.0.0.1:1/mcp", "retry": {"maxAttempts": 1}});
    daemon.post(&Daemon::path("servers"), &body).await;
    let call = json!({"serverId": "gone", "name": "search", "deadlineMs": 500});
    let answer = daemon.post(&Daemon::path("tools/call"), &call).await;
    let problem = answer.problem(409, "not_ready");
    assert_eq!(problem["state"], "failed");
    assert!(problem["since"].is_string() && problem["why"].is_string(), "{problem}");
}

//! The peer over lines in memory: the protocol of both eras, and rudeness that does not need a socket.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testing::{Gate, Peer, Prompt, Reply, Resource, Tool, memory};
use tokio::io::DuplexStream;

use crate::client::{LineClient, legacy, modern, notification};

fn connect(peer: &Peer) -> LineClient<DuplexStream> {
    LineClient::new(memory::serve(peer))
}

async fn handshake(client: &mut LineClient<DuplexStream>) -> Value {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test" } });
    let answer = client.request(&legacy(0, "initialize", params)).await;
    client.send(&notification("notifications/initialized")).await;
    answer
}

#[tokio::test]
async fn a_modern_peer_answers_discover_with_all_that_the_revision_asks_for() {
    let peer = Peer::modern().tool("echo").instructions("Be kind");
    let answer = connect(&peer).request(&modern("d", "server/discover", json!({}))).await;
    assert_eq!(
        answer,
        json!({
            "jsonrpc": "2.0",
            "id": "d",
            "result": {
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {} },
                "ttlMs": 0,
                "cacheScope": "private",
                "instructions": "Be kind",
                "resultType": "complete",
                "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "fake-peer", "version": "1.0.0" } },
            },
        })
    );
}

#[tokio::test]
async fn a_modern_peer_refuses_what_its_revision_does_not_know() {
    let peer = Peer::modern().tool("echo");
    let mut client = connect(&peer);
    let refused = client.request(&legacy(1, "initialize", json!({ "protocolVersion": "2025-11-25" }))).await;
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"]["supported"], json!(["2026-07-28"]));
    assert_eq!(client.request(&legacy(2, "tools/list", json!({}))).await["error"]["code"], -32602);
    assert_eq!(client.request(&modern(3, "ping", json!({}))).await["error"]["code"], -32601);
    let mut future = modern(4, "tools/list", json!({}));
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    let refused = client.request(&future).await;
    assert_eq!(refused["error"]["data"], json!({ "supported": ["2026-07-28"], "requested": "2099-01-01" }));
}

#[tokio::test]
async fn a_legacy_peer_shakes_hands_and_does_not_know_discover() {
    let peer = Peer::legacy().tool("echo");
    let mut client = connect(&peer);
    assert_eq!(client.request(&modern(1, "server/discover", json!({}))).await["error"]["code"], -32601);
    let answer = handshake(&mut client).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answer["result"].get("resultType"), None);
    let called = client.request(&legacy(2, "tools/call", json!({ "name": "echo", "arguments": { "a": 1 } }))).await;
    assert_eq!(called["result"]["content"][0]["text"], r#"{"a":1}"#);
    assert_eq!(client.request(&legacy(3, "ping", json!({}))).await["result"], json!({}));
    assert_eq!(peer.received_methods()[..3], ["server/discover", "initialize", "notifications/initialized"]);
}

#[tokio::test]
async fn a_peer_of_both_eras_serves_each_client_as_it_opens() {
    let peer = Peer::both().tool("echo");
    let discovered = connect(&peer).request(&modern(1, "server/discover", json!({}))).await;
    assert_eq!(discovered["result"]["supportedVersions"][0], "2026-07-28");
    let mut old = connect(&peer);
    assert!(handshake(&mut old).await["result"]["serverInfo"].is_object());
    assert_eq!(old.request(&legacy(1, "tools/list", json!({}))).await["result"]["tools"][0]["name"], "echo");
}

#[tokio::test]
async fn lists_that_were_not_announced_are_unknown_methods() {
    let mut client = connect(&Peer::legacy().tool("echo"));
    handshake(&mut client).await;
    assert_eq!(client.request(&legacy(1, "prompts/list", json!({}))).await["error"]["code"], -32601);
    assert_eq!(client.request(&legacy(2, "resources/templates/list", json!({}))).await["error"]["code"], -32601);
}

#[tokio::test]
async fn pages_come_once_each_with_cursors_that_must_be_sent_back_as_they_are() {
    let peer = Peer::modern().many_tools(5).page_size(2);
    let mut client = connect(&peer);
    let (mut names, mut cursor) = (Vec::new(), Value::Null);
    for id in 0..3 {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = client.request(&modern(id, "tools/list", params)).await;
        names.extend(page["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()));
        cursor = page["result"]["nextCursor"].clone();
    }
    assert_eq!(names, ["tool-0", "tool-1", "tool-2", "tool-3", "tool-4"]);
    assert!(cursor.is_null());
    let refused = client.request(&modern(9, "tools/list", json!({ "cursor": "made-up" }))).await;
    assert_eq!(refused["error"]["code"], -32602);
}

#[tokio::test]
async fn prompts_resources_templates_and_completions_are_answered() {
    let peer = Peer::modern()
        .prompt(Prompt::new("greet").argument("name", true).text("Hello {name}"))
        .resource(Resource::text("note://1", "one"))
        .template("file:///{path}", "files")
        .completions(&["anna", "bert"]);
    let mut client = connect(&peer);
    let got =
        client.request(&modern(1, "prompts/get", json!({ "name": "greet", "arguments": { "name": "Eve" } }))).await;
    assert_eq!(got["result"]["messages"][0]["content"]["text"], "Hello Eve");
    let read = client.request(&modern(2, "resources/read", json!({ "uri": "note://1" }))).await;
    assert_eq!(read["result"]["contents"][0]["text"], "one");
    let read = client.request(&modern(3, "resources/read", json!({ "uri": "file:///etc" }))).await;
    assert_eq!(read["result"]["contents"][0]["text"], "file:///etc");
    assert_eq!(client.request(&modern(4, "resources/read", json!({ "uri": "x:" }))).await["error"]["code"], -32602);
    let params =
        json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "name", "value": "a" } });
    let completed = client.request(&modern(5, "completion/complete", params)).await;
    assert_eq!(completed["result"]["completion"]["values"], json!(["anna"]));
}

#[tokio::test]
async fn an_override_may_still_give_the_usual_answer() {
    let peer = Peer::modern().tool("echo").on("tools/list", |request, context| {
        if request["id"] == 1 { Reply::error(-1, "not now") } else { context.usual() }
    });
    let mut client = connect(&peer);
    assert_eq!(client.request(&modern(1, "tools/list", json!({}))).await["error"]["message"], "not now");
    assert_eq!(client.request(&modern(2, "tools/list", json!({}))).await["result"]["tools"][0]["name"], "echo");
}

#[tokio::test]
async fn results_given_as_text_keep_their_bytes() {
    let result = r#"{"content":[],"number":1.50e+3,"big":123456789012345678901234567890}"#;
    let peer = Peer::legacy().tool(Tool::new("t").answers(move |_, _| Reply::result_text(result)));
    let mut client = connect(&peer);
    client.send(&legacy(1, "tools/call", json!({ "name": "t" }))).await;
    assert!(client.line().await.unwrap().contains(result));
}

#[tokio::test]
async fn ids_can_be_wrong_or_of_the_wrong_type() {
    let peer = Peer::legacy()
        .tool(Tool::new("zero").answers(|_, _| Reply::text("").wrong_id(0)))
        .tool(Tool::new("text").answers(|_, _| Reply::text("").id_as_string()));
    let mut client = connect(&peer);
    assert_eq!(client.request(&legacy(7, "tools/call", json!({ "name": "zero" }))).await["id"], 0);
    assert_eq!(client.request(&legacy(7, "tools/call", json!({ "name": "text" }))).await["id"], "7");
}

#[tokio::test]
async fn messages_before_and_after_the_answer_keep_their_order() {
    let peer = Peer::legacy().on("ping", |_, _| {
        Reply::result(json!({})).before(notification("a")).flood(3, notification("b")).after(notification("c"))
    });
    let mut client = connect(&peer);
    client.send(&legacy(1, "ping", json!({}))).await;
    let mut order = Vec::new();
    for _ in 0..6 {
        order.push(client.receive().await["method"].as_str().unwrap_or("answer").to_owned());
    }
    assert_eq!(order, ["a", "b", "b", "b", "answer", "c"]);
}

#[tokio::test]
async fn a_flood_larger_than_the_pipe_waits_for_the_reader() {
    let peer = Peer::legacy().on("ping", |_, _| Reply::result(json!({})).flood(20_000, notification("n")));
    let mut client = connect(&peer);
    client.send(&legacy(1, "ping", json!({}))).await;
    for _ in 0..20_000 {
        assert_eq!(client.receive().await["method"], "n");
    }
    assert_eq!(client.receive().await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_on_the_tokio_clock() {
    let peer = Peer::legacy().on("ping", |_, _| Reply::result(json!({})).delay(Duration::from_secs(3600)));
    let before = tokio::time::Instant::now();
    connect(&peer).request(&legacy(1, "ping", json!({}))).await;
    assert_eq!(before.elapsed().as_secs(), 3600);
}

#[tokio::test]
async fn a_stalled_request_does_not_hold_up_the_others() {
    let gate = Gate::new();
    let held = gate.clone();
    let peer = Peer::legacy()
        .tool(Tool::new("stall").answers(|_, _| Reply::stall()))
        .tool(Tool::new("held").answers(move |_, _| Reply::text("late").when(&held)));
    let mut client = connect(&peer);
    client.send(&legacy(1, "tools/call", json!({ "name": "stall" }))).await;
    client.send(&legacy(2, "tools/call", json!({ "name": "held" }))).await;
    assert_eq!(client.request(&legacy(3, "ping", json!({}))).await["id"], 3);
    gate.open();
    assert_eq!(client.receive().await["id"], 2);
}

#[tokio::test]
async fn the_connection_can_be_cut_before_or_within_an_answer() {
    let peer = Peer::legacy()
        .tool(Tool::new("before").answers(|_, _| Reply::cut()))
        .tool(Tool::new("bytes").answers(|_, _| Reply::text("").cut_after(10)))
        .tool(Tool::new("middle").answers(|_, _| Reply::text("").cut_midway()));
    for (name, expected) in [("before", 0), ("bytes", 10), ("middle", 37)] {
        let mut client = connect(&peer);
        client.send(&legacy(1, "tools/call", json!({ "name": name }))).await;
        let line = client.line().await.unwrap_or_default();
        assert_eq!(line.len(), expected, "{name}: {line}");
        assert_eq!(client.line().await, None);
    }
}

#[tokio::test]
async fn garbage_is_a_line_of_its_own_and_noise_comes_between_messages() {
    let peer = Peer::legacy().on("ping", |_, _| Reply::garbage("Segmentation fault"));
    let stream = memory::serve_with_noise(&peer, &["Starting…"], &["", "[1,2]"]);
    let mut client = LineClient::new(stream);
    client.send(&legacy(1, "ping", json!({}))).await;
    for expected in ["Starting…\n", "\n", "[1,2]\n", "Segmentation fault\n"] {
        assert_eq!(client.line().await.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn an_answer_split_byte_by_byte_arrives_whole() {
    let text = "— 🎈 漢字 \u{2028} \\r";
    let peer = Peer::legacy().tool(Tool::new("t").answers(move |_, _| Reply::text(text).in_pieces(1)));
    let answer = connect(&peer).request(&legacy(1, "tools/call", json!({ "name": "t" }))).await;
    assert_eq!(answer["result"]["content"][0]["text"], text);
}

#[tokio::test]
async fn pushed_messages_wait_for_the_handshake_of_a_legacy_client() {
    let peer = Peer::legacy().tool("echo");
    assert_eq!(peer.notify("notifications/tools/list_changed"), 0);
    let mut client = connect(&peer);
    handshake(&mut client).await;
    assert_eq!(client.receive().await["method"], "notifications/tools/list_changed");
    assert_eq!(peer.notify("notifications/prompts/list_changed"), 1);
    assert_eq!(client.receive().await["method"], "notifications/prompts/list_changed");
}

#[tokio::test]
async fn subscriptions_are_acknowledged_filtered_tagged_and_ended() {
    let peer = Peer::modern().tool("echo").announces_changes();
    let mut client = connect(&peer);
    let filter = json!({ "toolsListChanged": true });
    client.send(&modern("s", "subscriptions/listen", json!({ "notifications": filter }))).await;
    let acknowledged = client.receive().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], filter);
    peer.wait_for_stream().await;
    assert_eq!(peer.notify("notifications/prompts/list_changed"), 0);
    assert_eq!(peer.notify("notifications/tools/list_changed"), 1);
    let notice = client.receive().await;
    assert_eq!(notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "s");
    peer.end_streams();
    let ended = client.receive().await;
    assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!("s"), &json!("complete")));
}

#[tokio::test]
async fn a_cancelled_request_is_not_answered_unless_the_peer_ignores_it() {
    for ignores in [false, true] {
        let gate = Gate::new();
        let held = gate.clone();
        let peer = Peer::legacy().tool(Tool::new("held").answers(move |_, _| Reply::text("late").when(&held)));
        let peer = if ignores { peer.ignores_cancel() } else { peer };
        let mut client = connect(&peer);
        client.send(&legacy(1, "tools/call", json!({ "name": "held" }))).await;
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        client.send(&cancel).await;
        assert_eq!(peer.wait_abandoned("tools/call").await["id"], 1);
        gate.open();
        let expected = if ignores { 1 } else { 2 };
        client.send(&legacy(2, "ping", json!({}))).await;
        let mut ids = vec![client.receive().await["id"].clone()];
        if ignores {
            ids.push(client.receive().await["id"].clone());
        }
        assert!(ids.contains(&json!(expected)), "{ids:?}");
    }
}

#[tokio::test]
async fn a_handler_may_ask_the_client_and_wait_for_its_answer() {
    let peer = Peer::legacy().tool(Tool::new("ask").answers(|_, context| {
        let context = context.clone();
        Reply::later(async move {
            let roots = context.ask_as(legacy("r", "roots/list", json!({}))).await;
            Reply::text(roots["result"]["roots"].to_string())
        })
    }));
    let mut client = connect(&peer);
    let asked = client.request(&legacy(1, "tools/call", json!({ "name": "ask" }))).await;
    assert_eq!((&asked["id"], &asked["method"]), (&json!("r"), &json!("roots/list")));
    let answer = client.request(&json!({ "jsonrpc": "2.0", "id": "r", "result": { "roots": [] } })).await;
    assert_eq!(answer["result"]["content"][0]["text"], "[]");
}

#[tokio::test]
async fn the_peer_can_ask_outside_of_any_request() {
    let peer = Peer::legacy();
    let mut client = connect(&peer);
    handshake(&mut client).await;
    let asking = tokio::spawn({
        let peer = peer.clone();
        async move { peer.ask("ping", json!({})).await }
    });
    let asked = client.receive().await;
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": {} })).await;
    assert_eq!(asking.await.unwrap()["result"], json!({}));
}

#[tokio::test]
async fn breaches_of_the_rules_are_noted_as_complaints() {
    let peer = Peer::legacy().tool("echo");
    let mut client = connect(&peer);
    client.request(&legacy(1, "tools/call", json!({ "name": "echo", "arguments": [] }))).await;
    client.request(&json!({ "jsonrpc": "2.0", "id": null, "method": "ping" })).await;
    assert_eq!(peer.complaints().len(), 2, "{:?}", peer.complaints());
}

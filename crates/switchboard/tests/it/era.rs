//! Which era a server is taken for, row by row, and which revisions are agreed on.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::spec::{EraChoice, InProcessTarget, Retry};
use switchboard::{ErrorKind, ServerSpec, State};
use switchboard_testing::{AnswerWith, Context, Era, HttpPeer, HttpReply, Peer, Reply, memory};

use crate::fixture::{client, everywhere, in_process, over_http, refusal, whole};

/// A legacy server that answers the probe in its own way.
fn probed(answer: impl Fn(&Value, &Context) -> Reply + Send + Sync + 'static) -> Peer {
    Peer::legacy().tool("echo").on("server/discover", answer)
}

/// Expects the server to be taken for a legacy one after one probe, and to work.
async fn expect_legacy(peer: Peer) {
    for (_server, client) in everywhere(&peer).await {
        assert_eq!(client.protocol_version().as_deref(), Some("2025-11-25"));
        assert_eq!((client.state(), client.tools().len()), (State::Ready, 1));
        client.call("echo", None).await.unwrap();
        client.close().await;
    }
    assert_eq!((peer.count("server/discover"), peer.count("initialize")), (3, 3));
    assert_eq!(peer.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn a_discover_result_with_a_common_revision_means_modern() {
    for peer in [Peer::modern().tool("echo"), Peer::both().tool("echo")] {
        for (_server, client) in everywhere(&peer).await {
            assert_eq!(client.protocol_version().as_deref(), Some("2026-07-28"));
            client.call("echo", None).await.unwrap();
        }
        assert_eq!((peer.count("server/discover"), peer.count("initialize")), (3, 0));
        assert_eq!(peer.complaints(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_discover_result_without_a_common_revision_means_legacy() {
    expect_legacy(probed(|_, _| Reply::result(json!({ "supportedVersions": ["2025-11-25"], "capabilities": {} }))))
        .await;
    expect_legacy(probed(|_, _| Reply::result(json!({ "supportedVersions": ["2027-01-01"], "capabilities": {} }))))
        .await;
}

#[tokio::test]
async fn an_unusable_discover_result_means_legacy() {
    let results = [
        json!({}),
        json!([]),
        json!(null),
        json!("ok"),
        json!({ "supportedVersions": [] }),
        json!({ "supportedVersions": "2026-07-28" }),
        json!({ "supportedVersions": [20_260_728] }),
        json!({ "tools": [] }),
    ];
    for result in results {
        expect_legacy(probed(move |_, _| Reply::bare_result(result.clone()))).await;
    }
}

#[tokio::test]
async fn any_json_rpc_error_but_one_about_other_revisions_means_legacy() {
    for code in [-32601, -32600, -32602, -32603, -32000, -32001, -32002, -32020, -32021, 0, 404] {
        expect_legacy(probed(move |_, _| Reply::error(code, "no"))).await;
    }
    expect_legacy(probed(|_, _| Reply::error(-32600, "no").wrong_id(Value::Null))).await;
    for supported in
        [json!({ "supported": ["2025-11-25", "2024-11-05"] }), json!({ "supported": [] }), json!({}), json!(7)]
    {
        expect_legacy(probed(move |_, _| Reply::error_with(-32022, "Unsupported protocol version", supported.clone())))
            .await;
    }
    expect_legacy(probed(|_, _| Reply::error(-32022, "Unsupported protocol version"))).await;
}

#[tokio::test]
async fn a_json_rpc_error_under_a_4xx_status_means_legacy() {
    for status in [400, 404, 405, 409, 422] {
        expect_legacy(probed(move |_, _| Reply::error(-32000, "Bad Request").status(status))).await;
    }
}

#[tokio::test]
async fn a_refusal_of_a_right_revision_is_asked_again_once() {
    let refusal_of = |supported: &[&str]| {
        Reply::error_with(-32022, "Unsupported protocol version", json!({ "supported": supported }))
    };
    for (_server, client) in everywhere(&Peer::modern().tool("echo")).await {
        client.close().await;
    }
    for mode in [None, Some(AnswerWith::Json), Some(AnswerWith::Sse)] {
        let peer = Peer::modern().tool("echo").first("server/discover", [refusal_of(&["2027-01-01", "2026-07-28"])]);
        let server = HttpPeer::start(&peer).await.answer_with(mode.unwrap_or(AnswerWith::Json));
        let spec = if mode.is_some() { over_http(&server) } else { in_process(&peer) };
        let client = client(spec).await;
        assert_eq!(client.protocol_version().as_deref(), Some("2026-07-28"));
        assert_eq!((peer.count("server/discover"), peer.count("initialize")), (2, 0));
    }
    let peer = Peer::modern().on("server/discover", move |_, _| refusal_of(&["2026-07-28"]));
    let error = refusal(in_process(&peer)).await;
    assert_eq!(error.kind(), ErrorKind::ProtocolViolation);
    assert!(whole(&error).contains("it refuses the revision"), "{}", whole(&error));
    assert_eq!(peer.count("server/discover"), 2);
}

#[tokio::test]
async fn a_server_of_later_revisions_only_is_refused_with_both_sides_named() {
    let peer = Peer::modern().supported_versions(&["2027-01-01", "2028-01-01"]);
    let server = HttpPeer::start(&peer).await;
    for spec in [in_process(&peer), over_http(&server)] {
        let error = refusal(spec).await;
        assert_eq!(error.kind(), ErrorKind::ProtocolViolation);
        let text = whole(&error);
        assert!(text.contains("2028-01-01") && text.contains("2026-07-28"), "{text}");
    }
    assert_eq!(peer.count("initialize"), 0);
}

#[tokio::test]
async fn a_4xx_without_json_rpc_means_legacy() {
    for status in [400, 402, 404, 405, 406, 410, 415, 422] {
        for reply in [
            HttpReply::status(status),
            HttpReply::html(status, "<h1>no</h1>"),
            HttpReply::status(status).content_type("application/json").body(r#"{"error":"unknown method"}"#),
        ] {
            let peer = Peer::legacy().tool("echo");
            let server = HttpPeer::start(&peer)
                .await
                .on_http(move |request| request.calls("server/discover").then(|| reply.clone()));
            let client = client(over_http(&server)).await;
            assert_eq!(client.protocol_version().as_deref(), Some("2025-11-25"), "{status}");
            client.close().await;
        }
    }
}

#[tokio::test]
async fn statuses_that_say_nothing_about_the_era_are_errors() {
    let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#;
    for status in [401, 403, 429, 500, 501, 502, 503, 504] {
        let in_words = HttpReply::status(status).content_type("application/json").body(body);
        for reply in [HttpReply::status(status), HttpReply::html(status, "<h1>no</h1>"), in_words] {
            expect_status_error(status, reply).await;
        }
    }
    for status in [408, 425] {
        expect_status_error(status, HttpReply::status(status)).await;
        expect_status_error(status, HttpReply::html(status, "<h1>no</h1>")).await;
    }
}

async fn expect_status_error(status: u16, reply: HttpReply) {
    let peer = Peer::both();
    let server = HttpPeer::start(&peer).await.on_http(move |_| Some(reply.clone()));
    let error = refusal(over_http(&server)).await;
    assert!(whole(&error).contains(&status.to_string()), "{}", whole(&error));
    assert_eq!(peer.count("initialize"), 0, "{status}");
    match status {
        401 => assert_eq!(error.kind(), ErrorKind::SignInRequired),
        429 | 503 => assert_eq!(error.kind(), ErrorKind::RateLimited),
        _ => {}
    }
}

#[tokio::test]
async fn a_success_that_is_no_mcp_is_an_error_and_no_verdict() {
    let pages = [
        HttpReply::html(200, "<h1>Welcome</h1>"),
        HttpReply::status(200).content_type("text/plain").body("Welcome"),
        HttpReply::status(200).content_type("application/json").body("Welcome"),
        HttpReply::status(200).content_type("application/json").body("{\"hello\":1}"),
    ];
    for reply in pages {
        let peer = Peer::both();
        let server = HttpPeer::start(&peer).await.on_http(move |_| Some(reply.clone()));
        let error = refusal(over_http(&server)).await;
        assert_eq!(error.kind(), ErrorKind::ProtocolViolation);
        assert!(whole(&error).contains("did not answer with MCP"), "{}", whole(&error));
        assert_eq!(peer.count("initialize"), 0);
    }
}

#[tokio::test]
async fn b009_a_success_without_an_answer_means_legacy() {
    let silent = [
        HttpReply::status(202),
        HttpReply::status(200),
        HttpReply::event_stream([""]),
        HttpReply::event_stream(["id: 1\ndata:\n\n"]),
        HttpReply::event_stream([": hello\n\n"]),
    ];
    for reply in silent {
        let peer = Peer::legacy().tool("echo");
        let server = HttpPeer::start(&peer)
            .await
            .on_http(move |request| request.calls("server/discover").then(|| reply.clone()));
        let client = client(over_http(&server)).await;
        assert_eq!((client.tools().len(), peer.count("initialize")), (1, 1));
        client.close().await;
    }
}

#[tokio::test]
async fn b009_a_server_that_is_silent_about_newer_revisions_is_asked_for_older_ones() {
    let peer = Peer::legacy().tool("echo");
    let server = HttpPeer::start(&peer).await.on_http(|request| {
        let body = request.json().unwrap_or_default();
        let is_new = request.calls("server/discover")
            || request.calls("initialize") && body["params"]["protocolVersion"] != "2025-03-26";
        is_new.then(|| HttpReply::event_stream(["id: 1\ndata:\n\n"]))
    });
    let client = client(over_http(&server)).await;
    assert_eq!(client.protocol_version().as_deref(), Some("2025-03-26"));
    assert_eq!(client.tools().len(), 1);
    client.close().await;
}

#[tokio::test]
async fn a_network_failure_is_an_error_and_no_verdict() {
    for reply in [HttpReply::cut(), HttpReply::reset()] {
        let peer = Peer::both();
        let server = HttpPeer::start(&peer).await.on_http(move |_| Some(reply.clone()));
        let error = refusal(over_http(&server)).await;
        assert_eq!(error.kind(), ErrorKind::ConnectFailed, "{error:?}");
        assert_eq!(peer.count("initialize"), 0);
    }
    let server = HttpPeer::start(Peer::both()).await;
    server.stop().await;
    assert_eq!(refusal(over_http(&server)).await.kind(), ErrorKind::ConnectFailed);
}

#[tokio::test(start_paused = true)]
async fn a_pipe_that_stays_silent_or_closes_means_legacy() {
    let silent = Peer::legacy().tool("echo").on("server/discover", |_, _| Reply::stall());
    let closing = Peer::legacy().tool("echo").on("server/discover", |_, _| Reply::cut());
    for peer in [silent, closing] {
        let client = client(in_process(&peer)).await;
        assert_eq!(client.protocol_version().as_deref(), Some("2025-11-25"));
        assert_eq!((peer.count("server/discover"), client.tools().len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_the_probe_is_not_taken_for_that_to_the_handshake() {
    let probe = Duration::from_secs(5);
    let peer = Peer::both()
        .tool("echo")
        .ignores_cancel()
        .on("server/discover", move |_, context| context.usual().delay(probe + Duration::from_secs(1)));
    let peer = peer.on("initialize", |_, context| context.usual().delay(Duration::from_secs(2)));
    let client = client(in_process(&peer)).await;
    assert_eq!(client.protocol_version().as_deref(), Some("2025-11-25"));
    assert_eq!(client.tools().len(), 1);
}

#[tokio::test]
async fn a_server_silent_over_http_is_taken_for_legacy_after_the_probe_time() {
    let server = HttpPeer::start(Peer::legacy().tool("echo"))
        .await
        .on_http(|request| request.calls("server/discover").then(HttpReply::hang));
    let mut spec = over_http(&server);
    spec.timeouts.probe = Duration::from_millis(100);
    assert_eq!(client(spec).await.protocol_version().as_deref(), Some("2025-11-25"));
}

#[tokio::test]
async fn a_choice_of_era_is_obeyed() {
    let both = Peer::both().tool("echo");
    let client = client(in_process(&both).era(EraChoice::Legacy)).await;
    assert_eq!(client.protocol_version().as_deref(), Some("2025-11-25"));
    assert_eq!(both.count("server/discover"), 0);
    let error = refusal(in_process(&Peer::legacy()).era(EraChoice::Modern)).await;
    assert_eq!(error.kind(), ErrorKind::ProtocolViolation);
    assert!(whole(&error).contains("modern revision"), "{}", whole(&error));
}

#[tokio::test]
async fn b131_an_older_revision_is_accepted_and_used_from_then_on() {
    for version in ["2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let peer = Peer::legacy().tool("echo").protocol_version(version);
        let server = HttpPeer::start(&peer).await;
        for spec in [in_process(&peer), over_http(&server)] {
            let client = client(spec).await;
            assert_eq!(client.protocol_version().as_deref(), Some(version));
            client.call("echo", None).await.unwrap();
            client.close().await;
        }
        for method in ["notifications/initialized", "tools/list", "tools/call"] {
            let request = server.requests_of(method).pop().unwrap();
            assert_eq!(request.header("mcp-protocol-version"), Some(version), "{method}");
        }
    }
}

#[tokio::test]
async fn b131_an_unknown_revision_is_refused_with_both_sides_named() {
    for version in ["2099-01-01", "1.0", "", "DRAFT-2026-v1", "2025-11-25 "] {
        let peer = Peer::legacy().protocol_version(version);
        let server = HttpPeer::start(&peer).await;
        for spec in [in_process(&peer), over_http(&server)] {
            let error = refusal(spec).await;
            assert_eq!(error.kind(), ErrorKind::ProtocolViolation);
            let text = whole(&error);
            assert!(text.contains(&format!("`{version}`")) && text.contains("`2025-11-25`"), "{text}");
        }
    }
}

#[tokio::test]
async fn b131_a_handshake_without_a_usable_revision_is_refused() {
    for version in [json!(null), json!(20_251_125), json!(["2025-11-25"]), json!("2026-07-28")] {
        let peer = Peer::legacy().on("initialize", move |_, _| {
            Reply::result(json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": {} }))
        });
        let error = refusal(in_process(&peer)).await;
        assert_eq!(error.kind(), ErrorKind::ProtocolViolation);
        assert!(whole(&error).contains("`initialize` cannot be used"), "{}", whole(&error));
    }
    for result in [json!({}), json!([]), json!(null), json!("ok")] {
        let peer = Peer::legacy().on("initialize", move |_, _| Reply::bare_result(result.clone()));
        assert_eq!(refusal(in_process(&peer)).await.kind(), ErrorKind::ProtocolViolation);
    }
}

#[tokio::test]
async fn b131_a_refusal_that_names_older_revisions_is_followed() {
    let peer = Peer::legacy().tool("echo").on("initialize", |request, context| {
        let data = json!({ "supported": ["2024-11-05", "2023-01-01"], "requested": "2025-11-25" });
        match request["params"]["protocolVersion"].as_str() {
            Some("2024-11-05") => context.usual(),
            _ => Reply::error_with(-32602, "Unsupported protocol version", data),
        }
    });
    let client = client(in_process(&peer)).await;
    assert_eq!(client.protocol_version().as_deref(), Some("2024-11-05"));
    let peer = Peer::legacy().on("initialize", |_, _| {
        Reply::error_with(-32602, "Unsupported protocol version", json!({ "supported": ["2023-01-01"] }))
    });
    let text = whole(&refusal(in_process(&peer)).await);
    assert!(text.contains("2023-01-01") && text.contains("2025-11-25"), "{text}");
}

#[tokio::test]
async fn a_handshake_refused_with_an_error_fails_with_the_servers_words() {
    let peer = Peer::legacy().on("initialize", |_, _| Reply::error(-32000, "licence expired"));
    let server = HttpPeer::start(&peer).await;
    for spec in [in_process(&peer), over_http(&server)] {
        let error = refusal(spec).await;
        assert!(whole(&error).contains("licence expired"), "{}", whole(&error));
        assert_eq!(error.data().rpc.as_ref().map(|rpc| rpc.code), Some(-32000));
    }
}

/// A server in this process that is one peer in its first life and another one from then on.
fn turning(before: &Peer, after: &Peer) -> ServerSpec {
    let (before, after, lives) = (before.clone(), after.clone(), std::sync::atomic::AtomicUsize::new(0));
    let open = move || {
        let is_first = lives.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
        memory::serve(if is_first { &before } else { &after })
    };
    ServerSpec::in_process("peer", InProcessTarget::new(open)).unwrap().id("peer").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_changed_its_era_while_it_was_closed_is_asked_anew() {
    let (modern, legacy) = (|| Peer::modern().tool("echo"), || Peer::legacy().tool("echo"));
    let turns = [
        (legacy(), modern(), "2026-07-28"),
        (legacy(), modern().on("initialize", |_, _| Reply::error(-32601, "Method not found")), "2026-07-28"),
        (legacy(), modern().on("initialize", |_, _| Reply::cut()), "2026-07-28"),
        (legacy(), modern().on("initialize", |_, _| Reply::stall()), "2026-07-28"),
        (modern(), legacy().on("tools/list", refuse_before_handshake), "2025-11-25"),
    ];
    for (number, (before, after, version)) in turns.into_iter().enumerate() {
        let before = before.on("server/discover", |_, context| match context.era() {
            Era::Modern => {
                Reply::result(json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }))
            }
            Era::Legacy => context.usual(),
        });
        let client = client(turning(&before, &after)).await;
        client.close().await;
        client.refresh().await.unwrap();
        assert_eq!(client.protocol_version().as_deref(), Some(version), "{number}");
        client.call("echo", None).await.unwrap();
    }
}

fn refuse_before_handshake(_: &Value, context: &Context) -> Reply {
    match context.peer().count("initialize") {
        0 => Reply::error(-32602, "Received request before initialization was complete"),
        _ => context.usual(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_every_pipe_at_once_is_an_error_soon() {
    let dials = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = dials.clone();
    let open = move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        tokio::io::duplex(64).0
    };
    let spec = ServerSpec::in_process("peer", InProcessTarget::new(open)).unwrap().retry(Retry::attempts(1));
    let error = refusal(spec).await;
    assert_eq!(error.kind(), ErrorKind::ConnectFailed, "{error:?}");
    assert!(dials.load(std::sync::atomic::Ordering::SeqCst) <= 2);
}

#[tokio::test]
async fn a_wrong_address_is_told_by_its_status() {
    let server = HttpPeer::start(Peer::both()).await;
    let spec = ServerSpec::http("peer", &server.url_at("/elsewhere")).unwrap().retry(Retry::attempts(1));
    let error = refusal(spec).await;
    assert_eq!(error.kind(), ErrorKind::ConnectFailed);
    assert!(whole(&error).contains("404"), "{}", whole(&error));
}

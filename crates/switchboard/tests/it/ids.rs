//! Whose answer is whose: ids in all the forms in which servers send them back, and answers of wrong shape.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::manager::CallLimits;
use switchboard::{ErrorKind, State, ToolCall};
use switchboard_testing::{AnswerWith, Gate, HttpPeer, Peer, Reply, Tool};
use tokio::time::Instant;

use crate::fixture::{client, everywhere, in_process, over_http, refusal, text, whole};

#[tokio::test]
async fn b033_an_id_that_comes_back_as_a_string_is_ours() {
    for peer in [Peer::modern(), Peer::legacy()] {
        let peer = peer.tool(Tool::new("echo").says("hi")).every(Reply::id_as_string);
        for (_server, client) in everywhere(&peer).await {
            assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
            client.close().await;
        }
    }
}

#[tokio::test]
async fn b033_an_id_that_comes_back_as_a_fraction_of_zero_is_ours() {
    let peer = Peer::both().tool("echo").on("tools/call", |request, _| {
        let id = request["id"].as_f64().unwrap();
        let response = format!(r#"{{"jsonrpc":"2.0","id":{id:.1},"result":{{"content":[{{"text":"hi"}}]}}}}"#);
        Reply::garbage(response)
    });
    for (_server, client) in everywhere(&peer).await {
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    }
}

#[tokio::test(start_paused = true)]
async fn b035_a_server_that_always_answers_with_id_0_fails_with_an_error_that_says_so() {
    let peer = Peer::both().tool("echo").every(|reply| reply.wrong_id(0));
    let began = Instant::now();
    let error = refusal(in_process(&peer)).await;
    assert!(began.elapsed() <= Duration::from_secs(15), "{:?}", began.elapsed());
    assert!(whole(&error).contains("unmatched repl"), "{}", whole(&error));
}

#[tokio::test]
async fn b035_over_http_a_reply_with_another_id_is_an_error_at_once() {
    let peer = Peer::both().tool("echo").on("tools/call", |_, context| context.usual().wrong_id(0));
    for mode in [AnswerWith::Json, AnswerWith::Sse] {
        let server = HttpPeer::start(&peer).await.answer_with(mode);
        let client = client(over_http(&server)).await;
        let error = client.call("echo", None).await.unwrap_err();
        assert!(whole(&error).contains("unmatched reply"), "{}", whole(&error));
    }
}

#[tokio::test(start_paused = true)]
async fn b035_no_reply_with_a_wrong_id_reaches_another_caller() {
    let peer = Peer::both()
        .tool(Tool::new("wrong").answers(|_, _| Reply::text("not yours").wrong_id(0)))
        .tool(Tool::new("slow").answers(|_, _| Reply::text("mine").delay(Duration::from_secs(70))));
    let client = client(in_process(&peer)).await;
    let slow = ToolCall::new("peer".parse().unwrap(), "slow")
        .limits(CallLimits::new(Some(Duration::from_secs(100)), Some(Duration::from_secs(100))));
    let (wrong, slow) = tokio::join!(client.call("wrong", None), client.call_with(slow));
    let error = wrong.unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("1 unmatched replies"), "{error}");
    assert_eq!(text(&slow.unwrap()), "mine");
}

#[tokio::test]
async fn answers_in_another_order_than_the_requests_find_their_callers() {
    let gate = Gate::new();
    let held = gate.clone();
    let peer = Peer::both()
        .tool(Tool::new("first").answers(move |_, _| Reply::text("first").when(&held)))
        .tool(Tool::new("second").says("second"));
    for (_server, client) in everywhere(&peer).await {
        let first = client.call("first", None);
        let second = async {
            let result = client.call("second", None).await;
            gate.open();
            result
        };
        let (first, second) = tokio::join!(first, second);
        assert_eq!((text(&first.unwrap()), text(&second.unwrap())), ("first".to_owned(), "second".to_owned()));
    }
}

#[tokio::test]
async fn an_answer_that_comes_twice_is_delivered_once() {
    let peer = Peer::both().tool("echo").on("tools/call", |request, _| {
        let answer = crate::fixture::says(&request["id"], "hi");
        Reply::raw([answer.clone(), answer])
    });
    for (_server, client) in everywhere(&peer).await {
        for _ in 0..3 {
            assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
        }
        assert_eq!(client.state(), State::Ready);
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_after_a_timeout_is_dropped() {
    let late = Duration::from_secs(61);
    let peer = Peer::both()
        .ignores_cancel()
        .tool(Tool::new("late").answers(move |_, _| Reply::text("late").delay(late)))
        .tool(Tool::new("after").answers(move |_, _| Reply::text("after").delay(late / 2)));
    let client = client(in_process(&peer)).await;
    assert!(client.call("late", None).await.unwrap_err().is_timeout());
    assert_eq!(text(&client.call("after", None).await.unwrap()), "after");
    assert_eq!(peer.count("notifications/cancelled"), 1);
    assert_eq!(peer.count("tools/call"), 2);
}

/// Answers with an `error` or `result` of a shape that the protocol does not allow.
fn misshapen() -> Vec<(&'static str, ErrorKind)> {
    vec![
        (r#""error":"boom""#, ErrorKind::ServerError),
        (r#""error":5"#, ErrorKind::ServerError),
        (r#""error":true"#, ErrorKind::ServerError),
        (r#""error":[]"#, ErrorKind::ServerError),
        (r#""error":{}"#, ErrorKind::ServerError),
        (r#""error":{"code":"E_FAIL","message":"boom"}"#, ErrorKind::ServerError),
        (r#""error":{"code":-32000.0,"message":{"text":"boom"}}"#, ErrorKind::ServerError),
        (r#""error":{"code":99999999999999999999,"message":null}"#, ErrorKind::ServerError),
        (r#""result":null,"error":{"code":1,"message":"boom"}"#, ErrorKind::ServerError),
        (r#""result":{},"error":{"code":1,"message":"boom"}"#, ErrorKind::ServerError),
        (r#""error":null"#, ErrorKind::ServerError),
        (r#""result":null"#, ErrorKind::ProtocolViolation),
        (r#""result":"hi""#, ErrorKind::ProtocolViolation),
        (r#""result":[]"#, ErrorKind::ProtocolViolation),
        (r#""result":false"#, ErrorKind::ProtocolViolation),
    ]
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_a_wrong_shape_ends_its_request_at_once() {
    for (member, kind) in misshapen() {
        let peer = Peer::both().tool("echo").on("tools/call", move |request, _| {
            Reply::garbage(format!(r#"{{"jsonrpc":"2.0","id":{},{member}}}"#, request["id"]))
        });
        let client = client(in_process(&peer)).await;
        let began = Instant::now();
        let error = client.call("echo", None).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{member}: {error:?}");
        assert!(began.elapsed() < Duration::from_secs(1), "{member}");
        assert_eq!(client.state(), State::Ready);
    }
}

#[tokio::test]
async fn an_answer_of_a_wrong_shape_over_http_ends_its_request_at_once() {
    for (member, kind) in misshapen() {
        let peer = Peer::both().tool("echo").on("tools/call", move |request, _| {
            Reply::garbage(format!(r#"{{"jsonrpc":"2.0","id":{},{member}}}"#, request["id"]))
        });
        for mode in [AnswerWith::Json, AnswerWith::Sse] {
            let server = HttpPeer::start(&peer).await.answer_with(mode);
            let client = client(over_http(&server)).await;
            let error = client.call("echo", None).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{member}: {error:?}");
        }
    }
}

#[tokio::test]
async fn a_result_beside_an_error_that_is_null_is_a_result() {
    let peer = Peer::both().tool("echo").on("tools/call", |request, _| {
        let mut answer = crate::fixture::says(&request["id"], "hi");
        answer["error"] = Value::Null;
        Reply::raw([answer])
    });
    for (_server, client) in everywhere(&peer).await {
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    }
}

#[tokio::test]
async fn an_error_without_an_id_ends_the_only_request_there_is() {
    for id in [r#""id":null,"#, ""] {
        let peer = Peer::both().tool("echo").on("tools/call", move |_, _| {
            Reply::garbage(format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"Parse error"}}}}"#))
        });
        for (_server, client) in everywhere(&peer).await {
            let error = client.call("echo", None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ServerError, "{error:?}");
            assert_eq!(error.data().rpc.as_ref().unwrap().code, -32700);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_among_several_requests_ends_none_of_them_wrongly() {
    let peer = Peer::both()
        .tool(Tool::new("lost").answers(|_, _| Reply::error(-32700, "Parse error").wrong_id(Value::Null)))
        .tool(Tool::new("slow").answers(|_, _| Reply::text("mine").delay(Duration::from_secs(5))));
    let client = client(in_process(&peer)).await;
    let (slow, lost) = tokio::join!(client.call("slow", None), client.call("lost", None));
    assert_eq!(text(&slow.unwrap()), "mine");
    assert!(whole(&lost.unwrap_err()).contains("unmatched repl"));
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_no_answer_leave_the_request_waiting_for_its_own() {
    let noise =
        ["[info] handling id 3", r#"{"level":"info","id":3}"#, "[1,2]", "3", "null", "", "\u{1b}[32mok\u{1b}[0m"];
    let peer = Peer::both().tool(Tool::new("echo").says("hi"));
    let served = peer.clone();
    let target = switchboard::spec::InProcessTarget::new(move || {
        switchboard_testing::memory::serve_with_noise(&served, &["Server listening", "\u{feff}"], &noise)
    });
    let spec = switchboard::ServerSpec::in_process("peer", target).unwrap();
    let client = client(spec).await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    assert!(!client.status().warnings.is_empty(), "what was passed over is shown");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_large_ends_its_own_request_only() {
    let peer = Peer::both()
        .tool(Tool::new("large").answers(|_, _| Reply::text("x".repeat(2 << 20))))
        .tool(Tool::new("slow").answers(|_, _| Reply::text("mine").delay(Duration::from_secs(5))));
    let mut spec = in_process(&peer);
    spec.limits.message_bytes = 1 << 20;
    let client = client(spec).await;
    let (slow, large) = tokio::join!(client.call("slow", None), client.call("large", None));
    assert_eq!(large.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(text(&slow.unwrap()), "mine");
}

#[tokio::test(start_paused = true)]
async fn a_first_line_may_begin_with_a_byte_order_mark() {
    let peer = Peer::legacy().tool("echo").on("initialize", |request, _| {
        let result = json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "n", "version": "1" },
        });
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        Reply::garbage(format!("\u{feff}{answer}"))
    });
    assert_eq!(client(in_process(&peer)).await.tools().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_off_or_garbled_ends_its_own_request_at_once() {
    let garbled = [r#"{"content":[{"type":"text","te"#, r#"{"content":[]} extra"#, "{]}", "NaN}", "[INFO] busy"];
    for garbled in garbled {
        let peer = Peer::both()
            .tool(Tool::new("slow").answers(|_, _| Reply::text("mine").delay(Duration::from_secs(5))))
            .tool(Tool::new("bad").answers(move |_, context| {
                Reply::garbage(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{garbled}"#, context.id()))
            }));
        let client = client(in_process(&peer)).await;
        let began = Instant::now();
        let bad = async {
            let error = client.call("bad", None).await.unwrap_err();
            (error, began.elapsed())
        };
        let (slow, (error, after)) = tokio::join!(client.call("slow", None), bad);
        assert_eq!(error.kind(), ErrorKind::ProtocolViolation, "{garbled}: {error:?}");
        assert!(after < Duration::from_secs(1), "{garbled}");
        assert_eq!(text(&slow.unwrap()), "mine");
    }
}

#[tokio::test]
async fn b049_pings_are_answered_under_their_own_ids_also_during_a_call() {
    let ids = [json!(7), json!("x"), json!(0), json!(-1), json!(1.5), json!(12_345_678_901_234_567_890_u64), json!("")];
    for base in [Peer::modern, Peer::legacy] {
        let asked = ids.clone();
        let peer = base().tool(Tool::new("ask").answers(move |_, context| {
            let (context, asked) = (context.clone(), asked.clone());
            Reply::later(async move {
                for id in &asked {
                    let answer = context.ask_as(json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).await;
                    assert_eq!(answer["result"], json!({}));
                }
                Reply::text("all answered")
            })
        }));
        for (_server, client) in everywhere(&peer).await {
            assert_eq!(text(&client.call("ask", None).await.unwrap()), "all answered");
            client.close().await;
        }
    }
}

//! Answers to notifications and requests at the level of HTTP: statuses, media types, codings, redirects, bodies.

use bytes::Bytes;
use serde_json::json;
use switchboard::status::ListState;
use switchboard::{ErrorKind, State};
use switchboard_testing::{AnswerWith, Coding, HttpPeer, HttpReply, HttpRequest, Peer, Reply, Tool};

use crate::fixture::{answering, client, over_http, refusal, says, text, whole};

/// Ways in which servers take a notification.
fn taken() -> Vec<HttpReply> {
    let never_ending = HttpReply::event_stream([": open\n\n"]).then_hang();
    vec![
        HttpReply::status(200),
        HttpReply::status(202),
        HttpReply::status(204),
        HttpReply::status(202).content_type("text/plain; charset=UTF-8").body("Accepted"),
        HttpReply::status(202).content_type("application/json").body("null"),
        HttpReply::status(200).content_type("application/json").body("{}"),
        HttpReply::status(200).content_type("application/json").body(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#),
        HttpReply::status(200).content_type("application/octet-stream").body(vec![0xff; 100_000]),
        HttpReply::html(200, "<!doctype html><p>ok"),
        HttpReply::event_stream([""]),
        never_ending,
        HttpReply::status(202).content_type("text/plain").body("Accepted").then_hang(),
        HttpReply::status(202).header("content-encoding", "zstd").body("?"),
    ]
}

#[tokio::test]
async fn b011_and_b013_a_notification_is_taken_whatever_the_success_says() {
    for reply in taken() {
        let shown = format!("{reply:?}");
        let server = HttpPeer::start(Peer::legacy().tool("echo"))
            .await
            .on_http(move |request| request.calls("notifications/initialized").then(|| reply.clone()));
        let mut spec = over_http(&server);
        spec.timeouts.connect = std::time::Duration::from_secs(5);
        let client = client(spec).await;
        assert_eq!((client.tools().len(), client.state()), (1, State::Ready), "{shown}");
        client.close().await;
    }
}

#[tokio::test]
async fn b011_a_server_that_refuses_the_notification_but_works_is_used() {
    for status in [400, 404, 405, 406, 415] {
        let server = HttpPeer::start(Peer::legacy().tool("echo")).await.on_http(move |request| {
            request.calls("notifications/initialized").then(|| HttpReply::html(status, "<h1>no</h1>"))
        });
        let client = client(over_http(&server)).await;
        assert_eq!(client.tools().len(), 1, "{status}");
        let warnings = client.status().warnings;
        assert!(warnings.iter().any(|warning| warning.message.contains(&status.to_string())), "{warnings:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn b013_media_types_of_answers_are_compared_without_case_and_parameters() {
    let types = ["Application/JSON; Charset=utf-8", "APPLICATION/JSON", "application/json;charset=\"UTF-8\";x=y"];
    for media_type in types {
        let server = HttpPeer::start(Peer::both().tool(Tool::new("echo").says("hi")))
            .await
            .on_http(move |request| Some(HttpReply::usual().content_type(media_type)).filter(|_| is_post(request)));
        let client = client(over_http(&server)).await;
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi", "{media_type}");
    }
}

fn is_post(request: &HttpRequest) -> bool {
    request.method == "POST" && request.id() != json!(null)
}

#[tokio::test]
async fn an_answer_without_a_media_type_is_read_as_json() {
    let (_server, client) = answering(|id| HttpReply::status(200).body(says(id, "hi").to_string())).await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
}

#[tokio::test]
async fn a_body_may_begin_with_a_byte_order_mark_and_white_space() {
    for prefix in ["\u{feff}", "\u{feff}\r\n ", "\n\n\t "] {
        let (_server, client) =
            answering(move |id| HttpReply::json(&json!(0)).body(format!("{prefix}{}\r\n", says(id, "hi")))).await;
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi", "{prefix:?}");
    }
}

#[tokio::test]
async fn b027_compressed_answers_are_decoded() {
    for coding in [Coding::Br, Coding::Gzip, Coding::Deflate, Coding::RawDeflate] {
        let server = HttpPeer::start(Peer::legacy().many_tools(500)).await.on_http(move |request| {
            (!request.calls("initialize") && is_post(request)).then(|| HttpReply::usual().encoded(coding))
        });
        let client = client(over_http(&server)).await;
        assert_eq!(client.tools().len(), 500, "{coding:?}");
        let offered = server.requests_of("tools/list")[0].header("accept-encoding").unwrap().to_owned();
        assert!(offered.contains(coding.name()), "{offered}");
        assert!(text(&client.call("tool-1", None).await.unwrap()).contains("{}"));
    }
}

#[tokio::test]
async fn b027_compressed_event_streams_are_decoded_and_need_no_end() {
    for coding in [Coding::Br, Coding::Gzip, Coding::Deflate, Coding::RawDeflate] {
        let server = HttpPeer::start(Peer::both().many_tools(50))
            .await
            .answer_with(AnswerWith::Sse)
            .on_http(move |request| request.calls("tools/list").then(|| HttpReply::usual().encoded(coding)));
        assert_eq!(client(over_http(&server)).await.tools().len(), 50, "{coding:?}");
        let stream = |text: String| async move { coding.encode(text.as_bytes()).await };
        let coded = stream(format!("data: {}\n\n", says(&json!(3), &"hi ".repeat(5000)))).await;
        let (_server, client) = answering(move |_| {
            HttpReply::event_stream([coded.clone()]).header("content-encoding", coding.name()).then_hang()
        })
        .await;
        let result = client.call("echo", None).await.unwrap();
        assert_eq!(text(&result).len(), 15_000, "{coding:?}");
    }
}

#[tokio::test]
async fn b027_codings_are_named_without_case_and_cut_anywhere() {
    for (coding, name) in [(Coding::Gzip, "GZip"), (Coding::Gzip, "x-gzip"), (Coding::Br, "BR"), (Coding::Br, " br ")] {
        let coded = coding.encode(says(&json!(3), "hi").to_string().as_bytes()).await;
        let (_server, client) = answering(move |_| {
            let chunks: Vec<Bytes> = coded.chunks(1).map(Bytes::copy_from_slice).collect();
            HttpReply::json(&json!(0)).chunks(chunks).header("content-encoding", name)
        })
        .await;
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi", "{name}");
    }
}

#[tokio::test]
async fn b027_a_coding_that_was_not_offered_is_a_clear_error() {
    for coding in ["zstd", "compress", "gzip, zstd", "x\u{a0}y"] {
        let (_server, client) =
            answering(move |id| HttpReply::json(&says(id, "hi")).header("content-encoding", coding)).await;
        let error = client.call("echo", None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ProtocolViolation, "{coding}: {error:?}");
        assert!(whole(&error).contains("unsupported content coding"), "{}", whole(&error));
        assert_eq!(client.state(), State::Ready, "one odd answer does not cost the connection");
    }
    let server = HttpPeer::start(Peer::both().tool("echo"))
        .await
        .on_http(|request| request.calls("tools/list").then(|| HttpReply::usual().header("content-encoding", "zstd")));
    let error = refusal(over_http(&server)).await;
    assert!(whole(&error).contains("unsupported content coding `zstd`"), "{}", whole(&error));
}

#[tokio::test]
async fn b027_a_body_that_is_not_what_its_coding_says_is_an_error() {
    for coding in ["gzip", "deflate", "br"] {
        let (_server, client) =
            answering(move |id| HttpReply::json(&says(id, "hi")).header("content-encoding", coding)).await;
        let error = client.call("echo", None).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ConnectionLost | ErrorKind::ProtocolViolation), "{error:?}");
    }
}

#[tokio::test]
async fn b027_a_small_body_that_unpacks_to_a_huge_one_is_refused() {
    let bomb = Coding::Gzip.encode(&vec![b' '; 40 << 20]).await;
    assert!(bomb.len() < 100_000);
    let (_server, client) =
        answering(move |_| HttpReply::json(&json!(0)).body(bomb.clone()).header("content-encoding", "gzip")).await;
    assert_eq!(client.call("echo", None).await.unwrap_err().kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn b029_redirects_within_the_origin_keep_method_body_and_headers() {
    for status in [301, 302, 307, 308] {
        for location in ["/mcp/", "mcp/there", "?moved"] {
            let server = HttpPeer::start(Peer::legacy().tool("echo")).await.on_http(move |request| {
                (request.path == "/mcp" && request.query.is_none()).then(|| HttpReply::redirect(status, location))
            });
            let client = client(over_http(&server).header("X-Key", "v").unwrap()).await;
            client.call("echo", None).await.unwrap();
            let last = server.requests_of("tools/call").pop().unwrap();
            assert_eq!((last.method.as_str(), last.header("x-key")), ("POST", Some("v")), "{status} {location}");
            assert!(last.header("mcp-session-id").is_some());
            assert_ne!((last.path.as_str(), last.query.as_deref()), ("/mcp", None));
            assert_eq!(server.complaints(), Vec::<String>::new());
            client.close().await;
        }
    }
}

#[tokio::test]
async fn b029_an_answer_of_ours_follows_redirects_too() {
    let peer = Peer::legacy().tool(Tool::new("ask").answers(|_, context| {
        let context = context.clone();
        Reply::later(async move { Reply::text(context.ask("ping", json!({})).await["result"].to_string()) })
    }));
    let server = HttpPeer::start(&peer)
        .await
        .on_http(|request| (request.path == "/mcp").then(|| HttpReply::redirect(307, "/mcp/")));
    let client = client(over_http(&server)).await;
    client.call("ask", None).await.unwrap();
    server
        .wait_for_request(1, |request| {
            request.path == "/mcp/" && request.json().is_some_and(|body| body["result"] == json!({}))
        })
        .await;
}

#[tokio::test]
async fn b029_a_loop_of_redirects_ends_with_an_error() {
    let server = HttpPeer::start(Peer::both()).await.on_http(|_| Some(HttpReply::redirect(307, "/mcp")));
    let error = refusal(over_http(&server)).await;
    assert!(whole(&error).contains("more than 5 redirects"), "{}", whole(&error));
    assert!(server.requests().len() <= 6, "{}", server.requests().len());
}

#[tokio::test]
async fn b031_a_redirect_to_another_origin_is_not_followed() {
    let other = HttpPeer::start(Peer::both().tool("echo")).await;
    let elsewhere = other.url();
    let as_name = other.url().replace("127.0.0.1", "localhost");
    for location in [elsewhere, as_name, "https://127.0.0.1/mcp".to_owned(), "//h.example/mcp".to_owned()] {
        let server = HttpPeer::start(Peer::both()).await.on_http(move |_| Some(HttpReply::redirect(307, &location)));
        let error = refusal(over_http(&server).header("Authorization", "Bearer secret").unwrap()).await;
        assert_eq!(error.kind(), ErrorKind::ProtocolViolation);
        assert!(whole(&error).contains("another origin"), "{}", whole(&error));
    }
    assert_eq!(other.requests().len(), 0, "nothing reached the other server");
}

#[tokio::test]
async fn a_redirect_to_nowhere_is_an_error() {
    for reply in [HttpReply::status(307), HttpReply::redirect(308, "http://[")] {
        let server = HttpPeer::start(Peer::both()).await.on_http(move |_| Some(reply.clone()));
        let error = refusal(over_http(&server)).await;
        assert!(whole(&error).contains("redirect"), "{}", whole(&error));
    }
}

#[tokio::test]
async fn a_page_instead_of_an_answer_is_told_in_short_and_never_as_json() {
    let page = format!("<html><head><title>Sign in</title></head><body>{}</body></html>", "<p>x</p>".repeat(50_000));
    for status in [200, 404, 502] {
        let page = page.clone();
        let (_server, client) = answering(move |_| HttpReply::html(status, &page)).await;
        let error = whole(&client.call("echo", None).await.unwrap_err());
        assert!(error.contains("Sign in") && !error.contains('<') && error.len() < 600, "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_json_is_an_error_at_once() {
    let wrong = [
        ("application/json", "not json"),
        ("application/json", "{\"jsonrpc\":"),
        ("application/json", "[]"),
        ("application/json", "5"),
        ("application/json", "{}"),
        ("text/plain", "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}"),
        ("application/xml", "<a/>"),
    ];
    for (media_type, body) in wrong {
        let (_server, client) = answering(move |_| HttpReply::status(200).content_type(media_type).body(body)).await;
        let error = client.call("echo", None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ProtocolViolation, "{media_type} {body}: {error:?}");
        assert_eq!(client.state(), State::Ready);
    }
}

#[tokio::test]
async fn a_success_without_an_answer_is_an_error_that_says_so() {
    let empty = [
        HttpReply::status(200),
        HttpReply::status(200).content_type("application/json"),
        HttpReply::status(202),
        HttpReply::status(202).content_type("text/plain").body("Accepted"),
        HttpReply::status(204),
        HttpReply::json(&json!({ "jsonrpc": "2.0", "method": "notifications/message" })),
        HttpReply::event_stream([""]),
    ];
    for reply in empty {
        let shown = format!("{reply:?}");
        let (_server, client) = answering(move |_| reply.clone()).await;
        let error = client.call("echo", None).await.unwrap_err();
        assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)), "{shown}");
        assert!(whole(&error).contains("without an answer"), "{shown}: {}", whole(&error));
    }
}

#[tokio::test]
async fn a_body_that_is_cut_off_is_no_answer() {
    for keep in [0, 1, 20] {
        let (_server, client) = answering(move |id| HttpReply::json(&says(id, "hi")).truncated(keep)).await;
        let error = client.call("echo", None).await.unwrap_err();
        assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)), "{keep}");
    }
}

#[tokio::test]
async fn a_batch_as_a_body_is_taken_apart() {
    let (_server, client) = answering(|id| {
        let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} });
        HttpReply::json(&json!([log, "odd", says(id, "hi")]))
    })
    .await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
}

#[tokio::test]
async fn one_list_with_a_page_instead_of_json_costs_only_itself() {
    let server = HttpPeer::start(Peer::both().tool("echo").prompt("greet"))
        .await
        .on_http(|request| request.calls("prompts/list").then(|| HttpReply::html(200, "<p>be right back</p>")));
    let client = client(over_http(&server)).await;
    assert_eq!((client.tools().len(), client.prompts().len()), (1, 0));
    let status = client.status();
    assert_eq!((status.lists.tools, status.lists.prompts), (ListState::Ok, ListState::Failed));
    assert!(status.warnings.iter().any(|warning| warning.message.contains("be right back")), "{:?}", status.warnings);
}

/// Characters that break careless readers when they are split, escaped or taken for line ends.
const CHARACTERS: &str = "— 🦀 漢字 \u{2028}\u{2029}\u{85}\u{feff} \r \n \t \u{0} \u{10ffff} \\u0041 é";

#[tokio::test]
async fn b113_characters_split_between_reads_arrive_unchanged() {
    let peer = || {
        Peer::both().tool(
            Tool::new("say")
                .answers(|arguments, _| Reply::text(arguments["text"].as_str().unwrap_or_default()).in_pieces(1)),
        )
    };
    let arguments = json!({ "text": CHARACTERS });
    let in_memory = client(crate::fixture::in_process(&peer())).await;
    let result = in_memory.call("say", Some(arguments.clone().into())).await.unwrap();
    assert_eq!(text(&result), CHARACTERS);
    for mode in [AnswerWith::Json, AnswerWith::Sse] {
        let server = HttpPeer::start(peer()).await.answer_with(mode);
        let client = client(over_http(&server)).await;
        let result = client.call("say", Some(arguments.clone().into())).await.unwrap();
        assert_eq!(text(&result), CHARACTERS, "{mode:?}");
    }
}

#[tokio::test]
async fn b113_bytes_that_are_no_utf8_become_replacement_characters_and_nothing_else_is_lost() {
    let message = |id: &serde_json::Value| {
        let text = says(id, "a?b").to_string().into_bytes();
        text.into_iter().map(|byte| if byte == b'?' { 0xff } else { byte }).collect::<Vec<u8>>()
    };
    let (_server, over_json) = answering(move |id| HttpReply::json(&json!(0)).body(message(id))).await;
    let (_server, over_sse) =
        answering(move |id| HttpReply::event_stream([[b"data: ".as_slice(), &message(id), b"\n\n"].concat()])).await;
    let peer = Peer::both().tool("echo").on("tools/call", move |request, _| Reply::garbage(message(&request["id"])));
    let in_memory = client(crate::fixture::in_process(&peer)).await;
    for client in [over_json, over_sse, in_memory] {
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "a\u{fffd}b");
    }
}

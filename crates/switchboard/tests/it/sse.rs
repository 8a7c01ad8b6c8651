//! Answers that come as event streams, in all the ways in which servers frame them.

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use switchboard::event::EventKind;
use switchboard::{Client, ErrorKind, State};
use switchboard_testing::{AnswerWith, HttpPeer, HttpReply, Peer, Reply, Tool};

use crate::fixture::{answering, client, over_http, says, text, warnings, whole};

/// A client whose calls are answered with these chunks of an event stream, each written on its own.
async fn streamed(chunks: impl Fn(&Value) -> Vec<Bytes> + Send + Sync + 'static) -> (HttpPeer, Client) {
    answering(move |id| HttpReply::event_stream(chunks(id))).await
}

fn bytewise(text: &str) -> Vec<Bytes> {
    text.bytes().map(|byte| Bytes::copy_from_slice(&[byte])).collect()
}

/// A log message, which becomes an event that can be counted.
fn log(logger: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "logger": logger } })
}

#[tokio::test]
async fn b015_lines_may_end_in_any_way_and_be_split_anywhere() {
    // The end of the `event` line, of the `data` line, and the blank line.
    let endings = [
        ["\n", "\n", "\n"],
        ["\r\n", "\r\n", "\r\n"],
        ["\r", "\r", "\r"],
        ["\r\n", "\n", "\r"],
        ["\n", "\r", "\r\n"],
        ["\r", "\r\n", "\n"],
    ];
    for ending in endings {
        let (_server, client) = streamed(move |id| {
            let [first, second, blank] = ending;
            let frame = |message: Value| format!("event: message{first}data: {message}{second}{blank}");
            bytewise(&(frame(log("once")) + &frame(says(id, "hi"))))
        })
        .await;
        let mut events = client.events();
        let result = client.call("echo", None).await.unwrap();
        assert_eq!(text(&result), "hi", "{ending:?}");
        let mut logs = 0;
        while let Some(Some(event)) = events.next().now_or_never() {
            logs += usize::from(event.kind == EventKind::Log);
        }
        assert_eq!((logs, warnings(&client)), (1, Vec::new()), "each message is delivered once: {ending:?}");
    }
}

#[tokio::test]
async fn b015_a_cr_and_its_lf_may_come_in_separate_writes() {
    let (_server, client) = streamed(|id| {
        let data = format!("data: {}", says(id, "hi"));
        ["event: message", "\r", "\n", &data, "\r", "\n", "\r", "\n"].map(|part| Bytes::from(part.to_owned())).into()
    })
    .await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
}

#[tokio::test]
async fn b017_data_over_several_lines_is_one_message() {
    let (_server, client) = streamed(|id| {
        let message =
            format!("data: {{\"jsonrpc\":\"2.0\",\ndata:\"id\":{id},\"result\":\ndata: {{\"content\":[]}}}}\n\n");
        vec![message.into()]
    })
    .await;
    let result = client.call("echo", None).await.unwrap();
    assert_eq!(result.result.as_str(), r#"{"content":[]}"#);
}

#[tokio::test]
async fn b019_a_data_line_of_3_mib_in_small_writes_is_delivered_whole() {
    let long = "é".repeat(3 << 19);
    let expected = long.clone();
    let (_server, client) =
        answering(move |id| HttpReply::event_stream([format!("data: {}\n\n", says(id, &long))]).in_pieces(1024)).await;
    assert!(text(&client.call("echo", None).await.unwrap()) == expected);
}

#[tokio::test]
async fn b019_the_limit_is_a_setting_and_costs_only_the_call_that_passes_it() {
    let server = HttpPeer::start(
        Peer::both()
            .tool(Tool::new("long").answers(|_, _| Reply::text("x".repeat(100_000))))
            .tool(Tool::new("short").says("hi")),
    )
    .await
    .answer_with(AnswerWith::Sse);
    let mut spec = over_http(&server);
    spec.limits.message_bytes = 64 << 10;
    let client = client(spec).await;
    let error = client.call("long", None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(whole(&error).contains("65536"), "{}", whole(&error));
    assert_eq!(text(&client.call("short", None).await.unwrap()), "hi");
}

#[tokio::test]
async fn b021_events_that_are_no_messages_are_passed_over() {
    let (_server, client) = streamed(|id| {
        let stream = format!("event: heartbeat\ndata: still here\n\ndata: {{}}\n\ndata: {}\n\n", says(id, "hi"));
        vec![stream.into()]
    })
    .await;
    for _ in 0..2 {
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    }
    assert_eq!(client.state(), State::Ready);
    let odd: Vec<_> = client.status().warnings.into_iter().map(|warning| (warning.message, warning.count)).collect();
    let expected = [
        ("the server sent an event of type `heartbeat`".to_owned(), 2),
        ("the server sent an event that is not a JSON-RPC message".to_owned(), 2),
    ];
    assert_eq!(odd, expected);
}

#[tokio::test]
async fn b021_other_things_between_messages_do_not_end_the_stream() {
    let odd = [
        "data: not json\n\n",
        "data: [1,2]\n\n",
        "data: 5\n\n",
        "data: \"text\"\n\n",
        "data: null\n\n",
        "data\n\n",
        "data:\n\n",
        "event: message\n\n",
        "id: 7\n\n",
        "id: 8\ndata:\n\n",
        "retry: 100\n\n",
        "retry: soon\n\n",
        ": a comment\n\n",
        ":\n",
        "\n\n\n",
        "colour: blue\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":5}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard_of\"}\n\n",
        "event: message\u{0}\ndata: x\n\n",
    ];
    let all = odd.concat();
    for odd in odd.into_iter().map(str::to_owned).chain([all]) {
        let shown = odd.clone();
        let (_server, client) = streamed(move |id| vec![format!("{odd}data: {}\n\n", says(id, "hi")).into()]).await;
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi", "{shown:?}");
        assert_eq!(client.state(), State::Ready);
    }
}

#[tokio::test]
async fn a_stream_may_begin_with_a_byte_order_mark() {
    let (_server, client) = streamed(|id| bytewise(&format!("\u{feff}data: {}\n\n", says(id, "hi")))).await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
}

#[tokio::test]
async fn a_last_event_without_its_blank_line_counts() {
    for end in ["", "\n", "\r", "\r\n"] {
        let (_server, client) = streamed(move |id| vec![format!("data: {}{end}", says(id, "hi")).into()]).await;
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi", "{end:?}");
    }
}

#[tokio::test]
async fn an_answer_is_delivered_while_its_stream_stays_open() {
    let (_server, client) =
        answering(|id| HttpReply::event_stream([format!("data: {}\n\n", says(id, "hi"))]).then_hang()).await;
    for _ in 0..3 {
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    }
}

#[tokio::test]
async fn media_types_of_streams_are_compared_without_case_and_parameters() {
    for media_type in ["text/event-stream;charset=utf-8", "Text/Event-Stream", "text/event-stream ; charset=\"utf-8\""]
    {
        let (_server, client) = answering(move |id| HttpReply::sse(&[says(id, "hi")]).content_type(media_type)).await;
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi", "{media_type}");
    }
}

#[tokio::test]
async fn a_batch_in_one_event_is_taken_apart() {
    let (_server, client) = streamed(|id| {
        let batch = json!([log("a"), 5, says(&json!(0), "no"), says(id, "hi"), log("b")]);
        vec![format!("data: {batch}\n\n").into()]
    })
    .await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
}

#[tokio::test]
async fn a_stream_that_ends_or_breaks_without_the_answer_is_an_error_that_says_so() {
    let (_server, client) = answering(|_| HttpReply::event_stream(["data: {}\n\n"])).await;
    let error = client.call("echo", None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionLost);
    assert_eq!(error.data().maybe_ran, Some(true));
    assert!(whole(&error).contains("ended the event stream without an answer"), "{}", whole(&error));
    for rude in [|reply: HttpReply| reply.then_cut(), |reply: HttpReply| reply.then_reset()] {
        let (_server, client) = answering(move |_| rude(HttpReply::event_stream([": soon\n\n"]))).await;
        let error = client.call("echo", None).await.unwrap_err();
        assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)), "{error:?}");
    }
}

#[tokio::test]
async fn half_an_event_is_no_answer() {
    let (_server, client) = streamed(|id| {
        let mut event = format!("data: {}", says(id, "hi"));
        event.truncate(event.len() - 5);
        vec![event.into()]
    })
    .await;
    assert_eq!(client.call("echo", None).await.unwrap_err().kind(), ErrorKind::ConnectionLost);
}

#[tokio::test]
async fn a_stream_of_keep_alives_does_not_fill_up() {
    let (_server, client) = streamed(|id| {
        let mut chunks = vec![Bytes::from(": keep-alive\n\n".repeat(10_000)); 20];
        chunks.push(format!("data: {}\n\n", says(id, "hi")).into());
        chunks
    })
    .await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
}

#[tokio::test]
async fn notifications_on_a_stream_keep_their_order() {
    let count = 240;
    let peer = Peer::modern().tool(Tool::new("chatty").answers(move |_, _| {
        (0..count).fold(Reply::text("done"), |reply, number| reply.before(log(&number.to_string())))
    }));
    let server = HttpPeer::start(&peer).await.answer_with(AnswerWith::Sse);
    let client = client(over_http(&server)).await;
    client.call("chatty", None).await.unwrap();
    let loggers: Vec<usize> = client.logs().iter().filter_map(|entry| entry.logger.as_deref()?.parse().ok()).collect();
    // The last 200 are kept.
    assert_eq!(loggers, (40..count).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_handshake_may_be_answered_by_a_stream_with_other_messages_first() {
    let peer = Peer::legacy()
        .tool("echo")
        .on("initialize", |_, context| {
            let ping = json!({ "jsonrpc": "2.0", "id": "before", "method": "ping" });
            context.usual().before(log("starting")).before(ping)
        })
        .on("tools/list", |_, context| context.usual().before(log("listing")));
    for mode in [AnswerWith::Json, AnswerWith::Sse] {
        let server = HttpPeer::start(&peer).await.answer_with(mode);
        let client = client(over_http(&server)).await;
        assert_eq!(client.tools().len(), 1);
        assert_eq!(peer.wait_for_response("before").await["result"], json!({}));
        client.close().await;
    }
}

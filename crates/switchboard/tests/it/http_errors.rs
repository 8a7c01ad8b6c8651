//! HTTP answers that are no success: what is said of them, how much of them is read, and where redirects lead.

use std::time::Duration;

use serde_json::json;
use switchboard::ErrorKind;
use switchboard_testing::{HttpPeer, HttpReply, Peer};

use crate::fixture::{answering, client, over_http, whole};

#[tokio::test]
async fn b037_a_json_rpc_error_is_told_whatever_the_status() {
    for status in [400, 404, 409, 422] {
        for peer in [Peer::modern(), Peer::legacy()] {
            let server = HttpPeer::start(peer.tool("echo")).await.on_http(move |request| {
                let error = json!({ "code": -32602, "message": "`x` is missing", "data": [1] });
                let body = json!({ "jsonrpc": "2.0", "id": request.id(), "error": error });
                request.calls("tools/call").then(|| HttpReply::json(&body).with_status(status))
            });
            let client = client(over_http(&server)).await;
            let error = client.call("echo", None).await.unwrap_err();
            let rpc = error.data().rpc.clone().unwrap();
            assert_eq!((error.kind(), rpc.code), (ErrorKind::ServerError, -32602), "{status}");
            assert_eq!((rpc.message.as_str(), rpc.data.unwrap().to_value()), ("`x` is missing", json!([1])));
        }
    }
}

#[tokio::test]
async fn b037_a_page_of_2_mb_is_told_in_short_and_not_read_to_its_end() {
    let page = format!("<title>502 Bad Gateway</title><p>The origin is away</p>{}", "<p>x</p>".repeat(1 << 18));
    let replies =
        [HttpReply::html(502, &page), HttpReply::html(502, &page).then_hang(), HttpReply::html(502, &page).then_cut()];
    for reply in replies {
        let (_server, client) = answering(move |_| reply.clone()).await;
        let error = client.call("echo", None).await.unwrap_err();
        let text = whole(&error);
        assert!(text.contains("HTTP 502") && text.contains("The origin is away") && text.len() < 700, "{text}");
        assert_eq!(error.data().maybe_ran, Some(true));
    }
}

#[tokio::test]
async fn an_error_whose_body_never_ends_is_told_with_what_there_is() {
    let (_server, client) = answering(|_| HttpReply::html(500, "").chunks(["<p>out of memory"]).then_hang()).await;
    let error = client.call("echo", None).await.unwrap_err();
    assert!(whole(&error).contains("out of memory"), "{}", whole(&error));
    assert_ne!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn a_wait_that_the_server_asks_for_is_passed_on() {
    // None of these is waited for: they are past the deadline, or the call may have run.
    for (status, value, expected) in [(429, "120", 120), (503, "90", 90), (429, "31536000", 3600), (500, "2", 2)] {
        let (_server, client) = answering(move |_| HttpReply::status(status).header("retry-after", value)).await;
        let error = client.call("echo", None).await.unwrap_err();
        assert_eq!(error.data().retry_after, Some(Duration::from_secs(expected)), "{status} {value}");
    }
}

#[tokio::test]
async fn b029_the_stream_and_the_end_of_the_session_follow_redirects_too() {
    for status in [301, 302, 307, 308] {
        let peer = Peer::legacy().tool("echo");
        let server = HttpPeer::start(&peer)
            .await
            .on_http(move |request| (request.path == "/mcp").then(|| HttpReply::redirect(status, "/mcp/")));
        let client = client(over_http(&server).header("Authorization", "Bearer secret").unwrap()).await;
        peer.wait_for_stream().await;
        client.close().await;
        assert_eq!(server.sessions(), Vec::<String>::new(), "the session was ended");
        for method in ["GET", "DELETE"] {
            let requests = server.requests().into_iter().filter(|request| request.method.as_str() == method);
            let arrived: Vec<_> = requests.filter(|request| request.path == "/mcp/").collect();
            assert_eq!(arrived.len(), 1, "{status} {method}");
            assert_eq!(arrived[0].header("authorization"), Some("Bearer secret"));
            assert_eq!(arrived[0].header("mcp-session-id"), Some("session-1"));
        }
    }
}

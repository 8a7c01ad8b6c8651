//! A minimal, fast MCP server over Streamable HTTP for both protocol eras: `yard-server PORT [TOOLS] [sse]`.
//!
//! It answers initialize, server/discover, tools/list (TOOLS tools, pages of 500), tools/call (echoes `text`) and ping.
//! Port 0 takes a free one; the first line that it prints names the address.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;

async fn handle(request: Request<Incoming>, tools: usize, sse: bool) -> Result<Response<Full<Bytes>>, Infallible> {
    let empty = |status: StatusCode| {
        let mut response = Response::new(Full::new(Bytes::new()));
        *response.status_mut() = status;
        Ok(response)
    };
    if request.method() != Method::POST {
        return empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    let modern = request.headers().get("mcp-protocol-version").is_some_and(|version| version == "2026-07-28");
    let Ok(body) = request.into_body().collect().await else { return empty(StatusCode::BAD_REQUEST) };
    let Ok(message) = serde_json::from_slice::<Value>(&body.to_bytes()) else { return empty(StatusCode::BAD_REQUEST) };
    let Some(reply) = yardstick::answer(&message, tools) else { return empty(StatusCode::ACCEPTED) };
    let text = reply.to_string();
    let (content_type, bytes) = if sse {
        ("text/event-stream", format!("event: message\ndata: {text}\n\n"))
    } else {
        ("application/json", text)
    };
    let mut response = Response::builder().header("content-type", content_type);
    if !modern {
        response = response.header("mcp-session-id", "yardstick-session");
    }
    Ok(response.body(Full::new(Bytes::from(bytes))).expect("the headers are constants"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let port: u16 = arguments.get(1).map_or(Ok(0), |port| port.parse())?;
    let tools: usize = arguments.get(2).map_or(Ok(1), |tools| tools.parse())?;
    let sse = arguments.get(3).is_some_and(|form| form == "sse");
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let service = service_fn(move |request| handle(request, tools, sse));
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            // A client that goes away in the middle is its own affair.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

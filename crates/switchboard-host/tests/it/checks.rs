//! What every request must pass, and what every answer says to browsers.

use std::time::Duration;

use http::Method;
use switchboard::secret::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::daemon::{Ask, Daemon, Setup};

#[tokio::test]
async fn an_unknown_path_is_a_problem_document() {
    let daemon = Setup::bare().start().await;
    for path in ["/nothing", "/agents", "/agents/switchboard/default/nothing", "/agents/switchboard/default/servers/"] {
        let problem = daemon.get(path).await.problem(404, "not_found");
        assert!(problem["detail"].as_str().unwrap().contains(path), "{problem}");
    }
}

#[tokio::test]
async fn an_unknown_method_is_a_problem_document_that_names_the_known_ones() {
    let daemon = Setup::bare().start().await;
    let answer = daemon.ask(Ask::new(Method::PUT, &Daemon::path("servers"))).await;
    answer.problem(405, "method_not_allowed");
    let mut allowed: Vec<&str> = answer.header("allow").split(',').map(str::trim).collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
}

#[tokio::test]
async fn a_foreign_host_is_refused_on_every_path() {
    let daemon = Setup::bare().start().await;
    for path in ["/", "/healthz", "/nothing", "/agents/switchboard/default/servers"] {
        let ask = Ask::new(Method::GET, path).header("host", "evil.example");
        daemon.ask(ask).await.problem(403, "host_not_allowed");
    }
    let ask = Ask::new(Method::GET, "/healthz").header("host", "localhost:1");
    assert_eq!(daemon.ask(ask).await.status, 200);
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused() {
    let daemon = Setup::bare().start().await;
    let from = |origin: &str| daemon.ask(Ask::new(Method::GET, "/healthz").header("origin", origin));
    from("http://evil.example").await.problem(403, "origin_not_allowed");
    from("null").await.problem(403, "origin_not_allowed");
    assert_eq!(from(&format!("http://{}", daemon.address())).await.status, 200);
}

#[tokio::test]
async fn a_configured_token_is_required_and_probes_need_none() {
    let daemon = Setup::bare().access(|access| access.token(Secret::new("sesame".to_owned()))).start().await;
    let answer = daemon.get("/metrics").await;
    answer.problem(401, "token_required");
    assert!(answer.header("www-authenticate").starts_with("Bearer"));
    let with = |token: &str| daemon.ask(Ask::new(Method::GET, "/metrics").header("authorization", token));
    with("Bearer sesam").await.problem(401, "token_required");
    assert_eq!(with("Bearer sesame").await.status, 200);
    assert_eq!(daemon.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn every_answer_tells_browsers_to_keep_away_from_it() {
    let daemon = Setup::bare().start().await;
    for path in ["/", "/healthz", "/nothing", "/openapi.json", "/agents/other/default/tools"] {
        let answer = daemon.get(path).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
    }
}

#[tokio::test]
async fn too_many_headers_are_a_problem_document() {
    let daemon = Setup::bare().start().await;
    let many = (0..120).fold(Ask::new(Method::GET, "/healthz"), |ask, number| ask.header(&format!("x-{number}"), "1"));
    daemon.ask(many).await.problem(431, "headers_too_large");
    let large = Ask::new(Method::GET, "/healthz").header("x-large", &"x".repeat(40_000));
    daemon.ask(large).await.problem(431, "headers_too_large");
}

#[tokio::test]
async fn a_head_that_never_ends_is_hung_up_on() {
    let setup = Setup::bare().options(|options| options.header_timeout = Duration::from_millis(100));
    let daemon = setup.start().await;
    let mut slow = TcpStream::connect(daemon.address()).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), slow.read_to_end(&mut rest)).await;
    read.expect("the connection ends").unwrap();
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn only_so_many_connections_are_served_at_once() {
    let daemon = Setup::bare().options(|options| options.max_connections = 1).start().await;
    let held = daemon.open(Ask::new(Method::GET, "/healthz")).await;
    let mut waiting = daemon.ask_aside(Ask::new(Method::GET, "/readyz"));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(early.is_err(), "it waits for the place");
    drop(held);
    assert_eq!(waiting.await.unwrap().status, 200);
}

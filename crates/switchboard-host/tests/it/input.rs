//! Bad input gives a problem document that names the mistake.

use http::Method;
use serde_json::{Value, json};

use crate::daemon::{Ask, Daemon, Setup};

async fn register(daemon: &Daemon, body: &str) -> Value {
    let ask = Ask::new(Method::POST, &Daemon::path("servers")).body("application/json", body.to_owned());
    daemon.ask(ask).await.problem(422, "invalid_input")
}

#[tokio::test]
async fn malformed_json_is_told_with_line_and_column() {
    let daemon = Setup::real().start().await;
    for body in ["{", "{\"name\": }", "not json", "{\"name\":\"a\"} {}"] {
        let problem = register(&daemon, body).await;
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains("line 1 column"), "{body}: {problem}");
    }
    assert!(register(&daemon, "").await["detail"].as_str().unwrap().contains("empty"));
}

#[tokio::test]
async fn a_wrong_type_is_told_by_member() {
    let daemon = Setup::real().start().await;
    for (body, path) in [
        (r#"{"name":1,"url":"http://127.0.0.1:1/"}"#, "name"),
        (r#"{"name":"a","url":"http://127.0.0.1:1/","timeouts":{"connectMs":"10"}}"#, "timeouts/connectMs"),
        (r#"{"name":"a","url":"http://127.0.0.1:1/","retry":{"maxAttempts":0}}"#, "retry/maxAttempts"),
        (r#"{"name":"a","url":"ftp://h/"}"#, "url"),
        (r#"{"name":"a","url":"not a url"}"#, "url"),
        (r#"{"name":"a"}"#, "url"),
        (r#"{"name":" ","url":"http://127.0.0.1:1/"}"#, "name"),
    ] {
        assert_eq!(register(&daemon, body).await["errors"][0]["path"], path, "{body}");
    }
    let problem = register(&daemon, r#"{"name":"a","url":"http://127.0.0.1:1/","timeout":1}"#).await;
    assert!(problem["detail"].as_str().unwrap().contains("unknown field `timeout`"), "{problem}");
    assert_eq!(daemon.get(&Daemon::path("servers")).await.json()["servers"], json!({}), "nothing was registered");
}

#[tokio::test]
async fn a_body_that_is_not_json_by_its_type_is_refused() {
    let daemon = Setup::real().start().await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded"] {
        let ask = Ask::new(Method::POST, &Daemon::path("servers")).body(content_type, "{}");
        daemon.ask(ask).await.problem(415, "unsupported_media_type");
    }
    daemon.ask(Ask::new(Method::POST, &Daemon::path("tools/call"))).await.problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn a_huge_body_is_refused_with_the_limit() {
    let daemon = Setup::real().start().await;
    let body = format!(r#"{{"name":"{}"}}"#, "x".repeat(16 << 20));
    let ask = Ask::new(Method::POST, &Daemon::path("servers")).body("application/json", body);
    assert_eq!(daemon.ask(ask).await.problem(413, "body_too_large")["limitBytes"], 16 << 20);
}

#[tokio::test]
async fn an_unknown_server_is_told_and_deleting_it_is_fine() {
    let daemon = Setup::real().start().await;
    for action in ["connect", "discover", "close"] {
        let path = Daemon::path(&format!("servers/nobody/{action}"));
        daemon.ask(Ask::new(Method::POST, &path)).await.problem(404, "unknown_server");
    }
    let call = json!({"serverId": "nobody", "name": "search"});
    daemon.post(&Daemon::path("tools/call"), &call).await.problem(404, "unknown_server");
    for _ in 0..2 {
        assert_eq!(daemon.delete(&Daemon::path("servers/nobody")).await.status, 204);
    }
}

#[tokio::test]
async fn a_misspelt_filter_is_noticed() {
    let daemon = Setup::real().start().await;
    for (query, path) in
        [("serverid=a", "serverid"), ("state=redy", "state"), ("limit=0", "limit"), ("format=x", "format")]
    {
        let answer = daemon.get(&Daemon::path(&format!("tools?{query}"))).await;
        assert_eq!(answer.problem(422, "invalid_input")["errors"][0]["path"], path, "{query}");
    }
}

//! The daemon about itself.

use crate::daemon::Setup;

#[tokio::test]
async fn a_daemon_that_runs_is_healthy_and_ready() {
    let daemon = Setup::bare().start().await;
    assert_eq!(daemon.get("/healthz").await.json()["status"], "ok");
    assert_eq!(daemon.get("/readyz").await.json()["status"], "ready");
}

#[tokio::test]
async fn the_first_page_names_the_api() {
    let daemon = Setup::bare().start().await;
    let answer = daemon.get("/").await;
    assert!(answer.header("content-type").starts_with("text/plain"));
    assert!(answer.text().contains("/openapi.json"));
}

#[tokio::test]
async fn the_served_description_is_the_one_that_is_kept() {
    let daemon = Setup::bare().start().await;
    assert_eq!(daemon.get("/openapi.json").await.text(), switchboard_host::openapi_json());
}

#[tokio::test]
async fn metrics_are_in_the_format_of_prometheus() {
    let daemon = Setup::bare().start().await;
    let answer = daemon.get("/metrics").await;
    assert!(answer.header("content-type").starts_with("text/plain; version=0.0.4"));
    for line in answer.text().lines() {
        assert!(
            line.starts_with("# ") || line.rsplit_once(' ').is_some_and(|(_, n)| n.parse::<f64>().is_ok()),
            "{line}"
        );
    }
}

#[tokio::test]
async fn an_instance_that_cannot_be_opened_is_told_and_tried_again() {
    let daemon = Setup::bare().start().await;
    for _ in 0..2 {
        let problem = daemon.get("/agents/switchboard/me/servers").await.problem(500, "store_failed");
        assert!(problem["detail"].as_str().unwrap().contains("switchboard/me"), "{problem}");
    }
}

#[tokio::test]
async fn agents_and_instances_are_checked_by_name() {
    let daemon = Setup::bare().start().await;
    let problem = daemon.get("/agents/other/default/servers").await.problem(404, "unknown_agent");
    assert_eq!(problem["nearest"][0], "switchboard");
    let long = format!("/agents/switchboard/{}/servers", "x".repeat(129));
    let problem = daemon.get(&long).await.problem(422, "invalid_input");
    assert_eq!(problem["errors"][0]["path"], "instance");
    daemon.get("/agents/switchboard/a%0Ab/servers").await.problem(422, "invalid_input");
    daemon.get("/agents/switchboard/%FF/servers").await.problem(422, "invalid_input");
}

//! Real servers that nobody here wrote, on every transport that they have: found, listed, called, closed, opened again,
//! and still there after a restart.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::manager::CallLimits;
use switchboard::spec::InProcessTarget;
use switchboard::status::ListState;
use switchboard::store::SqliteStore;
use switchboard::wire::Json;
use switchboard::{Added, ErrorKind, Filter, Manager, ServerId, ServerSpec, State, ToolCall};
use switchboard_testing::{CommandLine, RmcpServer, real};

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// A manager whose children inherit what a program's children do.
async fn manager() -> Manager {
    builder().start().await.unwrap()
}

fn builder() -> switchboard::manager::Builder {
    #[expect(clippy::disallowed_methods, reason = "a test gives its environment to the library as a program would")]
    let variables = std::env::vars_os();
    Manager::builder("test", "1.0.0").environment(variables)
}

fn stdio(name: &str, command: &CommandLine) -> ServerSpec {
    ServerSpec::stdio(name, command.program(), command.arguments.clone()).unwrap()
}

/// The same server with time for a cold interpreter on a busy machine: the era must not be judged by that.
fn patient(mut spec: ServerSpec) -> ServerSpec {
    spec.timeouts.connect = Duration::from_secs(60);
    spec.timeouts.probe = Duration::from_secs(40);
    spec
}

async fn ready(manager: &Manager, spec: ServerSpec) -> ServerId {
    match manager.add(patient(spec)).await.unwrap() {
        Added::Ready { id } => id,
        other => panic!("{other:?}"),
    }
}

async fn call(manager: &Manager, id: &ServerId, tool: &str, arguments: Value) -> Value {
    let call = ToolCall::new(id.clone(), tool).arguments(Json::from(arguments)).validated();
    let result = manager.call(call).await.unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(result.warnings, Vec::<String>::new(), "{tool}");
    result.result.to_value()
}

fn names(manager: &Manager, id: &ServerId) -> Vec<String> {
    manager.tools(&Filter::all().server(id)).iter().map(|entry| entry.tool.name().to_owned()).collect()
}

/// What all servers are put through: closed, opened again by a call, discovered anew.
async fn closes_and_opens(manager: &Manager, id: &ServerId, (tool, arguments): (&str, Value)) {
    manager.close(id).await.unwrap();
    assert_eq!(manager.status(id).unwrap().state, State::Closed);
    let again = call(manager, id, tool, arguments.clone()).await;
    assert_ne!(again["isError"], true, "{again}");
    let tools = names(manager, id);
    assert!(matches!(manager.discover(id).await.unwrap(), Added::Ready { .. }));
    assert_eq!(names(manager, id), tools);
    let status = manager.status(id).unwrap();
    assert_eq!((status.state, status.error, status.stale), (State::Ready, None, false));
}

/// What the servers of `fastmcp` and of the Rust SDK have in common.
async fn answers_small_questions(spec: ServerSpec, version: &str) {
    let manager = manager().await;
    let id = ready(&manager, spec).await;
    let status = manager.status(&id).unwrap();
    assert_eq!(status.protocol_version.as_deref(), Some(version));
    assert_eq!(status.warnings, Vec::new());
    let lists = status.lists;
    assert_eq!([lists.tools, lists.prompts, lists.resources, lists.resource_templates], [ListState::Ok; 4]);
    let mut tools = names(&manager, &id);
    tools.sort();
    assert_eq!(tools, ["add", "echo", "fail", "slow", "weather"]);
    assert_eq!(call(&manager, &id, "echo", json!({ "message": "hé 😀" })).await["content"][0]["text"], "hé 😀");
    assert_eq!(call(&manager, &id, "add", json!({ "a": 2, "b": 40 })).await["content"][0]["text"], "42");
    let weather = call(&manager, &id, "weather", json!({ "place": "Oslo" })).await;
    assert_eq!(weather["structuredContent"], json!({ "place": "Oslo", "degrees": 21.5 }));
    assert_eq!(call(&manager, &id, "slow", json!({ "steps": 3 })).await["content"][0]["text"], "3 steps");
    let failed = call(&manager, &id, "fail", json!({ "reason": "too wet" })).await;
    assert_eq!(failed["isError"], true);
    assert!(failed["content"][0]["text"].as_str().unwrap().contains("too wet"), "{failed}");
    reads_and_greets(&manager, &id).await;
    closes_and_opens(&manager, &id, ("echo", json!({ "message": "again" }))).await;
    manager.shutdown(Duration::from_secs(5)).await;
}

async fn reads_and_greets(manager: &Manager, id: &ServerId) {
    let limits = CallLimits::default();
    assert_eq!(manager.resources(&Filter::all()).len(), 1);
    assert_eq!(manager.resource_templates(&Filter::all()).len(), 1);
    for (uri, text) in [("note://welcome", "Welcome"), ("note://numbers/7", "Number 7")] {
        let read = manager.read_resource(id, uri, limits).await.unwrap().to_value();
        assert_eq!(read["contents"][0]["text"], text);
    }
    let error = manager.read_resource(id, "note://none", limits).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServerError, "{error:?}");
    assert_eq!(manager.prompts(&Filter::all()).len(), 1);
    let arguments = Json::from(json!({ "name": "Ada" }));
    let greeting = manager.get_prompt(id, "greet", Some(arguments), limits).await.unwrap().to_value();
    assert_eq!(greeting["messages"][0]["content"]["text"], "Please greet Ada.");
    let error = manager.get_prompt(id, "greet", None, limits).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServerError, "a name is needed: {error:?}");
}

/// npm's reference server, whatever is between us and it.
async fn shows_everything(spec: ServerSpec) {
    let manager = manager().await;
    let id = ready(&manager, spec).await;
    let status = manager.status(&id).unwrap();
    assert_eq!(status.protocol_version.as_deref(), Some(LEGACY));
    assert_eq!(status.server_info.unwrap().to_value()["name"], "mcp-servers/everything");
    assert!(status.instructions.is_some());
    let lists = status.lists;
    assert_eq!([lists.tools, lists.prompts, lists.resources, lists.resource_templates], [ListState::Ok; 4]);
    let tools = names(&manager, &id);
    for tool in ["echo", "get-sum", "get-tiny-image", "get-structured-content", "trigger-long-running-operation"] {
        assert!(tools.iter().any(|name| name == tool), "no {tool} in {tools:?}");
    }
    assert_eq!(call(&manager, &id, "echo", json!({ "message": "hi" })).await["content"][0]["text"], "Echo: hi");
    let sum = call(&manager, &id, "get-sum", json!({ "a": 2, "b": 40 })).await;
    assert!(sum["content"][0]["text"].as_str().unwrap().contains("42"), "{sum}");
    let image = call(&manager, &id, "get-tiny-image", json!({})).await;
    let image = image["content"].as_array().unwrap().iter().find(|block| block["type"] == "image").unwrap();
    assert!(image["mimeType"] == "image/png" && image["data"].as_str().unwrap().len() > 100);
    let weather = call(&manager, &id, "get-structured-content", json!({ "location": "Chicago" })).await;
    assert!(weather["structuredContent"]["temperature"].is_number(), "{weather}");
    let long = call(&manager, &id, "trigger-long-running-operation", json!({ "duration": 0.2, "steps": 2 })).await;
    assert!(long["content"][0]["text"].as_str().unwrap().contains("completed"), "{long}");
    refuses_bad_arguments(&manager, &id).await;
    offers_more_than_tools(&manager, &id).await;
    closes_and_opens(&manager, &id, ("echo", json!({ "message": "again" }))).await;
    manager.shutdown(Duration::from_secs(5)).await;
}

async fn refuses_bad_arguments(manager: &Manager, id: &ServerId) {
    let bad = || ToolCall::new(id.clone(), "get-sum").arguments(Json::from(json!({ "a": "two" })));
    // The server's own refusal, whether it makes it a result or an error.
    match manager.call(bad()).await {
        Ok(result) => assert!(result.is_error && result.result.as_str().contains("number"), "{result:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ServerError, "{error:?}"),
    }
    let error = manager.call(bad().validated()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArguments, "{error:?}");
    let error = manager.call(ToolCall::new(id.clone(), "ecko")).await.unwrap_err();
    assert_eq!((error.kind(), error.data().nearest[0].as_str()), (ErrorKind::UnknownTool, "echo"), "{error:?}");
}

async fn offers_more_than_tools(manager: &Manager, id: &ServerId) {
    let limits = CallLimits::default();
    let resources = manager.resources(&Filter::all());
    assert!(!resources.is_empty() && !manager.resource_templates(&Filter::all()).is_empty());
    let uri = resources[0].item.json().to_value()["uri"].as_str().unwrap().to_owned();
    let read = manager.read_resource(id, &uri, limits).await.unwrap().to_value();
    assert_eq!(read["contents"][0]["uri"], uri);
    let read = manager.read_resource(id, "demo://resource/dynamic/text/1", limits).await.unwrap().to_value();
    assert!(read["contents"][0]["text"].is_string(), "{read}");
    let plain = manager.get_prompt(id, "simple-prompt", None, limits).await.unwrap().to_value();
    assert!(plain["messages"][0]["content"]["text"].is_string(), "{plain}");
    let arguments = Json::from(json!({ "city": "Oslo" }));
    let asked = manager.get_prompt(id, "args-prompt", Some(arguments), limits).await.unwrap().to_value();
    assert!(asked["messages"][0]["content"]["text"].as_str().unwrap().contains("Oslo"), "{asked}");
    let params = json!({
        "ref": { "type": "ref/prompt", "name": "completable-prompt" },
        "argument": { "name": "department", "value": "E" },
    });
    let completed = manager.complete(id, Json::from(params), limits).await.unwrap().to_value();
    assert_eq!(completed["completion"]["values"], json!(["Engineering"]), "{completed}");
}

#[tokio::test]
async fn npms_reference_server_over_stdio() {
    shows_everything(stdio("everything", &real::everything())).await;
}

#[tokio::test]
async fn npms_reference_server_over_http() {
    let server = real::everything_over_http().await;
    shows_everything(ServerSpec::http("everything", &server.url()).unwrap()).await;
}

#[tokio::test]
async fn npms_reference_server_over_the_old_transport() {
    let server = real::everything_over_sse().await;
    shows_everything(ServerSpec::http("everything", &server.url_at("/sse")).unwrap()).await;
}

#[tokio::test]
async fn fastmcp_over_stdio() {
    answers_small_questions(stdio("fastmcp", &real::fastmcp()), MODERN).await;
}

#[tokio::test]
async fn fastmcp_over_http() {
    let server = real::fastmcp_over_http().await;
    answers_small_questions(ServerSpec::http("fastmcp", &server.url()).unwrap(), MODERN).await;
}

#[tokio::test]
async fn fastmcp_over_the_old_transport() {
    let server = real::fastmcp_over_sse().await;
    answers_small_questions(ServerSpec::http("fastmcp", &server.url_at("/sse")).unwrap(), LEGACY).await;
}

#[tokio::test]
async fn fastmcp_in_its_legacy_era() {
    use switchboard::spec::EraChoice;
    let server = real::fastmcp_over_http().await;
    answers_small_questions(ServerSpec::http("fastmcp", &server.url()).unwrap().era(EraChoice::Legacy), LEGACY).await;
    answers_small_questions(stdio("fastmcp", &real::fastmcp()).era(EraChoice::Legacy), LEGACY).await;
}

/// The Rust SDK's server in its three ways, and the revision that is spoken with each.
fn rmcp_servers() -> [(RmcpServer, &'static str); 3] {
    [(RmcpServer::both(), MODERN), (RmcpServer::modern(), MODERN), (RmcpServer::legacy(), LEGACY)]
}

#[tokio::test]
async fn the_rust_sdks_server_over_a_pipe() {
    for (server, version) in rmcp_servers() {
        let target = InProcessTarget::new(move || server.clone().over_pipe());
        answers_small_questions(ServerSpec::in_process("rmcp", target).unwrap(), version).await;
    }
}

#[tokio::test]
async fn the_rust_sdks_server_over_http() {
    for (server, version) in rmcp_servers() {
        let http = server.over_http().await;
        answers_small_questions(ServerSpec::http("rmcp", &http.url()).unwrap(), version).await;
    }
}

#[tokio::test]
async fn after_a_restart_the_same_servers_are_there_and_work() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("agent.db");
    let everything = real::everything_over_http().await;
    let rmcp = RmcpServer::both().over_http().await;
    let specs = [
        stdio("everything", &real::everything()),
        stdio("fastmcp", &real::fastmcp()),
        ServerSpec::http("everything over http", &everything.url()).unwrap(),
        ServerSpec::http("rmcp", &rmcp.url()).unwrap(),
    ];
    let mut known = Vec::new();
    {
        let manager = builder().store(SqliteStore::open(&database).unwrap()).start().await.unwrap();
        for spec in specs {
            let id = ready(&manager, spec).await;
            known.push((id.clone(), names(&manager, &id), manager.status(&id).unwrap().protocol_version));
        }
        manager.shutdown(Duration::from_secs(5)).await;
    }
    let store = Arc::new(SqliteStore::open(&database).unwrap());
    let manager = builder().shared_store(store).start().await.unwrap();
    let ids: Vec<ServerId> = manager.registrations().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, known.iter().map(|(id, ..)| id.clone()).collect::<Vec<_>>(), "in the same order");
    for (id, tools, _) in &known {
        assert_eq!(&names(&manager, id), tools, "the last known catalogue is there at once");
    }
    assert_eq!(manager.wait_settled(Duration::from_secs(60)).await, []);
    for (id, tools, version) in &known {
        let status = manager.status(id).unwrap();
        assert_eq!((status.state, status.stale, &status.error), (State::Ready, false, &None), "{status:?}");
        assert_eq!((&names(&manager, id), &status.protocol_version), (tools, version));
        let echo = call(&manager, id, "echo", json!({ "message": "tomorrow" })).await;
        assert!(echo["content"][0]["text"].as_str().unwrap().contains("tomorrow"), "{echo}");
    }
    manager.shutdown(Duration::from_secs(5)).await;
}

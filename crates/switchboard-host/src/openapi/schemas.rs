//! The shapes of bodies and answers, for the description only.
//!
//! Shapes that this crate reads itself are described where they are read; those of the library, which knows nothing of
//! OpenAPI, are repeated here.
#![expect(dead_code, reason = "these types are never made; their fields are what is described")]

use std::collections::BTreeMap;

use utoipa::openapi::{ComponentsBuilder, ObjectBuilder, RefOr, Type, schema::Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::code;
use crate::routes::{
    ApproveRequest, CompleteRequest, LogLevelRequest, PromptRequest, ResourceRequest, SubscriptionRequest, ToolRequest,
};

/// Every shape that the operations name.
pub(super) fn components() -> ComponentsBuilder {
    let mut shapes = Vec::<(String, RefOr<Schema>)>::new();
    add::<Problem>(&mut shapes);
    add::<Health>(&mut shapes);
    add::<AnyObject>(&mut shapes);
    add::<Registration>(&mut shapes);
    add::<SettingsPatch>(&mut shapes);
    add::<Standing>(&mut shapes);
    add::<ServersState>(&mut shapes);
    add::<ToolList>(&mut shapes);
    add::<PromptList>(&mut shapes);
    add::<ResourceList>(&mut shapes);
    add::<ResourceTemplateList>(&mut shapes);
    add::<Drift>(&mut shapes);
    add::<ApproveRequest>(&mut shapes);
    add::<EventList>(&mut shapes);
    add::<SubscriptionRequest>(&mut shapes);
    add::<LogLevelRequest>(&mut shapes);
    add::<ToolRequest>(&mut shapes);
    add::<ResourceRequest>(&mut shapes);
    add::<PromptRequest>(&mut shapes);
    add::<CompleteRequest>(&mut shapes);
    add::<Begun>(&mut shapes);
    add::<Call>(&mut shapes);
    add::<CallList>(&mut shapes);
    ComponentsBuilder::new().schemas_from_iter(shapes)
}

/// A shape and those that it refers to.
fn add<T: ToSchema>(shapes: &mut Vec<(String, RefOr<Schema>)>) {
    T::schemas(shapes);
    shapes.push((T::name().into_owned(), T::schema()));
}

/// One of the stable codes.
fn code() -> Schema {
    let codes = code::ALL.map(|code| code.text());
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes)).into()
}

/// A failure (RFC 9457). Members beside the first five are there when the code needs them.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Problem {
    /// `urn:switchboard:problem:` and the code.
    r#type: String,
    title: String,
    status: u16,
    detail: String,
    #[schema(schema_with = code)]
    code: String,
    server_id: Option<String>,
    /// What to do about it.
    hint: Option<String>,
    /// Known names close to one that is unknown.
    nearest: Option<Vec<String>>,
    /// What changed about a tool that was approved.
    changes: Option<Vec<Change>>,
    /// The state of a server that is not ready.
    state: Option<String>,
    since: Option<String>,
    why: Option<String>,
    /// Where a person signs in.
    auth_url: Option<String>,
    /// Everything that is wrong with an input.
    errors: Option<Vec<Mistake>>,
    /// The server's own JSON-RPC error.
    rpc_code: Option<i64>,
    rpc_message: Option<String>,
    #[schema(value_type = Option<Value>)]
    rpc_data: Option<()>,
    /// Whether the request may have been carried out although no answer came.
    maybe_ran: Option<bool>,
    causes: Option<Vec<String>>,
    after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    limit_bytes: Option<u64>,
}

/// One mistake: a member, by its names with slashes between them, and what is wrong there.
#[derive(ToSchema)]
struct Mistake {
    path: String,
    message: String,
}

/// A failure inside another answer.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Failure {
    #[schema(schema_with = code)]
    code: String,
    message: String,
    causes: Vec<String>,
    at: Option<String>,
}

#[derive(ToSchema)]
struct Health {
    status: String,
}

/// An object, passed on as it came.
struct AnyObject;

impl PartialSchema for AnyObject {
    fn schema() -> RefOr<Schema> {
        let text = "An object, passed on as it came";
        RefOr::T(ObjectBuilder::new().schema_type(Type::Object).description(Some(text)).into())
    }
}

impl ToSchema for AnyObject {}

/// A server to register: `url`, or `command`, and settings.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Registration {
    /// What people call it.
    name: String,
    /// A stable id, normalised; a random one is made without it.
    id: Option<String>,
    /// A remote server.
    url: Option<String>,
    transport: Option<Transport>,
    headers: Option<BTreeMap<String, String>>,
    /// A child process; only for the owner of the daemon, or with `--allow-commands`.
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    /// Names of variables to inherit besides the safe ones, or `all`.
    #[schema(value_type = Option<Value>)]
    inherit_env: Option<()>,
    /// An absolute path.
    cwd: Option<String>,
    retry: Option<Retry>,
    timeouts: Option<Timeouts>,
    limits: Option<Limits>,
    client: Option<Client>,
    output_schema: Option<OutputSchema>,
    /// What happens when the server's tools are not those that were approved; `warn` unless given.
    drift: Option<DriftPolicy>,
    tools: Option<ToolPolicy>,
}

#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
enum Transport {
    Auto,
    StreamableHttp,
    Sse,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum OutputSchema {
    Warn,
    Refuse,
    Off,
}

#[derive(ToSchema)]
#[schema(rename_all = "kebab-case")]
enum DriftPolicy {
    Off,
    Warn,
    RefuseChanged,
    RefuseUnapproved,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Retry {
    max_attempts: Option<u32>,
    base_delay_ms: Option<u64>,
    max_delay_ms: Option<u64>,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Timeouts {
    connect_ms: Option<u64>,
    probe_ms: Option<u64>,
    request_ms: Option<u64>,
    max_request_ms: Option<u64>,
    discovery_ms: Option<u64>,
    list_changed_ms: Option<u64>,
    heartbeat_ms: Option<u64>,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Limits {
    message_bytes: Option<u64>,
    in_flight: Option<u64>,
    waiting: Option<u64>,
}

#[derive(ToSchema)]
struct Client {
    /// Capabilities that are offered to the server, instead of the usual ones.
    #[schema(value_type = Option<Object>)]
    capabilities: Option<()>,
}

/// Which tools are offered; patterns match the server's own names.
#[derive(ToSchema)]
struct ToolPolicy {
    allow: Option<Vec<String>>,
    deny: Option<Vec<String>>,
    rename: Option<BTreeMap<String, String>>,
}

/// Members of a registration to change; `null` restores a default.
struct SettingsPatch;

impl PartialSchema for SettingsPatch {
    fn schema() -> RefOr<Schema> {
        let text = "Members of a registration to change; `null` restores a default";
        RefOr::T(ObjectBuilder::new().schema_type(Type::Object).description(Some(text)).into())
    }
}

impl ToSchema for SettingsPatch {}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum ServerState {
    Connecting,
    Connected,
    Discovering,
    Ready,
    Authenticating,
    Failed,
    Closed,
}

/// How an attempt to connect ended.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Standing {
    id: String,
    state: ServerState,
    /// Where a person signs in, when `state` is `authenticating`.
    auth_url: Option<String>,
    /// Why, when `state` is `failed`.
    error: Option<Failure>,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct ServersState {
    /// By id.
    servers: BTreeMap<String, ServerStatus>,
    tools: Vec<Tool>,
    prompts: Vec<Item>,
    resources: Vec<Item>,
    resource_templates: Vec<Item>,
}

#[derive(ToSchema)]
struct ServerStatus {
    name: String,
    server_url: String,
    auth_url: Option<String>,
    state: ServerState,
    error: Option<String>,
    instructions: Option<String>,
    #[schema(value_type = Option<Object>)]
    capabilities: Option<()>,
    #[schema(rename = "serverInfo", value_type = Option<Object>)]
    server_info: Option<()>,
    transport: String,
    #[schema(rename = "protocolVersion")]
    protocol_version: Option<String>,
    since: String,
    attempt: u32,
    #[schema(rename = "nextAttemptAt")]
    next_attempt_at: Option<String>,
    /// Whether the catalogue shown is the last one known.
    stale: bool,
    #[schema(rename = "errorDetail")]
    error_detail: Option<Failure>,
    /// How long the server took for the last question that any server answers at once.
    #[schema(rename = "latencyMs")]
    latency_ms: Option<f64>,
    lists: Lists,
    /// How many items each list has.
    counts: Counts,
    warnings: Vec<Warning>,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Counts {
    tools: u64,
    prompts: u64,
    resources: u64,
    resource_templates: u64,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Lists {
    tools: ListState,
    prompts: ListState,
    resources: ListState,
    resource_templates: ListState,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum ListState {
    Pending,
    Ok,
    Partial,
    Unsupported,
    Failed,
}

#[derive(ToSchema)]
struct Warning {
    code: String,
    message: String,
    item: Option<String>,
    count: u64,
}

/// The server's own tool, with these members beside its own.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Tool {
    name: String,
    #[schema(value_type = Object)]
    input_schema: (),
    server_id: String,
    /// The name under which models see it.
    key: String,
    /// Why it is not offered, when it is not.
    withheld: Option<Withheld>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum Withheld {
    Denied,
    Changed,
    Unapproved,
}

/// How the tools of a server differ from those that were approved.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Drift {
    policy: DriftPolicy,
    /// When something was approved last; `null` while nothing was.
    approved_at: Option<String>,
    /// Of all tools as they are (SHA-256): one comparison says whether anything changed.
    fingerprint: String,
    /// Names of tools that were not there.
    added: Vec<String>,
    /// Names of tools that are gone.
    removed: Vec<String>,
    changed: Vec<ChangedTool>,
}

/// A tool that is not what was approved.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct ChangedTool {
    name: String,
    severity: Severity,
    /// The weightiest first.
    kinds: Vec<ChangeKind>,
    /// The weightiest first.
    changes: Vec<Change>,
    /// The definition that was approved, as the server sent it.
    #[schema(value_type = Object)]
    before: (),
    /// The definition as it is, as the server sent it.
    #[schema(value_type = Object)]
    after: (),
}

/// One change of a tool.
#[derive(ToSchema)]
struct Change {
    kind: ChangeKind,
    severity: Severity,
    /// Where in the definition, by names with slashes between them; empty for the whole.
    path: String,
    #[schema(value_type = Value)]
    before: (),
    #[schema(value_type = Value)]
    after: (),
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum ChangeKind {
    Hint,
    Required,
    Address,
    Arguments,
    Definition,
    Wording,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum Severity {
    Low,
    Medium,
    High,
}

/// The server's own prompt, resource or resource template, with its server's id beside its own members.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Item {
    name: String,
    server_id: String,
}

/// Tools: the servers' own with our members, or in the shape of the format that was asked for.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct ToolList {
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Tool>,
    next_cursor: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct PromptList {
    prompts: Vec<Item>,
    next_cursor: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct ResourceList {
    resources: Vec<Item>,
    next_cursor: Option<String>,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct ResourceTemplateList {
    resource_templates: Vec<Item>,
    next_cursor: Option<String>,
}

#[derive(ToSchema)]
struct EventList {
    events: Vec<Event>,
}

/// One thing that happened; contents of messages are never in it.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Event {
    seq: u64,
    /// Such as `mcp:client:state`.
    r#type: String,
    server_id: Option<String>,
    at: String,
    #[schema(value_type = Value)]
    payload: (),
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum CallState {
    Running,
    Waiting,
    Done,
    Failed,
    Lost,
}

/// A call that goes on by itself.
#[derive(ToSchema)]
struct Begun {
    id: String,
    state: CallState,
}

#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
struct Call {
    id: String,
    state: CallState,
    /// The MCP method.
    method: String,
    server_id: Option<String>,
    name: String,
    started_at: String,
    ended_at: Option<String>,
    /// Ids of questions that the call waits for.
    questions: Vec<String>,
    #[schema(value_type = Option<Value>)]
    result: Option<()>,
    error: Option<Failure>,
}

#[derive(ToSchema)]
struct CallList {
    calls: Vec<Call>,
}

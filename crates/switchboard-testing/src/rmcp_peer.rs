//! A real server made with the official Rust SDK, in the test's own process. It speaks both eras, over a pipe in
//! memory as over Streamable HTTP, or is held to one of them.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams, ProgressNotificationParam,
    PromptMessage, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    RequestMetaObject, Resource, ResourceContents, ResourceTemplate, Role, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{Peer, RoleServer, ServerHandler, ServiceExt, prompt, prompt_handler, prompt_router, schemars, tool};
use rmcp::{tool_handler, tool_router};
use serde::{Deserialize, Serialize};
use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// The tools `echo`, `add`, `weather` (structured), `slow` (progress) and `fail`, the prompt `greet`, the resource
/// `note://welcome` and the template `note://numbers/{number}`.
#[derive(Debug, Clone)]
pub struct RmcpServer {
    versions: Cow<'static, [ProtocolVersion]>,
}

#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Echo {
    message: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Place {
    place: String,
}

#[derive(Serialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Weather {
    place: String,
    degrees: f64,
}

#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Slow {
    steps: u32,
}

#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Fail {
    reason: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Greet {
    name: String,
}

impl RmcpServer {
    /// Speaks every revision that the SDK knows, and so both eras.
    pub fn both() -> Self {
        Self { versions: Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS) }
    }

    /// Speaks revision 2026-07-28 only.
    pub fn modern() -> Self {
        Self { versions: Cow::Owned(vec![ProtocolVersion::V_2026_07_28]) }
    }

    /// Speaks the revisions up to 2025-11-25; it refuses `server/discover` with -32022 and a list of those.
    pub fn legacy() -> Self {
        let known = ProtocolVersion::KNOWN_VERSIONS.iter();
        let legacy = known.filter(|version| **version != ProtocolVersion::V_2026_07_28);
        Self { versions: Cow::Owned(legacy.cloned().collect()) }
    }

    /// Serves it at one end of a new pipe and returns the other end.
    pub fn over_pipe(self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            if let Ok(service) = self.serve(far).await {
                let _ = service.waiting().await;
            }
        });
        near
    }

    /// Serves it over Streamable HTTP, with sessions for legacy clients.
    ///
    /// # Panics
    /// When no port can be had.
    pub async fn over_http(self) -> RmcpHttp {
        self.over_http_with(StreamableHttpServerConfig::default()).await
    }

    /// Serves it over Streamable HTTP with settings of the SDK's own.
    ///
    /// # Panics
    /// When no port can be had.
    pub async fn over_http_with(self, config: StreamableHttpServerConfig) -> RmcpHttp {
        let sessions = Arc::new(LocalSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(self.clone()), sessions, config);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("the loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        RmcpHttp { address, _serving: AbortOnDropHandle::new(tokio::spawn(accept(listener, service))) }
    }
}

#[tool_router]
impl RmcpServer {
    /// Says what it is told.
    #[tool]
    async fn echo(&self, Parameters(Echo { message }): Parameters<Echo>) -> String {
        message
    }

    /// Adds two numbers.
    #[tool]
    async fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> String {
        (a + b).to_string()
    }

    /// Tells the weather, with structured content.
    #[tool]
    async fn weather(&self, Parameters(Place { place }): Parameters<Place>) -> Json<Weather> {
        Json(Weather { place, degrees: 21.5 })
    }

    /// Reports progress for each step.
    #[tool]
    async fn slow(
        &self,
        Parameters(Slow { steps }): Parameters<Slow>,
        meta: RequestMetaObject,
        client: Peer<RoleServer>,
    ) -> String {
        for step in 1..=steps {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if let Some(token) = meta.get_progress_token() {
                let report = ProgressNotificationParam::new(token, step.into()).with_total(steps.into());
                let _ = client.notify_progress(report).await;
            }
        }
        format!("{steps} steps")
    }

    /// Fails with the reason that it is given.
    #[tool]
    async fn fail(&self, Parameters(Fail { reason }): Parameters<Fail>) -> Result<String, String> {
        Err(reason)
    }
}

#[expect(missing_docs, reason = "the macro makes a public function without docs")]
#[prompt_router]
impl RmcpServer {
    /// Greets somebody.
    #[prompt]
    async fn greet(&self, Parameters(Greet { name }): Parameters<Greet>) -> Vec<PromptMessage> {
        vec![PromptMessage::new_text(Role::User, format!("Please greet {name}."))]
    }
}

#[tool_handler]
#[prompt_handler]
impl ServerHandler for RmcpServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.versions.clone()
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("note://welcome", "welcome")]))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("note://numbers/{number}", "number");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match request.uri.strip_prefix("note://numbers/") {
            Some(number) => format!("Number {number}"),
            None if request.uri == "note://welcome" => "Welcome".to_owned(),
            None => return Err(ErrorData::resource_not_found(format!("there is no {}", request.uri), None)),
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }
}

async fn accept(listener: TcpListener, service: StreamableHttpService<RmcpServer, LocalSessionManager>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let service = TowerToHyperService::new(service.clone());
        connections.spawn(async move {
            let mut builder = hyper::server::conn::http1::Builder::new();
            let _ = builder.header_read_timeout(None).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// The server over Streamable HTTP on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct RmcpHttp {
    address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl RmcpHttp {
    /// The address of the MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

//! What both programs need of the official Rust SDK: a client of one era over one HTTP client.

use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient, ServiceExt};

/// A client that leaves every request of the server to the SDK.
#[derive(Clone, Default)]
pub struct Quiet;

impl ClientHandler for Quiet {}

/// Connects in the lifecycle of `era`. Without `http` the SDK's own client is used, which keeps no connection open.
pub async fn connect(
    era: &str,
    url: &str,
    http: Option<reqwest::Client>,
) -> anyhow::Result<RunningService<RoleClient, Quiet>> {
    let transport = match http {
        Some(http) => {
            StreamableHttpClientTransport::with_client(http, StreamableHttpClientTransportConfig::with_uri(url))
        }
        None => StreamableHttpClientTransport::from_uri(url),
    };
    Ok(if era == "modern" {
        let mode = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
        serve_client_with_lifecycle(Quiet, transport, mode).await?
    } else {
        Quiet.serve(transport).await?
    })
}

/// One HTTP client that keeps its connections, when the last argument is `pooled`.
pub fn pooled(argument: Option<&String>) -> anyhow::Result<Option<reqwest::Client>> {
    let wanted = argument.is_some_and(|argument| argument == "pooled");
    Ok(if wanted { Some(reqwest::Client::builder().tcp_nodelay(true).build()?) } else { None })
}

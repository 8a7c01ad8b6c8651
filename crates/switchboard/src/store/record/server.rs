//! What is remembered of one server: its registration with a small status, and apart from it the last known catalogue, so
//! that a change of status never writes a large catalogue again.

use serde::{Deserialize, Serialize, Serializer};

use super::{Document, Stored, read_all};
use crate::id::ServerId;
use crate::secret::Secret;
use crate::spec::{ServerSpec, Target, TransportKind};
use crate::status::{Failure, ListExpiries, ListStates};
use crate::store::{Prefix, Result, Store};
use crate::time::Timestamp;
use crate::wire::Json;
use crate::wire::version::Era;

/// A registration, and what the last connection taught us. Stored under its server id in [`ServerRecord::place`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerRecord {
    /// Where the server stands among the others. Given once and never changed, so that the order is stable.
    pub position: u64,
    /// The registration.
    #[serde(serialize_with = "storable")]
    pub spec: ServerSpec,
    /// Which era of the protocol the server speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<EraVerdict>,
    /// The server's answer to `server/discover`, as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discover_result: Option<Json>,
    /// The session of a legacy server, to be taken up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionRecord>,
    /// The transport that worked last, when the registration leaves the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportKind>,
    /// Where a person was sent to sign in, while that is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_url: Option<Secret>,
    /// Why the server failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<Failure>,
    /// Which catalogue belongs to this registration: the [`CatalogueRecord::cache_key`] of one that may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_key: Option<String>,
}

impl ServerRecord {
    /// A registration of which nothing is known yet.
    #[must_use]
    pub fn new(position: u64, spec: ServerSpec) -> Self {
        Self {
            position,
            spec,
            era: None,
            discover_result: None,
            session: None,
            transport: None,
            auth_url: None,
            last_error: None,
            cache_key: None,
        }
    }

    /// Where the registrations of the instance at `instance` are stored.
    #[must_use]
    pub fn place(instance: &Prefix) -> Prefix {
        instance.join("servers")
    }
}

impl Document for ServerRecord {
    const VERSION: u32 = 1;
}

/// What the probe of a server's era found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EraVerdict {
    /// The era.
    pub era: Era,
    /// The protocol version that was agreed on.
    pub protocol_version: String,
    /// When this was found.
    pub at: Timestamp,
}

/// A session with a legacy server. One without its protocol version could not be taken up, so both are stored or neither.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// The session id, which is as good as a password to some servers.
    pub id: Secret,
    /// The protocol version that was agreed on.
    pub protocol_version: String,
}

/// The last known catalogue of a server, byte for byte as it came. Stored under its server id in
/// [`CatalogueRecord::place`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CatalogueRecord {
    /// Names the registration that this belongs to. Shown only when [`ServerRecord::cache_key`] is the same.
    pub cache_key: String,
    /// When it was complete.
    pub at: Timestamp,
    /// What the server can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Json>,
    /// Who the server is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Json>,
    /// How each list stood.
    #[serde(default)]
    pub lists: ListStates,
    /// Until when each list holds.
    #[serde(default)]
    pub expiries: ListExpiries,
    /// The server's instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Json>,
    /// The prompts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<Json>,
    /// The resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Json>,
    /// The resource templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_templates: Vec<Json>,
}

impl CatalogueRecord {
    /// An empty catalogue of the registration that `cache_key` names.
    #[must_use]
    pub fn new(cache_key: impl Into<String>, at: Timestamp) -> Self {
        Self {
            cache_key: cache_key.into(),
            at,
            capabilities: None,
            server_info: None,
            lists: ListStates::default(),
            expiries: ListExpiries::default(),
            instructions: None,
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            resource_templates: Vec::new(),
        }
    }

    /// Where the catalogues of the instance at `instance` are stored.
    #[must_use]
    pub fn place(instance: &Prefix) -> Prefix {
        instance.join("catalogues")
    }
}

impl Document for CatalogueRecord {
    const VERSION: u32 = 1;
}

/// All registrations of the instance at `instance`, in their stable order; those that cannot be read come last.
///
/// Cancel safety: it only reads.
///
/// # Errors
/// When the store fails as a whole.
pub async fn read_servers(store: &dyn Store, instance: &Prefix) -> Result<Vec<(ServerId, Stored<ServerRecord>)>> {
    let mut servers = read_all::<ServerRecord>(store, &ServerRecord::place(instance)).await?;
    // The sort is stable, so equal positions stay in the order of their keys.
    servers.sort_by_key(|server| server.document.as_ref().map_or(u64::MAX, |record| record.position));
    Ok(servers.into_iter().map(|server| (ServerId::stored(&server.key.name()), server)).collect())
}

/// A server in this process has no written form that could be read back, so it is refused rather than lost.
fn storable<S: Serializer>(spec: &ServerSpec, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    match spec.target {
        Target::InProcess(_) => Err(serde::ser::Error::custom("a server in this process cannot be stored")),
        _ => spec.serialize(serializer),
    }
}

#[cfg(test)]
mod tests;

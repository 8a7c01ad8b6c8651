//! What a server is registered as: where it is, how to reach it, and the settings of its connection.

mod document;
mod glob;
mod headers;
mod settings;
mod target;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use document::SpecDocument;
pub use glob::Glob;
pub use headers::Headers;
pub use settings::{DriftPolicy, EraChoice, Limits, OutputSchemaPolicy, Retry, Timeouts, ToolPolicy};
pub use target::{HttpTarget, InProcessTarget, Inherit, StdioTarget, Target, TransportKind};

use crate::error::{Error, Problem, Result};
use crate::id::ServerId;
use crate::wire::Json;

/// A server to be registered: its name, its target, and the settings of its connection.
///
/// Made by [`ServerSpec::http`], [`ServerSpec::stdio`] or [`ServerSpec::in_process`] and refined by the methods below. In
/// JSON it has the shape of `POST /servers` ([`SpecDocument`]).
///
/// ```
/// use std::time::Duration;
/// use switchboard::ServerSpec;
///
/// let spec = ServerSpec::http("github", "https://mcp.example/mcp")?
///     .id("github")?
///     .header("X-Key", "secret")?
///     .request_timeout(Duration::from_secs(20));
/// assert_eq!(spec.id.unwrap().as_str(), "github");
/// # Ok::<(), switchboard::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SpecDocument", into = "SpecDocument")]
#[non_exhaustive]
pub struct ServerSpec {
    /// What people call the server.
    pub name: String,
    /// The id asked for; a random one is made when there is none.
    pub id: Option<ServerId>,
    /// Where the server is.
    pub target: Target,
    /// How often, and how soon, a failing connect is tried again.
    pub retry: Retry,
    /// How long each step may take.
    pub timeouts: Timeouts,
    /// How large and how many.
    pub limits: Limits,
    /// Client capabilities, offered instead of those that we would offer; an object.
    pub capabilities: Option<Json>,
    /// How the era of the protocol is chosen.
    pub era: EraChoice,
    /// What happens to a result that does not fit its tool's output schema.
    pub output_schema: OutputSchemaPolicy,
    /// What happens when its tools are not those that were approved.
    pub drift: DriftPolicy,
    /// Which of the server's tools are offered, and under which names.
    pub tools: ToolPolicy,
}

impl ServerSpec {
    /// A remote server at `url`, reached over Streamable HTTP.
    ///
    /// # Errors
    /// When the name is empty, or the URL is not a usable `http` or `https` one.
    #[doc(alias = "addMcpServer")]
    pub fn http(name: impl Into<String>, url: &str) -> Result<Self> {
        Self::new(name, Target::Http(HttpTarget::new(url)?))
    }

    /// A child process that speaks MCP on its standard streams.
    ///
    /// `command` is looked up in the `PATH` that the manager was given; nothing passes through a shell.
    ///
    /// # Errors
    /// When the name or the command is empty, or one of the arguments holds a NUL.
    pub fn stdio<A: Into<String>>(
        name: impl Into<String>,
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Self> {
        let target = StdioTarget::new(command, args.into_iter().map(Into::into).collect())?;
        Self::new(name, Target::Stdio(target))
    }

    /// A server in this process, at the other end of a duplex pair. Not remembered across restarts.
    ///
    /// # Errors
    /// When the name is empty.
    pub fn in_process(name: impl Into<String>, target: InProcessTarget) -> Result<Self> {
        Self::new(name, Target::InProcess(target))
    }

    fn new(name: impl Into<String>, target: Target) -> Result<Self> {
        let name = name.into();
        check_name(&name).map_err(|message| Error::invalid("name", message))?;
        Ok(Self {
            name,
            id: None,
            timeouts: Timeouts::of(&target),
            target,
            retry: Retry::default(),
            limits: Limits::default(),
            capabilities: None,
            era: EraChoice::default(),
            output_schema: OutputSchemaPolicy::default(),
            drift: DriftPolicy::default(),
            tools: ToolPolicy::default(),
        })
    }

    /// The same server under a stable id, normalised by [`ServerId::parse`].
    ///
    /// # Errors
    /// When the id is empty.
    pub fn id(mut self, id: &str) -> Result<Self> {
        self.id = Some(ServerId::parse(id)?);
        Ok(self)
    }

    /// The same server with one more header on every request. No effect on a child process.
    ///
    /// # Errors
    /// When the name or the value may not stand in an HTTP header, or the header is one that the protocol sets.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self> {
        if let Target::Http(target) = &mut self.target {
            target.headers.add(name, value).map_err(|message| Error::invalid("headers", message))?;
        }
        Ok(self)
    }

    /// The same child process with one more environment variable. No effect on a remote server.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Target::Stdio(target) = &mut self.target {
            target.env.insert(name.into(), value.into().into());
        }
        self
    }

    /// The same child process, started in `folder`, which must be absolute. No effect on a remote server.
    #[must_use]
    pub fn working_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        if let Target::Stdio(target) = &mut self.target {
            target.cwd = Some(folder.into());
        }
        self
    }

    /// The same server with another limit for one request.
    #[must_use]
    pub fn request_timeout(mut self, timeout: std::time::Duration) -> Self {
        self.timeouts.request = timeout;
        self.timeouts.max_request = self.timeouts.max_request.max(timeout);
        self
    }

    /// The same server with other time limits.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// The same server with another retry policy.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// The same server, its era chosen in another way than by asking it.
    #[must_use]
    pub fn era(mut self, era: EraChoice) -> Self {
        self.era = era;
        self
    }

    /// The same server, its changed tools treated in that way.
    #[must_use]
    pub fn drift(mut self, policy: DriftPolicy) -> Self {
        self.drift = policy;
        self
    }

    /// The same server with other size limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Everything that is wrong with the values of this registration.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Err(message) = check_name(&self.name) {
            problems.push(Problem::new("name", message));
        }
        self.target.check(&mut problems);
        self.retry.check(&mut problems);
        self.timeouts.check(&mut problems);
        self.limits.check(&mut problems);
        if self.capabilities.as_ref().is_some_and(|capabilities| !capabilities.is_object()) {
            problems.push(Problem::new("client/capabilities", "must be an object"));
        }
        problems
    }

    /// Fails with everything that is wrong with this registration.
    pub(crate) fn checked(self) -> Result<Self> {
        match self.problems() {
            problems if problems.is_empty() => Ok(self),
            problems => Err(document::refused(problems)),
        }
    }

    /// Whether `other` names the same server: the same name at the same target, whatever its settings.
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.name == other.name && self.target.is_same(&other.target)
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("a server needs a name".into());
    }
    if name.len() > 256 {
        return Err("a server's name may have 256 bytes at most".into());
    }
    if name.chars().any(char::is_control) {
        return Err("a server's name may not hold control characters".into());
    }
    Ok(())
}

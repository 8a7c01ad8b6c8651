//! Where a server is: at a URL, behind a command, or in this process.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::io::DuplexStream;
use url::Url;

use super::Headers;
use crate::error::{Error, Problem, Result};
use crate::secret::{SafeUrl, Secret};

/// Where a server is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// At a URL.
    Http(HttpTarget),
    /// Behind a command, as a child process.
    Stdio(StdioTarget),
    /// In this process.
    InProcess(InProcessTarget),
}

impl Target {
    /// Whether `other` is the same place. Trailing slash, default port and case of the host make no difference; nor do
    /// settings such as headers and environment.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Http(one), Self::Http(two)) => one.place() == two.place(),
            (Self::Stdio(one), Self::Stdio(two)) => {
                one.command == two.command && one.args == two.args && one.cwd == two.cwd
            }
            (Self::InProcess(one), Self::InProcess(two)) => one == two,
            _ => false,
        }
    }

    /// The target as people read it: the URL, or the command line.
    #[must_use]
    pub fn display(&self) -> String {
        match self {
            Self::Http(target) => SafeUrl::new(target.url.clone()).to_string(),
            Self::Stdio(target) => {
                std::iter::once(&target.command).chain(&target.args).map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            Self::InProcess(_) => "in-process".to_owned(),
        }
    }

    /// The name of the transport that reaches it. Where that is found out by trying, the one that is tried first.
    #[must_use]
    pub const fn transport(&self) -> &'static str {
        match self {
            Self::Http(target) => target.transport.as_str(),
            Self::Stdio(_) => "stdio",
            Self::InProcess(_) => "in-process",
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        match self {
            Self::Http(target) => {
                if let Err(message) = check_url(&target.url) {
                    problems.push(Problem::new("url", message));
                }
            }
            Self::Stdio(target) => target.check(problems),
            Self::InProcess(_) => {}
        }
    }
}

/// Which HTTP transport a remote server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TransportKind {
    /// Found out by trying.
    #[default]
    Auto,
    /// Streamable HTTP, of either era.
    StreamableHttp,
    /// The HTTP+SSE transport of 2024-11-05.
    Sse,
}

impl TransportKind {
    /// The name of the transport; of `Auto`, the name of the one that is tried first.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto | Self::StreamableHttp => "streamable-http",
            Self::Sse => "sse",
        }
    }
}

/// A server at a URL.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct HttpTarget {
    /// The MCP endpoint.
    pub url: Url,
    /// Which transport it speaks.
    pub transport: TransportKind,
    /// Extra headers for every request.
    pub headers: Headers,
}

impl HttpTarget {
    /// A server at `url`, which loses its fragment.
    ///
    /// # Errors
    /// When it is not a usable `http` or `https` URL.
    pub fn new(url: &str) -> Result<Self> {
        let mut url: Url =
            url.trim().parse().map_err(|cause| Error::invalid("url", format!("`{url}` is not a URL: {cause}")))?;
        check_url(&url).map_err(|message| Error::invalid("url", message))?;
        url.set_fragment(None);
        Ok(Self { url, transport: TransportKind::Auto, headers: Headers::default() })
    }

    /// The URL in the form in which two spellings of one place are equal.
    fn place(&self) -> String {
        let mut url = self.url.clone();
        if let Some(path) = url.path().strip_suffix('/').map(str::to_owned) {
            url.set_path(&path);
        }
        if let Some(host) = url.host_str().and_then(|host| host.strip_suffix('.')).map(str::to_owned) {
            // A host without its final dot is a host still.
            let _ = url.set_host(Some(&host));
        }
        url.into()
    }
}

impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTarget")
            .field("url", &SafeUrl::new(self.url.clone()))
            .field("transport", &self.transport)
            .field("headers", &self.headers)
            .finish()
    }
}

fn check_url(url: &Url) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{}` addresses cannot be dialled; give an `http` or `https` URL", url.scheme()));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("the URL has no host".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL may not carry a user name or password; give an `Authorization` header instead".into());
    }
    Ok(())
}

/// A child process that speaks MCP on its standard streams.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StdioTarget {
    /// The program: a name to look up in `PATH`, or a path.
    pub command: String,
    /// Its arguments, passed as they are.
    pub args: Vec<String>,
    /// Environment variables for it; they win over inherited ones.
    pub env: BTreeMap<String, Secret>,
    /// What it inherits from the environment that the manager was given.
    pub inherit: Inherit,
    /// The folder to start it in; absolute.
    pub cwd: Option<PathBuf>,
}

impl StdioTarget {
    /// A child process with the safe part of the environment.
    ///
    /// # Errors
    /// When the command is empty or something holds a NUL.
    pub fn new(command: impl Into<String>, args: Vec<String>) -> Result<Self> {
        let target =
            Self { command: command.into(), args, env: BTreeMap::new(), inherit: Inherit::default(), cwd: None };
        let mut problems = Vec::new();
        target.check(&mut problems);
        match problems.pop() {
            None => Ok(target),
            Some(problem) => Err(Error::invalid(problem.path, problem.message)),
        }
    }

    fn check(&self, problems: &mut Vec<Problem>) {
        if self.command.trim().is_empty() {
            problems.push(Problem::new("command", "a command may not be empty"));
        }
        if self.command.contains('\0') || self.args.iter().any(|arg| arg.contains('\0')) {
            problems.push(Problem::new("command", "a command line may not hold a NUL"));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.expose().contains('\0') {
                problems.push(Problem::new("env", format!("`{name}` cannot be set in an environment")));
            }
        }
        if self.cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
            problems.push(Problem::new("cwd", "must be an absolute path"));
        }
    }
}

/// What a child process inherits from the environment that the manager was given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Inherit {
    /// `PATH HOME USER LOGNAME SHELL LANG LC_* TERM TMPDIR`, and what Windows needs to start a program.
    #[default]
    Safe,
    /// The safe ones and these.
    Also(Vec<String>),
    /// Everything, secrets of ours included.
    All,
}

/// A server in this process: each connect asks `open` for one end of a duplex pair, whose other end is served.
#[derive(Clone)]
pub struct InProcessTarget {
    open: Arc<dyn Fn() -> DuplexStream + Send + Sync>,
}

impl InProcessTarget {
    /// A server that `open` starts anew for each connect.
    pub fn new(open: impl Fn() -> DuplexStream + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open) }
    }

    /// Our end of a new pair.
    #[must_use]
    pub fn open(&self) -> DuplexStream {
        (self.open)()
    }
}

impl PartialEq for InProcessTarget {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.open, &other.open)
    }
}

impl fmt::Debug for InProcessTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcessTarget")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Target {
        Target::Http(HttpTarget::new(url).unwrap())
    }

    #[test]
    fn spellings_of_one_place_are_equal() {
        let place = at("https://h.example/mcp");
        for same in [
            "https://h.example/mcp/",
            "https://H.Example:443/mcp",
            "https://h.example./mcp",
            "https://h.example/a/../mcp#x",
        ] {
            assert!(place.is_same(&at(same)), "{same}");
        }
        for other in
            ["http://h.example/mcp", "https://h.example/mcp?x=1", "https://h.example:444/mcp", "https://h.example/MCP"]
        {
            assert!(!place.is_same(&at(other)), "{other}");
        }
    }

    #[test]
    fn urls_that_cannot_be_dialled_are_refused() {
        for url in ["", "mcp", "ftp://h/mcp", "file:///etc", "javascript:alert(1)", "https://me:pass@h/mcp", "http://"]
        {
            assert!(HttpTarget::new(url).unwrap_err().is_invalid_input(), "{url}");
        }
    }
}

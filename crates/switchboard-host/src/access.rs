//! Who may ask: the check of `Host`, `Origin`, token and header sizes that every request passes first.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue, Uri, header};
use subtle::ConstantTimeEq;
use switchboard::secret::Secret;

use crate::code::Code;
use crate::problem::Problem;

/// The most headers of one request.
const MAX_HEADERS: usize = 100;
/// The most bytes of all headers of one request.
const MAX_HEADER_BYTES: usize = 32 << 10;

/// Who may use the daemon, and for what.
///
/// Loopback names and the listener's own address are always allowed as `Host`; a request that a page of another origin
/// sends never is, unless that origin is named here.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Access {
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    tokens: Vec<Secret>,
    owner_token: Option<Secret>,
    allow_commands: bool,
    is_token_required: bool,
}

/// Who sent a request, as far as the checks can say. A request extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Whether the owner's token was shown.
    pub(crate) is_owner: bool,
}

impl Access {
    /// The rules for a listener at `address`: one that is not loopback needs a token.
    #[must_use]
    pub fn for_listener(address: SocketAddr) -> Self {
        let ip = address.ip();
        let own = (!ip.is_unspecified()).then(|| ip.to_string());
        Self { allowed_hosts: own.into_iter().collect(), is_token_required: !ip.is_loopback(), ..Self::default() }
    }

    /// Also answers for this host name, whatever the port.
    #[must_use]
    pub fn allow_host(mut self, host: &str) -> Self {
        self.allowed_hosts.push(normal_host(host));
        self
    }

    /// Also takes requests of pages at this origin, such as `https://app.example`.
    #[must_use]
    pub fn allow_origin(mut self, origin: &str) -> Self {
        self.allowed_origins.push(origin.trim_end_matches('/').to_ascii_lowercase());
        self
    }

    /// Takes this bearer token, and requires one of every caller from now on.
    #[must_use]
    pub fn token(mut self, token: Secret) -> Self {
        self.tokens.push(token);
        self.is_token_required = true;
        self
    }

    /// The token that marks the owner of the daemon, who may register commands.
    #[must_use]
    pub fn owner_token(mut self, token: Secret) -> Self {
        self.owner_token = Some(token);
        self
    }

    /// Lets everyone who may use the daemon register commands, which then run as the daemon's user.
    #[must_use]
    pub fn allow_commands(mut self) -> Self {
        self.allow_commands = true;
        self
    }

    /// Whether this caller may register or change commands.
    pub(crate) fn may_use_commands(&self, caller: Caller) -> bool {
        self.allow_commands || caller.is_owner
    }

    /// Checks one request by its headers.
    ///
    /// `is_probe`: it asks for health only, which needs no token.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap, is_probe: bool) -> Result<Caller, Problem> {
        check_size(headers)?;
        let host = self.check_host(uri, headers)?;
        self.check_origin(&host, headers)?;
        self.check_token(headers, is_probe)
    }

    /// A name that leads here without being ours is how a page rebinds DNS to reach a local daemon.
    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<String, Problem> {
        let mut given = headers.get_all(header::HOST).iter();
        let first = given.next().and_then(|host| host.to_str().ok());
        let authority = uri.authority().map(http::uri::Authority::as_str).or(first);
        let (Some(authority), None) = (authority, given.next()) else {
            return Err(Problem::new(Code::HostNotAllowed, "the request must have exactly one `Host` header"));
        };
        let host = host_of(authority);
        if is_loopback_name(&host) || self.allowed_hosts.contains(&host) {
            return Ok(authority.to_ascii_lowercase());
        }
        Err(Problem::new(Code::HostNotAllowed, format!("the host `{host}` is not one of this daemon's"))
            .hint("use a loopback address, or start the daemon with `--allowed-host NAME`"))
    }

    /// Browsers name the page that sends a request; programs send no `Origin`.
    fn check_origin(&self, authority: &str, headers: &HeaderMap) -> Result<(), Problem> {
        for origin in headers.get_all(header::ORIGIN) {
            let origin = String::from_utf8_lossy(origin.as_bytes()).to_ascii_lowercase();
            if !is_same_origin(&origin, authority) && !self.allowed_origins.contains(&origin) {
                return Err(Problem::new(
                    Code::OriginNotAllowed,
                    format!("pages of `{origin}` may not use this daemon"),
                ));
            }
        }
        Ok(())
    }

    fn check_token(&self, headers: &HeaderMap, is_probe: bool) -> Result<Caller, Problem> {
        let Some(given) = headers.get(header::AUTHORIZATION) else {
            let is_let_in = is_probe || !self.is_token_required;
            return if is_let_in {
                Ok(Caller { is_owner: false })
            } else {
                Err(token_required("a bearer token is needed"))
            };
        };
        let Some(token) = bearer(given) else {
            return Err(token_required("the `Authorization` header must be `Bearer TOKEN`"));
        };
        // All are compared whatever the outcome, so that the time tells nothing.
        let is_owner = self.owner_token.as_ref().is_some_and(|owner| is_same(owner, token));
        let is_known = self.tokens.iter().fold(false, |known, one| is_same(one, token) | known);
        if is_owner || is_known {
            Ok(Caller { is_owner })
        } else {
            Err(token_required("the bearer token is not valid"))
        }
    }
}

fn token_required(detail: &str) -> Problem {
    Problem::new(Code::TokenRequired, detail)
        .hint("send `Authorization: Bearer TOKEN` with a token that the daemon was started with")
        .header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"switchboard\""))
}

/// The token of an `Authorization: Bearer` header.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

fn is_same(token: &Secret, given: &[u8]) -> bool {
    token.expose().as_bytes().ct_eq(given).into()
}

fn check_size(headers: &HeaderMap) -> Result<(), Problem> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if headers.len() <= MAX_HEADERS && bytes <= MAX_HEADER_BYTES {
        return Ok(());
    }
    let detail = format!("a request may have {MAX_HEADERS} headers and {MAX_HEADER_BYTES} bytes of headers at most");
    Err(Problem::new(Code::HeadersTooLarge, detail))
}

/// The host of `HOST[:PORT]`, in the form in which hosts are compared.
fn host_of(authority: &str) -> String {
    let end = match authority.rfind(':') {
        // A colon inside the brackets of an IPv6 address separates nothing.
        Some(colon) if !authority[colon..].contains(']') => colon,
        _ => authority.len(),
    };
    normal_host(&authority[..end])
}

fn normal_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

fn is_loopback_name(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether `origin` is the page of the very host and port that the request went to. The scheme may differ: a proxy in
/// front may speak TLS.
fn is_same_origin(origin: &str, authority: &str) -> bool {
    let (rest, port) = match origin.split_once("://") {
        Some(("http", rest)) => (rest, ":80"),
        Some(("https", rest)) => (rest, ":443"),
        _ => return false,
    };
    let bare = |text: &str| text.strip_suffix(port).unwrap_or(text).to_owned();
    bare(rest) == bare(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback() -> Access {
        Access::for_listener("127.0.0.1:7717".parse().unwrap())
    }

    fn ask(access: &Access, headers: &[(&str, &str)]) -> Result<Caller, &'static str> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
            .collect();
        access.check(&Uri::from_static("/"), &headers, false).map_err(|problem| problem.code().text())
    }

    #[test]
    fn loopback_names_are_answered_for_at_any_port() {
        for host in ["localhost", "LocalHost:7717", "127.0.0.1:1", "127.8.9.1", "[::1]:7717", "[::1]", "localhost.:80"]
        {
            assert!(ask(&loopback(), &[("host", host)]).is_ok(), "{host}");
        }
    }

    #[test]
    fn a_name_that_was_bound_to_the_loopback_is_refused() {
        for host in ["evil.example", "evil.example:7717", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
            assert_eq!(ask(&loopback(), &[("host", host)]), Err("host_not_allowed"), "{host}");
        }
        assert_eq!(ask(&loopback(), &[]), Err("host_not_allowed"));
    }

    #[test]
    fn configured_hosts_are_answered_for() {
        let access = loopback().allow_host("Switch.Example");
        assert!(ask(&access, &[("host", "switch.example:443")]).is_ok());
        assert_eq!(ask(&access, &[("host", "other.example")]), Err("host_not_allowed"));
    }

    #[test]
    fn pages_of_another_origin_are_refused_and_own_pages_are_not() {
        let access = loopback().allow_origin("https://app.example/");
        let from = |origin| ask(&access, &[("host", "localhost:7717"), ("origin", origin)]);
        for origin in ["http://localhost:7717", "HTTP://LOCALHOST:7717", "https://app.example"] {
            assert!(from(origin).is_ok(), "{origin}");
        }
        let strangers = [
            "null",
            "",
            "http://evil.example",
            "http://localhost:3000",
            "http://localhost",
            "http://127.0.0.1:7717",
            "file://",
            "https://app.example.evil.example",
        ];
        for origin in strangers {
            assert_eq!(from(origin), Err("origin_not_allowed"), "{origin}");
        }
    }

    #[test]
    fn default_ports_make_no_difference_to_an_origin() {
        let access = loopback().allow_host("switch.example");
        assert!(ask(&access, &[("host", "switch.example"), ("origin", "https://switch.example:443")]).is_ok());
        assert!(ask(&access, &[("host", "switch.example:80"), ("origin", "http://switch.example")]).is_ok());
    }

    #[test]
    fn a_listener_that_is_not_loopback_needs_a_token() {
        let access = Access::for_listener("192.0.2.7:7717".parse().unwrap()).owner_token("owner".to_owned().into());
        assert_eq!(ask(&access, &[("host", "192.0.2.7:7717")]), Err("token_required"));
        let with = |token| ask(&access, &[("host", "192.0.2.7:7717"), ("authorization", token)]);
        assert_eq!(with("Bearer owner"), Ok(Caller { is_owner: true }));
        for wrong in ["Bearer owne", "Bearer ownerr", "Bearer", "Bearer ", "Basic owner", "owner"] {
            assert_eq!(with(wrong), Err("token_required"), "{wrong}");
        }
    }

    #[test]
    fn a_configured_token_is_required_on_the_loopback_too_and_does_not_make_an_owner() {
        let access = loopback().token("one".to_owned().into()).token("two".to_owned().into());
        assert_eq!(ask(&access, &[("host", "localhost")]), Err("token_required"));
        for token in ["Bearer one", "bearer two"] {
            let caller = ask(&access, &[("host", "localhost"), ("authorization", token)]);
            assert_eq!(caller, Ok(Caller { is_owner: false }));
        }
    }

    #[test]
    fn on_the_loopback_no_token_is_needed_but_a_wrong_one_is_told() {
        let access = loopback().owner_token("owner".to_owned().into());
        assert_eq!(ask(&access, &[("host", "localhost")]), Ok(Caller { is_owner: false }));
        assert_eq!(ask(&access, &[("host", "localhost"), ("authorization", "Bearer x")]), Err("token_required"));
    }

    #[test]
    fn health_needs_no_token_but_the_right_host() {
        let access = loopback().token("one".to_owned().into());
        let probe = |host: &'static str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            access.check(&Uri::from_static("/healthz"), &headers, true).is_ok()
        };
        assert!(probe("localhost"));
        assert!(!probe("evil.example"));
    }

    #[test]
    fn commands_are_for_the_owner_unless_everyone_may() {
        let (owner, other) = (Caller { is_owner: true }, Caller { is_owner: false });
        assert!(loopback().may_use_commands(owner) && !loopback().may_use_commands(other));
        assert!(loopback().allow_commands().may_use_commands(other));
    }

    #[test]
    fn too_many_or_too_large_headers_are_refused() {
        let large = "x".repeat(MAX_HEADER_BYTES);
        assert_eq!(ask(&loopback(), &[("host", "localhost"), ("x-large", &large)]), Err("headers_too_large"));
        let names: Vec<String> = (0..MAX_HEADERS).map(|number| format!("x-{number}")).collect();
        let mut many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        many.push(("host", "localhost"));
        assert_eq!(ask(&loopback(), &many), Err("headers_too_large"));
    }

    #[test]
    fn tokens_are_never_printed() {
        let access = loopback().token("sesame".to_owned().into()).owner_token("hush".to_owned().into());
        let printed = format!("{access:?}");
        assert!(!printed.contains("sesame") && !printed.contains("hush"), "{printed}");
    }
}

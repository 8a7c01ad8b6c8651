//! The headers of both HTTP transports.

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};

use super::HttpTransport;
use crate::spec::HttpTarget;
use crate::transport::body::{ACCEPTED_CODINGS, EVENT_STREAM};
use crate::transport::{Dialect, Outgoing, TransportError};
use crate::wire::meta;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(in crate::transport) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The headers of every POST.
pub(in crate::transport) fn of_posts(target: &HttpTarget) -> HeaderMap {
    let mut headers = of_all(target);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers
}

/// The headers of a GET that opens an event stream.
pub(in crate::transport) fn of_streams(target: &HttpTarget) -> HeaderMap {
    let mut headers = of_all(target);
    headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
    headers
}

fn of_all(target: &HttpTarget) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    for (name, value) in target.headers.iter() {
        headers.append(name, value.clone());
    }
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED_CODINGS));
    headers
}

impl Outgoing<'_> {
    /// Puts the headers of this request alone in the place of those of the same names.
    pub(in crate::transport) fn put_headers(&self, headers: &mut HeaderMap) {
        let Some(given) = self.headers else { return };
        for (name, _) in given.iter() {
            headers.remove(name);
        }
        for (name, value) in given.iter() {
            headers.append(name, value.clone());
        }
    }
}

impl HttpTransport {
    /// The headers of a POST that is no request.
    pub(super) fn dialect_headers(&self, dialect: Dialect) -> HeaderMap {
        let mut headers = self.base.clone();
        if let Dialect::Legacy(version) | Dialect::Modern(version) = dialect {
            headers.insert(VERSION, HeaderValue::from_static(version));
        }
        if let (Dialect::Legacy(_) | Dialect::Handshake, Some(session)) = (dialect, self.session_id()) {
            headers.insert(SESSION_ID, session.clone());
        }
        headers
    }

    /// The headers of a request.
    pub(super) fn headers(&self, outgoing: &Outgoing<'_>) -> Result<HeaderMap, TransportError> {
        let mut headers = self.dialect_headers(outgoing.dialect);
        outgoing.put_headers(&mut headers);
        if let Dialect::Modern(_) = outgoing.dialect {
            let value = |text: &str| {
                HeaderValue::from_str(text)
                    .map_err(|error| TransportError::NotMcp(format!("a header of ours: {error}")))
            };
            headers.insert(METHOD, value(outgoing.method)?);
            if let Some(name) = outgoing.name {
                headers.insert(NAME, value(&meta::header_value(name))?);
            }
            for (name, text) in outgoing.param_headers {
                let name = HeaderName::from_bytes(name.as_bytes());
                let name = name.map_err(|error| TransportError::NotMcp(format!("a header of a tool: {error}")))?;
                headers.insert(name, value(text)?);
            }
        }
        Ok(headers)
    }

    /// The headers of a GET that opens a stream, behind an event if there is one to resume behind.
    pub(super) fn stream_headers(&self, dialect: Dialect, last_event_id: Option<&str>) -> HeaderMap {
        let mut headers = self.bodiless_headers(dialect);
        headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_bytes(id.as_bytes()).ok()) {
            headers.insert(LAST_EVENT_ID, id);
        }
        headers
    }

    /// The headers of a call without a body.
    pub(super) fn bodiless_headers(&self, dialect: Dialect) -> HeaderMap {
        let mut headers = self.dialect_headers(dialect);
        headers.remove(CONTENT_TYPE);
        headers
    }
}

//! The headers of Streamable HTTP.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};

use super::HttpTransport;
use crate::transport::{Dialect, Outgoing, TransportError};
use crate::wire::meta;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(in crate::transport) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

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
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
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

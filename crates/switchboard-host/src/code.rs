//! The one table from what went wrong to the code, the HTTP status and the title of a problem document.

use http::StatusCode;
use switchboard::ErrorKind;

/// What went wrong: something of the library's, or something that only a daemon can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Code {
    /// The library's kinds keep their own codes.
    Kind(ErrorKind),
    /// No route has that path.
    NotFound,
    /// The path is there, the method is not.
    MethodNotAllowed,
    /// The body is not JSON by its content type.
    UnsupportedMediaType,
    /// The body is larger than the daemon takes.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyTimeout,
    /// Too many headers, or too large ones.
    HeadersTooLarge,
    /// The `Host` header names a host that this daemon does not answer for.
    HostNotAllowed,
    /// A page of another origin sent this request.
    OriginNotAllowed,
    /// A token is needed, or the one given is wrong.
    TokenRequired,
    /// Only the owner may register or change commands.
    CommandsNotAllowed,
    /// No agent of that name is hosted here.
    UnknownAgent,
    /// As many instances as the host may open are open.
    TooManyInstances,
    /// The daemon is stopping.
    Stopping,
    /// The call was cancelled through the API.
    Cancelled,
    /// The idempotency key belongs to another call.
    KeyReused,
    /// A fault of ours.
    Internal,
}

/// Every code that this API can answer with, for its description.
pub(crate) const ALL: [Code; 39] = [
    Code::Kind(ErrorKind::UnknownServer),
    Code::Kind(ErrorKind::UnknownTool),
    Code::Kind(ErrorKind::UnknownCall),
    Code::Kind(ErrorKind::IdInUse),
    Code::Kind(ErrorKind::NotReady),
    Code::Kind(ErrorKind::SignInRequired),
    Code::Kind(ErrorKind::BlockedUrl),
    Code::Kind(ErrorKind::ToolNotAllowed),
    Code::Kind(ErrorKind::ToolChanged),
    Code::Kind(ErrorKind::InvalidInput),
    Code::Kind(ErrorKind::InvalidArguments),
    Code::Kind(ErrorKind::Overloaded),
    Code::Kind(ErrorKind::ServerError),
    Code::Kind(ErrorKind::ConnectionLost),
    Code::Kind(ErrorKind::ConnectFailed),
    Code::Kind(ErrorKind::ServerClosed),
    Code::Kind(ErrorKind::ProtocolViolation),
    Code::Kind(ErrorKind::TooLarge),
    Code::Kind(ErrorKind::ServerCancelled),
    Code::Kind(ErrorKind::RateLimited),
    Code::Kind(ErrorKind::Timeout),
    Code::Kind(ErrorKind::Store),
    Code::Kind(ErrorKind::Unsupported),
    Code::NotFound,
    Code::MethodNotAllowed,
    Code::UnsupportedMediaType,
    Code::BodyTooLarge,
    Code::BodyTimeout,
    Code::HeadersTooLarge,
    Code::HostNotAllowed,
    Code::OriginNotAllowed,
    Code::TokenRequired,
    Code::CommandsNotAllowed,
    Code::UnknownAgent,
    Code::TooManyInstances,
    Code::Stopping,
    Code::Cancelled,
    Code::KeyReused,
    Code::Internal,
];

impl Code {
    /// The stable code.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Kind(kind) => kind.code(),
            _ => self.entry().1,
        }
    }

    /// The HTTP status.
    pub(crate) const fn status(self) -> StatusCode {
        self.entry().0
    }

    /// The title, the same for every problem of this code.
    pub(crate) const fn title(self) -> &'static str {
        self.entry().2
    }

    /// The table: status, code (the library's kinds have their own), title.
    const fn entry(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Kind(kind) => {
                let (status, title) = of_kind(kind);
                (status, "", title)
            }
            Self::NotFound => (StatusCode::NOT_FOUND, "not_found", "There is nothing at this path"),
            Self::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "This path does not take this method")
            }
            Self::UnsupportedMediaType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", "The body must be JSON")
            }
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "The body is too large"),
            Self::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, "body_timeout", "The body did not arrive in time"),
            Self::HeadersTooLarge => {
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", "The headers are too large")
            }
            Self::HostNotAllowed => {
                (StatusCode::FORBIDDEN, "host_not_allowed", "The daemon does not answer for this host")
            }
            Self::OriginNotAllowed => {
                (StatusCode::FORBIDDEN, "origin_not_allowed", "Pages of this origin may not use the daemon")
            }
            Self::TokenRequired => (StatusCode::UNAUTHORIZED, "token_required", "A valid bearer token is required"),
            Self::CommandsNotAllowed => {
                (StatusCode::FORBIDDEN, "commands_not_allowed", "Commands may not be registered over HTTP")
            }
            Self::UnknownAgent => (StatusCode::NOT_FOUND, "unknown_agent", "No such agent is hosted here"),
            Self::TooManyInstances => {
                (StatusCode::SERVICE_UNAVAILABLE, "too_many_instances", "Too many instances are open")
            }
            Self::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping", "The daemon is stopping"),
            Self::Cancelled => (StatusCode::CONFLICT, "cancelled", "The call was cancelled"),
            Self::KeyReused => {
                (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", "The key belongs to another call")
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "The daemon has a fault"),
        }
    }
}

/// The library's kinds.
const fn of_kind(kind: ErrorKind) -> (StatusCode, &'static str) {
    match kind {
        ErrorKind::UnknownServer => (StatusCode::NOT_FOUND, "No such server"),
        ErrorKind::UnknownTool => (StatusCode::NOT_FOUND, "No such tool"),
        ErrorKind::UnknownCall => (StatusCode::NOT_FOUND, "No such call"),
        ErrorKind::IdInUse => (StatusCode::CONFLICT, "The id belongs to another server"),
        ErrorKind::NotReady => (StatusCode::CONFLICT, "The server is not ready"),
        ErrorKind::SignInRequired => (StatusCode::CONFLICT, "A person must sign in first"),
        ErrorKind::BlockedUrl => (StatusCode::FORBIDDEN, "The address may not be dialled"),
        ErrorKind::ToolNotAllowed => (StatusCode::FORBIDDEN, "The tool is not allowed"),
        ErrorKind::ToolChanged => (StatusCode::FORBIDDEN, "The tool is not what was approved"),
        ErrorKind::InvalidInput => (StatusCode::UNPROCESSABLE_ENTITY, "The request is not valid"),
        ErrorKind::InvalidArguments => {
            (StatusCode::UNPROCESSABLE_ENTITY, "The arguments do not fit the tool's input schema")
        }
        ErrorKind::Overloaded => (StatusCode::TOO_MANY_REQUESTS, "Too much is waiting already"),
        ErrorKind::ServerError => (StatusCode::BAD_GATEWAY, "The server answered with an error"),
        ErrorKind::ConnectionLost => (StatusCode::BAD_GATEWAY, "The connection to the server was lost"),
        ErrorKind::ConnectFailed => (StatusCode::BAD_GATEWAY, "The server could not be reached"),
        ErrorKind::ServerClosed => (StatusCode::BAD_GATEWAY, "The server was closed or removed"),
        ErrorKind::ProtocolViolation => (StatusCode::BAD_GATEWAY, "The server broke the protocol"),
        ErrorKind::TooLarge => (StatusCode::BAD_GATEWAY, "A message of the server was too large"),
        ErrorKind::ServerCancelled => (StatusCode::BAD_GATEWAY, "The server cancelled the request"),
        ErrorKind::RateLimited => (StatusCode::SERVICE_UNAVAILABLE, "The server asks for fewer requests"),
        ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "No answer came in time"),
        ErrorKind::Store => (StatusCode::INTERNAL_SERVER_ERROR, "The store could not be read or written"),
        ErrorKind::Unsupported => (StatusCode::NOT_IMPLEMENTED, "This is not available here"),
        // The library may grow a kind before this table does; it is then a fault of ours that the log shows.
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "Something failed"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn statuses_are_those_of_the_api_reference() {
        let table = [
            (404, "unknown_server unknown_tool unknown_call not_found unknown_agent"),
            (409, "id_in_use not_ready sign_in_required cancelled"),
            (403, "blocked_url tool_not_allowed tool_changed commands_not_allowed host_not_allowed origin_not_allowed"),
            (422, "invalid_input invalid_arguments idempotency_key_reused"),
            (429, "overloaded"),
            (502, "server_error connection_lost connect_failed server_closed protocol_violation too_large"),
            (502, "server_cancelled"),
            (503, "rate_limited too_many_instances stopping"),
            (504, "timeout"),
            (500, "store_failed internal"),
            (501, "unsupported"),
            (401, "token_required"),
            (405, "method_not_allowed"),
            (408, "body_timeout"),
            (413, "body_too_large"),
            (415, "unsupported_media_type"),
            (431, "headers_too_large"),
        ];
        let expected: BTreeSet<_> =
            table.iter().flat_map(|(status, codes)| codes.split(' ').map(move |code| (code, *status))).collect();
        let actual: BTreeSet<_> = ALL.iter().map(|code| (code.text(), code.status().as_u16())).collect();
        assert_eq!(actual, expected);
        assert_eq!(actual.len(), ALL.len(), "every code stands in the list once");
    }
}

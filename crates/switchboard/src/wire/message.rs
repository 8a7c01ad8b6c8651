//! JSON-RPC 2.0 envelopes. The envelope is parsed once; `params`, `result` and `data` stay the bytes that came.

use std::borrow::Cow;
use std::io::Write as _;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::Json;
use crate::error::RpcError;

/// JSON-RPC: what was sent is no request.
pub const INVALID_REQUEST: i64 = -32600;
/// The JSON-RPC code for a method that the receiver does not have.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are not what the method takes.
pub const INVALID_PARAMS: i64 = -32602;
/// The JSON-RPC code for an internal error, also used for errors that came without a code.
pub const INTERNAL_ERROR: i64 = -32603;
/// MCP 2026-07-28: the HTTP headers do not match the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// MCP 2026-07-28: the request needs a client capability that was not declared.
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// MCP 2026-07-28: the server does not speak the revision asked for.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// One message from a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The server asks something of us.
    Request {
        /// The server's id, to be echoed as it is.
        id: Json,
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Json>,
    },
    /// The server tells us something.
    Notification {
        /// The method.
        method: String,
        /// The parameters.
        params: Option<Json>,
    },
    /// The server answers a request of ours.
    Response {
        /// The id of our request, where it could be read as one. Ours are numbers; some servers send them back as strings.
        id: Option<u64>,
        /// The result, or the server's error.
        outcome: Result<Json, RpcError>,
    },
}

/// Text that is no JSON-RPC message.
#[derive(Debug, thiserror::Error)]
pub enum BadMessage {
    /// It is not JSON.
    #[error("not JSON")]
    NotJson(#[source] serde_json::Error),
    /// It is JSON, but neither request nor notification nor response.
    #[error("not a JSON-RPC message")]
    NotRpc,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A member that is there, `null` included: an answer of `null` is an answer.
fn present<'de, D: Deserializer<'de>>(member: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(member).map(Some)
}

impl Message {
    /// Reads one message, or the messages of a batch (which revision 2025-03-26 allowed).
    ///
    /// # Errors
    /// When the text is not JSON, or is no JSON-RPC message. In a batch only bad members are lost.
    pub fn parse_all(text: &Bytes) -> Result<Vec<Self>, BadMessage> {
        tolerantly(text, Self::read_all)
    }

    /// Reads one message. `result` and `params` share the buffer of `text`.
    ///
    /// # Errors
    /// When the text is not JSON, or is no JSON-RPC message.
    pub fn parse(text: &Bytes) -> Result<Self, BadMessage> {
        tolerantly(text, Self::read)
    }

    fn read_all(text: &Bytes) -> Result<Vec<Self>, BadMessage> {
        if text.trim_ascii_start().first() != Some(&b'[') {
            return Self::read(text).map(|message| vec![message]);
        }
        let members: Vec<&RawValue> = serde_json::from_slice(text).map_err(BadMessage::NotJson)?;
        let messages = members.into_iter().filter_map(|member| Self::read(Json::within(text, member).as_bytes()).ok());
        Some(messages.collect::<Vec<_>>()).filter(|messages| !messages.is_empty()).ok_or(BadMessage::NotRpc)
    }

    fn read(text: &Bytes) -> Result<Self, BadMessage> {
        let envelope: Envelope<'_> = match serde_json::from_slice(text) {
            Ok(envelope) => envelope,
            Err(error) if error.is_data() => return Err(BadMessage::NotRpc),
            Err(error) => return Err(BadMessage::NotJson(error)),
        };
        let keep = |raw: &RawValue| Json::within(text, raw);
        match envelope {
            Envelope { method: Some(method), id, params, .. } => {
                let (method, params) = (method.into_owned(), params.map(keep));
                Ok(match id {
                    Some(id) => Self::Request { id: keep(id), method, params },
                    None => Self::Notification { method, params },
                })
            }
            Envelope { result: Some(result), error: None, id, .. } => {
                Ok(Self::Response { id: id.and_then(own_id), outcome: Ok(keep(result)) })
            }
            // Some libraries write both members, and `null` for the one that does not apply.
            Envelope { result: Some(result), error: Some(error), id, .. } if error.get() == "null" => {
                Ok(Self::Response { id: id.and_then(own_id), outcome: Ok(keep(result)) })
            }
            Envelope { error: Some(error), id, .. } => {
                Ok(Self::Response { id: id.and_then(own_id), outcome: Err(rpc_error(&keep(error))) })
            }
            _ => Err(BadMessage::NotRpc),
        }
    }
}

/// Reads text that `read` refuses in the form in which others accept it: without its byte order mark, and with
/// replacement characters where it is not UTF-8.
fn tolerantly<T>(text: &Bytes, read: impl Fn(&Bytes) -> Result<T, BadMessage>) -> Result<T, BadMessage> {
    match read(text) {
        Err(BadMessage::NotJson(error)) => match mended(text) {
            Some(mended) => read(&mended),
            None => Err(BadMessage::NotJson(error)),
        },
        outcome => outcome,
    }
}

fn mended(text: &Bytes) -> Option<Bytes> {
    let plain = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    match std::str::from_utf8(plain) {
        Ok(_) => (plain.len() < text.len()).then(|| text.slice_ref(plain)),
        Err(_) => Some(String::from_utf8_lossy(plain).into_owned().into()),
    }
}

/// Our request id in a server's answer: a number, or the same number as a string or with a fraction of zero.
fn own_id(raw: &RawValue) -> Option<u64> {
    let text = raw.get().trim_matches('"');
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

/// A server's error, as well as it can be read: some send a bare string, or no code.
fn rpc_error(json: &Json) -> RpcError {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow, default)]
        code: Option<&'a RawValue>,
        #[serde(borrow, default)]
        message: Option<&'a RawValue>,
        #[serde(borrow, default)]
        data: Option<&'a RawValue>,
    }
    let Ok(wire) = json.view::<Wire<'_>>() else {
        return RpcError::new(INTERNAL_ERROR, plain(json.as_str()), None);
    };
    #[expect(clippy::cast_possible_truncation, reason = "an error code beyond 2^53 means nothing")]
    let code = wire.code.and_then(|code| code.get().trim_matches('"').parse::<f64>().ok()).map(|code| code as i64);
    let message = wire.message.map_or_else(|| "no message".to_owned(), |message| plain(message.get()));
    RpcError::new(code.unwrap_or(INTERNAL_ERROR), message, wire.data.map(|data| Json::within(json.as_bytes(), data)))
}

/// The text of a JSON string; anything else as it is written.
fn plain(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())
}

/// The parameters of a request, written member by member.
#[derive(Debug, Clone)]
pub struct Params(Vec<u8>);

impl Default for Params {
    fn default() -> Self {
        let mut text = Vec::with_capacity(128);
        text.push(b'{');
        Self(text)
    }
}

impl Params {
    /// No parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The members of an object that is given whole. Its `_meta`, if any, is left out: ours takes its place.
    #[must_use]
    pub fn from_object(object: &Json) -> Self {
        let mut params = Self::new();
        let mut cursor = super::scan::Cursor::new(object.as_bytes());
        if cursor.enter_object() {
            while let Some(name) = cursor.next_member() {
                let value = cursor.skip();
                let (name, value) = (cursor.slice(&name), cursor.slice(&value));
                if name != b"_meta" {
                    params.begin();
                    params.0.push(b'"');
                    params.0.extend_from_slice(name);
                    params.0.extend_from_slice(b"\":");
                    params.0.extend_from_slice(value);
                }
            }
        }
        params
    }

    /// The same with a member that is a string.
    #[must_use]
    pub fn text(mut self, name: &'static str, value: &str) -> Self {
        self.name(name);
        // Writing a string to a vector cannot fail.
        let _ = serde_json::to_writer(&mut self.0, value);
        self
    }

    /// The same with a member whose bytes are passed on as they are.
    #[must_use]
    pub fn json(mut self, name: &'static str, value: &Json) -> Self {
        self.name(name);
        self.0.extend_from_slice(value.as_bytes());
        self
    }

    fn name(&mut self, name: &'static str) {
        self.begin();
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn begin(&mut self) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
    }
}

/// What stands in the `_meta` object of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meta<'a> {
    /// Members that are written already, without braces.
    pub members: &'a str,
    /// Whether progress reports are wanted; their token is the request's id.
    pub wants_progress: bool,
}

/// Writes a request. Without anything in `meta` its `_meta` is left out.
#[must_use]
pub fn request(id: u64, method: &str, mut params: Params, meta: Meta<'_>) -> Bytes {
    let mut text = Vec::with_capacity(128 + method.len() + params.0.len() + meta.members.len());
    // Writing to a vector cannot fail.
    let _ = write!(text, "{{\"jsonrpc\":\"2.0\",\"id\":{id}");
    if meta.wants_progress || !meta.members.is_empty() {
        params.name("_meta");
        params.0.push(b'{');
        if meta.wants_progress {
            let _ = write!(params.0, "\"progressToken\":{id}");
        }
        if meta.wants_progress && !meta.members.is_empty() {
            params.0.push(b',');
        }
        params.0.extend_from_slice(meta.members.as_bytes());
        params.0.push(b'}');
    }
    write_rest(text, method, &params)
}

/// Writes a notification.
#[must_use]
pub fn notification(method: &str, params: &Params) -> Bytes {
    write_rest(b"{\"jsonrpc\":\"2.0\"".to_vec(), method, params)
}

fn write_rest(mut text: Vec<u8>, method: &str, params: &Params) -> Bytes {
    text.extend_from_slice(b",\"method\":");
    // Writing a string to a vector cannot fail.
    let _ = serde_json::to_writer(&mut text, method);
    if params.0.len() > 1 {
        text.extend_from_slice(b",\"params\":");
        text.extend_from_slice(&params.0);
        text.push(b'}');
    }
    text.push(b'}');
    text.into()
}

/// Writes our answer to a server's request, whose id is echoed as it came.
#[must_use]
pub fn response(id: &Json, outcome: Result<&Json, &RpcError>) -> Bytes {
    #[derive(Serialize)]
    struct ErrorOut<'a> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a Json>,
    }
    let mut text = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
    text.extend_from_slice(id.as_bytes());
    match outcome {
        Ok(result) => {
            text.extend_from_slice(b",\"result\":");
            text.extend_from_slice(result.as_bytes());
        }
        Err(error) => {
            text.extend_from_slice(b",\"error\":");
            let out = ErrorOut { code: error.code, message: &error.message, data: error.data.as_ref() };
            // Writing known types to a vector cannot fail.
            let _ = serde_json::to_writer(&mut text, &out);
        }
    }
    text.push(b'}');
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Message {
        Message::parse(&Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn b033_an_id_of_ours_is_recognised_as_a_string_too() {
        for id in ["7", "\"7\"", "7.0"] {
            let message = parse(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
            assert_eq!(message, Message::Response { id: Some(7), outcome: Ok(Json::empty_object()) });
        }
    }

    #[test]
    fn results_keep_their_bytes() {
        let Message::Response { outcome: Ok(result), .. } = parse(r#"{"id":1,"result":{"n": 1e400,  "x":[ ]}}"#) else {
            panic!("a response")
        };
        assert_eq!(result.as_str(), r#"{"n": 1e400,  "x":[ ]}"#);
    }

    #[test]
    fn errors_are_read_as_well_as_they_can_be() {
        let table = [
            (r#"{"code":-32601,"message":"no","data":{"a": 1}}"#, -32601, "no", Some(r#"{"a": 1}"#)),
            (r#""boom""#, INTERNAL_ERROR, "boom", None),
            (r#"{"message":5}"#, INTERNAL_ERROR, "5", None),
            (r#"{"code":"-5"}"#, -5, "no message", None),
        ];
        for (error, code, text, data) in table {
            let Message::Response { id, outcome: Err(found) } = parse(&format!(r#"{{"error":{error}}}"#)) else {
                panic!("an error")
            };
            assert_eq!((id, found.code, found.message.as_str()), (None, code, text));
            assert_eq!(found.data.as_ref().map(Json::as_str), data);
        }
    }

    #[test]
    fn an_answer_of_null_is_an_answer() {
        let null: Json = "null".parse().unwrap();
        assert_eq!(parse(r#"{"id":1,"result":null}"#), Message::Response { id: Some(1), outcome: Ok(null) });
        let both = parse(r#"{"id":1,"result":{},"error":null}"#);
        assert_eq!(both, Message::Response { id: Some(1), outcome: Ok(Json::empty_object()) });
        for text in [r#"{"id":1,"error":null}"#, r#"{"id":1,"result":null,"error":{"code":1}}"#] {
            assert!(matches!(parse(text), Message::Response { id: Some(1), outcome: Err(_) }), "{text}");
        }
    }

    #[test]
    fn a_byte_order_mark_and_bytes_that_are_no_utf8_do_not_cost_the_message() {
        let Message::Response { outcome: Ok(result), .. } = parse("\u{feff} {\"id\":1,\"result\":\"a\"}") else {
            panic!("a response")
        };
        assert_eq!(result.as_str(), "\"a\"");
        let found = Message::parse_all(&Bytes::from_static(b"\xef\xbb\xbf[{\"id\":1,\"result\":\"a\xffb\"}]")).unwrap();
        let [Message::Response { outcome: Ok(result), .. }] = &found[..] else { panic!("a response") };
        assert_eq!(result.as_str(), "\"a\u{fffd}b\"");
        assert!(Message::parse(&Bytes::from_static(b"\xef\xbb\xbf\xef\xbb\xbf{}")).is_err());
    }

    #[test]
    fn requests_and_notifications_are_told_apart_by_the_id() {
        let Message::Request { id, method, .. } = parse(r#"{"id":"a","method":"ping"}"#) else { panic!("a request") };
        assert_eq!((id.as_str(), method.as_str()), ("\"a\"", "ping"));
        assert!(matches!(parse(r#"{"method":"x","params":{}}"#), Message::Notification { .. }));
    }

    #[test]
    fn what_is_no_message_is_told_apart_from_what_is_no_json() {
        let parse = |text: &'static str| Message::parse(&Bytes::from_static(text.as_bytes())).unwrap_err();
        assert!(matches!(parse("Listening on 3000"), BadMessage::NotJson(_)));
        for text in ["5", "{}", "[1,2]", "\"x\"", r#"{"id":1}"#, r#"{"method":5}"#] {
            assert!(matches!(parse(text), BadMessage::NotRpc), "{text}");
        }
    }

    #[test]
    fn a_batch_loses_only_its_bad_members() {
        let batch = Bytes::from_static(br#" [{"id":1,"result":{}},5,{"method":"x"}]"#);
        assert_eq!(Message::parse_all(&batch).unwrap().len(), 2);
        assert!(Message::parse_all(&Bytes::from_static(b"[1,2]")).is_err());
    }

    #[test]
    fn requests_are_written_with_their_meta() {
        let params = Params::new().text("name", "a\"b").json("arguments", &Json::empty_object());
        let text = request(3, "tools/call", params, Meta { members: "\"a\":1", wants_progress: true });
        let expected = concat!(
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":"#,
            r#"{"name":"a\"b","arguments":{},"_meta":{"progressToken":3,"a":1}}}"#
        );
        assert_eq!(text, expected);
        assert_eq!(notification("n", &Params::new()), r#"{"jsonrpc":"2.0","method":"n"}"#);
        let object: Json = r#"{"a":1,"_meta":{"x":1}}"#.parse().unwrap();
        let text = notification("n", &Params::from_object(&object));
        assert_eq!(text, r#"{"jsonrpc":"2.0","method":"n","params":{"a":1}}"#);
    }

    #[test]
    fn answers_echo_the_id_as_it_came() {
        let id: Json = "\"x\"".parse().unwrap();
        let text = response(&id, Err(&RpcError::new(METHOD_NOT_FOUND, "no", None)));
        assert_eq!(text, r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"no"}}"#);
    }
}

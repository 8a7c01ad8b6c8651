//! Bodies: what comes in is read within bounds and checked member by member; what goes out is JSON.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};
use switchboard::wire::Json;
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::code::Code;
use crate::problem::Problem;

/// The longest pause between two parts of a body, and the longest time for all of it.
const PAUSE: Duration = Duration::from_secs(10);
const WHOLE: Duration = Duration::from_secs(120);
/// How far a body that is too large is read on, so that the answer reaches a client that reads only after it has written.
const READ_ON: usize = 64 << 20;

/// A JSON body, read as `T`.
pub(crate) struct Input<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Input<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_content_type(request.headers())?;
        let expects_continue = request.headers().contains_key(header::EXPECT);
        let bytes = read(request.into_body(), app.max_body_bytes(), expects_continue).await?;
        parse(&bytes).map(Self)
    }
}

/// A JSON body, read as `T`, that may be left out.
pub(crate) struct MaybeInput<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for MaybeInput<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        if request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        Input::from_request(request, app).await.map(|Input(value)| Self(value))
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    if is_json {
        return Ok(());
    }
    let detail = match given {
        "" => "the request has no `Content-Type`".to_owned(),
        given => format!("`{given}` is not a JSON content type"),
    };
    Err(Problem::new(Code::UnsupportedMediaType, detail).hint("send `Content-Type: application/json`"))
}

/// The whole body, of `limit` bytes at most.
async fn read(mut body: Body, limit: usize, expects_continue: bool) -> Result<Bytes, Problem> {
    let too_large = || {
        Problem::new(Code::BodyTooLarge, format!("a body may have {limit} bytes at most"))
            .with(|members| members.limit_bytes = Some(limit))
    };
    let declared = body.size_hint().lower();
    if expects_continue && declared > limit as u64 {
        return Err(too_large());
    }
    let end = Instant::now() + WHOLE;
    let mut bytes = BytesMut::new();
    let mut seen = 0;
    loop {
        let next = timeout_at(end.min(Instant::now() + PAUSE), body.frame()).await;
        let Ok(next) = next else {
            return Err(Problem::new(Code::BodyTimeout, format!("no part of the body arrived for {PAUSE:?}")));
        };
        let Some(frame) = next else { break };
        let frame = frame.map_err(|error| Problem::invalid_at("", format!("the body broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        seen += data.len();
        if seen <= limit {
            bytes.extend_from_slice(&data);
        } else if seen > limit.saturating_add(READ_ON) {
            break;
        }
    }
    if seen > limit { Err(too_large()) } else { Ok(bytes.freeze()) }
}

/// Reads JSON as `T`; a mistake is told with its place.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.trim_ascii().is_empty() {
        return Err(Problem::invalid_at("", "the body is empty; send a JSON object"));
    }
    let first = bytes.trim_ascii_start().first();
    let no_object = || Problem::invalid_at("", "the body must be a JSON object");
    // Serde would take an array for an object, its elements for the members in their order in our source.
    if first == Some(&b'[') {
        return Err(no_object());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = place(error.path());
        let error = error.into_inner();
        let message = match error.classify() {
            serde_json::error::Category::Data if first != Some(&b'{') => return no_object(),
            serde_json::error::Category::Data => error.to_string(),
            _ => format!("the body is not JSON: {error}"),
        };
        Problem::invalid_at(path, message)
    })?;
    deserializer.end().map_err(|error| Problem::invalid_at("", format!("the body is not one JSON value: {error}")))?;
    Ok(value)
}

/// A place in a document as the library writes them: members and indices with slashes between them.
fn place(path: &Path) -> String {
    let names = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Unknown => None,
    });
    names.collect::<Vec<_>>().join("/")
}

/// An answer of `value` as JSON.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response, Problem> {
    let bytes = serde_json::to_vec(value)
        .map_err(|error| Problem::new(Code::Internal, format!("the answer could not be written as JSON: {error}")))?;
    Ok(with_type(status, bytes))
}

/// An answer whose body is a server's own JSON, byte for byte.
pub(crate) fn raw_json(value: &Json) -> Response {
    with_type(StatusCode::OK, value.as_bytes().clone())
}

fn with_type(status: StatusCode, body: impl Into<Body>) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], body.into()).into_response()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use serde::Deserialize;
    use serde_json::Value;
    use switchboard::spec::SpecDocument;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Sample {
        name: String,
        #[serde(default)]
        arguments: Option<Json>,
    }

    fn mistake<T: DeserializeOwned>(text: &str) -> (String, String) {
        let problem = serde_json::to_value(parse::<T>(text.as_bytes()).err().unwrap()).unwrap();
        assert_eq!(problem["code"], "invalid_input", "{text}");
        let text = |member: &str| problem["errors"][0][member].as_str().unwrap().to_owned();
        (text("path"), text("message"))
    }

    #[test]
    fn a_wrong_type_is_told_with_its_place() {
        assert_eq!(mistake::<SpecDocument>(r#"{"name":7,"url":"http://h/"}"#).0, "name");
        let (path, message) = mistake::<SpecDocument>(r#"{"name":"a","url":"http://h/","retry":{"maxAttempts":"3"}}"#);
        assert_eq!(path, "retry/maxAttempts");
        assert!(message.contains("expected u32"), "{message}");
        assert_eq!(mistake::<SpecDocument>(r#"{"name":"a","command":"x","args":["a",1]}"#).0, "args/1");
    }

    #[test]
    fn an_unknown_member_is_named() {
        let (_, message) = mistake::<SpecDocument>(r#"{"name":"a","url":"http://h/","timeout":{}}"#);
        assert!(message.contains("unknown field `timeout`"), "{message}");
    }

    #[test]
    fn what_is_not_json_is_told_with_line_and_column() {
        for text in ["", "  ", "{", "nul", "{\"name\": \"a\"} x", "{'name':1}"] {
            let (_, message) = mistake::<Sample>(text);
            assert!(message.contains("empty") || message.contains("line 1 column"), "{text}: {message}");
        }
        assert!(parse::<Sample>(b"{\"name\":\"\xff\"}").is_err());
    }

    #[test]
    fn only_an_object_is_taken() {
        for text in ["null", "7", "\"a\"", "true", "[]", "[1,", " [\"a\", null]"] {
            assert_eq!(mistake::<Sample>(text), (String::new(), "the body must be a JSON object".to_owned()), "{text}");
        }
    }

    #[test]
    fn raw_members_keep_their_bytes() {
        let sample: Sample = parse(br#"{"name":"a","arguments":{ "n":1.00, "n":2 }}"#).unwrap();
        assert_eq!(sample.name, "a");
        assert_eq!(sample.arguments.unwrap().as_str(), r#"{ "n":1.00, "n":2 }"#);
        let sample: Sample = parse(br#"{"name":"a","arguments":null}"#).unwrap();
        assert!(sample.arguments.is_none());
    }

    #[test]
    fn only_json_content_types_are_taken() {
        let check = |value: &'static str| {
            check_content_type(&HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(value))])).is_ok()
        };
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.a+json"] {
            assert!(check(good), "{good}");
        }
        for bad in
            ["text/plain", "application/x-www-form-urlencoded", "", "text/json", "multipart/form-data; boundary=x"]
        {
            assert!(!check(bad), "{bad}");
        }
        assert!(check_content_type(&HeaderMap::new()).is_err());
    }

    fn in_parts(parts: impl IntoIterator<Item = usize, IntoIter: Send + 'static>) -> Body {
        let parts = parts.into_iter().map(|size| Ok::<_, Infallible>(Bytes::from(vec![b'x'; size])));
        Body::from_stream(stream::iter(parts))
    }

    #[tokio::test]
    async fn a_body_at_the_limit_is_read_and_one_byte_more_is_refused() {
        assert_eq!(read(in_parts([6, 4]), 10, false).await.unwrap().len(), 10);
        let problem = serde_json::to_value(read(in_parts([6, 5]), 10, false).await.unwrap_err()).unwrap();
        assert_eq!((&problem["status"], &problem["limitBytes"]), (&Value::from(413), &Value::from(10)));
    }

    #[tokio::test]
    async fn a_body_without_end_is_given_up() {
        let endless = in_parts(std::iter::repeat(1 << 20));
        assert_eq!(read(endless, 10, false).await.unwrap_err().code(), Code::BodyTooLarge);
    }

    #[tokio::test]
    async fn a_client_that_asks_first_is_told_before_it_sends() {
        let declared = Body::from(vec![b'x'; 11]);
        assert_eq!(read(declared, 10, true).await.unwrap_err().code(), Code::BodyTooLarge);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_ends_in_time() {
        let stalled = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let begun = Instant::now();
        assert_eq!(read(stalled, 10, false).await.unwrap_err().code(), Code::BodyTimeout);
        assert_eq!(begun.elapsed(), PAUSE);
    }
}

//! Talks to a daemon over its HTTP API, as its owner.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Map, Value, json};
use switchboard::secret::Secret;
use switchboard::wire::Json;

use super::events::Feed;
use super::local::AGENT;
use super::{CallAnswer, CallRequest};
use crate::args::Time;
use crate::daemon_file::DaemonFile;
use crate::problem::{Problem, Result};

/// The largest answer that is read.
const ANSWER_BYTES: usize = 1 << 30;

/// A daemon, seen from outside.
pub(crate) struct Client {
    address: String,
    base: String,
    token: Secret,
    http: hyper_util::client::legacy::Client<HttpConnector, Full<Bytes>>,
}

/// What the daemon answered.
pub(crate) struct Answer {
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body; `null` when there is none.
    pub(crate) body: Json,
}

impl Client {
    /// The daemon that `file` tells of; `instance` of the program's own agent.
    pub(crate) fn new(file: &DaemonFile, instance: &str) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(std::time::Duration::from_secs(5)));
        connector.set_nodelay(true);
        Self {
            address: file.address.to_string(),
            base: format!("http://{}/agents/{AGENT}/{instance}", file.address),
            token: file.token.clone(),
            http: hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector),
        }
    }

    /// `GET` of a path below the instance.
    pub(crate) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Json> {
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let mark = if query.is_empty() { "" } else { "?" };
        self.ask(Method::GET, &format!("{path}{mark}{query}"), None).await.map(|answer| answer.body)
    }

    /// `POST` to a path below the instance.
    pub(crate) async fn post(&self, path: &str, body: &Json) -> Result<Answer> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// `DELETE` of a path below the instance.
    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        self.ask(Method::DELETE, path, None).await.map(drop)
    }

    pub(super) async fn call(&self, call: &CallRequest) -> Result<CallAnswer> {
        let mut body = timed(call.time);
        match &call.server {
            Some(id) => {
                body.insert("serverId".into(), id.as_str().into());
                body.insert("name".into(), call.tool.as_str().into());
            }
            None => drop(body.insert("tool".into(), call.tool.as_str().into())),
        }
        if call.validate {
            body.insert("validate".into(), true.into());
        }
        if call.retry_if_safe {
            body.insert("retryIfSafe".into(), true.into());
        }
        if !call.headers.is_empty() {
            body.insert("headers".into(), serde_json::json!(call.headers));
        }
        let answer = self.post("tools/call", &with_raw(&body, "arguments", &call.arguments)?).await?;
        let warnings = answer.headers.get_all("switchboard-warning").iter();
        let warnings = warnings.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
        let is_error = answer.body.to_value().get("isError").and_then(Value::as_bool).unwrap_or_default();
        Ok(CallAnswer { result: answer.body, is_error, warnings })
    }

    pub(super) async fn read(&self, server: &str, uri: &str, time: Time) -> Result<Json> {
        let mut body = timed(time);
        body.insert("serverId".into(), server.into());
        body.insert("uri".into(), uri.into());
        self.post("resources/read", &Json::from(Value::Object(body))).await.map(|answer| answer.body)
    }

    pub(super) async fn prompt(&self, server: &str, name: &str, arguments: &Json, time: Time) -> Result<Json> {
        let mut body = timed(time);
        body.insert("serverId".into(), server.into());
        body.insert("name".into(), name.into());
        self.post("prompts/get", &with_raw(&body, "arguments", arguments)?).await.map(|answer| answer.body)
    }

    pub(super) async fn complete(&self, server: &str, parameters: &Json, time: Time) -> Result<Json> {
        let mut body = timed(time);
        body.insert("serverId".into(), server.into());
        if let Value::Object(parameters) = parameters.to_value() {
            body.extend(parameters);
        }
        self.post("complete", &Json::from(Value::Object(body))).await.map(|answer| answer.body)
    }

    pub(super) async fn events(&self, after: Option<u64>) -> Result<Feed> {
        let after = match after {
            Some(after) => after,
            None => last_event(&self.get("events", &[]).await?),
        };
        let request = self
            .request(Method::GET, &format!("events?after={after}"))
            .header(header::ACCEPT, "text/event-stream")
            .body(Full::default());
        let response = self.send(request).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response.status(), &self.body(response).await?).into());
        }
        Ok(Feed::daemon(response.into_body()))
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Json>) -> Result<Answer> {
        let request = self.request(method, path).header(header::ACCEPT, "application/json");
        let request = match body {
            Some(body) => {
                request.header(header::CONTENT_TYPE, "application/json").body(Full::new(body.as_bytes().clone()))
            }
            None => request.body(Full::default()),
        };
        let response = self.send(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = self.body(response).await?;
        if !status.is_success() {
            return Err(self.refusal(status, &bytes).into());
        }
        let text = if bytes.is_empty() { Bytes::from_static(b"null") } else { bytes };
        let body = Json::parse(text).map_err(|cause| self.strange("an answer that is not JSON").because(cause))?;
        Ok(Answer { headers, body })
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}/{path}", self.base))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token.expose()))
    }

    async fn send(&self, request: http::Result<Request<Full<Bytes>>>) -> Result<http::Response<Incoming>> {
        let request = request.map_err(|cause| self.strange("an address that cannot be asked").because(cause))?;
        Ok(self.http.request(request).await.map_err(|cause| self.silent(&cause))?)
    }

    async fn body(&self, response: http::Response<Incoming>) -> Result<Bytes> {
        let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
        Ok(body.map_err(|cause| self.strange("half an answer").because(cause))?.to_bytes())
    }

    /// The problem that an answer other than 2xx tells of.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> Problem {
        let document = serde_json::from_slice::<Value>(body).ok();
        document.as_ref().and_then(Problem::of_document).unwrap_or_else(|| {
            let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
            let problem = self.strange(&format!("status {status}"));
            if text.trim().is_empty() { problem } else { problem.because(text.trim()) }
        })
    }

    fn strange(&self, what: &str) -> Problem {
        Problem::new("daemon_unreachable", format!("the daemon at http://{} gave {what}", self.address))
    }

    fn silent(&self, cause: &(dyn std::error::Error + 'static)) -> Problem {
        let mut problem =
            Problem::new("daemon_unreachable", format!("the daemon at http://{} does not answer", self.address));
        let mut next = Some(cause);
        while let Some(cause) = next {
            problem = problem.because(cause);
            next = cause.source();
        }
        problem.hint("is it stopping? try again, or start it anew with `switchboard serve`")
    }
}

/// The members that say how long a request may take.
fn timed(time: Time) -> Map<String, Value> {
    let members = [("timeoutMs", time.timeout_ms), ("deadlineMs", time.deadline_ms)];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect()
}

/// The object with one more member, whose bytes stay as they are.
fn with_raw(members: &Map<String, Value>, name: &str, value: &Json) -> Result<Json, Problem> {
    let broken = |cause| Problem::input("the arguments cannot be sent").because(cause);
    let mut whole = Vec::new();
    for (name, value) in members {
        whole.push((name.as_str(), Json::from(value.clone())));
    }
    whole.push((name, value.clone()));
    let text = whole
        .iter()
        .map(|(name, value)| Ok(format!("{}:{}", serde_json::to_string(name)?, value.as_str())))
        .collect::<Result<Vec<_>, serde_json::Error>>()
        .map_err(broken)?;
    Json::parse(format!("{{{}}}", text.join(","))).map_err(broken)
}

/// The number of the last event in a document of events.
fn last_event(document: &Json) -> u64 {
    let document = document.to_value();
    let events = document.get("events").and_then(Value::as_array).into_iter().flatten();
    events.filter_map(|event| event.get("seq")?.as_u64()).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_reach_the_daemon_byte_for_byte() {
        let members = timed(Time { timeout_ms: Some(5), deadline_ms: None });
        let raw: Json = r#"{"n": 1.00}"#.parse().unwrap();
        assert_eq!(
            with_raw(&members, "arguments", &raw).unwrap().as_str(),
            r#"{"timeoutMs":5,"arguments":{"n": 1.00}}"#
        );
    }

    #[test]
    fn the_last_event_is_the_one_with_the_highest_number() {
        assert_eq!(last_event(&r#"{"events": [{"seq": 3}, {"seq": 9}]}"#.parse().unwrap()), 9);
        assert_eq!(last_event(&"{}".parse().unwrap()), 0);
    }
}

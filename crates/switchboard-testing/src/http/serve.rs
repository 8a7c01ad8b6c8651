//! How an HTTP peer answers one request.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::http::body::{self, Act, Answering, Body, GiveUp};
use crate::http::exchange::{Coding, Ending, HttpReply, HttpRequest, Script, Start};
use crate::http::socket::SocketState;
use crate::http::{AnswerWith, GetStream, Shared, headers, legacy_sse};
use crate::peer::{Era, Kind};
use crate::reply::{Message, Output, Outputs};

const SESSION: &str = "mcp-session-id";

type Answer = io::Result<Response<Body>>;

/// One request on one socket.
pub(crate) struct Exchange {
    pub(crate) shared: Arc<Shared>,
    pub(crate) socket: Arc<SocketState>,
}

impl Exchange {
    /// Records the request and answers it as the script says, or as usual.
    pub(crate) async fn serve(self, incoming: hyper::Request<Incoming>) -> Answer {
        let (head, body) = incoming.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let request = HttpRequest {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().map(str::to_owned),
            headers: head.headers,
            body,
        };
        self.shared.note(&request);
        let message = request.json().filter(|_| request.method == Method::POST);
        if let Some(message) = &message {
            self.shared.peer.note(message);
        }
        match self.shared.scripted(&request) {
            None => self.usual(&request, message).await,
            Some(reply) => self.follow(reply, &request, message).await,
        }
    }

    /// Answers as the script says.
    async fn follow(&self, reply: HttpReply, request: &HttpRequest, message: Option<Value>) -> Answer {
        if let Some(gate) = &reply.gate {
            gate.wait().await;
        }
        if let Some(delay) = reply.delay {
            tokio::time::sleep(delay).await;
        }
        let status = reply.status_code();
        let mut response = match reply.start {
            Start::Usual => self.usual(request, message).await?,
            Start::Body(script) => self.body(script),
            Start::Nothing(Ending::Hang | Ending::Complete) => std::future::pending().await,
            Start::Nothing(Ending::Cut) => return Err(body::cut()),
            Start::Nothing(Ending::Reset) => return Err(self.reset()),
        };
        if let Some(status) = status {
            *response.status_mut() = status;
        }
        for name in reply.headers.keys() {
            response.headers_mut().remove(name);
        }
        for (name, value) in &reply.headers {
            response.headers_mut().append(name, value.clone());
        }
        match reply.coding {
            Some(coding) => encoded(response, coding).await,
            None => Ok(response),
        }
    }

    fn body(&self, script: Script) -> Response<Body> {
        let length = script.length;
        let acts = script.chunks.into_iter().map(Act::Write).chain([Act::End(script.ending)]);
        let mut response = Response::new(body::scripted(futures_util::stream::iter(acts), Arc::clone(&self.socket)));
        if let Some(length) = length {
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        response
    }

    fn reset(&self) -> io::Error {
        self.socket.reset_at_end();
        body::cut()
    }

    /// Answers as a server of the peer's eras does.
    async fn usual(&self, request: &HttpRequest, message: Option<Value>) -> Answer {
        match (request.path.as_str(), &request.method) {
            (legacy_sse::STREAM, &Method::GET) => {
                return Ok(self.open_legacy_stream(request).unwrap_or_else(|| empty(StatusCode::NOT_FOUND)));
            }
            (legacy_sse::STREAM, _) if self.shared.speaks_legacy_sse() => {
                return Ok(empty(StatusCode::METHOD_NOT_ALLOWED));
            }
            (legacy_sse::MESSAGES, &Method::POST) => return Ok(self.take_legacy_message(request, message)),
            (path, _) if path.starts_with("/mcp") => {}
            _ => return Ok(empty(StatusCode::NOT_FOUND)),
        }
        match request.method {
            Method::POST => self.post(request, message).await,
            Method::GET => Ok(self.get(request)),
            Method::DELETE => Ok(self.delete(request)),
            _ => Ok(empty(StatusCode::METHOD_NOT_ALLOWED)),
        }
    }

    async fn post(&self, request: &HttpRequest, message: Option<Value>) -> Answer {
        if !media_type(request).eq_ignore_ascii_case("application/json") {
            return Ok(refusal(415, &Value::Null, -32000, "Unsupported Media Type: send application/json"));
        }
        let Some(message) = message.filter(Value::is_object) else {
            return Ok(refusal(400, &Value::Null, -32700, "Parse error"));
        };
        if !(accepts(request, "application/json") && accepts(request, "text/event-stream")) {
            let text = "Not Acceptable: accept both application/json and text/event-stream";
            return Ok(refusal(406, &message["id"], -32000, text));
        }
        let session = match self.admit(request, &message) {
            Ok(session) => session,
            Err(refusal) => return Ok(*refusal),
        };
        if message.get("method").is_none() || message.get("id").is_none() {
            return Ok(empty(StatusCode::ACCEPTED));
        }
        let mut response = self.answer(message).await?;
        if let Some(session) = session {
            response.headers_mut().insert(SESSION, session);
        }
        Ok(response)
    }

    /// Checks headers and session. Gives the new session of an `initialize`.
    fn admit(&self, request: &HttpRequest, message: &Value) -> Result<Option<HeaderValue>, Box<Response<Body>>> {
        let id = &message["id"];
        let peer = &self.shared.peer;
        if peer.era_of(message) == Era::Modern {
            return match headers::mismatch(peer, request, message) {
                Some(mismatch) => {
                    peer.complain(mismatch.clone());
                    Err(Box::new(refusal(400, id, -32020, &format!("Header mismatch: {mismatch}"))))
                }
                None => Ok(None),
            };
        }
        if message["method"] == "initialize" {
            return Ok(self.shared.new_session().and_then(|session| HeaderValue::from_str(&session).ok()));
        }
        match self.session_refusal(request, id).or_else(|| self.version_refusal(request, id)) {
            Some(refusal) => Err(Box::new(refusal)),
            None => Ok(None),
        }
    }

    /// A legacy server refuses revisions that it does not know, but bears a client that names none.
    fn version_refusal(&self, request: &HttpRequest, id: &Value) -> Option<Response<Body>> {
        let peer = &self.shared.peer;
        let Some(version) = request.header("mcp-protocol-version") else {
            peer.complain("a request after the handshake lacks the header `mcp-protocol-version`".to_owned());
            return None;
        };
        let text = format!("Bad Request: Unsupported protocol version: {version}");
        (!peer.knows_legacy(version)).then(|| refusal(400, id, -32000, &text))
    }

    fn session_refusal(&self, request: &HttpRequest, id: &Value) -> Option<Response<Body>> {
        match (self.shared.knows_session(request.header(SESSION)), request.header(SESSION)) {
            (true, _) => None,
            (false, None) => Some(refusal(400, id, -32000, "Bad Request: Mcp-Session-Id header is required")),
            (false, Some(_)) => Some(refusal(404, id, -32001, "Session not found")),
        }
    }

    async fn answer(&self, message: Value) -> Answer {
        let peer = self.shared.peer.clone();
        let (outputs, queue) = Outputs::channel();
        let watch = GiveUp::watch(&peer, &message);
        let task = AbortOnDropHandle::new(tokio::spawn(async move { peer.answer(message, outputs).await }));
        let mut answering = Answering { queue, first: None, watch, _task: task };
        let mode = self.shared.settings().answer_with;
        let first = first_output(&mut answering, mode).await;
        match first {
            Some(Output::Cut) => Err(body::cut()),
            Some(Output::Message(message)) if fits_json(&message, mode) => Ok(self.json(&message)),
            first => {
                answering.first = first;
                let acts = answering.into_events();
                Ok(event_stream(body::scripted(acts, Arc::clone(&self.socket))))
            }
        }
    }

    fn json(&self, message: &Message) -> Response<Body> {
        let length = message.bytes.len();
        let acts = body::acts_of(message.bytes.clone(), message);
        let body = match acts.as_slice() {
            [Act::Write(bytes)] => body::full(bytes.clone()),
            _ => body::scripted(futures_util::stream::iter(acts), Arc::clone(&self.socket)),
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(message.status).expect("the status is a valid one");
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
        response
    }

    fn get(&self, request: &HttpRequest) -> Response<Body> {
        let (is_legacy, get_stream) = (self.shared.peer.is_legacy(), self.shared.settings().get_stream);
        match get_stream {
            _ if !is_legacy => empty(StatusCode::METHOD_NOT_ALLOWED),
            GetStream::Refused(status) => empty(StatusCode::from_u16(status).expect("the status is a valid one")),
            GetStream::Html(status) => {
                let mut response = Response::new(body::full("<!doctype html><title>Not here</title>"));
                *response.status_mut() = StatusCode::from_u16(status).expect("the status is a valid one");
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
                response
            }
            GetStream::Open if !accepts(request, "text/event-stream") => empty(StatusCode::NOT_ACCEPTABLE),
            GetStream::Open => {
                self.session_refusal(request, &Value::Null).unwrap_or_else(|| event_stream(self.pushed()))
            }
        }
    }

    /// A body that carries what is pushed, until either side ends it.
    fn pushed(&self) -> Body {
        let (outputs, queue) = Outputs::channel();
        let hold = self.shared.peer.open_channel(outputs, Kind::Legacy);
        let acts = futures_util::stream::unfold((queue, hold), |(mut queue, hold)| async move {
            let output = tokio::select! {
                output = queue.recv() => output?,
                () = hold.ended() => return None,
            };
            let acts = match output {
                Output::Cut => vec![Act::End(Ending::Cut)],
                Output::Message(message) => body::acts_of(body::event(&message.bytes), &message),
            };
            Some((futures_util::stream::iter(acts), (queue, hold)))
        });
        body::scripted(acts.flatten(), Arc::clone(&self.socket))
    }

    fn delete(&self, request: &HttpRequest) -> Response<Body> {
        if !self.shared.peer.is_legacy() || !self.shared.settings().sessions {
            return empty(StatusCode::METHOD_NOT_ALLOWED);
        }
        if let Some(refusal) = self.session_refusal(request, &Value::Null) {
            return refusal;
        }
        self.shared.forget_session(request.header(SESSION).unwrap_or_default());
        empty(StatusCode::OK)
    }
}

/// A JSON answer waits for the first message. An event stream starts at once, except that an error which is there
/// already is answered with its own status, as real servers do.
async fn first_output(answering: &mut Answering, mode: AnswerWith) -> Option<Output> {
    match mode {
        AnswerWith::Json => answering.next().await,
        AnswerWith::Sse => {
            for _ in 0..8 {
                if let Ok(output) = answering.queue.try_recv() {
                    answering.first = Some(output);
                    return answering.next().await;
                }
                tokio::task::yield_now().await;
            }
            None
        }
    }
}

fn fits_json(message: &Message, mode: AnswerWith) -> bool {
    message.is_answer && message.is_alone && (mode == AnswerWith::Json || message.status != 200)
}

async fn encoded(response: Response<Body>, coding: Coding) -> Answer {
    let (mut head, body) = response.into_parts();
    let coded = coding.encode(&body.collect().await?.to_bytes()).await;
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    head.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(head, body::full(coded)))
}

pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(body::full(Bytes::new()));
    *response.status_mut() = status;
    response
}

fn refusal(status: u16, id: &Value, code: i64, text: &str) -> Response<Body> {
    let error = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } });
    let mut response = Response::new(body::full(error.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).expect("the status is a valid one");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

fn media_type(request: &HttpRequest) -> &str {
    request.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

fn accepts(request: &HttpRequest, media_type: &str) -> bool {
    let values = request.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| {
        let essence = entry.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case(media_type) || essence == "*/*"
    })
}

//! What a peer sends for one message: polite answers, and every rude thing that servers in the field do.
//!
//! A [`Reply`] does not know its transport. Over lines (stdio, memory) each message is a line; over HTTP it is the JSON
//! body or an SSE event of the answer.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::patience::Gate;
use crate::peer::{Context, Era};

/// What a peer does with one request.
///
/// Start with what it answers ([`Reply::result`], [`Reply::error`], [`Reply::cut`], …) and add how it does so
/// ([`before`](Self::before), [`delay`](Self::delay), [`wrong_id`](Self::wrong_id), …). What comes before the answer
/// happens in the order in which it was added.
#[must_use]
pub struct Reply {
    steps: Vec<Step>,
    answer: Answer,
    after: Vec<Value>,
    id: AnswerId,
    style: Style,
    status: Option<u16>,
}

enum Step {
    Message(Value),
    Flood(usize, Value),
    Delay(Duration),
    Gate(Gate),
}

enum Answer {
    Result(Value),
    BareResult(Value),
    ResultText(String),
    Error(Value),
    Raw(Vec<Value>),
    Bytes(Bytes),
    Nothing,
    Cut,
    Later(BoxFuture<'static, Reply>),
}

enum AnswerId {
    Same,
    AsString,
    Other(Value),
}

/// How the bytes of an answer go out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// Write and flush this many bytes at a time.
    pub(crate) pieces: Option<usize>,
    /// Cut the connection after this part of the answer.
    pub(crate) cut: Option<CutPoint>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum CutPoint {
    After(usize),
    Midway,
}

impl Style {
    /// The part of `bytes` that goes out, and whether the connection is cut after it.
    pub(crate) fn trim(self, mut bytes: Bytes) -> (Bytes, bool) {
        let keep = match self.cut {
            None => return (bytes, false),
            Some(CutPoint::After(count)) => count,
            Some(CutPoint::Midway) => bytes.len() / 2,
        };
        bytes.truncate(keep);
        (bytes, true)
    }

    /// Splits `bytes` into what is written at a time.
    pub(crate) fn split(self, mut bytes: Bytes) -> Vec<Bytes> {
        let Some(size) = self.pieces else { return vec![bytes] };
        let mut pieces = Vec::new();
        while bytes.len() > size {
            pieces.push(bytes.split_to(size));
        }
        pieces.push(bytes);
        pieces
    }
}

impl Reply {
    fn new(answer: Answer) -> Self {
        Self { steps: Vec::new(), answer, after: Vec::new(), id: AnswerId::Same, style: Style::default(), status: None }
    }

    /// A result. To a modern client `resultType` and the server's name are added where they are missing.
    pub fn result(result: Value) -> Self {
        Self::new(Answer::Result(result))
    }

    /// A result exactly as given, even where the revision asks for more members.
    pub fn bare_result(result: Value) -> Self {
        Self::new(Answer::BareResult(result))
    }

    /// A result as JSON text that reaches the client byte for byte.
    pub fn result_text(json: impl Into<String>) -> Self {
        Self::new(Answer::ResultText(json.into()))
    }

    /// The result of a tool that says `text`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::result(json!({ "content": [{ "type": "text", "text": text.into() }] }))
    }

    /// The result of a tool that failed with `text` (`isError`).
    pub fn tool_error(text: impl Into<String>) -> Self {
        Self::result(json!({ "content": [{ "type": "text", "text": text.into() }], "isError": true }))
    }

    /// A JSON-RPC error.
    pub fn error(code: i64, message: impl Into<String>) -> Self {
        Self::new(Answer::Error(json!({ "code": code, "message": message.into() })))
    }

    /// A JSON-RPC error with data.
    pub fn error_with(code: i64, message: impl Into<String>, data: Value) -> Self {
        Self::new(Answer::Error(json!({ "code": code, "message": message.into(), "data": data })))
    }

    /// The error of a method that the peer does not know.
    pub fn method_not_found(method: &str) -> Self {
        Self::error(-32601, format!("Method not found: {method}"))
    }

    /// Whole messages, sent as they are, in place of an answer.
    pub fn raw(messages: impl IntoIterator<Item = Value>) -> Self {
        Self::new(Answer::Raw(messages.into_iter().collect()))
    }

    /// Bytes that are no JSON-RPC message: one line, one SSE event, or the JSON body.
    pub fn garbage(bytes: impl Into<Bytes>) -> Self {
        Self::new(Answer::Bytes(bytes.into()))
    }

    /// Never answers; the connection stays open.
    pub fn stall() -> Self {
        Self::new(Answer::Nothing)
    }

    /// Cuts the connection in place of an answer.
    pub fn cut() -> Self {
        Self::new(Answer::Cut)
    }

    /// A reply that is found out later. The future may use a clone of the [`Context`] to send messages, or to ask the
    /// client something and wait for what it says.
    pub fn later(reply: impl Future<Output = Self> + Send + 'static) -> Self {
        Self::new(Answer::Later(Box::pin(reply)))
    }

    /// Sends a whole message (a notification or a request) first.
    pub fn before(mut self, message: Value) -> Self {
        self.steps.push(Step::Message(message));
        self
    }

    /// Sends a whole message after the answer.
    pub fn after(mut self, message: Value) -> Self {
        self.after.push(message);
        self
    }

    /// Sends the same message `count` times first.
    pub fn flood(mut self, count: usize, message: Value) -> Self {
        self.steps.push(Step::Flood(count, message));
        self
    }

    /// Waits on tokio's clock, which a test can pause.
    pub fn delay(mut self, duration: Duration) -> Self {
        self.steps.push(Step::Delay(duration));
        self
    }

    /// Waits until the test opens the gate.
    pub fn when(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Gate(gate.clone()));
        self
    }

    /// Answers under another id.
    pub fn wrong_id(mut self, id: impl Into<Value>) -> Self {
        self.id = AnswerId::Other(id.into());
        self
    }

    /// Answers under the request's id turned into a string.
    pub fn id_as_string(mut self) -> Self {
        self.id = AnswerId::AsString;
        self
    }

    /// Writes the answer in pieces of `size` bytes, each flushed on its own.
    pub fn in_pieces(mut self, size: usize) -> Self {
        self.style.pieces = Some(size.max(1));
        self
    }

    /// Cuts the connection after `count` bytes of the answer.
    pub fn cut_after(mut self, count: usize) -> Self {
        self.style.cut = Some(CutPoint::After(count));
        self
    }

    /// Cuts the connection in the middle of the answer.
    pub fn cut_midway(mut self) -> Self {
        self.style.cut = Some(CutPoint::Midway);
        self
    }

    /// Cuts the connection right after the whole answer.
    pub fn then_cut(self) -> Self {
        self.cut_after(usize::MAX)
    }

    /// Over HTTP, the status of a JSON answer, in place of the one that the revision asks for.
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Carries the reply out: sends everything to the transport, in order.
    pub(crate) async fn run(self, context: &Context) {
        let outputs = context.outputs();
        let status = self.status.unwrap_or(200);
        let alone = self.after.is_empty() && !self.steps.iter().any(Step::sends);
        for step in self.steps {
            step.run(outputs).await;
        }
        let id = self.id.apply(context.id());
        match self.answer {
            Answer::Later(reply) => {
                let mut reply = reply.await;
                reply.after.extend(self.after);
                return Box::pin(reply.run(context)).await;
            }
            Answer::Nothing => return std::future::pending().await,
            Answer::Cut => return outputs.send(Output::Cut).await,
            Answer::Bytes(bytes) => outputs.send(Output::answer(bytes, self.style, alone, status)).await,
            Answer::Raw(messages) => {
                let alone = alone && messages.len() == 1;
                for message in messages {
                    let bytes = message.to_string().into();
                    outputs.send(Output::answer(bytes, self.style, alone, status)).await;
                }
            }
            Answer::Result(mut result) => {
                context.complete(&mut result);
                let bytes = envelope(&id, "result", &result.to_string());
                outputs.send(Output::answer(bytes, self.style, alone, status)).await;
            }
            Answer::BareResult(result) => {
                let bytes = envelope(&id, "result", &result.to_string());
                outputs.send(Output::answer(bytes, self.style, alone, status)).await;
            }
            Answer::ResultText(text) => {
                outputs.send(Output::answer(envelope(&id, "result", &text), self.style, alone, status)).await;
            }
            Answer::Error(error) => {
                let status = self.status.unwrap_or_else(|| error_status(context.era(), &error));
                let bytes = envelope(&id, "error", &error.to_string());
                outputs.send(Output::answer(bytes, self.style, alone, status)).await;
            }
        }
        for message in self.after {
            outputs.send(Output::message(&message, Style::default())).await;
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reply").finish_non_exhaustive()
    }
}

impl Step {
    fn sends(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Flood(..))
    }

    async fn run(self, outputs: &Outputs) {
        match self {
            Self::Message(message) => outputs.send(Output::message(&message, Style::default())).await,
            Self::Delay(duration) => tokio::time::sleep(duration).await,
            Self::Gate(gate) => gate.wait().await,
            Self::Flood(count, message) => {
                let output = Output::message(&message, Style::default());
                for _ in 0..count {
                    outputs.send(output.clone()).await;
                }
            }
        }
    }
}

impl AnswerId {
    fn apply(self, id: &Value) -> Value {
        match (self, id) {
            (Self::Same, id) => id.clone(),
            (Self::Other(other), _) => other,
            (Self::AsString, Value::String(text)) => text.clone().into(),
            (Self::AsString, id) => id.to_string().into(),
        }
    }
}

fn envelope(id: &Value, member: &str, text: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{text}}}"#).into()
}

/// One thing that the transport does for a reply.
#[derive(Debug, Clone)]
pub(crate) enum Output {
    /// Frame these bytes as one message.
    Message(Message),
    /// Cut the connection.
    Cut,
}

/// The bytes of one message and how they go out.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) bytes: Bytes,
    pub(crate) style: Style,
    /// The answer to the request, or something that takes its place.
    pub(crate) is_answer: bool,
    /// Nothing goes out before or after it, so that a plain JSON body can carry it.
    pub(crate) is_alone: bool,
    /// The HTTP status that the revision asks for.
    pub(crate) status: u16,
}

impl Output {
    pub(crate) fn message(message: &Value, style: Style) -> Self {
        Self::Message(Message {
            bytes: message.to_string().into(),
            style,
            is_answer: false,
            is_alone: false,
            status: 200,
        })
    }

    fn answer(bytes: Bytes, style: Style, is_alone: bool, status: u16) -> Self {
        Self::Message(Message { bytes, style, is_answer: true, is_alone, status })
    }
}

/// Modern servers answer protocol errors with a status of their own; legacy ones with 200.
fn error_status(era: Era, error: &Value) -> u16 {
    match (era, error["code"].as_i64()) {
        (Era::Modern, Some(-32601)) => 404,
        (Era::Modern, Some(-32022..=-32020 | -32600 | -32700)) => 400,
        _ => 200,
    }
}

/// Where the outputs of a reply go: the stream of one HTTP request, or the whole connection of a line transport.
#[derive(Debug, Clone)]
pub(crate) struct Outputs(mpsc::Sender<Output>);

impl Outputs {
    /// The capacity is what a test may push at once without reading; a flood is slowed down by it.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Output>) {
        let (sender, receiver) = mpsc::channel(4096);
        (Self(sender), receiver)
    }

    /// Waits for room. What nobody reads any more is dropped.
    pub(crate) async fn send(&self, output: Output) {
        let _ = self.0.send(output).await;
    }

    /// Sends without waiting; false when nobody reads any more.
    pub(crate) fn push(&self, output: Output) -> bool {
        match self.0.try_send(output) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Closed(_)) => false,
            Err(mpsc::error::TrySendError::Full(_)) => panic!("the client does not read what the peer pushes"),
        }
    }

    /// Waits until the transport has gone.
    pub(crate) async fn closed(&self) {
        self.0.closed().await;
    }
}

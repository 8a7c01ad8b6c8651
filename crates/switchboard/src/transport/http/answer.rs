//! Reads the answer to a request: one JSON body, or an event stream that has it among other messages.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::HttpTransport;
use super::status::{is_decided, refuses_exchange, take_rpc};
use crate::transport::body::{Body, EVENT_STREAM, excerpt, media_type};
use crate::transport::sse::EventStream;
use crate::transport::{Answer, Outgoing, TransportError};
use crate::wire::Message;

impl HttpTransport {
    pub(super) async fn read_answer(
        self: &Arc<Self>,
        outgoing: Outgoing<'_>,
        response: Response<Incoming>,
    ) -> Result<Answer, TransportError> {
        let status = response.status();
        if !status.is_success() {
            return match self.refusal(outgoing.dialect, response).await {
                // A modern server says what is wrong in JSON-RPC, whatever the status.
                TransportError::Status(error)
                    if error.rpc.is_some() && !is_decided(status) && !refuses_exchange(outgoing.dialect, &error) =>
                {
                    Ok(Err(take_rpc(*error)))
                }
                error => Err(error),
            };
        }
        let (parts, body) = response.into_parts();
        let body = Body::new(&parts.headers, body)?;
        match &*media_type(&parts.headers) {
            EVENT_STREAM => self.read_stream(outgoing, EventStream::new(body, self.limit)).await,
            media_type => {
                let text = body.collect(self.limit).await?;
                self.read_body(outgoing, &text, media_type, status).await
            }
        }
    }

    async fn read_body(
        self: &Arc<Self>,
        outgoing: Outgoing<'_>,
        text: &Bytes,
        media_type: &str,
        status: StatusCode,
    ) -> Result<Answer, TransportError> {
        if text.trim_ascii().is_empty() || status == StatusCode::ACCEPTED {
            return Err(TransportError::NoAnswer("the HTTP exchange"));
        }
        if !matches!(media_type, "" | "application/json" | "text/json") && !media_type.ends_with("+json") {
            let what = format!("the media type `{media_type}`: {}", excerpt(text));
            return Err(TransportError::NotMcp(what));
        }
        if let Ok(Message::Response { id: Some(id), outcome }) = Message::parse(text)
            && id == outgoing.id
        {
            return Ok(outcome);
        }
        let messages = Message::parse_all(text)
            .map_err(|error| TransportError::NotMcp(format!("the body is {error}: {}", excerpt(text))))?;
        let mut answer = None;
        let mut stray = None;
        for message in messages {
            match message {
                Message::Response { id, outcome } if is_answer(id, outgoing.id, &outcome) => answer = Some(outcome),
                Message::Response { id, .. } => stray = Some(id),
                other => self.pass_on(outgoing.dialect, other),
            }
        }
        match (answer, stray) {
            (Some(answer), _) => Ok(answer),
            (None, Some(id)) => Err(wrong_id(outgoing.id, id)),
            (None, None) => Err(TransportError::NoAnswer("the HTTP exchange")),
        }
    }
}

/// Whether a response answers our request: by its id, or because it is an error that could not read the id.
pub(super) fn is_answer(id: Option<u64>, ours: u64, outcome: &Answer) -> bool {
    id == Some(ours) || (id.is_none() && outcome.is_err())
}

pub(super) fn wrong_id(ours: u64, theirs: Option<u64>) -> TransportError {
    let theirs = theirs.map_or_else(|| "no id of ours".to_owned(), |id| format!("id {id}"));
    TransportError::NotMcp(format!("an unmatched reply with {theirs} to the request with id {ours}"))
}

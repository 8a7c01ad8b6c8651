//! The stream on which a legacy server speaks unasked, opened by GET.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;

use super::HttpTransport;
use super::status::status_error;
use crate::transport::body::{Body, media_type};
use crate::transport::sse::EventStream;
use crate::transport::{Dialect, TransportError};

/// How a standalone stream ended.
#[derive(Debug, Default)]
pub(crate) struct StreamEnd {
    /// Behind which event it can be resumed.
    pub(crate) last_event_id: Option<String>,
    /// How long the server asked us to wait before that.
    pub(crate) retry: Option<Duration>,
    /// Whether any event came.
    pub(crate) gave_events: bool,
}

impl HttpTransport {
    /// Opens the optional stream on which a legacy server speaks unasked, and reads it to its end.
    ///
    /// # Errors
    /// [`TransportError::Status`] when the server does not offer one.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        dialect: Dialect,
        last_event_id: Option<&str>,
    ) -> Result<StreamEnd, TransportError> {
        let headers = || Ok(self.stream_headers(dialect, last_event_id));
        let response = self.client.send(&self.address, &Method::GET, headers, Bytes::new()).await?;
        if !response.status().is_success() {
            return Err(status_error(response).await);
        }
        let (parts, body) = response.into_parts();
        let media_type = media_type(&parts.headers);
        if media_type != "text/event-stream" {
            return Err(TransportError::NotMcp(format!("the stream has the media type `{media_type}`")));
        }
        let mut stream = EventStream::new(Body::new(&parts.headers, body)?, self.limit);
        let mut end = StreamEnd::default();
        let outcome = loop {
            match stream.next(&*self.receiver).await {
                Ok(Some(messages)) => {
                    end.gave_events = true;
                    for message in messages {
                        self.pass_on(dialect, message);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        end.last_event_id = stream.last_event_id().map(str::to_owned);
        end.retry = stream.retry().map(Duration::from_millis);
        match outcome {
            Err(error) if !end.gave_events => Err(error),
            _ => Ok(end),
        }
    }
}

//! What happens, as a stream of documents, whoever tells it.

use std::collections::VecDeque;

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use switchboard::event::{Event, EventStream};
use switchboard::wire::Json;

use crate::problem::{Problem, Result};

/// The longest event that is read from a daemon.
const EVENT_BYTES: usize = 16 << 20;

/// The events, one after another.
pub(crate) enum Feed {
    /// Of a manager in this process.
    Local { past: VecDeque<Event>, stream: EventStream },
    /// Of a daemon.
    Daemon { body: Box<Incoming>, frames: Frames },
}

impl Feed {
    pub(super) fn local(past: Vec<Event>, stream: EventStream) -> Self {
        Self::Local { past: past.into(), stream }
    }

    pub(super) fn daemon(body: Incoming) -> Self {
        Self::Daemon { body: Box::new(body), frames: Frames::default() }
    }

    /// The next event; `None` when there will be no more.
    ///
    /// Cancel safety: no event is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Json>> {
        match self {
            Self::Local { past, stream } => {
                let event = match past.pop_front() {
                    Some(event) => Some(event),
                    None => stream.next().await,
                };
                let written = event.map(|event| Json::of(&event)).transpose();
                Ok(written
                    .map_err(|cause| Problem::new("protocol_violation", "an event is not JSON").because(cause))?)
            }
            Self::Daemon { body, frames } => loop {
                if let Some(event) = frames.next()? {
                    return Ok(Some(event));
                }
                match body.frame().await {
                    Some(Ok(frame)) => frame.data_ref().into_iter().for_each(|data| frames.push(data)),
                    Some(Err(cause)) => {
                        return Err(Problem::new("daemon_unreachable", "the daemon went away").because(cause).into());
                    }
                    None => return Ok(None),
                }
            },
        }
    }
}

/// Cuts the daemon's event stream into documents. The daemon is ours: it writes LF, and one `data` line an event.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    buffer: BytesMut,
    /// How much of the buffer was looked at in vain.
    looked: usize,
}

impl Frames {
    fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    fn next(&mut self) -> Result<Option<Json>, Problem> {
        let strange = |what: &str| Problem::new("daemon_unreachable", format!("the daemon sent {what}"));
        while let Some(end) = self.buffer[self.looked..].iter().position(|byte| *byte == b'\n') {
            let line = self.buffer.split_to(self.looked + end + 1).freeze();
            self.looked = 0;
            if let Some(data) = line.strip_prefix(b"data:") {
                let document = Json::parse(line.slice_ref(data));
                return document.map(Some).map_err(|cause| strange("an event that is not JSON").because(cause));
            }
        }
        self.looked = self.buffer.len();
        if self.looked > EVENT_BYTES {
            return Err(strange("an event without an end"));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_out_wherever_the_stream_is_split() {
        let text = b": hello\nid: 4\nevent: x\ndata: {\"seq\":4}\n\ndata:{\"seq\":5}\n\n";
        for size in 1..text.len() {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                frames.push(piece);
                while let Some(event) = frames.next().unwrap() {
                    found.push(event.to_string());
                }
            }
            assert_eq!(found, ["{\"seq\":4}", "{\"seq\":5}"], "{size}");
        }
    }
}

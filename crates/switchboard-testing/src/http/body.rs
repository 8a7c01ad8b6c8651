//! Bodies of answers: chunks that are flushed one by one, and the ways in which they end.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::http::exchange::Ending;
use crate::http::socket::SocketState;
use crate::peer::Peer;
use crate::reply::{Message, Output};

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Turns of the scheduler that a client in the same runtime gets to read a chunk before the next is written.
const TURNS: usize = 4;

/// A whole body.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    http_body_util::Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// What a body does next.
pub(crate) enum Act {
    Write(Bytes),
    End(Ending),
}

/// A body that writes and flushes each chunk on its own.
pub(crate) fn scripted(acts: impl Stream<Item = Act> + Send + 'static, socket: Arc<SocketState>) -> Body {
    let writer = Writer { acts: Box::pin(acts), flushes: socket.flushes(), socket, wrote: false };
    let chunks = futures_util::stream::try_unfold(writer, |mut writer| async move {
        Ok(writer.next().await?.map(|chunk| (chunk, writer)))
    });
    StreamBody::new(chunks.map_ok(Frame::data)).boxed_unsync()
}

struct Writer<S> {
    acts: std::pin::Pin<Box<S>>,
    socket: Arc<SocketState>,
    flushes: tokio::sync::watch::Receiver<u64>,
    wrote: bool,
}

impl<S: Stream<Item = Act>> Writer<S> {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.wrote {
            // hyper flushes once its buffer is empty, so this means that the last chunk is with the operating system.
            let _ = self.flushes.changed().await;
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        }
        loop {
            match self.acts.next().await {
                Some(Act::Write(bytes)) if bytes.is_empty() => {}
                Some(Act::Write(bytes)) => {
                    self.wrote = true;
                    self.flushes.mark_unchanged();
                    return Ok(Some(bytes));
                }
                None | Some(Act::End(Ending::Complete)) => return Ok(None),
                Some(Act::End(Ending::Hang)) => std::future::pending().await,
                Some(Act::End(Ending::Cut)) => return Err(cut()),
                Some(Act::End(Ending::Reset)) => {
                    self.socket.reset_at_end();
                    return Err(cut());
                }
            }
        }
    }
}

/// The error with which hyper is made to drop the connection.
pub(crate) fn cut() -> io::Error {
    io::Error::other("the script cuts the connection")
}

/// What one message becomes on the wire, and whether the connection is cut after it.
pub(crate) fn acts_of(bytes: Bytes, message: &Message) -> Vec<Act> {
    let (bytes, cut) = message.style.trim(bytes);
    let mut acts: Vec<Act> = message.style.split(bytes).into_iter().map(Act::Write).collect();
    if cut {
        acts.push(Act::End(Ending::Cut));
    }
    acts
}

/// One SSE event. Line breaks in the message become further `data` lines.
pub(crate) fn event(message: &[u8]) -> Bytes {
    let mut event = b"event: message\n".to_vec();
    for line in message.split(|&byte| byte == b'\n') {
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.push(b'\n');
    }
    event.push(b'\n');
    event.into()
}

/// The messages of one request under way: where they come from, and the note that the client gave up if it does.
pub(crate) struct Answering {
    pub(crate) queue: mpsc::Receiver<Output>,
    pub(crate) first: Option<Output>,
    pub(crate) watch: GiveUp,
    /// Ends the handler when the client has gone.
    pub(crate) _task: AbortOnDropHandle<()>,
}

impl Answering {
    pub(crate) async fn next(&mut self) -> Option<Output> {
        let output = match self.first.take() {
            Some(output) => Some(output),
            None => self.queue.recv().await,
        };
        match &output {
            None | Some(Output::Cut) => self.watch.done(),
            Some(Output::Message(message)) if message.is_answer => self.watch.done(),
            Some(Output::Message(_)) => {}
        }
        output
    }

    /// All that is still to come, as an event stream.
    pub(crate) fn into_events(self) -> impl Stream<Item = Act> {
        futures_util::stream::unfold(self, |mut answering| async move {
            let acts = match answering.next().await? {
                Output::Cut => vec![Act::End(Ending::Cut)],
                Output::Message(message) => acts_of(event(&message.bytes), &message),
            };
            Some((futures_util::stream::iter(acts), answering))
        })
        .flatten()
    }
}

/// Notes a request as abandoned when it is dropped before its answer was sent.
pub(crate) struct GiveUp(Option<(Peer, Value)>);

impl GiveUp {
    pub(crate) fn watch(peer: &Peer, request: &Value) -> Self {
        Self(Some((peer.clone(), request.clone())))
    }

    pub(crate) fn done(&mut self) {
        self.0 = None;
    }
}

impl Drop for GiveUp {
    fn drop(&mut self) {
        if let Some((peer, request)) = self.0.take() {
            peer.abandon(request);
        }
    }
}

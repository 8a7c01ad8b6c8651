//! One duplex stream of newline-delimited JSON: a child's standard streams, or a pair in this process.
//!
//! All requests share the stream, so answers find their callers through a table (`callers.rs`). When the stream ends,
//! every caller is told why.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter, DuplexStream, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};

use super::callers::{Broken, Callers};
use super::process::ChildProcess;
use super::{Answer, Outgoing, Receiver, TransportError};
use crate::tasks::OwnedTask;
use crate::wire::Message;
use crate::wire::frame::LineParser;

/// Messages that wait to be written.
const OUTBOX: usize = 64;
/// Answers of ours that wait to be written. A server may speak for long before it listens again, so that reading must never
/// wait for writing.
const REPLIES: usize = 1024;
/// How much is read at once.
const PIECE: usize = 64 << 10;
/// How long a server that does not listen any more is listened to.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Where messages for a server are written.
pub(super) trait Input: AsyncWrite + Send + Unpin + 'static {
    /// Waits until the server has closed its end; for ever where that shows only when something is written.
    fn closed(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

impl Input for WriteHalf<DuplexStream> {}

/// One server behind a pipe, in one life of its connection.
pub(crate) struct PipeTransport {
    name: &'static str,
    /// Taken away when the pipe is closed, which ends the writer and with it the server's input.
    outbox: Mutex<Option<mpsc::Sender<Bytes>>>,
    callers: Arc<Callers>,
    broken: watch::Receiver<Option<Broken>>,
    child: Option<ChildProcess>,
    /// Fails when all is written.
    written: watch::Receiver<()>,
    _reader: OwnedTask,
    _writer: OwnedTask,
}

impl fmt::Debug for PipeTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeTransport").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PipeTransport {
    /// Speaks over `reader` and `writer`; `child` is the process behind them, if there is one.
    pub(super) fn new(
        name: &'static str,
        (reader, writer): (impl AsyncRead + Send + Unpin + 'static, impl Input),
        limit: usize,
        receiver: Arc<dyn Receiver>,
        child: Option<ChildProcess>,
    ) -> Self {
        let (outbox, messages) = mpsc::channel(OUTBOX);
        let (broken_sender, broken) = watch::channel(None);
        let (deaf_sender, deaf) = oneshot::channel();
        let callers = Arc::new(Callers::default());
        let ending: Pin<Box<dyn Future<Output = Broken> + Send>> = match &child {
            Some(child) => Box::pin(child.ending()),
            None => Box::pin(async { Broken::Ended }),
        };
        let gone: Pin<Box<dyn Future<Output = ()> + Send>> = match &child {
            Some(child) => Box::pin(child.gone()),
            None => Box::pin(std::future::pending()),
        };
        let (replies, waiting_replies) = mpsc::channel(REPLIES);
        let reading = Reading { callers: callers.clone(), receiver, replies, limit };
        let reader = OwnedTask::spawn(async move {
            let end = tokio::select! {
                end = reading.run(reader) => end,
                // A child that is gone is gone, even when a process that it left behind holds its output open.
                () = gone => Broken::Ended,
                () = unheard(deaf) => Broken::Deaf,
            };
            let reason = match end {
                Broken::Ended | Broken::Deaf => match ending.await {
                    Broken::Ended => end,
                    why => why,
                },
                failed => failed,
            };
            reading.callers.fail_all(reason.clone());
            broken_sender.send_replace(Some(reason));
        });
        let (writing, written) = watch::channel(());
        let writer = OwnedTask::spawn(async move {
            let _writing = writing;
            if write_all(writer, messages, waiting_replies).await.is_err() {
                // Nobody listens when the reader has found the end.
                let _ = deaf_sender.send(());
            }
        });
        Self {
            name,
            outbox: Mutex::new(Some(outbox)),
            callers,
            broken,
            child,
            written,
            _reader: reader,
            _writer: writer,
        }
    }

    pub(super) async fn request(&self, outgoing: Outgoing<'_>) -> Result<Answer, TransportError> {
        let mut waiting = self.callers.enter(outgoing.id)?;
        self.send(outgoing.body.clone()).await.map_err(|error| TransportError::Unsent(Box::new(error)))?;
        waiting.answer().await
    }

    pub(super) async fn send(&self, message: Bytes) -> Result<(), TransportError> {
        let outbox = self.outbox().clone().ok_or(TransportError::Closed)?;
        if outbox.send(message).await.is_ok() {
            return Ok(());
        }
        // The writer is gone because the server's input is; the reader knows why in a moment.
        Err(self.broken().await)
    }

    /// Sends a message if there is room for it.
    pub(super) fn send_soon(&self, message: Bytes) {
        if let Some(outbox) = &*self.outbox()
            && outbox.try_send(message).is_err()
        {
            tracing::debug!("a notification was dropped: the server does not read");
        }
    }

    /// Replies that answered no request.
    pub(crate) fn unmatched(&self) -> u64 {
        self.callers.unmatched()
    }

    pub(super) async fn broken(&self) -> TransportError {
        let mut broken = self.broken.clone();
        let reason = broken.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.as_ref().map(Broken::error)).unwrap_or(TransportError::Closed)
    }

    /// The last of what the child wrote to its standard error.
    pub(super) fn stderr(&self) -> Option<String> {
        self.child.as_ref().map(ChildProcess::stderr)
    }

    pub(super) async fn close(&self) {
        // First, so that callers are told that we closed it rather than that the server ended.
        self.callers.fail_all(Broken::Closed);
        drop(self.outbox().take());
        match &self.child {
            Some(child) => child.stop().await,
            // What is on its way gets there, if somebody reads it.
            None => drop(tokio::time::timeout(LAST_WORDS, self.written.clone().changed()).await),
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Option<mpsc::Sender<Bytes>>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the reading task needs.
struct Reading {
    callers: Arc<Callers>,
    receiver: Arc<dyn Receiver>,
    /// Apart from the outbox, so that the reader does not keep the server's input open.
    replies: mpsc::Sender<Bytes>,
    limit: usize,
}

impl Reading {
    /// Reads to the end.
    async fn run(&self, mut reader: impl AsyncRead + Unpin) -> Broken {
        let mut parser = LineParser::new(self.limit);
        let mut piece = BytesMut::new();
        loop {
            piece.reserve(PIECE);
            match reader.read_buf(&mut piece).await {
                Ok(0) => {
                    if let Some(line) = parser.finish() {
                        self.line(&line);
                    }
                    return Broken::Ended;
                }
                Ok(_) => {
                    parser.push(piece.split().freeze());
                    self.lines(&mut parser);
                }
                Err(error) => return Broken::Failed(error.to_string()),
            }
        }
    }

    fn lines(&self, parser: &mut LineParser) {
        loop {
            match parser.next_line() {
                Ok(Some(line)) => self.line(&line),
                Ok(None) => return,
                Err(error) => {
                    self.receiver.odd(&error.to_string());
                    self.callers.too_large(&error);
                }
            }
        }
    }

    fn line(&self, line: &Bytes) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let messages = match Message::parse_all(line) {
            Ok(messages) => messages,
            Err(error) => {
                let shown = crate::status::clean(&String::from_utf8_lossy(&line[..line.len().min(200)]));
                self.receiver.odd(&format!("a line that is {error}: {shown}"));
                let Some(message) = amid_noise(line) else {
                    self.callers.garbled(line.trim_ascii(), &shown);
                    return;
                };
                vec![message]
            }
        };
        for message in messages {
            match message {
                Message::Response { id, outcome } => {
                    if !self.callers.answer(id, outcome) {
                        self.receiver.odd("an unmatched reply");
                    }
                }
                other => {
                    let Some(reply) = self.receiver.receive(other) else { continue };
                    // The writer is gone when the pipe is closed; then nobody needs the answer.
                    if let Err(mpsc::error::TrySendError::Full(_)) = self.replies.try_send(reply) {
                        self.receiver.odd("more requests than it takes answers to");
                    }
                }
            }
        }
    }
}

/// Waits until writing has failed, and a moment for what the server has still said.
async fn unheard(deaf: oneshot::Receiver<()>) {
    match deaf.await {
        Ok(()) => tokio::time::sleep(LAST_WORDS).await,
        // The writer has ended in good order.
        Err(_) => std::future::pending().await,
    }
}

/// The message on a line that begins or ends with something else, such as a prompt without a line end or a colour code.
fn amid_noise(line: &Bytes) -> Option<Message> {
    let begin = memchr::memmem::find(line, b"{\"")?;
    let end = memchr::memrchr(b'}', line)? + 1;
    let is_amid = (begin > 0 || end < line.len()) && begin < end;
    is_amid.then(|| Message::parse(&line.slice(begin..end)).ok()).flatten()
}

/// Writes messages and replies, one a line, until there are no more senders of messages; then closes the server's input.
async fn write_all(
    writer: impl Input,
    mut messages: mpsc::Receiver<Bytes>,
    mut replies: mpsc::Receiver<Bytes>,
) -> std::io::Result<()> {
    let mut writer = BufWriter::new(writer);
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            Some(reply) = replies.recv() => Some(reply),
            () = writer.get_ref().closed() => return Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        let Some(message) = message else { break };
        let mut next = Some(message);
        while let Some(message) = next {
            writer.write_all(&message).await?;
            writer.write_all(b"\n").await?;
            next = messages.try_recv().or_else(|_| replies.try_recv()).ok();
        }
        writer.flush().await?;
    }
    // Whether the server saw this end is its own affair.
    let _ = writer.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b097_a_message_amid_noise_on_its_line_is_found() {
        let found = |line: &'static str| amid_noise(&Bytes::from_static(line.as_bytes())).is_some();
        assert!(found("server> {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"));
        assert!(found("\u{1b}[32m{\"id\":1,\"result\":{}}\u{1b}[0m"));
        assert!(!found("loaded {\"config\": 1}") && !found("}{\"") && !found("{\"id\":1,\"result\":{}}"));
    }
}

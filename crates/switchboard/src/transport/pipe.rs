//! One duplex stream of newline-delimited JSON: a child's standard streams, or a pair in this process.
//!
//! All requests share the stream, so answers find their callers through a table. Each entry belongs to the guard that its
//! caller holds; giving up takes it out. When the stream ends, every caller is told why.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot, watch};

use super::process::{ChildProcess, Exit};
use super::{Answer, Outgoing, Receiver, TransportError};
use crate::tasks::OwnedTask;
use crate::wire::Message;
use crate::wire::frame::LineParser;

/// Messages that wait to be written.
const OUTBOX: usize = 64;
/// How much is read at once.
const PIECE: usize = 64 << 10;

/// Why a pipe cannot be used any more.
#[derive(Debug, Clone)]
pub(super) enum Broken {
    /// The other side closed its output.
    Ended,
    /// Reading or writing failed.
    Failed(String),
    /// The child process ended.
    Exited(Exit),
    /// We closed it.
    Closed,
}

impl Broken {
    fn error(&self) -> TransportError {
        match self {
            Self::Ended => TransportError::Lost("the server closed its output".into()),
            Self::Failed(cause) => TransportError::Lost(cause.clone().into()),
            Self::Exited(exit) => TransportError::Exited(exit.clone()),
            Self::Closed => TransportError::Closed,
        }
    }
}

/// One server behind a pipe, in one life of its connection.
pub(crate) struct PipeTransport {
    name: &'static str,
    /// Taken away when the pipe is closed, which ends the writer and with it the server's input.
    outbox: Mutex<Option<mpsc::Sender<Bytes>>>,
    table: Arc<Table>,
    broken: watch::Receiver<Option<Broken>>,
    child: Option<ChildProcess>,
    _reader: OwnedTask,
    _writer: OwnedTask,
}

impl fmt::Debug for PipeTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeTransport").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Callers that wait, by request id.
#[derive(Default)]
struct Table {
    state: Mutex<TableState>,
}

#[derive(Default)]
struct TableState {
    waiting: HashMap<u64, oneshot::Sender<Result<Answer, TransportError>>>,
    unmatched: u64,
    broken: Option<Broken>,
}

impl Table {
    fn state(&self) -> MutexGuard<'_, TableState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an answer to whom it belongs; `false` when that is nobody.
    fn answer(&self, id: Option<u64>, outcome: Answer) -> bool {
        let mut state = self.state();
        let id = match id {
            // An error that could not read the id belongs to the only caller there is.
            None if outcome.is_err() && state.waiting.len() == 1 => state.waiting.keys().next().copied(),
            id => id,
        };
        match id.and_then(|id| state.waiting.remove(&id)) {
            Some(caller) => {
                // A caller that has just given up needs no answer.
                let _ = caller.send(Ok(outcome));
                true
            }
            None => {
                state.unmatched += 1;
                false
            }
        }
    }

    /// A message was too large to be read. It is told to the caller whose answer it was; to all when that is unknown.
    fn too_large(&self, head: &[u8], limit: usize) {
        let mut state = self.state();
        let callers: Vec<_> = match id_in(head).and_then(|id| state.waiting.remove(&id)) {
            Some(caller) => vec![caller],
            None => state.waiting.drain().map(|(_, caller)| caller).collect(),
        };
        for caller in callers {
            let _ = caller.send(Err(TransportError::TooLarge { limit }));
        }
    }

    /// A line was meant as a message and cannot be read. When it is the answer to a caller, that caller is told.
    fn garbled(&self, line: &[u8], shown: &str) {
        if line.first() != Some(&b'{') || memchr::memmem::find(line, b"\"jsonrpc\"").is_none() {
            return;
        }
        if let Some(caller) = id_in(line).and_then(|id| self.state().waiting.remove(&id)) {
            let _ = caller.send(Err(TransportError::NotMcp(format!("a line that is not JSON: {shown}"))));
        }
    }

    fn fail_all(&self, reason: Broken) {
        let mut state = self.state();
        for (_, caller) in state.waiting.drain() {
            let _ = caller.send(Err(reason.error()));
        }
        state.broken.get_or_insert(reason);
    }
}

/// The id in the beginning of a message that could not be read whole.
fn id_in(head: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(head, b"\"id\":")? + 5;
    let digits = head[at..].trim_ascii_start();
    let digits = digits.strip_prefix(b"\"").unwrap_or(digits);
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

/// A caller's place in the table; dropping it gives the place up.
struct Waiting<'a> {
    table: &'a Table,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.table.state().waiting.remove(&self.id);
    }
}

impl PipeTransport {
    /// Speaks over `reader` and `writer`; `child` is the process behind them, if there is one.
    pub(super) fn new(
        name: &'static str,
        (reader, writer): (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static),
        limit: usize,
        receiver: Arc<dyn Receiver>,
        child: Option<ChildProcess>,
    ) -> Self {
        let (outbox, messages) = mpsc::channel(OUTBOX);
        let (broken_sender, broken) = watch::channel(None);
        let table = Arc::new(Table::default());
        let ending: Pin<Box<dyn Future<Output = Broken> + Send>> = match &child {
            Some(child) => Box::pin(child.ending()),
            None => Box::pin(async { Broken::Ended }),
        };
        let gone = child.as_ref().map(ChildProcess::gone);
        let reading = Reading { table: table.clone(), receiver, replies: outbox.downgrade(), limit };
        let reader = OwnedTask::spawn(async move {
            let failure = match gone {
                // A child that is gone is gone, even when a process that it left behind holds its output open.
                Some(gone) => tokio::select! { failure = reading.run(reader) => failure, () = gone => None },
                None => reading.run(reader).await,
            };
            let reason = match failure {
                None => ending.await,
                Some(cause) => Broken::Failed(cause),
            };
            reading.table.fail_all(reason.clone());
            broken_sender.send_replace(Some(reason));
        });
        let writer = OwnedTask::spawn(write_all(writer, messages));
        Self { name, outbox: Mutex::new(Some(outbox)), table, broken, child, _reader: reader, _writer: writer }
    }

    pub(super) async fn request(&self, outgoing: Outgoing<'_>) -> Result<Answer, TransportError> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.table.state();
            if let Some(broken) = &state.broken {
                return Err(broken.error());
            }
            state.waiting.insert(outgoing.id, sender);
        }
        let _waiting = Waiting { table: &self.table, id: outgoing.id };
        self.send(outgoing.body.clone()).await?;
        receiver.await.unwrap_or(Err(TransportError::Closed))
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
        self.table.state().unmatched
    }

    pub(super) async fn broken(&self) -> TransportError {
        let mut broken = self.broken.clone();
        let reason = broken.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.as_ref().map(Broken::error)).unwrap_or(TransportError::Closed)
    }

    pub(super) async fn close(&self) {
        drop(self.outbox().take());
        if let Some(child) = &self.child {
            child.stop().await;
        }
        self.table.fail_all(Broken::Closed);
    }

    fn outbox(&self) -> MutexGuard<'_, Option<mpsc::Sender<Bytes>>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the reading task needs.
struct Reading {
    table: Arc<Table>,
    receiver: Arc<dyn Receiver>,
    /// Weak, so that the reader does not keep the server's input open.
    replies: mpsc::WeakSender<Bytes>,
    limit: usize,
}

impl Reading {
    /// Reads to the end; the cause when that was a failure.
    async fn run(&self, mut reader: impl AsyncRead + Unpin) -> Option<String> {
        let mut parser = LineParser::new(self.limit);
        let mut piece = BytesMut::new();
        loop {
            piece.reserve(PIECE);
            match reader.read_buf(&mut piece).await {
                Ok(0) => {
                    if let Some(line) = parser.finish() {
                        self.line(&line).await;
                    }
                    return None;
                }
                Ok(_) => {
                    parser.push(piece.split().freeze());
                    self.lines(&mut parser).await;
                }
                Err(error) => return Some(error.to_string()),
            }
        }
    }

    async fn lines(&self, parser: &mut LineParser) {
        loop {
            match parser.next_line() {
                Ok(Some(line)) => self.line(&line).await,
                Ok(None) => return,
                Err(error) => {
                    self.receiver.odd(&error.to_string());
                    self.table.too_large(&error.head, error.limit);
                }
            }
        }
    }

    async fn line(&self, line: &Bytes) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let messages = match Message::parse_all(line) {
            Ok(messages) => messages,
            Err(error) => {
                let shown = crate::status::clean(&String::from_utf8_lossy(&line[..line.len().min(200)]));
                self.receiver.odd(&format!("a line that is {error}: {shown}"));
                self.table.garbled(line.trim_ascii(), &shown);
                return;
            }
        };
        for message in messages {
            match message {
                Message::Response { id, outcome } => {
                    if !self.table.answer(id, outcome) {
                        self.receiver.odd("an unmatched reply");
                    }
                }
                other => {
                    if let Some(reply) = self.receiver.receive(other)
                        && let Some(outbox) = self.replies.upgrade()
                    {
                        // The writer is gone when the pipe is closed; then nobody needs the answer.
                        let _ = outbox.send(reply).await;
                    }
                }
            }
        }
    }
}

/// Writes messages, one a line, until there are no more senders; then closes the server's input.
async fn write_all(writer: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Bytes>) {
    let mut writer = tokio::io::BufWriter::new(writer);
    while let Some(message) = messages.recv().await {
        let mut next = Some(message);
        while let Some(message) = next {
            if writer.write_all(&message).await.is_err() || writer.write_all(b"\n").await.is_err() {
                return;
            }
            next = messages.try_recv().ok();
        }
        if writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_message_is_found_in_its_beginning() {
        assert_eq!(id_in(br#"{"jsonrpc":"2.0","id":17,"result":{"#), Some(17));
        assert_eq!(id_in(br#"{"id": "17","result"#), Some(17));
        assert_eq!(id_in(br#"{"result":{"#), None);
        assert_eq!(id_in(br#"{"id":null"#), None);
    }
}

//! Newline-delimited JSON over any pair of byte streams: what stdio and memory have in common.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::peer::{Era, Hold, Kind, Peer};
use crate::reply::{Message, Output, Outputs, Style};

/// Why a line connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The client closed its side.
    ByClient,
    /// The script cut the connection.
    Cut,
}

/// Gets each message before anything is done about it.
pub(crate) type Hook = Arc<dyn Fn(&Value) + Send + Sync>;

/// What a line connection does besides speaking the protocol.
#[derive(Clone, Default)]
pub(crate) struct Habits {
    /// Lines written at once.
    pub(crate) banner: Vec<Bytes>,
    /// Lines written before each message.
    pub(crate) noise: Vec<Bytes>,
    /// Called for each message before anything is done about it.
    pub(crate) on_message: Option<Hook>,
}

/// Serves one line connection until either side ends it.
pub(crate) async fn serve<R, W>(peer: &Peer, reader: R, writer: W, habits: &Habits) -> End
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (outputs, queue) = Outputs::channel();
    let mut connection = Connection::new(peer.clone(), outputs);
    tokio::select! {
        () = connection.read(reader, habits) => End::ByClient,
        _ = write(writer, queue, habits) => End::Cut,
    }
}

/// What is read from one client whose answers all go the same way, and the answers under way.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Peer,
    outputs: Outputs,
    tasks: JoinSet<()>,
    running: HashMap<String, (Value, AbortHandle)>,
    channel: Option<Hold>,
}

impl Connection {
    pub(crate) fn new(peer: Peer, outputs: Outputs) -> Self {
        Self { peer, outputs, tasks: JoinSet::new(), running: HashMap::new(), channel: None }
    }

    async fn read(&mut self, reader: impl AsyncRead + Unpin, habits: &Habits) {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        loop {
            line.clear();
            match reader.read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) => self.take(&line, habits).await,
            }
        }
    }

    async fn take(&mut self, line: &[u8], habits: &Habits) {
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                self.peer.complain(format!("a line is not JSON ({error}): {}", String::from_utf8_lossy(line)));
                let error = json!({ "code": -32700, "message": "Parse error" });
                let answer = json!({ "jsonrpc": "2.0", "id": null, "error": error });
                return self.outputs.send(Output::message(&answer, Style::default())).await;
            }
        };
        if let Some(hook) = &habits.on_message {
            hook(&message);
        }
        self.peer.note(&message);
        if message["method"] == "notifications/initialized" && self.peer.era_of(&message) == Era::Legacy {
            self.channel = Some(self.peer.open_channel(self.outputs.clone(), Kind::Legacy));
        }
        self.message(message);
    }

    /// Begins to answer a message that was noted, or ends the answer that it cancels.
    pub(crate) fn message(&mut self, message: Value) {
        match (message["method"].as_str(), message.get("id")) {
            (Some(_), Some(_)) => self.start(message),
            (Some("notifications/cancelled"), None) => self.cancel(&message["params"]["requestId"]),
            _ => {}
        }
    }

    fn start(&mut self, request: Value) {
        while self.tasks.try_join_next().is_some() {}
        self.running.retain(|_, (_, task)| !task.is_finished());
        let (peer, outputs, answered) = (self.peer.clone(), self.outputs.clone(), request.clone());
        let task = self.tasks.spawn(async move { peer.answer(answered, outputs).await });
        self.running.insert(request["id"].to_string(), (request, task));
    }

    fn cancel(&mut self, id: &Value) {
        let Some((request, task)) = self.running.remove(&id.to_string()).filter(|(_, task)| !task.is_finished()) else {
            return;
        };
        if self.peer.honours_cancel() {
            task.abort();
        }
        self.peer.abandon(request);
    }
}

/// Writes until the script cuts the connection or the client has gone.
async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Output>,
    habits: &Habits,
) -> std::io::Result<()> {
    for line in &habits.banner {
        write_line(&mut writer, line).await?;
    }
    while let Some(output) = queue.recv().await {
        let Output::Message(message) = output else { break };
        for line in &habits.noise {
            write_line(&mut writer, line).await?;
        }
        if write_message(&mut writer, message).await? {
            break;
        }
    }
    let _ = writer.shutdown().await;
    Ok(())
}

async fn write_line(writer: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> std::io::Result<()> {
    writer.write_all(line).await?;
    writer.write_all(b"\n").await?;
    writer.flush().await
}

/// True when the connection is to be cut after it.
async fn write_message(writer: &mut (impl AsyncWrite + Unpin), message: Message) -> std::io::Result<bool> {
    let mut line = BytesMut::with_capacity(message.bytes.len() + 1);
    line.put(message.bytes);
    line.put_u8(b'\n');
    let (line, cut) = message.style.trim(line.freeze());
    for piece in message.style.split(line) {
        writer.write_all(&piece).await?;
        writer.flush().await?;
        if message.style.pieces.is_some() {
            tokio::task::yield_now().await;
        }
    }
    Ok(cut)
}

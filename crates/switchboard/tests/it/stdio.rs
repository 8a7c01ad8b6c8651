//! Servers as child processes: what the tests of them share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use switchboard::event::{Event, EventKind, EventStream, Payload};
use switchboard::spec::Retry;
use switchboard::{Added, Error, Manager, ServerId, ServerSpec, State, ToolCall};
use switchboard_testing::process::wait_until;
use switchboard_testing::stdio::Script;
use tempfile::TempDir;

/// How long a test waits for what should happen soon. Long, because other builds may keep the machine busy.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A folder for one test, with a file that peers write their process ids into.
pub(crate) struct Pids {
    _folder: TempDir,
    pub(crate) file: PathBuf,
}

impl Pids {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { file: folder.path().join("pids"), _folder: folder }
    }

    /// The processes that have started so far.
    pub(crate) fn started(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().filter_map(|line| line.split_once(' ')?.1.parse().ok()).collect()
    }

    /// Waits until that many have started.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<u32> {
        assert!(wait_until(SOON, || self.started().len() >= count).await, "{:?} of {count} started", self.started());
        self.started()
    }
}

/// A server that follows a script.
pub(crate) fn scripted(script: &Script) -> ServerSpec {
    let command = script.command();
    ServerSpec::stdio("peer", command.program(), command.arguments.clone()).unwrap()
}

/// A legacy server of the tool `echo` as a shell script, for what a [`Script`] cannot do. `deviation` may redefine what
/// it does for each method, or do something before it begins to serve.
pub(crate) fn shell(deviation: &str) -> ServerSpec {
    const SERVER: &str = r#"
end='\n'
answer() { printf "%s$end" "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
refuse() { printf "%s$end" "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no such method\"}}"; }
discover() { refuse; }
initialize() {
    answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}'
}
list() { answer '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'; }
call() { answer '{"content":[{"type":"text","text":"hello"}]}'; }
serve() {
    while IFS= read -r line; do
        id=${line#*'"id":'}
        id=${id%%[!0-9]*}
        case $line in
            *'"server/discover"'*) discover ;;
            *'"initialize"'*) initialize ;;
            *'"tools/list"'*) list ;;
            *'"tools/call"'*) call ;;
        esac
    done
}
"#;
    ServerSpec::stdio("peer", "/bin/sh", ["-c".to_owned(), format!("{SERVER}\n{deviation}\nserve\n")]).unwrap()
}

pub(crate) async fn manager() -> Manager {
    Manager::builder("test", "1.0.0").start().await.unwrap()
}

/// The same server, with one attempt to connect.
pub(crate) fn once(spec: ServerSpec) -> ServerSpec {
    spec.retry(Retry::attempts(1))
}

/// The same server with these milliseconds for a connect and for the probe of its era.
pub(crate) fn within(mut spec: ServerSpec, (connect, probe): (u64, u64)) -> ServerSpec {
    spec.timeouts.connect = Duration::from_millis(connect);
    spec.timeouts.probe = Duration::from_millis(probe);
    spec
}

pub(crate) async fn ready(manager: &Manager, spec: ServerSpec) -> ServerId {
    match manager.add(spec).await.unwrap() {
        Added::Ready { id } => id,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn failed(manager: &Manager, spec: ServerSpec) -> (ServerId, Error) {
    match manager.add(spec).await.unwrap() {
        Added::Failed { id, error } => (id, error),
        other => panic!("{other:?}"),
    }
}

/// The text of an error with all its causes.
pub(crate) fn whole(error: &Error) -> String {
    std::iter::once(error.to_string()).chain(error.causes()).collect::<Vec<_>>().join(": ")
}

/// The text in the answer to a call.
pub(crate) async fn text_of(manager: &Manager, call: ToolCall) -> String {
    let result = manager.call(call).await.unwrap_or_else(|error| panic!("{}", whole(&error)));
    result.result.to_value()["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Waits for the state of a server by its events.
pub(crate) async fn wait_for_state(manager: &Manager, id: &ServerId, wanted: State) {
    let mut events = manager.events();
    let reached = async {
        while manager.status(id).unwrap().state != wanted {
            events.next().await.unwrap();
        }
    };
    let is_reached = tokio::time::timeout(SOON, reached).await.is_ok();
    assert!(is_reached, "it is {:?}, not {wanted}", manager.status(id).unwrap());
}

/// Waits for the next event of a kind, and gives it with its payload.
pub(crate) async fn next_of(events: &mut EventStream, kind: EventKind) -> (Event, Value) {
    let next = async {
        loop {
            let event = events.next().await.unwrap();
            if let (true, Payload::Value(payload)) = (event.kind == kind, event.payload.clone()) {
                return (event, payload);
            }
        }
    };
    tokio::time::timeout(SOON, next).await.unwrap_or_else(|_| panic!("waited in vain for {kind:?}"))
}

/// The lines of a file.
pub(crate) fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

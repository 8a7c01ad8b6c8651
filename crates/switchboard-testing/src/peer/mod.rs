//! A fake MCP server as a value: what it offers, how it answers, and what it has seen.

mod answers;
mod channels;
mod context;
mod items;
mod record;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

pub use context::Context;
pub use items::{Prompt, Resource, Tool};

pub(crate) use answers::VERSION_KEY;
pub(crate) use channels::{Hold, Kind};
pub(crate) use record::Record;

use crate::reply::{Outputs, Reply};
use channels::Channels;
use items::Handler;

/// The modern revision that peers speak.
pub const MODERN: &str = "2026-07-28";

/// The newest legacy revision that peers speak.
pub const LEGACY: &str = "2025-11-25";

/// The legacy revisions that a peer agrees to when a client asks for one of them.
pub const LEGACY_REVISIONS: [&str; 4] = [LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"];

/// The two kinds of revisions: stateless with `server/discover`, or with an `initialize` handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Revision 2026-07-28.
    Modern,
    /// Revision 2025-11-25 and older.
    Legacy,
}

/// A fake MCP server, independent of its transport.
///
/// It is a handle: clones are the same peer, which may be served on several transports at once. The builder methods
/// may also be used while it is served.
#[derive(Debug, Clone)]
#[must_use]
pub struct Peer {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    script: Mutex<Script>,
    pub(crate) record: Record,
    pub(crate) channels: Channels,
    pub(crate) next_id: AtomicU64,
}

/// What the peer offers and how it answers.
pub(crate) struct Script {
    pub(crate) modern: bool,
    pub(crate) legacy: bool,
    pub(crate) info: Value,
    pub(crate) supported: Vec<String>,
    pub(crate) answers_version: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) capabilities: Option<Value>,
    pub(crate) announces_changes: bool,
    pub(crate) page_size: Option<usize>,
    pub(crate) honours_cancel: bool,
    pub(crate) tools: Vec<Tool>,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<Value>,
    pub(crate) completions: Vec<String>,
    pub(crate) overrides: HashMap<String, Handler>,
    pub(crate) every: Option<Finish>,
}

/// Changes every reply.
type Finish = Arc<dyn Fn(Reply) -> Reply + Send + Sync>;

impl std::fmt::Debug for Script {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Script").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl Peer {
    /// A peer of revision 2026-07-28 that knows no handshake.
    pub fn modern() -> Self {
        Self::new(true, false)
    }

    /// A peer of revision 2025-11-25 that does not know `server/discover`.
    pub fn legacy() -> Self {
        Self::new(false, true)
    }

    /// A peer that serves each client in the era in which it opens.
    pub fn both() -> Self {
        Self::new(true, true)
    }

    fn new(modern: bool, legacy: bool) -> Self {
        let script = Script {
            modern,
            legacy,
            info: json!({ "name": "fake-peer", "version": "1.0.0" }),
            supported: vec![MODERN.to_owned()],
            answers_version: None,
            instructions: None,
            capabilities: None,
            announces_changes: false,
            page_size: None,
            honours_cancel: true,
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            completions: Vec::new(),
            overrides: HashMap::new(),
            every: None,
        };
        let shared = Shared {
            script: Mutex::new(script),
            record: Record::default(),
            channels: Channels::default(),
            next_id: AtomicU64::new(1000),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn script<T>(&self, read: impl FnOnce(&mut Script) -> T) -> T {
        read(&mut self.shared.script.lock().expect("no test thread panics while it holds the script"))
    }

    fn with(self, change: impl FnOnce(&mut Script)) -> Self {
        self.script(change);
        self
    }
}

/// What the peer offers.
impl Peer {
    /// Offers a tool: a name, a [`Tool`], or any JSON value.
    pub fn tool(self, tool: impl Into<Tool>) -> Self {
        self.with(|script| script.tools.push(tool.into()))
    }

    /// Offers `count` tools named `tool-0`, `tool-1`, …
    pub fn many_tools(self, count: usize) -> Self {
        self.with(|script| script.tools.extend((0..count).map(|number| Tool::new(&format!("tool-{number}")))))
    }

    /// Puts any JSON value into the list of tools.
    pub fn raw_tool(self, definition: Value) -> Self {
        self.tool(Tool::raw(definition))
    }

    /// Offers a prompt: a name, a [`Prompt`], or any JSON value.
    pub fn prompt(self, prompt: impl Into<Prompt>) -> Self {
        self.with(|script| script.prompts.push(prompt.into()))
    }

    /// Offers a resource: a [`Resource`] or any JSON value.
    pub fn resource(self, resource: impl Into<Resource>) -> Self {
        self.with(|script| script.resources.push(resource.into()))
    }

    /// Offers a resource template. Reading an address that fits it answers the address as text.
    pub fn template(self, uri_template: &str, name: &str) -> Self {
        self.raw_template(json!({ "uriTemplate": uri_template, "name": name }))
    }

    /// Puts any JSON value into the list of resource templates.
    pub fn raw_template(self, definition: Value) -> Self {
        self.with(|script| script.templates.push(definition))
    }

    /// Offers completion: every argument completes to those of these values that begin with what was typed.
    pub fn completions(self, values: &[&str]) -> Self {
        self.with(|script| script.completions = values.iter().map(|&value| value.to_owned()).collect())
    }
}

/// How the peer introduces itself and behaves.
impl Peer {
    /// Announces these capabilities in place of those that follow from what it offers.
    pub fn capabilities(self, capabilities: Value) -> Self {
        self.with(|script| script.capabilities = Some(capabilities))
    }

    /// Announces `listChanged` for all it offers, and subscriptions to resources.
    pub fn announces_changes(self) -> Self {
        self.with(|script| script.announces_changes = true)
    }

    /// Sets the server's name and version.
    pub fn info(self, name: &str, version: &str) -> Self {
        self.with(|script| script.info = json!({ "name": name, "version": version }))
    }

    /// Gives instructions for the model.
    pub fn instructions(self, text: &str) -> Self {
        self.with(|script| script.instructions = Some(text.to_owned()))
    }

    /// Gives lists in pages of this many items. The cursors look like nothing a client could make up.
    pub fn page_size(self, size: usize) -> Self {
        self.with(|script| script.page_size = Some(size.max(1)))
    }

    /// Answers `initialize` with this revision, whatever was asked for.
    pub fn protocol_version(self, version: &str) -> Self {
        self.with(|script| script.answers_version = Some(version.to_owned()))
    }

    /// Supports these modern revisions only; others are refused with -32022 and this list.
    pub fn supported_versions(self, versions: &[&str]) -> Self {
        self.with(|script| script.supported = versions.iter().map(|&version| version.to_owned()).collect())
    }

    /// Goes on with requests that the client has cancelled, and answers them late.
    pub fn ignores_cancel(self) -> Self {
        self.with(|script| script.honours_cancel = false)
    }

    /// Keeps no record of what it sees, so that a long run costs no memory. What is asked of the record finds nothing;
    /// complaints are kept.
    pub fn forgetful(self) -> Self {
        self.shared.record.forget();
        self
    }

    /// Answers every request of this method in its own way. The handler gets the whole request.
    pub fn on(self, method: &str, handler: impl Fn(&Value, &Context) -> Reply + Send + Sync + 'static) -> Self {
        let handler: Handler = Arc::new(handler);
        self.with(|script| drop(script.overrides.insert(method.to_owned(), handler)))
    }

    /// Changes every reply, whatever the method.
    pub fn every(self, change: impl Fn(Reply) -> Reply + Send + Sync + 'static) -> Self {
        self.with(|script| script.every = Some(Arc::new(change)))
    }

    /// Answers the first requests of this method with these replies, one each, and the later ones as usual.
    pub fn first(self, method: &str, replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = Mutex::new(replies.into_iter().collect::<std::collections::VecDeque<_>>());
        self.on(method, move |_, context| {
            let next = replies.lock().expect("no test thread panics while it holds the replies").pop_front();
            next.unwrap_or_else(|| context.usual())
        })
    }
}

/// What the peer has seen.
impl Peer {
    /// Every message of the client, in order.
    pub fn received(&self) -> Vec<Value> {
        self.shared.record.see().messages.clone()
    }

    /// The methods of all requests and notifications, in order.
    pub fn received_methods(&self) -> Vec<String> {
        self.shared.record.methods()
    }

    /// All messages of this method.
    pub fn received_of(&self, method: &str) -> Vec<Value> {
        self.received().into_iter().filter(|message| message["method"] == method).collect()
    }

    /// How often this method was received.
    pub fn count(&self, method: &str) -> usize {
        self.received_of(method).len()
    }

    /// What the client did against the rules of its era, in words. Empty for a good client.
    pub fn complaints(&self) -> Vec<String> {
        self.shared.record.see().complaints.clone()
    }

    /// The requests whose answer the client did not wait for: it closed the stream of the answer or the connection.
    pub fn abandoned(&self) -> Vec<Value> {
        self.shared.record.see().abandoned.clone()
    }

    /// Waits for the first message of this method, which may have come already.
    ///
    /// # Panics
    /// When none comes within 20 s of real time. So do the other waits.
    pub async fn wait_for(&self, method: &str) -> Value {
        self.wait_for_nth(method, 1).await
    }

    /// Waits for the message that is number `nth` of its method, counted from one.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn wait_for_nth(&self, method: &str, nth: usize) -> Value {
        let what = format!("`{method}` number {nth}");
        let check = |seen: &record::Seen| {
            seen.messages.iter().filter(|message| message["method"] == method).nth(nth.saturating_sub(1)).cloned()
        };
        self.shared.record.until(&what, check).await
    }

    /// Waits for the client's response to a request of the peer with this id.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn wait_for_response(&self, id: impl Into<Value>) -> Value {
        let id = id.into();
        let what = format!("a response to {id}");
        self.shared.record.until(&what, |seen| record::response_among(&seen.messages, &id)).await
    }

    /// Waits until the client has given up a request of this method by closing its stream.
    ///
    /// # Panics
    /// When it does not.
    pub async fn wait_abandoned(&self, method: &str) -> Value {
        let what = format!("the client abandon `{method}`");
        let check = |seen: &record::Seen| seen.abandoned.iter().find(|request| request["method"] == method).cloned();
        self.shared.record.until(&what, check).await
    }
}

/// What the peer says without being asked.
impl Peer {
    /// Sends a whole message to the client on every stream that may carry it: the legacy GET stream, a legacy line
    /// connection after its handshake, a subscription that asked for it (its id is added). Returns how many there
    /// were; without one the message waits for the first that opens.
    ///
    /// # Panics
    /// When the client has left thousands of messages unread.
    pub fn push(&self, message: Value) -> usize {
        self.shared.channels.push(&message)
    }

    /// Pushes a notification without parameters.
    ///
    /// # Panics
    /// As [`push`](Self::push).
    pub fn notify(&self, method: &str) -> usize {
        self.push(json!({ "jsonrpc": "2.0", "method": method }))
    }

    /// Pushes a request and waits for the whole response.
    ///
    /// # Panics
    /// When no response comes.
    pub async fn ask(&self, method: &str, params: Value) -> Value {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        self.push(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        self.wait_for_response(id).await
    }

    /// The streams that are open for [`push`](Self::push).
    pub fn open_streams(&self) -> usize {
        self.shared.channels.count()
    }

    /// Waits until at least one stream is open for [`push`](Self::push).
    ///
    /// # Panics
    /// When none opens.
    pub async fn wait_for_stream(&self) {
        self.shared.record.until("a stream to push on", |_| (self.open_streams() > 0).then_some(())).await;
    }

    /// Ends every open stream politely: a GET stream ends, a subscription gets its result.
    pub fn end_streams(&self) {
        self.shared.channels.end_all();
    }

    /// Cuts the connection of every open stream.
    ///
    /// # Panics
    /// As [`push`](Self::push).
    pub fn cut_streams(&self) {
        self.shared.channels.cut_all();
    }

    /// Offers these tools in place of all others. Tell the client with [`notify`](Self::notify).
    pub fn replace_tools<T: Into<Tool>>(&self, tools: impl IntoIterator<Item = T>) {
        self.script(|script| script.tools = tools.into_iter().map(Into::into).collect());
    }
}

/// What transports use.
impl Peer {
    /// Notes a message before anything is done about it.
    pub(crate) fn note(&self, message: &Value) {
        self.shared.record.add(message.clone());
        answers::inspect(self, message);
    }

    /// The era in which the peer takes a message.
    pub(crate) fn era_of(&self, message: &Value) -> Era {
        let claims_modern = message["params"]["_meta"].get(VERSION_KEY).is_some()
            || matches!(message["method"].as_str(), Some("server/discover" | "subscriptions/listen"));
        match self.script(|script| (script.modern, script.legacy)) {
            (true, false) => Era::Modern,
            (true, true) if claims_modern => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// Answers a request into `outputs`; ends when all is said.
    pub(crate) async fn answer(&self, request: Value, outputs: Outputs) {
        let context = Context { peer: self.clone(), era: self.era_of(&request), request, outputs };
        answers::reply(&context).run(&context).await;
    }

    pub(crate) fn complain(&self, complaint: String) {
        self.shared.record.complain(complaint);
    }

    pub(crate) fn abandon(&self, request: Value) {
        self.shared.record.abandon(request);
    }

    pub(crate) fn keeps_record(&self) -> bool {
        self.shared.record.is_kept()
    }

    pub(crate) fn is_legacy(&self) -> bool {
        self.script(|script| script.legacy)
    }

    /// True for a legacy revision that the peer could have agreed to.
    pub(crate) fn knows_legacy(&self, version: &str) -> bool {
        LEGACY_REVISIONS.contains(&version) || self.script(|script| script.answers_version.as_deref() == Some(version))
    }

    pub(crate) fn honours_cancel(&self) -> bool {
        self.script(|script| script.honours_cancel)
    }

    pub(crate) fn open_channel(&self, outputs: Outputs, kind: Kind) -> Hold {
        let hold = self.shared.channels.open(outputs, kind);
        self.shared.record.touch();
        hold
    }
}

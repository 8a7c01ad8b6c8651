//! What a peer that is a process of its own does, as JSON, since closures cannot cross into another process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::CommandLine;
use crate::peer::{Peer, Prompt, Resource, Tool};
use crate::reply::Reply;
use crate::stdio::scripted_peer;

/// The largest script that is passed as an argument; a larger one goes through a file.
const LARGEST_ARGUMENT: usize = 64 * 1024;

/// What a peer over stdio offers and does. Build it, and start [`command`](Self::command).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use]
pub struct Script {
    pub(crate) modern: bool,
    pub(crate) legacy: bool,
    pub(crate) protocol_version: Option<String>,
    pub(crate) capabilities: Option<Value>,
    pub(crate) page_size: Option<usize>,
    pub(crate) tools: Vec<ScriptTool>,
    pub(crate) many_tools: usize,
    pub(crate) prompts: Vec<Value>,
    pub(crate) resources: Vec<Value>,
    pub(crate) templates: Vec<Value>,
    pub(crate) banner: Vec<String>,
    pub(crate) noise: Vec<String>,
    pub(crate) push: Vec<Value>,
    pub(crate) stderr: Option<String>,
    pub(crate) stderr_bytes: usize,
    pub(crate) exits_at_once: Option<i32>,
    pub(crate) exits_after: Option<(String, i32)>,
    pub(crate) closes_on: Option<String>,
    pub(crate) stalls_on: Vec<String>,
    pub(crate) lingers: bool,
    pub(crate) ignores_eof: bool,
    pub(crate) ignores_terminate: bool,
    pub(crate) child: Option<Child>,
    pub(crate) launcher: bool,
    pub(crate) sleeper: bool,
    pub(crate) pid_file: Option<PathBuf>,
    pub(crate) record_file: Option<PathBuf>,
    pub(crate) ids: Ids,
    pub(crate) pieces: Option<usize>,
    pub(crate) burn_milliseconds: u64,
}

/// Under which ids the peer answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ids {
    #[default]
    Same,
    Zero,
    Text,
}

/// A process that the peer starts and leaves behind.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Child {
    pub(crate) keeps_pipe: bool,
    pub(crate) ignores_terminate: bool,
}

/// A tool of a peer over stdio.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ScriptTool {
    pub(crate) definition: Value,
    pub(crate) answer: ToolAnswer,
}

/// What a call of a tool over stdio does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToolAnswer {
    /// Echoes its arguments as JSON text.
    Echo,
    /// Says a text.
    Says(String),
    /// Gives a whole result.
    Result(Value),
    /// Says as many letters as its number.
    Letters(usize),
    /// Says its environment as a JSON object.
    Environment,
    /// Never answers.
    Stall,
    /// Ends the process with this code in place of an answer.
    Exit(i32),
}

/// What the peer offers.
impl Script {
    /// A peer of revision 2026-07-28 that knows no handshake.
    pub fn modern() -> Self {
        Self { modern: true, ..Self::default() }
    }

    /// A peer of revision 2025-11-25 that does not know `server/discover`.
    pub fn legacy() -> Self {
        Self { legacy: true, ..Self::default() }
    }

    /// A peer that serves the client in the era in which it opens.
    pub fn both() -> Self {
        Self { modern: true, legacy: true, ..Self::default() }
    }

    /// Offers a tool that takes any object.
    pub fn tool(self, name: &str, answer: ToolAnswer) -> Self {
        self.raw_tool(Tool::new(name).definition, answer)
    }

    /// Puts any JSON value into the list of tools.
    pub fn raw_tool(mut self, definition: Value, answer: ToolAnswer) -> Self {
        self.tools.push(ScriptTool { definition, answer });
        self
    }

    /// Offers `count` tools named `tool-0`, `tool-1`, …
    pub fn many_tools(mut self, count: usize) -> Self {
        self.many_tools = count;
        self
    }

    /// Puts any JSON value into the list of prompts.
    pub fn prompt(mut self, definition: Value) -> Self {
        self.prompts.push(definition);
        self
    }

    /// Puts any JSON value into the list of resources.
    pub fn resource(mut self, definition: Value) -> Self {
        self.resources.push(definition);
        self
    }

    /// Puts any JSON value into the list of resource templates.
    pub fn template(mut self, definition: Value) -> Self {
        self.templates.push(definition);
        self
    }

    /// Announces these capabilities in place of those that follow from what it offers.
    pub fn capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = Some(capabilities);
        self
    }

    /// Gives lists in pages of this many items.
    pub fn page_size(mut self, size: usize) -> Self {
        self.page_size = Some(size);
        self
    }

    /// Answers `initialize` with this revision, whatever was asked for.
    pub fn protocol_version(mut self, version: &str) -> Self {
        self.protocol_version = Some(version.to_owned());
        self
    }

    /// Sends a whole message as soon as a legacy client has shaken hands.
    pub fn push(mut self, message: Value) -> Self {
        self.push.push(message);
        self
    }

    /// Writes every message that it receives into this file, one a line.
    pub fn records_to(mut self, file: &Path) -> Self {
        self.record_file = Some(file.to_owned());
        self
    }

    /// Writes the ids of its processes into this file; read them with [`pids`](crate::stdio::pids).
    pub fn writes_pids_to(mut self, file: &Path) -> Self {
        self.pid_file = Some(file.to_owned());
        self
    }
}

/// What the peer does to its streams.
impl Script {
    /// Writes these lines to stdout at once.
    pub fn banner(mut self, lines: &[&str]) -> Self {
        self.banner = lines.iter().map(|&line| line.to_owned()).collect();
        self
    }

    /// Writes these lines to stdout before each message.
    pub fn noise(mut self, lines: &[&str]) -> Self {
        self.noise = lines.iter().map(|&line| line.to_owned()).collect();
        self
    }

    /// Writes this text to stderr at once.
    pub fn stderr(mut self, text: &str) -> Self {
        self.stderr = Some(text.to_owned());
        self
    }

    /// Writes as many bytes to stderr before it answers a request, and waits for somebody to read them.
    pub fn stderr_before_each(mut self, bytes: usize) -> Self {
        self.stderr_bytes = bytes;
        self
    }

    /// Writes each answer in pieces of `size` bytes.
    pub fn in_pieces(mut self, size: usize) -> Self {
        self.pieces = Some(size);
        self
    }

    /// Answers everything under the id 0.
    pub fn answers_with_id_zero(mut self) -> Self {
        self.ids = Ids::Zero;
        self
    }

    /// Answers everything under the request's id as a string.
    pub fn answers_with_text_ids(mut self) -> Self {
        self.ids = Ids::Text;
        self
    }

    /// Closes stdout in place of an answer to this method, and ends.
    pub fn closes_on(mut self, method: &str) -> Self {
        self.closes_on = Some(method.to_owned());
        self
    }

    /// Never answers this method.
    pub fn stalls_on(mut self, method: &str) -> Self {
        self.stalls_on.push(method.to_owned());
        self
    }
}

/// How the peer lives and dies as a process.
impl Script {
    /// Ends at once with this code; give the reason with [`stderr`](Self::stderr).
    pub fn exits_at_once(mut self, code: i32) -> Self {
        self.exits_at_once = Some(code);
        self
    }

    /// Ends with this code right after its answer to this method.
    pub fn exits_after(mut self, method: &str, code: i32) -> Self {
        self.exits_after = Some((method.to_owned(), code));
        self
    }

    /// Lives on where it would end because of what it wrote or closed itself.
    pub fn lingers(mut self) -> Self {
        self.lingers = true;
        self
    }

    /// Lives on when its stdin ends.
    pub fn ignores_eof(mut self) -> Self {
        self.ignores_eof = true;
        self
    }

    /// Lives on when it is asked to terminate (SIGTERM).
    pub fn ignores_terminate(mut self) -> Self {
        self.ignores_terminate = true;
        self
    }

    /// Is started by a launcher that shares its streams with it and waits for it.
    pub fn behind_launcher(mut self) -> Self {
        self.launcher = true;
        self
    }

    /// Starts a process of its own that outlives it and keeps its stdout open.
    pub fn leaves_child_with_pipe(mut self) -> Self {
        self.child.get_or_insert_default().keeps_pipe = true;
        self
    }

    /// Starts a process of its own that outlives it and ignores SIGTERM.
    pub fn leaves_stubborn_child(mut self) -> Self {
        self.child.get_or_insert_default().ignores_terminate = true;
        self
    }

    /// Keeps a processor busy for this long before its first answer.
    pub fn burns(mut self, duration: Duration) -> Self {
        self.burn_milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self
    }
}

impl Script {
    /// The command that a client starts. Builds the program first when that is needed.
    ///
    /// # Panics
    /// When the program cannot be built.
    pub fn command(&self) -> CommandLine {
        let json = serde_json::to_string(self).expect("scripts are plain data");
        let program = scripted_peer();
        if json.len() <= LARGEST_ARGUMENT {
            return CommandLine::new(program, [json]);
        }
        let file = tempfile::NamedTempFile::new().expect("there is a folder for temporary files").into_temp_path();
        std::fs::write(&file, json).expect("the folder for temporary files has room");
        let path = file.to_str().expect("temporary files have Unicode paths").to_owned();
        CommandLine { _script_file: Some(file), ..CommandLine::new(program, [path]) }
    }

    /// The peer that this script describes.
    pub(crate) fn peer(&self) -> Peer {
        let mut peer = match (self.modern, self.legacy) {
            (true, false) => Peer::modern(),
            (false, _) => Peer::legacy(),
            (true, true) => Peer::both(),
        };
        for tool in &self.tools {
            let answer = tool.answer.clone();
            peer = peer.tool(Tool::raw(tool.definition.clone()).answers(move |arguments, _| answer.reply(arguments)));
        }
        peer = peer.many_tools(self.many_tools);
        for prompt in &self.prompts {
            peer = peer.prompt(Prompt::raw(prompt.clone()));
        }
        for resource in &self.resources {
            peer = peer.resource(Resource::raw(resource.clone()));
        }
        for template in &self.templates {
            peer = peer.raw_template(template.clone());
        }
        if let Some(capabilities) = &self.capabilities {
            peer = peer.capabilities(capabilities.clone());
        }
        if let Some(size) = self.page_size {
            peer = peer.page_size(size);
        }
        if let Some(version) = &self.protocol_version {
            peer = peer.protocol_version(version);
        }
        for message in &self.push {
            peer.push(message.clone());
        }
        self.misbehave(peer)
    }

    /// Adds what the peer does wrong.
    fn misbehave(&self, mut peer: Peer) -> Peer {
        if let Some(method) = &self.closes_on {
            peer = peer.on(method, |_, _| Reply::cut());
        }
        for method in &self.stalls_on {
            peer = peer.on(method, |_, _| Reply::stall());
        }
        if let Some((method, _)) = &self.exits_after {
            peer = peer.on(method, |_, context| context.usual().then_cut());
        }
        let (ids, pieces) = (self.ids, self.pieces);
        peer.every(move |reply| {
            let reply = match ids {
                Ids::Same => reply,
                Ids::Zero => reply.wrong_id(0),
                Ids::Text => reply.id_as_string(),
            };
            match pieces {
                Some(size) => reply.in_pieces(size),
                None => reply,
            }
        })
    }
}

impl ToolAnswer {
    fn reply(&self, arguments: &Value) -> Reply {
        match self {
            Self::Echo => Reply::text(arguments.to_string()),
            Self::Says(text) => Reply::text(text),
            Self::Result(result) => Reply::result(result.clone()),
            Self::Letters(count) => Reply::text("x".repeat(*count)),
            Self::Environment => {
                let environment: serde_json::Map<String, Value> =
                    std::env::vars().map(|(name, value)| (name, value.into())).collect();
                Reply::text(Value::Object(environment).to_string())
            }
            Self::Stall => Reply::stall(),
            Self::Exit(code) => std::process::exit(*code),
        }
    }
}

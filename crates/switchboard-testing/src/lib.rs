//! MCP servers for tests: fake ones that can be as rude as those in the field, and real ones.
//!
//! Nothing here knows the library under test. A test starts a peer, points its client at it, and asks the peer what it
//! has seen. No test needs a sleep: [`Peer::wait_for`] and its relatives wait for the event itself, for at most 20 s of
//! real time, and [`Gate`]s hold a peer back until the test lets it go on. Delays run on tokio's clock, which a test
//! may pause.
//!
//! # A peer in memory
//!
//! [`Peer`] is a server as a value. [`memory::serve`] puts it at one end of a pipe and gives the other end to the
//! client: newline-delimited JSON, as over stdio.
//!
//! ```
//! use switchboard_testing::{Peer, Reply, Tool, memory};
//! # use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//!
//! let peer = Peer::both()
//!     .tool("echo")
//!     .tool(Tool::new("slow").answers(|_arguments, _context| Reply::stall()))
//!     .on("prompts/list", |_request, _context| Reply::error(-32603, "the disk is full"));
//! let stream = memory::serve(&peer);
//!
//! // The client under test takes the stream; here a few bytes stand for it.
//! let mut client = BufReader::new(stream);
//! client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await?;
//! let mut answer = String::new();
//! client.read_line(&mut answer).await?;
//! assert_eq!(answer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
//! assert_eq!(peer.wait_for("ping").await["id"], 1);
//! # Ok(())
//! # }
//! ```
//!
//! # A peer over HTTP
//!
//! [`HttpPeer`] serves the same peer over Streamable HTTP on a real socket. What a [`Reply`] cannot say,
//! [`HttpPeer::on_http`] can: statuses, headers, chunks, codings, hangs and resets.
//!
//! ```
//! use switchboard_testing::{AnswerWith, Coding, HttpPeer, HttpReply, Peer};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//!
//! let server = HttpPeer::start(Peer::legacy().many_tools(500))
//!     .await
//!     .answer_with(AnswerWith::Sse)
//!     .on_http(|request| request.calls("tools/list").then(|| HttpReply::usual().encoded(Coding::Br)));
//!
//! // … the client under test connects to `server.url()` and lists the tools …
//! # let _ = server.url();
//! assert_eq!(server.open_sockets(), 0);
//! assert_eq!(server.received_methods(), Vec::<String>::new());
//! # }
//! ```
//!
//! # A peer as a process
//!
//! [`stdio::Script`] drives the program `scripted-peer`, which is built when it is needed. It can do what only a
//! process can: die early, ignore signals, leave children behind, fill stderr.
//!
//! ```no_run
//! use switchboard_testing::process::wait_until_gone;
//! use switchboard_testing::stdio::{Script, ToolAnswer, pids};
//! # async fn test() {
//!
//! let folder = tempfile::tempdir().unwrap();
//! let file = folder.path().join("pids");
//! let script = Script::legacy().tool("echo", ToolAnswer::Echo).behind_launcher().writes_pids_to(&file);
//! let command = script.command();
//!
//! // … the client under test starts `command.program` with `command.arguments`, and closes …
//! # let _ = command.words();
//! for (role, pid) in pids(&file, 2).await {
//!     assert!(wait_until_gone(pid, std::time::Duration::from_secs(10)).await, "the {role} lives on");
//! }
//! # }
//! ```
//!
//! # Faults
//!
//! [`Faults`] has many servers suffer what happens in the field, from a cut connection to a half-written answer. A seed
//! decides what happens to which exchange, so that a storm can be had again.
//!
//! # Real servers
//!
//! [`RmcpServer`] is a server made with the official Rust SDK, in the test's own process; [`real`] starts npm's
//! reference server and a `fastmcp` server.

pub mod faults;
pub mod http;
pub mod memory;
pub mod peer;
pub mod process;
pub mod real;
pub mod reply;
pub mod rmcp_peer;
pub mod stdio;

mod command_line;
mod lines;
mod patience;

pub use command_line::CommandLine;
pub use faults::Faults;
pub use http::{AnswerWith, Coding, GetStream, HttpPeer, HttpReply, HttpRequest};
pub use patience::Gate;
pub use peer::{Context, Era, LEGACY, MODERN, Peer, Prompt, Resource, Tool};
pub use reply::Reply;
pub use rmcp_peer::RmcpServer;

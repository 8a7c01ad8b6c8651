//! What was typed: the command line as clap reads it. Texts here are the program's help and `docs/cli.md`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use switchboard::State;
use switchboard::catalogue::ToolFormat;

/// Connects to MCP servers, remembers them, and calls their tools.
#[derive(Debug, Parser)]
#[command(
    name = "switchboard",
    version,
    propagate_version = false,
    max_term_width = 100,
    disable_help_subcommand = true
)]
#[command(after_help = "Exit codes: 0 done, 1 the tool answered with an error, 2 wrong usage, 3 not ready or sign-in \
                        needed, 4 a server or a transport failed, 5 refused by policy, 130 interrupted.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The folder that everything is kept in [default: $SWITCHBOARD_DATA, else ~/.local/share/switchboard]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Which instance is meant; each has servers of its own
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    pub(crate) instance: String,
    /// Print one JSON document (streams: one a line); failures as problem documents on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Log to standard error; twice or three times for more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the daemon: agents at addresses, over HTTP
    Serve(Serve),
    /// Show that it works: a small MCP server of both eras, added, called, remembered
    Demo(Demo),
    /// Register a server, connect to it, and read its lists
    #[command(
        after_help = "Examples:\n  switchboard add github https://mcp.example/mcp --header 'Authorization: Bearer …'\n  \
                            switchboard add everything -- npx -y @modelcontextprotocol/server-everything"
    )]
    Add(Box<Add>),
    /// Show all servers and how they are
    List(Wait),
    /// Close a server's connection and forget it
    Remove(OneServer),
    /// Connect to a server and read its lists
    Connect(OneServer),
    /// Close a server's connection; it stays registered
    Close(OneServer),
    /// Find out, step by step, why a server does not work
    Doctor(Doctor),
    /// List the tools of all servers
    Tools(Tools),
    /// Call a tool
    #[command(
        after_help = "Arguments are typed by the tool's input schema: `count=3` is a number where the schema says so. A key \
                            that is given more than once becomes a list.\n\nExamples:\n  switchboard call everything/echo \
                            message=hi\n  echo '{\"message\": \"hi\"}' | switchboard call everything/echo --args -"
    )]
    Call(Call),
    /// Show which tools of a server are not what was approved
    Drift(OneServer),
    /// Approve tools of a server as they are known now
    #[command(after_help = "Examples:\n  switchboard approve github\n  switchboard approve github search create_issue")]
    Approve(Approve),
    /// List the resources of all servers
    Resources(Resources),
    /// Read a resource
    Read(Read),
    /// List the prompts of all servers
    Prompts(Listing),
    /// Get a prompt
    Prompt(Prompt),
    /// Ask a server to complete an argument of a prompt or of a resource template
    Complete(Complete),
    /// Show the calls that the daemon knows
    Calls,
    /// Follow what happens
    Watch(Watch),
    /// Print the completions of a shell
    #[command(
        after_help = "Example:\n  switchboard completions bash > ~/.local/share/bash-completion/completions/switchboard"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the reference of the command line as Markdown
    #[command(hide = true)]
    Reference,
    /// The MCP server of the demo
    #[command(hide = true)]
    DemoServer(DemoServer),
}

/// `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7717")]
    pub(crate) listen: SocketAddr,
    /// Let clients register commands over HTTP, which start processes on this machine
    #[arg(long)]
    pub(crate) allow_commands: bool,
    /// A file with the bearer token that clients must show; needed when the address is not a loopback one
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Another name under which clients may reach the daemon (checked against the Host header)
    #[arg(long, value_name = "NAME")]
    pub(crate) allowed_host: Vec<String>,
}

/// `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Leave out npm's reference server, also where npx is there
    #[arg(long)]
    pub(crate) no_npx: bool,
}

/// `add`.
#[derive(Debug, Args)]
#[command(
    override_usage = "switchboard add NAME URL [OPTIONS]\n       switchboard add NAME [OPTIONS] -- COMMAND [ARG]..."
)]
pub(crate) struct Add {
    /// What to call the server
    pub(crate) name: String,
    /// The MCP endpoint of a remote server
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The command of a local server and its arguments, passed as they are
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// The server's stable id [default: the name, normalised]
    #[arg(long)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) remote: AddRemote,
    #[command(flatten)]
    pub(crate) local: AddLocal,
    #[command(flatten)]
    pub(crate) connection: AddConnection,
    #[command(flatten)]
    pub(crate) tools: AddTools,
}

/// Options of `add` for a remote server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Remote servers")]
pub(crate) struct AddRemote {
    /// Which transport the server speaks [default: found out]
    #[arg(long, value_enum)]
    pub(crate) transport: Option<Transport>,
    /// A header for every request; may be repeated
    #[arg(long = "header", value_name = "K: V", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
}

/// Options of `add` for a child process.
#[derive(Debug, Args)]
#[command(next_help_heading = "Commands")]
pub(crate) struct AddLocal {
    /// An environment variable for the command; may be repeated
    #[arg(long, value_name = "K=V", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    /// A variable that the command inherits besides PATH, HOME and the like; `all` for all; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) inherit_env: Vec<String>,
    /// The folder to start the command in
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
}

/// Options of `add` for the connection.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct AddConnection {
    /// How often a connect is tried [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) retry_attempts: Option<u32>,
    /// The first wait between two attempts [default: 500]
    #[arg(long, value_name = "N")]
    pub(crate) retry_base_ms: Option<u64>,
    /// The longest wait between two attempts [default: 5000]
    #[arg(long, value_name = "N")]
    pub(crate) retry_max_ms: Option<u64>,
    /// The time for one request; progress restarts it [default: 60000]
    #[arg(long, value_name = "N")]
    pub(crate) timeout_ms: Option<u64>,
    /// The time for one request in all [default: 600000]
    #[arg(long, value_name = "N")]
    pub(crate) max_timeout_ms: Option<u64>,
    /// The time for one attempt to connect [default: 10000]
    #[arg(long, value_name = "N")]
    pub(crate) connect_timeout_ms: Option<u64>,
    /// The time for the probe of the protocol's era [default: 5000]
    #[arg(long, value_name = "N")]
    pub(crate) probe_timeout_ms: Option<u64>,
    /// The time for reading all lists [default: 30000]
    #[arg(long, value_name = "N")]
    pub(crate) discovery_timeout_ms: Option<u64>,
    /// Ask the server whether it is there, this long after it answered last; 0 asks only when something is odd [default: 0]
    #[arg(long, value_name = "N")]
    pub(crate) heartbeat_ms: Option<u64>,
    /// The largest message [default: 16777216]
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_message: Option<u64>,
    /// How many calls may be under way at once [default: 64]
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<u64>,
    /// How many calls may wait for their turn [default: 1024]
    #[arg(long, value_name = "N")]
    pub(crate) waiting: Option<u64>,
    /// Client capabilities to offer, instead of those that would be offered
    #[arg(long, value_name = "JSON")]
    pub(crate) capabilities: Option<String>,
}

/// Options of `add` for the server's tools.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct AddTools {
    /// Offer only tools whose names match; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) allow_tool: Vec<String>,
    /// Do not offer tools whose names match; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) deny_tool: Vec<String>,
    /// Show a tool to models under another name; may be repeated
    #[arg(long, value_name = "NAME=OTHER", value_parser = pair)]
    pub(crate) rename_tool: Vec<(String, String)>,
    /// What happens to a result that does not fit its output schema [default: warn]
    #[arg(long, value_enum)]
    pub(crate) output_schema: Option<OutputSchema>,
    /// What happens when the server's tools are not those that were approved [default: warn]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) drift: Option<DriftPolicy>,
}

/// The transports of remote servers.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Transport {
    /// Found out by trying
    Auto,
    /// Streamable HTTP
    StreamableHttp,
    /// The HTTP+SSE transport of 2024-11-05
    Sse,
}

/// What happens to a result that does not fit.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OutputSchema {
    /// Delivered, with a warning
    Warn,
    /// The call fails
    Refuse,
    /// Nothing is checked
    Off,
}

/// What happens to tools that are not what was approved. What a new server offers first is approved, except under
/// `refuse-unapproved`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DriftPolicy {
    /// Nothing
    Off,
    /// The server gets a warning
    Warn,
    /// Changed tools are withheld until they are approved
    RefuseChanged,
    /// All tools are withheld until they are approved
    RefuseUnapproved,
}

/// `approve`.
#[derive(Debug, Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    pub(crate) one: OneServer,
    /// The server's own names of the tools [default: all tools]
    #[arg(value_name = "TOOL")]
    pub(crate) tools: Vec<String>,
}

/// One server.
#[derive(Debug, Args)]
pub(crate) struct OneServer {
    /// The server's id or name
    #[arg(value_name = "ID")]
    pub(crate) server: String,
}

/// How long to wait for servers that are still connecting.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// How long to wait for servers that are still connecting
    #[arg(long, value_name = "N", default_value_t = 15_000)]
    pub(crate) wait_ms: u64,
}

/// Which servers' items to list.
#[derive(Debug, Args)]
pub(crate) struct Listing {
    /// Only of this server, by id or name; may be repeated
    #[arg(long = "server", value_name = "ID")]
    pub(crate) servers: Vec<String>,
    /// Only of servers in this state; may be repeated
    #[arg(long = "state", value_name = "STATE")]
    pub(crate) states: Vec<State>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// `tools`.
#[derive(Debug, Args)]
pub(crate) struct Tools {
    #[command(flatten)]
    pub(crate) listing: Listing,
    /// The shape of the tools: MCP's own, or that of a model provider's request
    #[arg(long, value_name = "FORMAT", default_value_t = ToolFormat::Mcp, value_parser = tool_format())]
    pub(crate) format: ToolFormat,
}

/// `resources`.
#[derive(Debug, Args)]
pub(crate) struct Resources {
    #[command(flatten)]
    pub(crate) listing: Listing,
    /// List the resource templates instead
    #[arg(long)]
    pub(crate) templates: bool,
}

/// The time that a request may take.
#[derive(Debug, Args, Clone, Copy)]
pub(crate) struct Time {
    /// The time for an answer; progress restarts it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout_ms: Option<u64>,
    /// The time in all, whatever the progress
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) deadline_ms: Option<u64>,
}

/// `call`.
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// A tool key, or SERVER/TOOL with a server's id or name
    pub(crate) tool: String,
    /// Arguments; they win over those of --args
    #[arg(value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) pairs: Vec<(String, String)>,
    /// All arguments as one JSON object: the text itself, `-` for standard input, or @FILE
    #[arg(long, value_name = "JSON|-|@FILE")]
    pub(crate) args: Option<String>,
    /// Check the arguments against the tool's input schema before they are sent
    #[arg(long)]
    pub(crate) validate: bool,
    /// Call once more when the connection is lost and the tool says that it is read-only or idempotent
    #[arg(long)]
    pub(crate) retry_if_safe: bool,
    /// A header for this call alone; may be repeated
    #[arg(long = "header", value_name = "K: V", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) time: Time,
}

/// `read`.
#[derive(Debug, Args)]
pub(crate) struct Read {
    /// The server's id or name
    pub(crate) server: String,
    /// The resource
    pub(crate) uri: String,
    #[command(flatten)]
    pub(crate) time: Time,
}

/// `prompt`.
#[derive(Debug, Args)]
pub(crate) struct Prompt {
    /// The server's id or name
    pub(crate) server: String,
    /// The prompt
    pub(crate) name: String,
    /// Arguments
    #[arg(value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) pairs: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) time: Time,
}

/// `complete`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("reference").required(true))]
pub(crate) struct Complete {
    /// The server's id or name
    pub(crate) server: String,
    /// The argument, with the text so far
    #[arg(value_name = "KEY=TEXT", value_parser = pair)]
    pub(crate) argument: (String, String),
    /// Arguments that are already known
    #[arg(value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) known: Vec<(String, String)>,
    /// The prompt that the argument belongs to
    #[arg(long, value_name = "NAME", group = "reference")]
    pub(crate) prompt: Option<String>,
    /// The resource template that the argument belongs to
    #[arg(long, value_name = "URI", group = "reference")]
    pub(crate) template: Option<String>,
    #[command(flatten)]
    pub(crate) time: Time,
}

/// `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The server's id or name [default: all servers]
    #[arg(value_name = "ID")]
    pub(crate) server: Option<String>,
}

/// `watch`.
#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Begin behind the event of this number instead of now (the daemon keeps the last 1,000)
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
}

/// `demo-server`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("transport").required(true))]
pub(crate) struct DemoServer {
    /// Speak on the standard streams
    #[arg(long, group = "transport")]
    pub(crate) stdio: bool,
    /// Speak Streamable HTTP; the address is printed; ends with standard input
    #[arg(long, group = "transport")]
    pub(crate) http: bool,
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Which of the protocol's eras to speak
    #[arg(long, value_enum, default_value_t = Eras::Both)]
    pub(crate) era: Eras,
}

/// The protocol's eras that the demo server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Eras {
    /// 2026-07-28 only
    Modern,
    /// 2025-11-25 and older only
    Legacy,
    /// Whatever the client speaks
    Both,
}

/// The formats of tools, by their names.
fn tool_format() -> impl TypedValueParser<Value = ToolFormat> {
    PossibleValuesParser::new(ToolFormat::ALL.map(ToolFormat::name)).try_map(|name| name.parse::<ToolFormat>())
}

/// Splits `KEY=VALUE` at the first `=`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be KEY=VALUE".to_owned()),
    }
}

/// Splits `Name: value` at the first colon.
fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("must be `Name: value`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_stands_behind_the_dashes_belongs_to_the_command() {
        let typed = ["switchboard", "add", "n", "--env", "K=V=W", "--", "npx", "-y", "--json"];
        let Command::Add(add) = Arguments::try_parse_from(typed).unwrap().command else { panic!("another command") };
        assert_eq!(add.command, ["npx", "-y", "--json"]);
        assert_eq!(add.local.env, [("K".to_owned(), "V=W".to_owned())]);
        assert_eq!(add.url, None);
    }

    #[test]
    fn pairs_and_headers_split_at_the_first_mark() {
        assert_eq!(header("Authorization: Bearer a:b").unwrap(), ("Authorization".into(), "Bearer a:b".into()));
        assert!(header("nothing").is_err());
        assert!(header(": x").is_err());
        assert_eq!(pair("a=").unwrap(), ("a".into(), String::new()));
        assert!(pair("=a").is_err());
        assert!(pair("a").is_err());
    }

    #[test]
    fn global_options_may_stand_behind_the_command() {
        let typed = Arguments::try_parse_from(["switchboard", "list", "--json", "--data", "/x"]).unwrap();
        assert!(typed.global.json);
        assert_eq!(typed.global.data.unwrap(), std::path::Path::new("/x"));
    }
}

//! The peer as a child process: its streams, its life and its death.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard_testing::CommandLine;
use switchboard_testing::process::{is_alive, wait_until_gone};
use switchboard_testing::stdio::{Script, ToolAnswer, pids, recorded, wait_for_recorded};

use crate::client::{legacy, modern, notification};

/// A child with pipes on all three streams, killed when the test ends.
struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    _command: CommandLine,
}

impl Server {
    fn start(script: &Script) -> Self {
        Self::start_with(script, |_| {})
    }

    fn start_with(script: &Script, adjust: impl FnOnce(&mut Command)) -> Self {
        let line = script.command();
        let mut command = Command::new(&line.program);
        command.args(&line.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        adjust(&mut command);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout, _command: line }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    fn request(&mut self, message: &Value) -> Value {
        self.send(message);
        serde_json::from_str(&self.line()).unwrap()
    }

    fn close_stdin(&mut self) {
        self.stdin = None;
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    fn terminate(&self) {
        let status = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn call(tool: &str) -> Value {
    legacy(1, "tools/call", json!({ "name": tool, "arguments": {} }))
}

#[test]
fn a_process_speaks_both_eras_and_ends_with_its_stdin() {
    let mut server = Server::start(&Script::both().tool("echo", ToolAnswer::Echo));
    let discovered = server.request(&modern(1, "server/discover", json!({})));
    assert_eq!(discovered["result"]["capabilities"], json!({ "tools": {} }));
    let answer = server.request(&legacy(2, "initialize", json!({ "protocolVersion": "2025-11-25" })));
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    server.close_stdin();
    assert_eq!(server.code(), Some(0));
}

#[test]
fn noise_comes_before_and_between_messages() {
    let script = Script::legacy().banner(&["Hello", ""]).noise(&["\u{1b}[31mred\u{1b}[0m", "[1,2]", "7"]);
    let mut server = Server::start(&script);
    server.send(&legacy(1, "ping", json!({})));
    let lines: Vec<String> = (0..5).map(|_| server.line()).collect();
    assert_eq!(lines, ["Hello\n", "\n", "\u{1b}[31mred\u{1b}[0m\n", "[1,2]\n", "7\n"]);
    assert!(server.line().contains("result"));
}

#[test]
fn nothing_is_answered_while_nobody_reads_stderr() {
    let mut server = Server::start(&Script::legacy().stderr_before_each(256 * 1024));
    server.send(&legacy(1, "ping", json!({})));
    let mut stderr = server.child.stderr.take().unwrap();
    let mut noise = vec![0; 256 * 1024];
    stderr.read_exact(&mut noise).unwrap();
    assert!(server.line().contains("result"));
}

#[test]
fn an_early_exit_leaves_its_code_and_its_reason() {
    let mut server = Server::start(&Script::legacy().stderr("API_KEY is missing\n").exits_at_once(3));
    assert_eq!(server.stderr(), "API_KEY is missing\n");
    assert_eq!(server.code(), Some(3));
}

#[test]
fn a_server_may_exit_right_after_its_first_answer() {
    let mut server = Server::start(&Script::legacy().exits_after("initialize", 0));
    let answer = server.request(&legacy(1, "initialize", json!({})));
    assert!(answer["result"]["serverInfo"].is_object());
    assert_eq!((server.line().as_str(), server.code()), ("", Some(0)));
}

#[test]
fn ids_come_back_as_zero_or_as_text() {
    let mut server = Server::start(&Script::legacy().answers_with_id_zero());
    assert_eq!(server.request(&legacy(7, "ping", json!({})))["id"], 0);
    let mut server = Server::start(&Script::legacy().answers_with_text_ids());
    assert_eq!(server.request(&legacy(7, "ping", json!({})))["id"], "7");
}

#[test]
fn discover_can_close_the_pipe_or_never_be_answered() {
    let mut server = Server::start(&Script::legacy().closes_on("server/discover"));
    server.send(&modern(1, "server/discover", json!({})));
    assert_eq!((server.line().as_str(), server.code()), ("", Some(0)));
    let mut server = Server::start(&Script::legacy().stalls_on("server/discover"));
    server.send(&modern(1, "server/discover", json!({})));
    assert_eq!(server.request(&legacy(2, "ping", json!({})))["id"], 2);
}

#[tokio::test]
async fn a_closed_pipe_does_not_have_to_end_the_process() {
    let mut server = Server::start(&Script::legacy().closes_on("server/discover").lingers());
    server.send(&modern(1, "server/discover", json!({})));
    assert_eq!(server.line(), "");
    assert!(is_alive(server.child.id()));
}

#[test]
fn answers_are_big_or_come_in_pieces() {
    let megabytes = 5 << 20;
    let script = Script::legacy().tool("big", ToolAnswer::Letters(megabytes)).in_pieces(64 * 1024);
    let mut server = Server::start(&script);
    assert!(server.request(&call("big"))["result"]["content"][0]["text"].as_str().unwrap().len() == megabytes);
    let text = "— 🎈 漢字 \u{2028} \\r";
    let mut server = Server::start(&Script::legacy().tool("t", ToolAnswer::Says(text.into())).in_pieces(1));
    assert_eq!(server.request(&call("t"))["result"]["content"][0]["text"], text);
}

#[test]
fn the_environment_is_told() {
    let mut server = Server::start_with(&Script::legacy().tool("env", ToolAnswer::Environment), |command| {
        command.env_clear().env("ONLY", "this");
    });
    let told = server.request(&call("env"))["result"]["content"][0]["text"].clone();
    assert_eq!(told, r#"{"ONLY":"this"}"#);
}

#[test]
fn a_busy_start_delays_only_the_first_answer() {
    let mut server = Server::start(&Script::legacy().burns(Duration::from_millis(300)));
    let start = Instant::now();
    server.request(&legacy(1, "ping", json!({})));
    assert!(start.elapsed() >= Duration::from_millis(300));
    let start = Instant::now();
    server.request(&legacy(2, "ping", json!({})));
    assert!(start.elapsed() < Duration::from_millis(300));
}

#[test]
fn a_script_too_large_for_an_argument_goes_through_a_file() {
    let script = Script::legacy().tool("t", ToolAnswer::Says("y".repeat(200_000)));
    let line = script.command();
    assert!(line.arguments[0].len() < 1000);
    let mut server = Server::start(&script);
    assert_eq!(server.request(&call("t"))["result"]["content"][0]["text"].as_str().unwrap().len(), 200_000);
}

#[tokio::test]
async fn what_it_received_is_recorded_and_what_it_pushes_comes_after_the_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("received");
    let script = Script::legacy().records_to(&file).push(legacy("p", "ping", json!({})));
    let mut server = Server::start(&script);
    server.request(&legacy(1, "initialize", json!({})));
    server.send(&notification("notifications/initialized"));
    assert!(server.line().contains(r#""id":"p""#));
    let messages = wait_for_recorded(&file, "notifications/initialized").await;
    assert_eq!(messages.len(), 2);
    assert_eq!(recorded(&file)[0]["method"], "initialize");
}

#[tokio::test]
async fn end_of_stdin_and_sigterm_can_be_ignored() {
    let mut server = Server::start(&Script::legacy().ignores_eof().ignores_terminate());
    server.request(&legacy(1, "ping", json!({})));
    server.close_stdin();
    server.terminate();
    assert!(!wait_until_gone(server.child.id(), Duration::from_millis(200)).await);
    let mut polite = Server::start(&Script::legacy().ignores_eof());
    polite.request(&legacy(1, "ping", json!({})));
    polite.terminate();
    assert!(wait_until_gone(polite.child.id(), Duration::from_secs(10)).await);
}

#[tokio::test]
async fn a_launcher_that_is_ended_leaves_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = Script::legacy().behind_launcher().ignores_eof().ignores_terminate().writes_pids_to(&file);
    let mut server = Server::start(&script);
    server.request(&legacy(1, "ping", json!({})));
    let processes = pids(&file, 2).await;
    assert_eq!((processes[0].0.as_str(), processes[1].0.as_str()), ("launcher", "server"));
    server.terminate();
    assert!(wait_until_gone(processes[0].1, Duration::from_secs(10)).await);
    assert!(is_alive(processes[1].1));
    kill(processes[1].1).await;
}

#[tokio::test]
async fn a_child_that_is_left_behind_keeps_the_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = Script::legacy().leaves_child_with_pipe().leaves_stubborn_child().writes_pids_to(&file);
    let mut server = Server::start(&script);
    let processes = pids(&file, 2).await;
    let child = processes.iter().find(|(role, _)| role == "child").unwrap().1;
    server.close_stdin();
    assert_eq!(server.code(), Some(0));
    let reading = std::thread::spawn(move || server.line());
    assert!(is_alive(child));
    assert!(!reading.is_finished());
    kill(child).await;
    assert_eq!(reading.join().unwrap(), "");
}

async fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    assert!(wait_until_gone(pid, Duration::from_secs(10)).await);
}

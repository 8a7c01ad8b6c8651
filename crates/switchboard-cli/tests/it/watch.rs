//! `watch` on a terminal: the state of all servers, as it changes.

use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::world::{HttpPeer, PATIENCE, PROGRAM, World, send};

/// What a terminal shows.
struct Screen<R> {
    output: R,
    seen: String,
}

impl<R: AsyncRead + Unpin> Screen<R> {
    /// Waits for a picture in which the line of `server` holds all of `words`.
    async fn wait_for(&mut self, server: &str, words: &[&str]) {
        let mut piece = [0; 4096];
        let found = async {
            loop {
                let picture =
                    self.seen.rsplit("\u{1b}[H\u{1b}[J").find(|picture| picture.contains("STATE")).unwrap_or_default();
                let line = picture.lines().find(|line| line.starts_with(server)).unwrap_or_default();
                if words.iter().all(|word| line.contains(word)) {
                    return;
                }
                let length = self.output.read(&mut piece).await.unwrap();
                assert_ne!(length, 0, "the watch ended");
                self.seen.push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        };
        let waited = tokio::time::timeout(PATIENCE, found).await;
        assert!(waited.is_ok(), "`{server}` was never shown with {words:?}: {}", self.seen);
    }
}

/// A pseudo-terminal comes from the program `script` of util-linux.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn b193_on_a_terminal_the_table_follows_each_server() {
    let world = World::new();
    let daemon = world.daemon().await;
    let peer = HttpPeer::start(&world, "legacy").await;
    world.run(&["add", "far", &peer.url, "--header", "X-Key: v"]).await.ended(0);
    let mut command = world.other_command("script", &["-qefc", &format!("{PROGRAM} watch"), "/dev/null"]);
    let mut watching = command.env("TERM", "xterm").stdin(Stdio::piped()).spawn().unwrap();
    let mut screen = Screen { output: watching.stdout.take().unwrap(), seen: String::new() };
    screen.wait_for("far", &["ready", "ms", "2025-11-25", "streamable-http"]).await;

    peer.stop().await;
    // Nobody knows until somebody asks.
    assert_ne!(world.run(&["call", "far/echo", "message=hi", "--deadline-ms", "300"]).await.code, Some(0));
    screen.wait_for("far", &["in ", "attempt"]).await;

    send("TERM", watching.id().unwrap());
    watching.wait().await.unwrap();
    assert!(daemon.stop("TERM").await.success());
}

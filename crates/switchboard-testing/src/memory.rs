//! A peer at one end of a pipe in memory: newline-delimited JSON, no sockets, no processes, any clock.

use std::borrow::Borrow;

use bytes::Bytes;
use tokio::io::DuplexStream;

use crate::lines::{self, Habits};
use crate::peer::Peer;

/// What the pipe holds before a writer has to wait, as much as an operating system's.
const PIPE: usize = 64 * 1024;

/// Serves the peer at one end of a new pipe and returns the other end.
///
/// The connection ends when the client drops its end or the script cuts it. A peer may be served many times.
pub fn serve(peer: impl Borrow<Peer>) -> DuplexStream {
    serve_with_noise(peer, &[], &[])
}

/// As [`serve`], but writes the lines of `banner` at once and those of `noise` before each message.
pub fn serve_with_noise(peer: impl Borrow<Peer>, banner: &[&str], noise: &[&str]) -> DuplexStream {
    let lines = |lines: &[&str]| lines.iter().map(|line| Bytes::copy_from_slice(line.as_bytes())).collect();
    let habits = Habits { banner: lines(banner), noise: lines(noise), on_message: None };
    let (near, far) = tokio::io::duplex(PIPE);
    let peer = peer.borrow().clone();
    tokio::spawn(async move {
        let (reader, writer) = tokio::io::split(far);
        lines::serve(&peer, reader, writer, &habits).await
    });
    near
}

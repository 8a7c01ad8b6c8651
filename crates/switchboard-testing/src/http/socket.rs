//! The sockets of an HTTP peer: counted, flushed on demand, and reset when a script says so.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// How many sockets were accepted and how many are open. Waiters are told of each change.
#[derive(Debug)]
pub(crate) struct Counters(watch::Sender<Counts>);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) accepted: usize,
    pub(crate) open: usize,
}

impl Default for Counters {
    fn default() -> Self {
        Self(watch::Sender::new(Counts::default()))
    }
}

impl Counters {
    pub(crate) fn now(&self) -> Counts {
        *self.0.borrow()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Counts> {
        self.0.subscribe()
    }
}

/// What the answers on one socket may ask of it.
#[derive(Debug)]
pub(crate) struct SocketState {
    flushes: watch::Sender<u64>,
    reset: AtomicBool,
}

impl SocketState {
    /// How often everything written so far has been handed to the operating system.
    pub(crate) fn flushes(&self) -> watch::Receiver<u64> {
        self.flushes.subscribe()
    }

    /// Lets the end of the connection be a reset (RST) in place of a polite end (FIN).
    pub(crate) fn reset_at_end(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }
}

/// A server-side socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    state: Arc<SocketState>,
    counters: Arc<Counters>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, counters: Arc<Counters>) -> Self {
        counters.0.send_modify(|counts| {
            counts.accepted += 1;
            counts.open += 1;
        });
        // Without this the kernel holds back small pieces, which would join what a script wrote apart.
        let _ = stream.set_nodelay(true);
        let state = Arc::new(SocketState { flushes: watch::Sender::new(0), reset: AtomicBool::new(false) });
        Self { stream, state, counters }
    }

    pub(crate) fn state(&self) -> Arc<SocketState> {
        Arc::clone(&self.state)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.state.reset.load(Ordering::Relaxed) {
            let _ = self.stream.set_zero_linger();
        }
        self.counters.0.send_modify(|counts| counts.open -= 1);
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        if done.is_ready() {
            self.state.flushes.send_modify(|count| *count += 1);
        }
        done
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state.reset.load(Ordering::Relaxed) {
            // A polite end first would turn the reset into nothing.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

//! Dials: resolves the name, connects to an address, speaks TLS. Every outbound connection of the process begins here.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The time for one name look-up, one TCP connect to one address, and one TLS handshake, each.
const STEP_LIMIT: Duration = Duration::from_secs(10);

/// How long one address may be silent before the next one is tried beside it.
const STAGGER: Duration = Duration::from_millis(300);

/// Makes connections for the HTTP client. Clones share the TLS settings, which are set up at the first `https` dial.
#[derive(Debug, Clone, Default)]
pub(super) struct Connector {
    tls: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// Why a dial failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("the host name `{host}` could not be resolved")]
    Resolve { host: String, source: io::Error },
    #[error("the host name `{0}` has no address")]
    NoAddress(String),
    #[error("could not connect to {address}")]
    Tcp { address: SocketAddr, source: io::Error },
    #[error("the TLS handshake with `{host}` failed")]
    Tls { host: String, source: io::Error },
    #[error("`{0}` is not a host that TLS can name")]
    BadHost(String),
    #[error("the address has no host")]
    NoHost,
}

impl Connector {
    async fn dial(self, uri: http::Uri) -> Result<Stream, DialError> {
        let host = uri.host().ok_or(DialError::NoHost)?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_tls = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tcp = connect(&host, port).await?;
        // A failure here costs latency, and how soon a peer that fell silent is noticed.
        let _ = tcp.set_nodelay(true);
        let _ = SockRef::from(&tcp).set_tcp_keepalive(&keep_alive());
        if !is_tls {
            return Ok(Stream(MaybeTls::Plain(TokioIo::new(tcp))));
        }
        let name = ServerName::try_from(host.clone()).map_err(|_| DialError::BadHost(host.clone()))?;
        let handshake = TlsConnector::from(self.tls_config()).connect(name, tcp);
        let tls = bounded(handshake).await.map_err(|source| DialError::Tls { host, source })?;
        Ok(Stream(MaybeTls::Tls(Box::new(TokioIo::new(tls)))))
    }

    fn tls_config(&self) -> Arc<ClientConfig> {
        let make = || {
            let roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            #[expect(clippy::expect_used, reason = "the ring provider supports the default versions")]
            let config = config.expect("TLS 1.2 and 1.3 are built in").with_root_certificates(roots);
            Arc::new(config.with_no_client_auth())
        };
        self.tls.get_or_init(make).clone()
    }
}

/// A stream may be silent for hours, and a machine may sleep or change its network meanwhile: without this nobody would
/// notice that the other end is gone. It keeps the way through routers open too.
fn keep_alive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10)).with_retries(3)
}

/// Connects to one of the host's addresses.
async fn connect(host: &str, port: u16) -> Result<TcpStream, DialError> {
    let resolve = |source| DialError::Resolve { host: host.to_owned(), source };
    let addresses = bounded(tokio::net::lookup_host((host, port))).await.map_err(resolve)?.collect();
    let connected = first(addresses, |address| bounded(TcpStream::connect(address))).await;
    connected.map_err(|failure| failure.unwrap_or_else(|| DialError::NoAddress(host.to_owned())))
}

/// Dials the addresses in order, the next one as soon as the one before has failed or is slow; the first that answers
/// wins, and the last failure is told.
async fn first<T, D>(addresses: Vec<SocketAddr>, dial: impl Fn(SocketAddr) -> D) -> Result<T, Option<DialError>>
where
    D: Future<Output = io::Result<T>>,
{
    let mut rest = addresses.into_iter();
    let mut dials = FuturesUnordered::new();
    let mut failure = None;
    loop {
        if let Some(address) = rest.next() {
            let dialed = dial(address);
            dials.push(async move { dialed.await.map_err(|source| DialError::Tcp { address, source }) });
        }
        tokio::select! {
            biased;
            outcome = dials.next() => match outcome {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => failure = Some(error),
                None => return Err(failure),
            },
            () = tokio::time::sleep(STAGGER), if rest.len() > 0 => {}
        }
    }
}

async fn bounded<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(STEP_LIMIT, step).await {
        Ok(outcome) => outcome,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {} s", STEP_LIMIT.as_secs()))),
    }
}

impl tower::Service<http::Uri> for Connector {
    type Response = Stream;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        Box::pin(self.clone().dial(uri))
    }
}

/// A connection to a server, with or without TLS.
pub(super) struct Stream(MaybeTls);

enum MaybeTls {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            MaybeTls::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            MaybeTls::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buf),
        }
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            MaybeTls::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            MaybeTls::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            MaybeTls::Plain(stream) => Pin::new(stream).poll_flush(cx),
            MaybeTls::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            MaybeTls::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            MaybeTls::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            MaybeTls::Plain(stream) => stream.is_write_vectored(),
            MaybeTls::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            MaybeTls::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            MaybeTls::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, bufs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> Vec<SocketAddr> {
        ["[::1]:1", "127.0.0.1:2", "127.0.0.1:3"].map(|address| address.parse().unwrap()).into()
    }

    async fn first_of(outcomes: [Option<bool>; 3]) -> (Option<u16>, u128) {
        let began = tokio::time::Instant::now();
        let dial = |address: SocketAddr| async move {
            match outcomes[usize::from(address.port()) - 1] {
                None => std::future::pending().await,
                Some(true) => Ok(address.port()),
                Some(false) => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        };
        let port = tokio::time::timeout(Duration::from_secs(10), first(addresses(), dial)).await;
        (port.ok().and_then(Result::ok), began.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_silent_does_not_hold_up_the_next() {
        let (silent, works, refuses) = (None, Some(true), Some(false));
        for (outcomes, expected) in [
            ([works, works, works], (Some(1), 0)),
            ([refuses, works, works], (Some(2), 0)),
            ([silent, works, works], (Some(2), 300)),
            ([silent, refuses, works], (Some(3), 300)),
            ([silent, silent, works], (Some(3), 600)),
            ([refuses, refuses, refuses], (None, 0)),
            ([silent, refuses, silent], (None, 10_000)),
        ] {
            assert_eq!(first_of(outcomes).await, expected, "{outcomes:?}");
        }
        let none: Vec<SocketAddr> = Vec::new();
        assert!(first(none, |_| async { Ok(()) }).await.is_err_and(|failure| failure.is_none()));
    }

    #[tokio::test]
    async fn a_peer_that_falls_silent_is_noticed_by_the_system() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let Stream(MaybeTls::Plain(stream)) = Connector::default().dial(uri).await.unwrap() else { panic!("no TLS") };
        let socket = SockRef::from(stream.inner());
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
    }
}

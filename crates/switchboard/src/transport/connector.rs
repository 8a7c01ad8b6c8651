//! Dials: resolves the name, connects to an address, speaks TLS. Every outbound connection of the process begins here.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The time for one name look-up, one TCP connect to one address, and one TLS handshake, each.
const STEP_LIMIT: Duration = Duration::from_secs(10);

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
        // A failure here costs latency only.
        let _ = tcp.set_nodelay(true);
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

/// Tries the host's addresses in order; the last failure is told.
async fn connect(host: &str, port: u16) -> Result<TcpStream, DialError> {
    let resolve = |source| DialError::Resolve { host: host.to_owned(), source };
    let addresses = bounded(tokio::net::lookup_host((host, port))).await.map_err(resolve)?;
    let mut failure = DialError::NoAddress(host.to_owned());
    for address in addresses {
        match bounded(TcpStream::connect(address)).await {
            Ok(stream) => return Ok(stream),
            Err(source) => failure = DialError::Tcp { address, source },
        }
    }
    Err(failure)
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

//! Serves a host on a listener, and stops in order: accepts nothing more, lets requests and calls end, shuts managers down.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::app::{ApiOptions, router};
use crate::host::Host;
use crate::tasks::Tasks;

/// The wait after an `accept` that failed for want of something that others will give back, such as file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// What hyper itself takes of headers. More than the API does, so that the refusal can be a problem document.
const HYPER_HEADERS: usize = 256;
const HYPER_HEADER_BYTES: usize = 128 << 10;

/// How a host is served.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServeOptions {
    /// What the API allows.
    pub api: ApiOptions,
    /// How long requests and calls may take to end when the daemon stops, and again the managers.
    pub grace: Duration,
    /// How long the head of a request may take, the wait on an idle connection included.
    pub header_timeout: Duration,
    /// How many connections are served at once; more wait until one ends.
    pub max_connections: usize,
}

impl ServeOptions {
    /// The usual bounds, for an API with these options.
    #[must_use]
    pub fn new(api: ApiOptions) -> Self {
        Self { api, grace: Duration::from_secs(10), header_timeout: Duration::from_secs(30), max_connections: 4096 }
    }
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Something listens there already.
    #[error("the address {address} is in use")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// Ports like this one are kept for the system.
    #[error("this user may not listen on {address}")]
    NotPermitted {
        /// The address.
        address: SocketAddr,
    },
    /// The address is not one of this machine's.
    #[error("{address} is not an address of this machine")]
    NotHere {
        /// The address.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("could not listen on {address}")]
    Other {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// Listens on `address`.
///
/// # Errors
/// When the address is in use, not permitted, or not of this machine.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        io::ErrorKind::PermissionDenied => BindError::NotPermitted { address },
        io::ErrorKind::AddrNotAvailable => BindError::NotHere { address },
        _ => BindError::Other { address, source },
    })
}

/// What was still under way when the time to stop ran out, and was cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Connections with a request under way.
    pub connections: usize,
    /// Calls that went on by themselves.
    pub calls: usize,
}

impl Stopped {
    /// Whether everything ended by itself.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

/// Serves `host` until `shutdown` is done, then stops: accepts nothing more, ends event streams, lets requests and calls
/// end within the grace time, shuts the managers down, and says what had to be cut.
///
/// Cancel safety: dropping the future stops accepting and leaves the rest running; let it end instead.
pub async fn serve(
    listener: TcpListener,
    host: Host,
    options: ServeOptions,
    shutdown: impl Future<Output = ()>,
) -> Stopped {
    let api = router(host.clone(), options.api.clone());
    let connections = Connections {
        service: TowerToHyperService::new(api),
        tasks: Tasks::default(),
        closing: CancellationToken::new(),
        places: Arc::new(Semaphore::new(options.max_connections)),
        header_timeout: options.header_timeout,
    };
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            () = connections.accept(&listener) => {}
        }
    }
    drop(listener);
    host.stopping().cancel();
    connections.closing.cancel();
    let cut = connections.tasks.finish(options.grace).await;
    let stopped = Stopped { connections: cut, calls: host.shutdown(options.grace).await };
    if !stopped.is_clean() {
        tracing::warn!(connections = stopped.connections, calls = stopped.calls, "cut what did not end in time");
    }
    stopped
}

/// All connections of one listener.
struct Connections<S> {
    service: S,
    tasks: Tasks,
    /// Set when connections are to end after the request that they are in.
    closing: CancellationToken,
    places: Arc<Semaphore>,
    header_timeout: Duration,
}

impl Connections<TowerToHyperService<axum::Router>> {
    /// Takes one connection, when there is a place for it.
    async fn accept(&self, listener: &TcpListener) {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = self.connection(stream);
                self.tasks.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    /// Serves one connection until it ends, or until the request that it is in when the daemon stops has been answered.
    fn connection(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        // Answers are small and waited for; there is nothing to gather. A connection that refuses this still works.
        let _ = stream.set_nodelay(true);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .max_headers(HYPER_HEADERS)
            .max_header_size(HYPER_HEADER_BYTES);
        let connection = http.serve_connection(TokioIo::new(stream), self.service.clone()).with_upgrades();
        let closing = self.closing.clone();
        async move {
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = closing.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended badly");
            }
        }
    }
}

/// Whether only the connection being accepted is lost.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_told() {
        let first = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = first.local_addr().unwrap();
        let error = bind(address).await.unwrap_err();
        assert!(matches!(error, BindError::InUse { .. }));
        assert_eq!(error.to_string(), format!("the address {address} is in use"));
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_told() {
        assert!(matches!(bind("192.0.2.1:0".parse().unwrap()).await, Err(BindError::NotHere { .. })));
    }
}

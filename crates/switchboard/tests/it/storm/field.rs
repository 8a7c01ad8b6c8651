//! The servers of a storm: both eras, JSON and event streams, pipes, and a few that stay dead.

use std::net::Ipv4Addr;

use futures_util::future::join_all;
use switchboard::spec::{InProcessTarget, TransportKind};
use switchboard::{Manager, ServerId, ServerSpec};
use switchboard_testing::{AnswerWith, Faults, HttpPeer, HttpReply, Peer, memory};
use tokio::net::TcpSocket;

/// All servers of a storm.
pub(super) struct Field {
    servers: Vec<Server>,
}

/// One of them.
struct Server {
    id: ServerId,
    spec: ServerSpec,
    place: Place,
}

enum Place {
    Http(HttpPeer),
    Pipe(Peer),
    /// A port that nobody listens on, and nobody else can take.
    Refusing(TcpSocket),
    /// A server that closes every connection.
    Closing(HttpPeer),
}

impl Field {
    /// Of twenty servers, sixteen are over HTTP, two on pipes, and two are dead.
    pub(super) async fn new(count: usize, faults: &Faults) -> Self {
        Self { servers: join_all((0..count).map(|number| Server::new(number, faults))).await }
    }

    pub(super) async fn register_all(&self, manager: &Manager) {
        for server in &self.servers {
            manager.register(server.spec.clone()).await.unwrap();
        }
    }

    /// Connects to all servers and waits until each was ready, or failed, once.
    pub(super) async fn add_all(&self, manager: &Manager) {
        for added in join_all(self.servers.iter().map(|server| manager.add(server.spec.clone()))).await {
            added.unwrap();
        }
    }

    /// The ids of all, or of those that are not dead.
    pub(super) fn ids(&self, only_healthy: bool) -> Vec<ServerId> {
        let is_wanted = |server: &&Server| !only_healthy || !server.is_dead();
        self.servers.iter().filter(is_wanted).map(|server| server.id.clone()).collect()
    }

    pub(super) fn open_sockets(&self) -> usize {
        self.servers.iter().filter_map(Server::http).map(HttpPeer::open_sockets).sum()
    }

    /// What the client did against the rules.
    pub(super) fn complaints(&self) -> Vec<String> {
        self.servers.iter().flat_map(Server::complaints).collect()
    }
}

impl Server {
    async fn new(number: usize, faults: &Faults) -> Self {
        let peer = faults.counted(if number.is_multiple_of(2) { Peer::legacy() } else { Peer::modern() });
        let place = match number % 20 {
            0 => Place::Refusing(refusing()),
            1 => Place::Closing(HttpPeer::start(&peer).await.on_http(|_| Some(HttpReply::cut()))),
            2 | 3 => Place::Pipe(faults.pipe(number, peer)),
            mix => {
                let mode = if mix < 12 { AnswerWith::Json } else { AnswerWith::Sse };
                Place::Http(faults.serve(number, &peer).await.answer_with(mode))
            }
        };
        let name = format!("server-{number}");
        let mut spec = match &place {
            Place::Http(server) | Place::Closing(server) => ServerSpec::http(&name, &server.url()),
            Place::Refusing(socket) => ServerSpec::http(&name, &format!("http://{}/mcp", socket.local_addr().unwrap())),
            Place::Pipe(peer) => {
                let peer = peer.clone();
                ServerSpec::in_process(&name, InProcessTarget::new(move || memory::serve(&peer)))
            }
        }
        .unwrap();
        if let switchboard::spec::Target::Http(target) = &mut spec.target {
            target.transport = TransportKind::StreamableHttp;
        }
        Self { id: name.parse().unwrap(), spec: spec.id(&name).unwrap(), place }
    }

    fn is_dead(&self) -> bool {
        matches!(self.place, Place::Refusing(_) | Place::Closing(_))
    }

    fn http(&self) -> Option<&HttpPeer> {
        match &self.place {
            Place::Http(server) | Place::Closing(server) => Some(server),
            Place::Pipe(_) | Place::Refusing(_) => None,
        }
    }

    fn complaints(&self) -> Vec<String> {
        let complaints = match &self.place {
            Place::Http(server) | Place::Closing(server) => server.complaints(),
            Place::Pipe(peer) => peer.complaints(),
            Place::Refusing(_) => Vec::new(),
        };
        // A server that does not answer `server/discover` in time is offered a legacy handshake, which has no such header.
        let is_allowed = |complaint: &String| complaint == "the header `mcp-protocol-version` is missing";
        complaints.into_iter().filter(|complaint| !is_allowed(complaint)).collect()
    }
}

/// A socket that has a port but does not listen.
pub(crate) fn refusing() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    socket
}

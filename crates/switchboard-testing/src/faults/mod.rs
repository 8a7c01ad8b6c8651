//! Faults for many servers at once, decided by a seed and nothing else: the same seed makes the same decisions, however
//! fast or slow everything runs.
//!
//! [`Faults::decide`] is the whole of it: which fault meets the exchange with a number of its kind at a server with a
//! number. [`Faults::serve`] and [`Faults::pipe`] have a peer suffer them, over HTTP and over a pipe, and
//! [`Faults::counted`] gives it tools that count how often each call has run.

mod dice;
mod tally;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::Method;

use crate::http::{HttpPeer, HttpReply, HttpRequest};
use crate::patience::Gate;
use crate::peer::{Context, Peer, Tool};
use crate::reply::Reply;
use dice::Dice;
use tally::Tally;

/// What goes wrong with one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The connection is closed before the request is carried out.
    CutBefore,
    /// The connection is reset before the request is carried out.
    ResetBefore,
    /// The connection is closed after the request was carried out, before its answer.
    CutAfter,
    /// The request is carried out, and half of its answer is written.
    HalfWritten,
    /// Nothing happens until the faults stop.
    Stall,
    /// The request is carried out late.
    Slow(Duration),
    /// The request is refused with this status.
    Status(u16),
    /// The request is refused with 429 and `Retry-After: 1`.
    TooMany,
    /// The server has forgotten its sessions.
    Forgets,
    /// The server restarts: it forgets its sessions and closes every connection.
    Restarts,
    /// The streams are closed on which the server speaks unasked.
    CutStreams,
}

/// The kinds of exchanges. Each is counted on its own, so that the number of one does not hang on how often another was
/// tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exchange {
    /// The start of a connection: `initialize` and `server/discover`.
    Open,
    /// A list.
    List,
    /// A tool call.
    Call,
    /// The GET of a stream.
    Stream,
    /// Anything else.
    Other,
}

/// One decision that was not to leave the exchange alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Decision {
    /// The server.
    pub server: usize,
    /// The kind of the exchange.
    pub exchange: Exchange,
    /// Which of its kind at that server, from zero.
    pub number: u64,
    /// What happened to it.
    pub fault: Fault,
}

/// A source of faults, and the record of what ran in spite of them. Clones are the same.
#[derive(Debug, Clone)]
pub struct Faults {
    seed: u64,
    per_mille: u64,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    over: Gate,
    tally: Tally,
}

impl Exchange {
    const ALL: [Self; 5] = [Self::Open, Self::List, Self::Call, Self::Stream, Self::Other];

    fn of(request: &HttpRequest) -> Self {
        match (&request.method, request.rpc_method()) {
            (&Method::GET, _) => Self::Stream,
            (_, Some(method)) => Self::of_method(&method),
            _ => Self::Other,
        }
    }

    fn of_method(method: &str) -> Self {
        match method {
            "initialize" | "server/discover" => Self::Open,
            "tools/call" => Self::Call,
            "subscriptions/listen" => Self::Stream,
            list if list.ends_with("/list") => Self::List,
            _ => Self::Other,
        }
    }
}

impl Faults {
    /// Faults for one exchange in ten.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, per_mille: 100, shared: Arc::default() }
    }

    /// Faults for so many exchanges of a thousand.
    #[must_use]
    pub fn per_mille(self, per_mille: u64) -> Self {
        Self { per_mille, ..self }
    }

    /// What happens to this exchange, as long as there are faults. Hangs on the seed and the arguments alone.
    pub fn decide(&self, server: usize, exchange: Exchange, number: u64) -> Option<Fault> {
        let mut dice = Dice::of(&[self.seed, server as u64, exchange as u64, number]);
        if dice.below(1000) >= self.per_mille {
            return None;
        }
        // A stream has no end of its own, so nothing can happen half-way through it; and nobody reads the other answers.
        let kinds = match exchange {
            Exchange::Open | Exchange::List | Exchange::Call => 11,
            Exchange::Stream | Exchange::Other => 8,
        };
        Some(match dice.below(kinds) {
            0 => Fault::CutBefore,
            1 => Fault::ResetBefore,
            2 => Fault::Stall,
            3 => Fault::Slow(Duration::from_millis(50 + dice.below(1_450))),
            4 => Fault::Status(500 + dice.below(4) as u16),
            5 => Fault::TooMany,
            6 => Fault::Forgets,
            7 => Fault::Restarts,
            8 => Fault::CutStreams,
            9 => Fault::CutAfter,
            _ => Fault::HalfWritten,
        })
    }

    /// No more faults. What was stalled goes on.
    pub fn stop(&self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.over.open();
    }

    /// Every fault so far, sorted.
    pub fn decisions(&self) -> Vec<Decision> {
        self.shared.tally.decisions()
    }

    /// How often the call with this `id` among its arguments has run.
    pub fn runs_of(&self, id: u64) -> u32 {
        self.shared.tally.runs_of(id)
    }

    /// How many calls have run.
    pub fn runs(&self) -> usize {
        self.shared.tally.runs()
    }

    /// Gives the peer two tools that take a number `id` and echo their arguments: `write`, and `read`, which says that it
    /// is read-only. The peer keeps no record of its own.
    pub fn counted(&self, peer: Peer) -> Peer {
        let tool = |name: &str| {
            let shared = Arc::clone(&self.shared);
            Tool::new(name).answers(move |arguments, _| {
                shared.tally.ran(arguments["id"].as_u64().expect("the storm gives each call a number"));
                Reply::text(arguments.to_string())
            })
        };
        let read_only = serde_json::json!({ "readOnlyHint": true });
        peer.tool(tool("write")).tool(tool("read").annotations(read_only)).forgetful()
    }

    /// Serves the peer over HTTP as the server with that number.
    pub async fn serve(&self, server: usize, peer: &Peer) -> HttpPeer {
        let (numbers, peer_of_streams) = (self.numbers(server), peer.clone());
        HttpPeer::start(peer).await.on_http(move |request| {
            let fault = numbers.next(Exchange::of(request))?;
            Some(numbers.faults.over_http(fault, &peer_of_streams))
        })
    }

    /// Has the peer suffer faults wherever it is served on a pipe, as the server with that number.
    pub fn pipe(&self, server: usize, peer: Peer) -> Peer {
        let numbers = Arc::new(self.numbers(server));
        ["initialize", "server/discover", "tools/list", "tools/call"].into_iter().fold(peer, |peer, method| {
            let numbers = Arc::clone(&numbers);
            peer.on(method, move |_, context| match numbers.next(Exchange::of_method(method)) {
                Some(fault) => numbers.faults.over_a_pipe(fault, context),
                None => context.usual(),
            })
        })
    }

    fn numbers(&self, server: usize) -> Numbers {
        Numbers { faults: self.clone(), server, next: Default::default() }
    }

    fn over_http(&self, fault: Fault, peer: &Peer) -> HttpReply {
        match fault {
            Fault::CutBefore => HttpReply::cut(),
            Fault::ResetBefore => HttpReply::reset(),
            Fault::CutAfter => HttpReply::usual().lost(),
            Fault::HalfWritten => HttpReply::usual().lost_midway(),
            Fault::Stall => HttpReply::usual().when(&self.shared.over),
            Fault::Slow(delay) => HttpReply::usual().delay(delay),
            Fault::Status(status) => HttpReply::status(status),
            Fault::TooMany => HttpReply::status(429).header("retry-after", "1"),
            Fault::Forgets => HttpReply::usual().forgets_sessions(),
            Fault::Restarts => HttpReply::restart(),
            Fault::CutStreams => {
                peer.cut_streams();
                HttpReply::usual()
            }
        }
    }

    /// A pipe knows no sessions and no statuses: forgetting is nothing to it, and a refusal is an error.
    fn over_a_pipe(&self, fault: Fault, context: &Context) -> Reply {
        match fault {
            Fault::CutBefore | Fault::ResetBefore | Fault::Restarts | Fault::CutStreams => Reply::cut(),
            Fault::CutAfter => {
                let _carried_out = context.usual();
                Reply::cut()
            }
            Fault::HalfWritten => context.usual().cut_midway(),
            Fault::Stall => {
                let (over, context) = (self.shared.over.clone(), context.clone());
                Reply::later(async move {
                    over.wait().await;
                    context.usual()
                })
            }
            Fault::Slow(delay) => context.usual().delay(delay),
            Fault::Status(_) | Fault::TooMany => Reply::error(-32603, "the server has a bad day"),
            Fault::Forgets => context.usual(),
        }
    }
}

/// Counts the exchanges of one server.
struct Numbers {
    faults: Faults,
    server: usize,
    next: [AtomicU64; Exchange::ALL.len()],
}

impl Numbers {
    /// What happens to the next exchange of this kind.
    fn next(&self, exchange: Exchange) -> Option<Fault> {
        if self.faults.shared.is_over.load(Ordering::SeqCst) {
            return None;
        }
        let number = self.next[exchange as usize].fetch_add(1, Ordering::Relaxed);
        let fault = self.faults.decide(self.server, exchange, number)?;
        self.faults.shared.tally.decided(Decision { server: self.server, exchange, number, fault });
        Some(fault)
    }
}

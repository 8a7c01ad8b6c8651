//! One server's connection: a handle that everyone may clone, a task that owns its life, and a pure machine that decides.
//!
//! Readers never ask the task: they look at the [`View`], at the live session and at the catalogue, which the task
//! replaces. A call goes straight from the handle to the transport.

mod actor;
mod checks;
mod dial;
pub(crate) mod discovery;
mod drift;
mod failure;
mod freshness;
mod listen;
mod liveness;
mod notices;
mod permits;
mod refresh;
pub(crate) mod state;
mod stream;
pub(crate) mod wishes;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use self::checks::Checks;
use self::listen::Standing;
use self::refresh::Progress;
use self::wishes::Wishes;
use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::catalogue::ServerCatalogue;
use crate::error::{Error, Result};
use crate::event::{EventLog, LogBook};
use crate::id::ServerId;
use crate::session::era::Verdict;
use crate::session::incoming::Changed;
use crate::session::request::RequestError;
use crate::session::{Identity, ServerFacts, Session};
use crate::spec::{ServerSpec, Target, TransportKind};
use crate::status::{State, Warning};
use crate::store::record::SessionRecord;
use crate::tasks::{OwnedTask, Tasks};
use crate::time::Timestamp;
use crate::transport::command::Environment;
use crate::transport::{HttpClient, TransportError};

/// Commands that wait for the task.
const COMMANDS: usize = 32;
/// How long a close is waited for; what takes longer goes on behind.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// Notes that are kept per format.
const NOTES: usize = 100;

/// What all connections of a manager share.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) http: HttpClient,
    pub(crate) environment: Environment,
    pub(crate) identity: Identity,
    pub(crate) events: Arc<EventLog>,
    /// How many connects may run at a time that nobody waits for.
    pub(crate) quiet_dials: Semaphore,
    /// How many child processes may be starting at a time.
    pub(crate) process_starts: Semaphore,
    /// Connections that are being ended in good order. Each is bounded in time.
    pub(crate) endings: Tasks,
}

/// Is told when something changed that outlives the process or is shown merged. Must not block.
pub(crate) trait Observer: Send + Sync + 'static {
    /// The verdict, the catalogue, the last failure or the facts of a server changed.
    fn changed(&self, id: &ServerId);
}

/// A connection's state, as readers see it.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) state: State,
    pub(crate) since: Timestamp,
    pub(crate) attempt: u32,
    pub(crate) next_attempt_at: Option<Timestamp>,
    /// The last failure, until the connection is ready again.
    pub(crate) failure: Option<(Error, Timestamp)>,
}

/// What is remembered of a server from an earlier life.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub(crate) verdict: Option<Verdict>,
    pub(crate) facts: ServerFacts,
    pub(crate) wishes: Wishes,
    /// The HTTP transport that worked last.
    pub(crate) transport: Option<TransportKind>,
    /// The session to be taken up again the next time.
    pub(crate) session: Option<SessionRecord>,
    /// Whether its process ended when it was asked for its era. Not stored.
    pub(crate) ended_at_probe: bool,
}

/// An open connection and the generation that it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) session: Arc<Session>,
    pub(crate) generation: u64,
}

/// What the task and the handles share.
pub(crate) struct Shared {
    pub(crate) id: ServerId,
    pub(crate) spec: ServerSpec,
    surroundings: Arc<Surroundings>,
    observer: Arc<dyn Observer>,
    view: watch::Sender<View>,
    live: ArcSwapOption<Live>,
    catalogue: ArcSwap<ServerCatalogue>,
    memory: RwLock<Memory>,
    permits: Semaphore,
    /// The calls under way.
    calls: TaskTracker,
    waiting: AtomicUsize,
    /// How many earlier lives of it are still being ended.
    endings: watch::Sender<usize>,
    checks: Checks,
    /// What was noticed when its tools were shaped for models, by the format.
    notes: Mutex<BTreeMap<&'static str, Vec<Warning>>>,
    wishes: watch::Sender<Wishes>,
    /// How the stream of notices stands, of a modern server.
    standing: watch::Sender<Standing>,
    /// How far the lists shown are behind what was announced.
    progress: watch::Sender<Progress>,
    /// Whether lists that have expired are asked for already.
    is_renewing: AtomicBool,
    logs: Arc<LogBook>,
}

/// A server's connection. Clones are the same connection; it ends with the last of them, or by [`Connection::close`].
#[derive(Clone)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    _task: Arc<OwnedTask>,
}

/// What the task may be asked to do. It answers when it has begun, not when that has ended.
#[derive(Debug)]
struct Command {
    order: Order,
    begun: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
enum Order {
    /// Open it; `quiet`: nobody waits for it.
    Connect { lists: bool, quiet: bool },
    /// A call needs it.
    Needed,
    /// Read the lists anew.
    Discover,
    /// Read these lists anew, and those that were announced as changed, without waiting for more notices.
    Refresh(Changed),
    /// Close it.
    Close,
    /// A request failed in that generation in a way that makes it doubtful whether the server is there.
    Doubt(u64, Box<TransportError>),
    /// A request found the session gone in that generation.
    Renew(u64),
}

impl Connection {
    /// A connection that is not open yet.
    pub(crate) fn new(
        (id, spec): (ServerId, ServerSpec),
        surroundings: Arc<Surroundings>,
        observer: Arc<dyn Observer>,
        (memory, catalogue): (Memory, ServerCatalogue),
    ) -> Self {
        let view =
            View { state: State::Closed, since: Timestamp::now(), attempt: 0, next_attempt_at: None, failure: None };
        let permits = Semaphore::new(spec.limits.in_flight);
        let wishes = watch::Sender::new(memory.wishes.clone());
        let shared = Arc::new(Shared {
            id,
            spec,
            surroundings,
            observer,
            view: watch::Sender::new(view),
            live: ArcSwapOption::empty(),
            catalogue: ArcSwap::from_pointee(catalogue),
            memory: RwLock::new(memory),
            permits,
            calls: TaskTracker::new(),
            waiting: AtomicUsize::new(0),
            endings: watch::Sender::new(0),
            checks: Checks::default(),
            notes: Mutex::default(),
            wishes,
            standing: watch::Sender::default(),
            progress: watch::Sender::default(),
            is_renewing: AtomicBool::new(false),
            logs: Arc::default(),
        });
        let (commands, receiver) = mpsc::channel(COMMANDS);
        let task = OwnedTask::spawn(actor::run(shared.clone(), receiver));
        Self { shared, commands, _task: Arc::new(task) }
    }

    pub(crate) fn id(&self) -> &ServerId {
        &self.shared.id
    }

    pub(crate) fn spec(&self) -> &ServerSpec {
        &self.shared.spec
    }

    pub(crate) fn view(&self) -> View {
        self.shared.view.borrow().clone()
    }

    pub(crate) fn state(&self) -> State {
        self.shared.view.borrow().state
    }

    pub(crate) fn catalogue(&self) -> Arc<ServerCatalogue> {
        self.shared.catalogue.load_full()
    }

    pub(crate) fn live(&self) -> Option<Arc<Live>> {
        self.shared.live.load_full()
    }

    /// The last of what its child process wrote to its standard error; `None` when there is no child now.
    pub(crate) fn stderr(&self) -> Option<String> {
        self.live()?.session.transport.stderr()
    }

    pub(crate) fn memory(&self) -> Memory {
        let memory = self.shared.memory.read().unwrap_or_else(PoisonError::into_inner).clone();
        Memory { wishes: self.shared.wishes.borrow().clone(), ..memory }
    }

    /// The name of the transport that is spoken, or was last.
    pub(crate) fn transport(&self) -> &'static str {
        let target = &self.shared.spec.target;
        let kind = match target {
            Target::Http(http) if http.transport == TransportKind::Auto => {
                let spoken = self.live().and_then(|live| live.session.transport.kind());
                spoken.or_else(|| self.memory().transport)
            }
            _ => None,
        };
        kind.map_or(target.transport(), TransportKind::as_str)
    }

    /// Begins to open it, without anybody waiting for how that ends.
    pub(crate) async fn connect_quietly(&self) {
        self.order(Order::Connect { lists: true, quiet: true }).await;
    }

    /// Opens it, with its lists or without, and waits for how that ends; joins what is under way.
    ///
    /// Cancel safety: dropping the future stops waiting; the connect goes on.
    pub(crate) async fn connect(&self, lists: bool) -> View {
        self.order(Order::Connect { lists, quiet: false }).await;
        self.wait_for(|state| state.is_settled() || (!lists && matches!(state, State::Connected | State::Discovering)))
            .await
    }

    /// Reads the lists anew and waits for the end of that.
    ///
    /// Cancel safety: dropping the future stops waiting; the discovery goes on.
    pub(crate) async fn discover(&self) -> View {
        self.order(Order::Discover).await;
        self.wait_for(State::is_settled).await
    }

    /// Closes it and waits for up to two seconds until nothing is left of it; what takes longer goes on behind.
    ///
    /// Cancel safety: dropping the future stops waiting; the close goes on.
    pub(crate) async fn close(&self) {
        let closed = async {
            self.order(Order::Close).await;
            self.shared.ended().await;
        };
        if tokio::time::timeout(CLOSE_LIMIT, closed).await.is_err() {
            tracing::debug!(server = %self.id(), "the server takes its time to end");
        }
    }

    /// Waits until the state fits.
    pub(crate) async fn wait_for(&self, fits: impl Fn(State) -> bool) -> View {
        let mut view = self.shared.view.subscribe();
        // The sender lives in `shared`, so the wait cannot fail.
        view.wait_for(|view| fits(view.state)).await.map_or_else(|_| self.view(), |view| view.clone())
    }

    /// The open session; waits for one that is coming, and wakes a server that has failed, for up to `patience`.
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`] when there is none in time, with the last failure as its cause.
    pub(crate) async fn session(&self, patience: Duration) -> Result<Arc<Live>> {
        if let Some(live) = self.live() {
            self.looked_at();
            return Ok(live);
        }
        self.order(Order::Needed).await;
        let opened = self.wait_for(|state| !matches!(state, State::Connecting));
        let _ = tokio::time::timeout(patience, opened).await;
        self.live().ok_or_else(|| failure::not_ready(&self.shared.id, &self.view()))
    }

    /// Whether that is still the open session.
    pub(crate) fn is_present(&self, live: &Live) -> bool {
        self.shared.live.load().as_ref().is_some_and(|now| now.generation == live.generation)
    }

    /// Keeps what was noticed when its tools were shaped for models, instead of what was noticed before.
    pub(crate) fn note(&self, format: &'static str, warnings: Vec<Warning>) {
        let mut notes = self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.insert(format, warnings.into_iter().take(NOTES).collect());
    }

    /// What was worked around: in its lists, on its channel, and for models.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let catalogue = self.catalogue();
        let mut warnings: Vec<Warning> = catalogue.warnings().cloned().collect();
        warnings.extend(catalogue.drift_warnings(self.spec().drift));
        if let Some(live) = self.live() {
            warnings.extend(live.session.inbox.warnings());
        }
        warnings.extend(self.shared.logs.warning());
        let notes = self.shared.notes.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.extend(notes.values().flatten().cloned());
        warnings
    }

    /// The compiled schemas of its tools.
    pub(crate) fn checks(&self) -> &Checks {
        &self.shared.checks
    }

    /// Tells the task of a request that failed, if that makes it doubtful whether the server is there. It is probed then, and
    /// the connection counts as lost, with this error, when it is not. Waits until the task knows, so that the state has
    /// followed before the caller is told.
    pub(crate) async fn doubt(&self, live: &Live, error: &RequestError) {
        // A child process is doubted for nothing: its end is seen, and a slow answer says nothing of it.
        let is_remote = live.session.transport.kind().is_some();
        if let Some(doubt) = failure::doubt(error).filter(|_| is_remote) {
            self.order(Order::Doubt(live.generation, Box::new(doubt))).await;
        }
    }

    /// Whether the server refuses in that session what every server answers.
    ///
    /// Cancel safety: dropping the future changes nothing.
    pub(crate) async fn refuses(&self, live: &Live) -> bool {
        let outcome = liveness::probe(&live.session, self.shared.spec.timeouts.probe).await;
        let Err(RequestError::Transport(error)) = outcome else { return false };
        matches!(error, TransportError::Status(_) | TransportError::SessionGone(_))
    }

    /// The session after that of `generation`, which the server has ended: however many ask, one is opened. Waits for it
    /// for up to `patience`.
    ///
    /// Cancel safety: dropping the future stops waiting; the connect goes on.
    ///
    /// # Errors
    /// As [`Connection::session`].
    pub(crate) async fn renewed(&self, generation: u64, patience: Duration) -> Result<Arc<Live>> {
        self.order(Order::Renew(generation)).await;
        self.session(patience).await
    }

    async fn order(&self, order: Order) {
        let (begun, has_begun) = oneshot::channel();
        if self.commands.send(Command { order, begun: Some(begun) }).await.is_ok() {
            let _ = has_begun.await;
        }
    }
}

impl Shared {
    /// Waits until nothing is left of earlier lives.
    async fn ended(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.endings.subscribe().wait_for(|endings| *endings == 0).await;
    }
}

/// An earlier life that is being ended; until it is dropped.
struct Ending(watch::Sender<usize>);

impl Ending {
    fn begin(shared: &Shared) -> Self {
        shared.endings.send_modify(|endings| *endings += 1);
        Self(shared.endings.clone())
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.send_modify(|endings| *endings -= 1);
    }
}

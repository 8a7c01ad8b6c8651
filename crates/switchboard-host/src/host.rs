//! The owner of instances: opens each once, keeps it, and closes all in order.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared, join_all};
use futures_util::stream::{self, StreamExt};
use switchboard::Manager;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::instance::{Instance, InstanceName};
use crate::tasks::Tasks;

/// How many instances are opened at a time when the host restores them.
const RESTORED_AT_A_TIME: usize = 8;

type Opened = Result<Arc<Instance>, HostError>;
type Opening = Shared<BoxFuture<'static, Opened>>;
type Open = dyn Fn(InstanceName) -> BoxFuture<'static, switchboard::Result<Manager>> + Send + Sync;

/// What a host may hold.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HostOptions {
    /// The agents that are hosted; others are unknown.
    pub agents: Vec<String>,
    /// How many instances may be open at once.
    pub max_instances: usize,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self { agents: vec!["switchboard".to_owned()], max_instances: 1000 }
    }
}

/// Why an instance is not there.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// No agent of that name is hosted here.
    #[error("no agent `{agent}` is hosted here")]
    UnknownAgent {
        /// The name asked for.
        agent: String,
        /// The names that are hosted.
        known: Vec<String>,
    },
    /// As many instances as may be open are open.
    #[error("{max} instances are open, which is as many as may be")]
    TooManyInstances {
        /// The limit.
        max: usize,
    },
    /// The host is stopping.
    #[error("the daemon is stopping")]
    Stopping,
    /// The instance could not be opened.
    #[error("{0}")]
    Open(Arc<switchboard::Error>),
}

/// Holds the instances of agents, each with its own manager. Cheap to clone; all clones are the same host.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    open: Box<Open>,
    options: HostOptions,
    instances: Mutex<Instances>,
    /// Tasks that open instances.
    openings: Tasks,
    /// Calls that go on without a caller who waits.
    calls: Tasks,
    /// Set when the host begins to stop.
    stopping: CancellationToken,
    is_restoring: AtomicBool,
}

#[derive(Default)]
struct Instances {
    by_name: HashMap<InstanceName, Opening>,
    is_closed: bool,
}

impl Host {
    /// A host whose instances `open` makes: one manager for each name that is asked for.
    pub fn new<F, O>(options: HostOptions, open: O) -> Self
    where
        O: Fn(InstanceName) -> F + Send + Sync + 'static,
        F: Future<Output = switchboard::Result<Manager>> + Send + 'static,
    {
        Self(Arc::new(Inner {
            open: Box::new(move |name| open(name).boxed()),
            options,
            instances: Mutex::default(),
            openings: Tasks::default(),
            calls: Tasks::default(),
            stopping: CancellationToken::new(),
            is_restoring: AtomicBool::new(false),
        }))
    }

    /// Opens the instances that are known from before. Until it returns the host is not ready.
    ///
    /// One that cannot be opened is reported and costs only itself; it is tried again when it is asked for.
    ///
    /// Cancel safety: dropping the future leaves the rest to be opened when they are asked for.
    pub async fn restore(&self, known: impl IntoIterator<Item = InstanceName>) -> Vec<(InstanceName, HostError)> {
        self.0.is_restoring.store(true, Ordering::Release);
        let done = Done(&self.0.is_restoring);
        let failures = stream::iter(known)
            .map(|name| async move { self.instance(&name).await.err().map(|error| (name, error)) })
            .buffer_unordered(RESTORED_AT_A_TIME)
            .filter_map(std::future::ready)
            .collect()
            .await;
        drop(done);
        failures
    }

    /// The manager of an instance, which is opened when it is not.
    ///
    /// Cancel safety: an opening that has begun goes on, for whoever asks next.
    ///
    /// # Errors
    /// When the agent is unknown, too many instances are open, the host is stopping, or opening fails.
    pub async fn manager(&self, name: &InstanceName) -> Result<Manager, HostError> {
        Ok(self.instance(name).await?.manager.clone())
    }

    /// The instance of that name; several who ask at once share one opening.
    pub(crate) async fn instance(&self, name: &InstanceName) -> Opened {
        self.opening(name)?.await
    }

    /// The instances that are open now.
    pub(crate) fn opened(&self) -> Vec<Arc<Instance>> {
        let instances = self.0.instances.lock().unwrap_or_else(PoisonError::into_inner);
        instances.by_name.values().filter_map(|opening| opening.peek()?.clone().ok()).collect()
    }

    /// Whether the host has restored what it knew, and is not stopping.
    pub(crate) fn is_ready(&self) -> bool {
        !self.0.is_restoring.load(Ordering::Acquire) && !self.0.stopping.is_cancelled()
    }

    /// Set when the host begins to stop.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    /// The tasks of calls that go on without a caller who waits.
    pub(crate) fn calls(&self) -> &Tasks {
        &self.0.calls
    }

    /// Stops: opens nothing more, lets calls end for `grace`, then shuts every manager down with the same grace.
    ///
    /// Returns how many calls were cut because they did not end in time. Stopping twice is harmless.
    ///
    /// Cancel safety: dropping the future leaves managers running; call it again.
    pub async fn shutdown(&self, grace: Duration) -> usize {
        self.0.stopping.cancel();
        let cut = self.0.calls.finish(grace).await;
        let openings: Vec<Opening> = {
            let mut instances = self.0.instances.lock().unwrap_or_else(PoisonError::into_inner);
            instances.is_closed = true;
            instances.by_name.values().cloned().collect()
        };
        join_all(openings.into_iter().map(|opening| async move {
            if let Ok(instance) = opening.await {
                instance.manager.shutdown(grace).await;
            }
        }))
        .await;
        self.0.openings.finish(grace).await;
        cut
    }

    fn opening(&self, name: &InstanceName) -> Result<Opening, HostError> {
        let options = &self.0.options;
        if !options.agents.iter().any(|agent| agent == name.agent()) {
            return Err(HostError::UnknownAgent { agent: name.agent().to_owned(), known: options.agents.clone() });
        }
        let mut instances = self.0.instances.lock().unwrap_or_else(PoisonError::into_inner);
        if instances.is_closed || self.0.stopping.is_cancelled() {
            return Err(HostError::Stopping);
        }
        if let Some(opening) = instances.by_name.get(name) {
            return Ok(opening.clone());
        }
        if instances.by_name.len() >= options.max_instances {
            return Err(HostError::TooManyInstances { max: options.max_instances });
        }
        let opening = self.start(name.clone());
        instances.by_name.insert(name.clone(), opening.clone());
        Ok(opening)
    }

    /// Opens in a task of its own, so that a caller who gives up does not leave half an instance behind.
    fn start(&self, name: InstanceName) -> Opening {
        let (sender, receiver) = oneshot::channel();
        let mut place = Place { host: Arc::clone(&self.0), name: name.clone(), is_kept: false };
        self.0.openings.spawn(async move {
            // Called here and not before: whatever it does, even a panic, happens outside the lock.
            let opened = (place.host.open)(name.clone());
            let outcome = opened.await.map(|manager| Arc::new(Instance::new(name, manager)));
            place.is_kept = outcome.is_ok();
            drop(place);
            // Nobody may be waiting any more; the instance is kept all the same.
            let _ = sender.send(outcome.map_err(|error| HostError::Open(Arc::new(error))));
        });
        async move { receiver.await.unwrap_or(Err(HostError::Stopping)) }.boxed().shared()
    }
}

/// The place of an instance that is being opened; given up when opening fails, so that the next who asks tries anew.
struct Place {
    host: Arc<Inner>,
    name: InstanceName,
    is_kept: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_kept {
            self.host.instances.lock().unwrap_or_else(PoisonError::into_inner).by_name.remove(&self.name);
        }
    }
}

/// Clears a flag when dropped.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use switchboard::{Error, ErrorKind};
    use tokio::sync::Semaphore;

    use super::*;

    fn name(instance: &str) -> InstanceName {
        InstanceName::new("switchboard", instance).unwrap()
    }

    /// A host whose openings wait for a permit, count, and fail.
    fn failing(gate: &Arc<Semaphore>, opened: &Arc<AtomicUsize>, max_instances: usize) -> Host {
        let (gate, opened) = (Arc::clone(gate), Arc::clone(opened));
        Host::new(HostOptions { max_instances, ..HostOptions::default() }, move |name| {
            let (gate, opened) = (Arc::clone(&gate), Arc::clone(&opened));
            async move {
                opened.fetch_add(1, Ordering::Relaxed);
                gate.acquire().await.unwrap().forget();
                Err(Error::new(ErrorKind::Store, format!("no store for `{name}`")))
            }
        })
    }

    #[tokio::test]
    async fn those_who_ask_at_once_share_one_opening_and_the_next_tries_anew() {
        let (gate, opened) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let host = failing(&gate, &opened, 10);
        let (one, two) = (name("one"), name("one"));
        gate.add_permits(1);
        let (first, second) = tokio::join!(host.instance(&one), host.instance(&two));
        assert!(first.is_err() && second.is_err());
        assert_eq!(opened.load(Ordering::Relaxed), 1);

        gate.add_permits(1);
        assert!(matches!(host.manager(&one).await, Err(HostError::Open(_))));
        assert_eq!(opened.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn an_opening_goes_on_when_the_one_who_asked_gives_up() {
        let (gate, opened) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let host = failing(&gate, &opened, 10);
        let one = name("one");
        assert!(host.instance(&one).now_or_never().is_none());
        let next = host.instance(&one);
        gate.add_permits(1);
        assert!(next.await.is_err());
        assert_eq!(opened.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn the_number_of_instances_is_bounded_and_a_failed_one_gives_its_place_back() {
        let (gate, opened) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let host = failing(&gate, &opened, 1);
        let one = name("one");
        assert!(host.instance(&one).now_or_never().is_none());
        assert!(matches!(host.manager(&name("two")).await, Err(HostError::TooManyInstances { max: 1 })));
        gate.add_permits(2);
        assert!(matches!(host.manager(&one).await, Err(HostError::Open(_))));
        assert!(matches!(host.manager(&name("two")).await, Err(HostError::Open(_))));
    }

    #[tokio::test]
    async fn an_opening_that_panics_gives_its_place_back() {
        let host = Host::new(HostOptions::default(), |name: InstanceName| async move { panic!("cannot open {name}") });
        for _ in 0..2 {
            assert!(host.manager(&name("one")).await.is_err());
        }
        assert!(host.opened().is_empty());
    }

    #[tokio::test]
    async fn an_agent_that_is_not_hosted_is_unknown() {
        let host = failing(&Arc::new(Semaphore::new(0)), &Arc::default(), 1);
        let stranger = InstanceName::new("other", "one").unwrap();
        assert!(matches!(host.manager(&stranger).await, Err(HostError::UnknownAgent { .. })));
    }

    #[tokio::test]
    async fn a_host_that_is_stopping_opens_nothing() {
        let (gate, opened) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let host = failing(&gate, &opened, 1);
        assert!(host.is_ready());
        assert_eq!(host.shutdown(Duration::ZERO).await, 0);
        assert!(!host.is_ready());
        assert!(matches!(host.manager(&name("one")).await, Err(HostError::Stopping)));
        assert_eq!(opened.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_host_that_restores_is_not_ready_and_reports_who_failed() {
        let (gate, opened) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let host = failing(&gate, &opened, 10);
        let restoring = host.restore([name("one"), name("two")]);
        tokio::pin!(restoring);
        assert!(futures_util::poll!(restoring.as_mut()).is_pending());
        assert!(!host.is_ready());
        gate.add_permits(2);
        let mut failed: Vec<String> = restoring.await.into_iter().map(|(name, _)| name.to_string()).collect();
        failed.sort();
        assert_eq!(failed, ["switchboard/one", "switchboard/two"]);
        assert!(host.is_ready());
    }
}

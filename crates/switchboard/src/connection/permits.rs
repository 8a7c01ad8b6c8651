//! Places among the calls under way: as many as the registration allows, taken in the order of asking; and their end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Connection, Shared};
use crate::error::{Error, ErrorKind, Result};

impl Connection {
    /// A place among the calls under way; waits for one in the order of asking.
    ///
    /// # Errors
    /// [`ErrorKind::Overloaded`] when too many wait already.
    pub(crate) async fn permit(&self) -> Result<Permit<'_>> {
        // Taken first, so that whoever closes the permits sees every call that got one.
        let under_way = self.shared.calls.token();
        if let Ok(permit) = self.shared.permits.try_acquire() {
            return Ok(Permit { _place: permit, _under_way: under_way });
        }
        drop(under_way);
        let _place = Place::take(&self.shared)?;
        let permit = self.shared.permits.acquire().await.map_err(|_| {
            let error = Error::new(ErrorKind::ServerClosed, "the server is being closed; the request was not sent");
            error.with(|data| data.maybe_ran = Some(false))
        })?;
        Ok(Permit { _place: permit, _under_way: self.shared.calls.token() })
    }

    /// Lets no call begin any more; those that wait for their turn are told.
    pub(crate) fn admit_none(&self) {
        self.shared.permits.close();
        self.shared.calls.close();
    }

    /// Waits until no call is under way; only after [`Connection::admit_none`].
    pub(crate) async fn drained(&self) {
        self.shared.calls.wait().await;
    }

    /// How many calls are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.shared.calls.len()
    }
}

/// A place among the calls under way.
pub(crate) struct Permit<'a> {
    _place: SemaphorePermit<'a>,
    _under_way: TaskTrackerToken,
}

/// A place in the queue for a permit.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(shared: &'a Shared) -> Result<Self> {
        let limit = shared.spec.limits.waiting;
        if shared.waiting.fetch_add(1, Ordering::AcqRel) >= limit {
            shared.waiting.fetch_sub(1, Ordering::AcqRel);
            let text = format!("{limit} calls wait for this server already");
            return Err(Error::new(ErrorKind::Overloaded, text).of(&shared.id).with(|data| {
                data.retry_after = Some(Duration::from_secs(1));
                data.maybe_ran = Some(false);
            }));
        }
        Ok(Self(&shared.waiting))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

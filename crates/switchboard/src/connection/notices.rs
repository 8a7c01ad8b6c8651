//! What a server says unasked, as its era has it: the streams that carry it, and the wishes that are told to it anew.

use std::sync::Arc;

use super::wishes::Wishes;
use super::{Shared, listen, stream, wishes};
use crate::session::Session;
use crate::session::incoming::Inbox;
use crate::transport::{Transport, TransportError};
use crate::wire::Era;

/// Takes what a new session says unasked.
pub(super) fn inbox(shared: &Shared) -> Arc<Inbox> {
    let inbox = Inbox::new(shared.id.clone(), shared.surroundings.events.clone());
    Arc::new(inbox.logging_to(shared.logs.clone()))
}

/// Whether there is a stream to be opened, or a wish of an earlier life to be told.
pub(super) fn are_wanted(shared: &Shared, session: &Session) -> bool {
    match session.era {
        Era::Modern => listen::is_offered(session),
        Era::Legacy => matches!(session.transport, Transport::Http(_)) || *shared.wishes.borrow() != Wishes::default(),
    }
}

/// Follows what the server says unasked, for as long as it says anything.
///
/// # Errors
/// When the end of a stream makes it doubtful whether the server is there.
pub(super) async fn follow(shared: Arc<Shared>, session: Arc<Session>) -> Result<(), TransportError> {
    match session.era {
        Era::Modern => listen::keep_open(&shared, &session).await,
        Era::Legacy => {
            let restored = wishes::restore(&shared, &session);
            tokio::join!(restored, stream::keep_open(session.clone(), shared.clone())).1
        }
    }
}

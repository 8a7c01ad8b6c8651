//! What servers tell unasked, as far as somebody asked for it: updates of resources, and log entries.

use super::{CallLimits, Manager, call};
use crate::connection::Connection;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{LogEntry, LogLevel};
use crate::id::ServerId;
use crate::wire::{Era, Json};

impl Manager {
    /// Subscribes to a resource: each update of it becomes an event, [`EventKind::ResourceUpdated`], until
    /// [`Manager::unsubscribe`]. Subscribing again changes nothing. The subscription outlives losses of the connection; an
    /// update that may have been missed meanwhile counts as one. Of updates within the time that gathers change notices
    /// there is one event.
    ///
    /// Waits for a server that is connecting or coming back, as a call does.
    ///
    /// Cancel safety: the subscription may be made or not.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when the server does not tell of updates; [`ErrorKind::InvalidInput`] when 1,000 resources
    /// of it are subscribed to already; those of [`Manager::call`].
    ///
    /// [`EventKind::ResourceUpdated`]: crate::event::EventKind::ResourceUpdated
    pub async fn subscribe(&self, server: &ServerId, uri: &str) -> Result<()> {
        subscribe(&self.usable(server)?, uri).await
    }

    /// Ends a subscription. Where there is none, nothing happens.
    ///
    /// Cancel safety: the subscription is ended on our side; the server may not know.
    ///
    /// # Errors
    /// When the id is unknown, or the server refuses. The subscription is ended on our side all the same.
    pub async fn unsubscribe(&self, server: &ServerId, uri: &str) -> Result<()> {
        unsubscribe(&self.usable(server)?, uri).await
    }

    /// The resources of a server that are subscribed to.
    ///
    /// # Errors
    /// When the id is unknown.
    pub fn subscriptions(&self, server: &ServerId) -> Result<Vec<String>> {
        Ok(self.connection(server)?.wanted_resources())
    }

    /// Asks a server for log entries of that level and above, over all lives of its connection. They become events without
    /// what they say, and are kept in [`Manager::logs`].
    ///
    /// Cancel safety: the level may be set or not.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] when the server does not log; those of [`Manager::call`].
    #[doc(alias = "setLoggingLevel")]
    pub async fn set_log_level(&self, server: &ServerId, level: LogLevel) -> Result<()> {
        set_log_level(&self.usable(server)?, level).await
    }

    /// The last 200 log entries of a server, the oldest first. They are kept while this manager lives.
    ///
    /// # Errors
    /// When the id is unknown.
    pub fn logs(&self, server: &ServerId) -> Result<Vec<LogEntry>> {
        Ok(self.connection(server)?.logs())
    }
}

pub(crate) async fn subscribe(connection: &Connection, uri: &str) -> Result<()> {
    let patience = connection.spec().timeouts.request;
    let live = connection.session(patience).await?;
    if !live.session.facts.promises("resources", "subscribe") {
        let text = "the server does not tell of updates of its resources";
        return Err(Error::new(ErrorKind::Unsupported, text).of(connection.id()));
    }
    // Wanted first: a session that is opened meanwhile is told so too.
    let is_new = connection.want_resource(uri)?;
    let outcome = match live.session.era {
        Era::Legacy => ask(connection, "resources/subscribe", "uri", uri).await,
        Era::Modern => connection.listened(uri, patience).await,
    };
    if outcome.is_err() && is_new {
        connection.unwant_resource(uri);
    }
    outcome
}

pub(crate) async fn unsubscribe(connection: &Connection, uri: &str) -> Result<()> {
    let was_wanted = connection.unwant_resource(uri);
    match connection.live() {
        // Modern servers see it by the stream that takes the place of the present one.
        Some(live) if was_wanted && live.session.era == Era::Legacy => {
            ask(connection, "resources/unsubscribe", "uri", uri).await
        }
        _ => Ok(()),
    }
}

pub(crate) async fn set_log_level(connection: &Connection, level: LogLevel) -> Result<()> {
    let live = connection.session(connection.spec().timeouts.request).await?;
    if !live.session.facts.offers("logging") {
        return Err(Error::new(ErrorKind::Unsupported, "the server does not log").of(connection.id()));
    }
    if live.session.era == Era::Legacy {
        ask(connection, "logging/setLevel", "level", level.as_str()).await?;
    }
    connection.want_logs(level);
    Ok(())
}

/// A request with one parameter, whose result says nothing.
async fn ask(connection: &Connection, method: &str, name: &str, value: &str) -> Result<()> {
    let params = Json::of(&serde_json::json!({ name: value })).unwrap_or_else(|_| Json::empty_object());
    call::request(connection, method, params, CallLimits::default()).await.map(drop)
}

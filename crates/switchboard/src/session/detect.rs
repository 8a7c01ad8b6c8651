//! Finds out which HTTP transport a server speaks: Streamable HTTP, or the older HTTP+SSE.
//!
//! One is tried first, and the other only when the first fails in a way that is about the transport (`leads_on`), or says
//! nothing at all. What to do is decided by the type of a failure, never by its text. The one that worked is remembered
//! with the registration and tried first the next time.

use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;

use super::era::Verdict;
use super::lifecycle::{OpenError, Opening};
use super::request::RequestError;
use super::{Link, Session};
use crate::spec::{EraChoice, TransportKind};
use crate::transport::TransportError;

/// Opens connections to one server at a URL.
pub(crate) struct Detection<'a> {
    /// Opens them over Streamable HTTP, and has the time limits.
    pub(crate) opening: &'a Opening<'a>,
    /// Opens the event stream of HTTP+SSE and waits for its endpoint.
    pub(crate) stream: &'a (dyn Fn() -> BoxFuture<'a, Result<Link, TransportError>> + Send + Sync),
    /// What the registration says.
    pub(crate) setting: TransportKind,
}

impl Detection<'_> {
    /// Opens a connection; `known` is the server's era, and `won` the transport that worked last.
    pub(crate) async fn open(&self, known: Option<&Verdict>, won: Option<TransportKind>) -> Result<Session, OpenError> {
        let (first, second) = order(self.setting, self.opening.choice, won);
        let Some(second) = second else { return self.over(first, known).await };
        let mut leading = Box::pin(self.over(first, known));
        let error = tokio::select! {
            biased;
            outcome = &mut leading => match outcome {
                Err(error) if leads_on(first, &error) => error,
                outcome => return outcome,
            },
            () = self.silence() => return self.race((first, leading), second).await,
        };
        tracing::debug!(%error, "the other HTTP transport is tried");
        self.over(second, None).await.map_err(|other| neither((first, error), (second, other)))
    }

    /// Tries the second as well, while the first, which has said nothing so far, goes on. The first that opens wins.
    async fn race(
        &self,
        (first, mut leading): (TransportKind, impl Future<Output = Result<Session, OpenError>> + Unpin),
        second: TransportKind,
    ) -> Result<Session, OpenError> {
        let mut following = Box::pin(self.over(second, None));
        let mut other = None;
        let error = loop {
            tokio::select! {
                biased;
                outcome = &mut leading => match outcome {
                    Err(error) if leads_on(first, &error) => break error,
                    outcome => return outcome,
                },
                outcome = &mut following, if other.is_none() => match outcome {
                    Ok(session) => return Ok(session),
                    Err(error) => other = Some(error),
                },
            }
        };
        let other = match other {
            Some(other) => other,
            None => match following.await {
                Ok(session) => return Ok(session),
                Err(other) => other,
            },
        };
        Err(neither((first, error), (second, other)))
    }

    async fn over(&self, transport: TransportKind, known: Option<&Verdict>) -> Result<Session, OpenError> {
        let opening = self.opening;
        if transport != TransportKind::Sse {
            return opening.open(known).await;
        }
        if opening.choice == EraChoice::Modern {
            let why = "HTTP+SSE has no modern revision, which its registration asks for";
            return Err(OpenError::Unusable { step: "initialize", why });
        }
        let limit = opening.left();
        let link = tokio::time::timeout(limit, (self.stream)()).await;
        let link = link.map_err(|_| OpenError::NoEndpoint { after: limit })?.map_err(OpenError::Dial)?;
        opening.is_heard.store(true, Ordering::Relaxed);
        opening.legacy(link).await
    }

    /// Waits until the server has said nothing for so long that the other transport is tried too.
    async fn silence(&self) {
        let half = self.opening.left() / 2;
        tokio::time::sleep(self.opening.timeouts.probe.min(half)).await;
        if self.opening.is_heard.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

/// Which transport is tried first, and which after it.
fn order(setting: TransportKind, era: EraChoice, won: Option<TransportKind>) -> (TransportKind, Option<TransportKind>) {
    use TransportKind::{Auto, Sse, StreamableHttp};
    match (setting, won) {
        (Sse, _) => (Sse, None),
        (StreamableHttp, _) => (StreamableHttp, None),
        // HTTP+SSE is of the legacy era alone.
        (Auto, _) if era == EraChoice::Modern => (StreamableHttp, None),
        (Auto, Some(Sse)) => (Sse, Some(StreamableHttp)),
        (Auto, _) => (StreamableHttp, Some(Sse)),
    }
}

/// Whether this failure of `transport` suggests that the server speaks the other one.
fn leads_on(transport: TransportKind, error: &OpenError) -> bool {
    let is_sse = transport == TransportKind::Sse;
    match error {
        OpenError::NoEndpoint { .. } => true,
        // It was agreed on already.
        OpenError::Step { step: "notifications/initialized", .. } => false,
        OpenError::Step { source: RequestError::Timeout { .. }, .. } => true,
        OpenError::Step { source: RequestError::Transport(error), .. } | OpenError::Dial(error) => match error {
            TransportError::Status(error) | TransportError::SessionGone(error) => {
                matches!(error.status, 400 | 404 | 405 | 406 | 410 | 415 | 501)
            }
            // The GET was answered with something else than an event stream, or with one that has no endpoint.
            TransportError::NotMcp(_) | TransportError::NoAnswer(_) => is_sse,
            _ => false,
        },
        OpenError::Step { .. }
        | OpenError::NoCommonVersion { .. }
        | OpenError::Unusable { .. }
        | OpenError::Neither { .. } => false,
    }
}

fn neither((first, error): (TransportKind, OpenError), (second, other): (TransportKind, OpenError)) -> OpenError {
    OpenError::Neither { first: (first, Box::new(error)), second: (second, Box::new(other)) }
}

/// How long each failure of [`OpenError::Neither`] may be in a text, in characters.
const SHOWN: usize = 400;

/// What one transport of two failed with, for people; the other's failure stands behind it.
#[derive(Debug)]
pub(crate) struct Tried {
    text: String,
    next: Option<Box<Self>>,
}

impl Tried {
    /// Both failures, the first one first.
    pub(crate) fn both(
        (first, error): &(TransportKind, Box<OpenError>),
        (second, other): &(TransportKind, Box<OpenError>),
    ) -> Self {
        let next = Self::new(*second, other, None);
        Self::new(*first, error, Some(Box::new(next)))
    }

    fn new(transport: TransportKind, error: &OpenError, next: Option<Box<Self>>) -> Self {
        let name = if transport == TransportKind::Sse { "HTTP+SSE" } else { "Streamable HTTP" };
        let why = crate::error::chain(error);
        let mut text = format!("over {name}: {}", crate::status::clean(&why));
        if let Some((cut, _)) = text.char_indices().nth(SHOWN) {
            text.truncate(cut);
            text.push('…');
        }
        Self { text, next }
    }
}

impl std::fmt::Display for Tried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Tried {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.next.as_deref().map(|next| next as _)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::RpcError;
    use crate::transport::StatusError;
    use TransportKind::{Auto, Sse, StreamableHttp};

    #[test]
    fn the_setting_decides_and_then_what_worked_last() {
        let auto = EraChoice::Auto;
        for (setting, era, won, expected) in [
            (Auto, auto, None, (StreamableHttp, Some(Sse))),
            (Auto, auto, Some(StreamableHttp), (StreamableHttp, Some(Sse))),
            (Auto, auto, Some(Sse), (Sse, Some(StreamableHttp))),
            (Auto, EraChoice::Legacy, None, (StreamableHttp, Some(Sse))),
            (Auto, EraChoice::Modern, Some(Sse), (StreamableHttp, None)),
            (Sse, auto, Some(StreamableHttp), (Sse, None)),
            (StreamableHttp, auto, Some(Sse), (StreamableHttp, None)),
        ] {
            assert_eq!(order(setting, era, won), expected, "{setting:?} {era:?} {won:?}");
        }
    }

    fn step(source: impl Into<RequestError>) -> OpenError {
        OpenError::Step { step: "initialize", source: source.into() }
    }

    fn status(status: u16, text: &str) -> TransportError {
        TransportError::Status(Box::new(StatusError { status, excerpt: text.to_owned(), ..StatusError::default() }))
    }

    #[test]
    fn only_failures_that_are_about_the_transport_lead_to_the_other() {
        for code in [400, 404, 405, 406, 410, 415, 501] {
            assert!(leads_on(StreamableHttp, &step(status(code, ""))), "{code}");
            assert!(leads_on(Sse, &OpenError::Dial(status(code, ""))), "{code}");
        }
        for code in [401, 402, 403, 408, 409, 422, 425, 429, 500, 502, 503, 504] {
            for text in ["", "404 Not Found", "use GET /sse", "405"] {
                assert!(!leads_on(StreamableHttp, &step(status(code, text))), "{code}");
                assert!(!leads_on(Sse, &OpenError::Dial(status(code, text))), "{code}");
            }
        }
        let silent = || RequestError::Timeout { method: "initialize".into(), after: Duration::ZERO, unmatched: 0 };
        let lost = |text: &str| TransportError::Lost(text.into());
        for (error, from_streamable, from_sse) in [
            (step(silent()), true, true),
            (OpenError::NoEndpoint { after: Duration::ZERO }, true, true),
            (OpenError::Dial(TransportError::NotMcp("404 `text/html`".into())), false, true),
            (OpenError::Dial(TransportError::NoAnswer("the event stream")), false, true),
            (OpenError::Dial(TransportError::Connect("404".into())), false, false),
            (step(lost("405 Method Not Allowed")), false, false),
            (step(RequestError::Rpc(RpcError::new(-32601, "404", None))), false, false),
            (OpenError::Unusable { step: "initialize", why: "404" }, false, false),
            (OpenError::Step { step: "notifications/initialized", source: status(404, "").into() }, false, false),
        ] {
            assert_eq!(leads_on(StreamableHttp, &error), from_streamable, "{error:?}");
            assert_eq!(leads_on(Sse, &error), from_sse, "{error:?}");
        }
    }
}

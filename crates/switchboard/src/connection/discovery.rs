//! Reads a server's lists: each on its own, page by page, within bounds. A failing list is reported and costs only itself.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::catalogue::{Listing, ServerCatalogue};
use crate::error::chain;
use crate::session::Session;
use crate::session::incoming::Changed;
use crate::session::request::{Request, RequestError};
use crate::spec::Timeouts;
use crate::status::{ListState, Warning, clean};
use crate::time::Timestamp;
use crate::transport::TransportError;
use crate::wire::message::{INVALID_PARAMS, METHOD_NOT_FOUND, Params};
use crate::wire::model::{BadItem, ListKind, Page, items_page, member, tools_page};
use crate::wire::{Era, Json, Tool};

/// The most pages of one list.
const PAGES: usize = 100;
/// The most items of one list.
const ITEMS: usize = 10_000;

/// How soon somebody who looks has a list asked for again that had a time to hold and could not be read then.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// A catalogue that was read, and the failure that stopped every list of it, if one did.
pub(crate) struct Discovered {
    pub(crate) catalogue: ServerCatalogue,
    pub(crate) failure: Option<RequestError>,
    /// The lists that could not be read.
    pub(crate) failed: Changed,
}

/// One list that was read.
struct Read<T> {
    listing: Listing<T>,
    warnings: Vec<Warning>,
    /// Whether the server answered at all, if only with an error.
    is_answered: bool,
    /// Whether it gave a result.
    has_result: bool,
    /// Why no answer came.
    failure: Option<RequestError>,
    /// Until when all of it holds, by the server's word.
    expiry: Option<Timestamp>,
    has_pages: bool,
}

/// Reads the lists in `wanted`; the others are kept from `known`.
pub(crate) async fn discover(
    session: &Session,
    timeouts: &Timeouts,
    known: &ServerCatalogue,
    wanted: Changed,
) -> Discovered {
    let reader = Reader { session, timeouts };
    let items = |kind| reader.list(kind, wanted, move |page| items_page(page, kind));
    let (tools, prompts, resources, templates) = futures_util::join!(
        reader.list(ListKind::Tools, wanted, |page| tools_for(session, page)),
        items(ListKind::Prompts),
        items(ListKind::Resources),
        items(ListKind::ResourceTemplates),
    );
    let mut catalogue = known.clone().stale(false);
    let (mut failures, mut failed) = (Vec::new(), Changed::default());
    let mut is_there = false;
    if let Some(read) = tools {
        let read = read.or_keep(known.tools(), known.expiry(ListKind::Tools));
        is_there |= read.shows_server(session);
        failed = failed.and(read.failed(ListKind::Tools));
        failures.extend(read.failure);
        catalogue.set_tools(read.listing, read.warnings);
        catalogue.set_expiry(ListKind::Tools, read.expiry);
    }
    let lists =
        [(ListKind::Prompts, prompts), (ListKind::Resources, resources), (ListKind::ResourceTemplates, templates)];
    for (kind, read) in lists {
        let Some(read) = read else { continue };
        let read = read.or_keep(known.items(kind), known.expiry(kind));
        is_there |= read.shows_server(session);
        failed = failed.and(read.failed(kind));
        failures.extend(read.failure);
        catalogue.set_items(kind, read.listing, read.warnings);
        catalogue.set_expiry(kind, read.expiry);
    }
    let is_gone = |error: &RequestError| matches!(error, RequestError::Transport(TransportError::SessionGone(_)));
    let gone = failures.iter().position(is_gone);
    let failure = match gone {
        // It was there for one list, and not for another.
        Some(gone) => Some(failures.swap_remove(gone)),
        None => failures.into_iter().next().filter(|_| !is_there),
    };
    Discovered { catalogue, failure, failed }
}

/// A page of tools, without those whose parameters cannot be mirrored into headers where that has to be done.
fn tools_for(session: &Session, result: &Json) -> Result<Page<Tool>, String> {
    let mut page = tools_page(result)?;
    if session.mirrors_headers() && page.items.iter().any(|tool| tool.header_fault().is_some()) {
        let (sound, faulty): (Vec<Tool>, Vec<Tool>) =
            page.items.into_iter().partition(|tool| tool.header_fault().is_none());
        page.items = sound;
        page.bad.extend(faulty.iter().filter_map(|tool| {
            Some(BadItem { item: tool.name().to_owned(), reason: tool.header_fault()?.to_owned() })
        }));
    }
    Ok(page)
}

struct Reader<'a> {
    session: &'a Session,
    timeouts: &'a Timeouts,
}

impl Reader<'_> {
    /// Reads one list; `None` when it is not wanted.
    async fn list<T>(
        &self,
        kind: ListKind,
        wanted: Changed,
        page: impl Fn(&Json) -> Result<Page<T>, String>,
    ) -> Option<Read<T>> {
        if !wanted.has(kind) {
            return None;
        }
        if !self.session.facts.offers(kind.capability()) {
            return Some(Read::new(ListState::Unsupported));
        }
        Some(self.pages(kind, page).await)
    }

    async fn pages<T>(&self, kind: ListKind, page: impl Fn(&Json) -> Result<Page<T>, String>) -> Read<T> {
        let deadline = Instant::now() + self.timeouts.discovery;
        let mut read = Read::new(ListState::Ok);
        let mut cursors = HashSet::new();
        let mut cursor: Option<Json> = None;
        let mut has_begun_anew = false;
        for number in 0.. {
            if number == PAGES {
                read.cut(kind, format!("it has more than {PAGES} pages"));
                break;
            }
            let result = match self.page(kind, cursor.as_ref(), deadline).await {
                Ok(result) => result,
                // The list has changed since its first page, so the cursor leads nowhere any more.
                Err(RequestError::Rpc(rpc)) if rpc.code == INVALID_PARAMS && cursor.is_some() && !has_begun_anew => {
                    (read, cursor, has_begun_anew) = (Read::new(ListState::Ok), None, true);
                    cursors.clear();
                    continue;
                }
                Err(error) => {
                    read.fail(kind, error);
                    break;
                }
            };
            if self.session.era == Era::Modern {
                read.hold(&result);
            }
            let found = match page(&result.detached()) {
                Ok(found) => found,
                Err(reason) => {
                    read.unreadable(kind, &reason);
                    break;
                }
            };
            if let Some(next) = read.take(kind, found) {
                // An empty cursor leads nowhere; some servers mean "no more" by it.
                if next.as_str() == "\"\"" {
                    break;
                }
                if !cursors.insert(next.clone()) {
                    read.cut(kind, "it came back to a page that was read already".to_owned());
                    break;
                }
                cursor = Some(next);
            } else {
                break;
            }
        }
        read
    }

    async fn page(&self, kind: ListKind, cursor: Option<&Json>, deadline: Instant) -> Result<Json, RequestError> {
        let params = match cursor {
            Some(cursor) => Params::new().json("cursor", cursor),
            None => Params::new(),
        };
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let began = Instant::now();
        let answer = self.session.request(Request::new(kind.method(), params, self.timeouts.request.min(left))).await?;
        self.session.took(began.elapsed());
        Ok(answer)
    }
}

impl<T> Read<T> {
    fn new(state: ListState) -> Self {
        Self {
            listing: Listing::empty(state),
            warnings: Vec::new(),
            is_answered: false,
            has_result: false,
            failure: None,
            expiry: None,
            has_pages: false,
        }
    }

    /// Whether it shows that the server is there and what it was taken for. A session that was opened on the word of an
    /// earlier life may be answered with errors because the server speaks the other era by now.
    fn shows_server(&self, session: &Session) -> bool {
        let is_doubtful = matches!(&self.failure, Some(RequestError::Rpc(error)) if session.is_doubted_by(error));
        self.has_result || (self.is_answered && !is_doubtful)
    }

    /// A list that could not be read anew is kept as it was, and says so. So is one of which less could be read.
    fn or_keep(mut self, known: &[T], known_expiry: Option<Timestamp>) -> Self
    where
        T: Clone,
    {
        let is_less = self.failure.is_some() && self.listing.items.len() < known.len();
        if is_less {
            self.listing.state = ListState::Failed;
        }
        if self.listing.state == ListState::Failed {
            self.listing.items = known.to_vec();
        }
        if self.listing.state != ListState::Ok {
            self.expiry = known_expiry.map(|_| Timestamp::now().after(ASKED_AGAIN));
        }
        self
    }

    /// The list, when it could not be read.
    fn failed(&self, kind: ListKind) -> Changed {
        if self.listing.state == ListState::Failed { Changed::only(kind) } else { Changed::default() }
    }

    /// Notes for how long a page holds. The whole holds no longer than any page of it; a page that promises nothing takes
    /// away what the others promise.
    fn hold(&mut self, page: &Json) {
        let expiry = ttl(page).map(|ttl| Timestamp::now().after(ttl));
        self.expiry = if self.has_pages { self.expiry.min(expiry) } else { expiry };
        self.has_pages = true;
    }

    /// Adds a page; the cursor of the next one, if there is room for it.
    fn take(&mut self, kind: ListKind, page: Page<T>) -> Option<Json> {
        (self.is_answered, self.has_result) = (true, true);
        for BadItem { item, reason } in page.bad {
            let code = if kind == ListKind::Tools { "bad_tool" } else { "bad_item" };
            let message = format!("left out of `{}`: {reason}", kind.member());
            self.warnings.push(Warning::new(code, message, Some(item)));
        }
        let room = ITEMS - self.listing.items.len();
        if page.items.len() > room {
            self.listing.items.extend(page.items.into_iter().take(room));
            self.cut(kind, format!("it has more than {ITEMS} items"));
            return None;
        }
        self.listing.items.extend(page.items);
        page.next_cursor
    }

    fn cut(&mut self, kind: ListKind, why: String) {
        self.listing.state = ListState::Partial;
        self.warnings.push(Warning::new("list_cut", format!("`{}` was cut: {why}", kind.method()), None));
    }

    fn unreadable(&mut self, kind: ListKind, reason: &str) {
        (self.is_answered, self.has_result) = (true, true);
        let message = format!("`{}` could not be read: {reason}", kind.method());
        self.warnings.push(Warning::new("list_failed", message, None));
        self.listing.state = self.after_a_failure();
    }

    fn fail(&mut self, kind: ListKind, error: RequestError) {
        self.is_answered |= matches!(error, RequestError::Rpc(_));
        let is_absent = matches!(&error, RequestError::Rpc(rpc) if rpc.code == METHOD_NOT_FOUND);
        if is_absent && self.listing.items.is_empty() {
            self.listing.state = ListState::Unsupported;
            // Announced, yet not there. Resource templates are often left out, which needs no warning.
            if kind != ListKind::ResourceTemplates {
                let message = format!("the server announces `{}` but does not have it", kind.method());
                self.warnings.push(Warning::new("list_absent", message, None));
            }
        } else {
            let message = format!("`{}` could not be read: {}", kind.method(), clean(&chain(&error)));
            self.warnings.push(Warning::new("list_failed", message, None));
            self.listing.state = self.after_a_failure();
        }
        self.failure = Some(error);
    }

    /// Pages that were read before a failure are kept.
    fn after_a_failure(&self) -> ListState {
        if self.listing.items.is_empty() { ListState::Failed } else { ListState::Partial }
    }
}

/// How long a result holds; `None` when the server promises nothing: an absent, negative or odd `ttlMs` counts as 0
/// (specification 2026-07-28, "Caching").
fn ttl(result: &Json) -> Option<Duration> {
    let millis = member(result, "ttlMs")?.read::<f64>().ok().filter(|millis| *millis > 0.0)?;
    Some(Duration::try_from_secs_f64(millis / 1000.0).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(pages: &[&str]) -> Option<Duration> {
        let mut read: Read<Tool> = Read::new(ListState::Ok);
        let before = Timestamp::now().as_millis();
        pages.iter().for_each(|page| read.hold(&page.parse().unwrap()));
        read.expiry.map(|expiry| Duration::from_millis(expiry.as_millis() - before))
    }

    #[test]
    fn a_list_holds_no_longer_than_any_of_its_pages() {
        let minute = Duration::from_secs(60);
        let about = |held: Option<Duration>| held.is_some_and(|held| held >= minute && held < minute * 2);
        assert!(about(held(&[r#"{"ttlMs":60000}"#])));
        assert!(about(held(&[r#"{"ttlMs":3600000}"#, r#"{"ttlMs":60000}"#, r#"{"ttlMs":1e300}"#])));
        for nothing in [r#"{"ttlMs":0}"#, "{}", r#"{"ttlMs":-5}"#, r#"{"ttlMs":"60000"}"#, r#"{"ttlMs":null}"#] {
            assert_eq!(held(&[nothing]), None, "{nothing}");
            assert_eq!(held(&[r#"{"ttlMs":60000}"#, nothing]), None, "{nothing}");
            assert_eq!(held(&[nothing, r#"{"ttlMs":60000}"#]), None, "{nothing}");
        }
    }
}

//! Reads a server's lists: each on its own, page by page, within bounds. A failing list is reported and costs only itself.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::catalogue::{Listing, ServerCatalogue};
use crate::session::Session;
use crate::session::incoming::Changed;
use crate::session::request::{Request, RequestError};
use crate::spec::Timeouts;
use crate::status::{ListState, Warning};
use crate::wire::message::{METHOD_NOT_FOUND, Params};
use crate::wire::model::{BadItem, ListKind, Page, items_page, tools_page};
use crate::wire::Json;

/// The most pages of one list.
const PAGES: usize = 100;
/// The most items of one list.
const ITEMS: usize = 10_000;

/// A catalogue that was read, and the failure that stopped every list of it, if one did.
pub(crate) struct Discovered {
    pub(crate) catalogue: ServerCatalogue,
    pub(crate) failure: Option<RequestError>,
}

/// One list that was read.
struct Read<T> {
    listing: Listing<T>,
    warnings: Vec<Warning>,
    failure: Option<RequestError>,
}

/// Reads the lists in `wanted`; the others are kept from `known`.
pub(crate) async fn discover(
    session: &Session,
    timeouts: &Timeouts,
    known: &ServerCatalogue,
    wanted: Changed,
) -> Discovered {
    let reader = Reader { session, timeouts };
    let (tools, prompts, resources, templates) = futures_util::join!(
        reader.list(ListKind::Tools, "tools", wanted, tools_page),
        reader.list(ListKind::Prompts, "prompts", wanted, |page| items_page(page, ListKind::Prompts)),
        reader.list(ListKind::Resources, "resources", wanted, |page| items_page(page, ListKind::Resources)),
        reader.list(ListKind::ResourceTemplates, "resources", wanted, |page| {
            items_page(page, ListKind::ResourceTemplates)
        }),
    );
    let mut catalogue = known.clone().stale(false);
    let mut failures = Vec::new();
    let mut answered = false;
    if let Some(read) = tools {
        answered |= note(&read, &mut catalogue, known.is_stale());
        failures.extend(read.failure);
        if read.listing.state != ListState::Failed || known.tools().is_empty() {
            catalogue.set_tools(read.listing, read.warnings);
        } else {
            keep_tools(&mut catalogue, known, read.warnings);
        }
    }
    for (kind, read) in [
        (ListKind::Prompts, prompts),
        (ListKind::Resources, resources),
        (ListKind::ResourceTemplates, templates),
    ] {
        let Some(mut read) = read else { continue };
        answered |= note(&read, &mut catalogue, known.is_stale());
        failures.extend(read.failure);
        if read.listing.state == ListState::Failed {
            read.listing.items = known.items(kind).to_vec();
        }
        catalogue.set_items(kind, read.listing, read.warnings);
    }
    let failure = if answered { None } else { failures.into_iter().next() };
    Discovered { catalogue, failure }
}

/// Whether the list tells that the server is there: it answered, or was not asked.
fn note<T>(read: &Read<T>, _catalogue: &mut ServerCatalogue, _was_stale: bool) -> bool {
    match &read.failure {
        None => read.listing.state != ListState::Unsupported || !read.warnings.is_empty(),
        Some(RequestError::Rpc(_)) => true,
        Some(_) => false,
    }
}

/// A list of tools that could not be read anew is kept as it was, and says so.
fn keep_tools(catalogue: &mut ServerCatalogue, known: &ServerCatalogue, warnings: Vec<Warning>) {
    let listing = Listing { items: known.tools().to_vec(), state: ListState::Failed };
    catalogue.set_tools(listing, warnings);
}

struct Reader<'a> {
    session: &'a Session,
    timeouts: &'a Timeouts,
}

impl Reader<'_> {
    /// Reads one list; `None` when it is not wanted.
    async fn list<T: Clone>(
        &self,
        kind: ListKind,
        capability: &str,
        wanted: Changed,
        page: impl Fn(&Json) -> Result<Page<T>, String>,
    ) -> Option<Read<T>> {
        if !wanted.has(kind) {
            return None;
        }
        if !self.session.facts.offers(capability) {
            let listing = Listing::empty(ListState::Unsupported);
            return Some(Read { listing, warnings: Vec::new(), failure: None });
        }
        Some(self.pages(kind, page).await)
    }

    async fn pages<T: Clone>(&self, kind: ListKind, page: impl Fn(&Json) -> Result<Page<T>, String>) -> Read<T> {
        let deadline = Instant::now() + self.timeouts.discovery;
        let mut read =
            Read { listing: Listing::empty(ListState::Ok), warnings: Vec::new(), failure: None };
        let mut cursors = HashSet::new();
        let mut cursor: Option<Json> = None;
        for number in 0.. {
            if number == PAGES {
                read.cut(kind, format!("it has more than {PAGES} pages"));
                break;
            }
            let result = match self.page(kind, cursor.as_ref(), deadline).await {
                Ok(result) => result,
                Err(error) => {
                    read.fail(kind, error);
                    break;
                }
            };
            let found = match page(&detached(&result)) {
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
        self.session.request(Request::new(kind.method(), params, self.timeouts.request.min(left))).await
    }
}

impl<T> Read<T> {
    /// Adds a page; the cursor of the next one, if there is room for it.
    fn take(&mut self, kind: ListKind, page: Page<T>) -> Option<Json> {
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
        let message = format!("`{}` could not be read: {reason}", kind.method());
        self.warnings.push(Warning::new("list_failed", message, None));
        self.listing.state = self.after_a_failure();
    }

    fn fail(&mut self, kind: ListKind, error: RequestError) {
        let is_absent = matches!(&error, RequestError::Rpc(rpc) if rpc.code == METHOD_NOT_FOUND);
        if is_absent && self.listing.items.is_empty() {
            self.listing.state = ListState::Unsupported;
            // Announced, yet not there. Resource templates are often left out, which needs no warning.
            if kind != ListKind::ResourceTemplates {
                let message = format!("the server announces `{}` but does not have it", kind.method());
                self.warnings.push(Warning::new("list_absent", message, None));
            }
            return;
        }
        let text = crate::status::Failure::of(&error.shown()).text();
        let message = format!("`{}` could not be read: {text}", kind.method());
        self.warnings.push(Warning::new("list_failed", message, None));
        self.listing.state = self.after_a_failure();
        self.failure = Some(error);
    }

    /// Pages that were read before a failure are kept.
    fn after_a_failure(&self) -> ListState {
        if self.listing.items.is_empty() { ListState::Failed } else { ListState::Partial }
    }
}

/// A copy of a result in a buffer of its own size: items cut from it live long, and must not keep a larger one alive.
fn detached(result: &Json) -> Json {
    Json::trusted(Bytes::copy_from_slice(result.as_bytes()))
}

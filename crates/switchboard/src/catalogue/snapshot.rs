//! What one server offers, as one immutable value that readers share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::drift::Comparison;
use crate::status::{ListCounts, ListExpiries, ListState, ListStates, Warning};
use crate::time::Timestamp;
use crate::wire::model::ListKind;
use crate::wire::{ListItem, Tool};

/// A list that was read, or could not be.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing<T> {
    /// Its items, in the server's order.
    pub items: Vec<T>,
    /// How it stands.
    pub state: ListState,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { items: Vec::new(), state: ListState::Pending }
    }
}

impl<T> Listing<T> {
    /// An empty list in that state.
    #[must_use]
    pub fn empty(state: ListState) -> Self {
        Self { items: Vec::new(), state }
    }
}

/// Tools in an order, and by name.
#[derive(Debug, Default)]
pub struct ToolSet {
    tools: Vec<Tool>,
    /// Places in the list, by name.
    by_name: HashMap<Box<str>, u32>,
}

impl ToolSet {
    /// These tools. A name that stands twice keeps its first place; the others go to `doubled`.
    pub fn new(mut tools: Vec<Tool>, mut doubled: impl FnMut(&Tool)) -> Self {
        let mut by_name: HashMap<Box<str>, u32> = HashMap::with_capacity(tools.len());
        tools.retain(|tool| {
            let next = u32::try_from(by_name.len()).unwrap_or(u32::MAX);
            if by_name.contains_key(tool.name()) {
                doubled(tool);
                return false;
            }
            by_name.insert(tool.name().into(), next);
            true
        });
        Self { tools, by_name }
    }

    /// The tool of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(*self.by_name.get(name)? as usize)
    }

    /// The tools, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Tool> {
        self.tools.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

/// What one server offers.
#[derive(Debug, Clone, Default)]
pub struct ServerCatalogue {
    tools: Arc<ToolSet>,
    tools_state: ListState,
    /// How the tools differ from those that were approved.
    comparison: Arc<Comparison>,
    prompts: Arc<Listing<ListItem>>,
    resources: Arc<Listing<ListItem>>,
    resource_templates: Arc<Listing<ListItem>>,
    warnings: Vec<(ListKind, Warning)>,
    is_stale: bool,
    expiries: ListExpiries,
}

impl ServerCatalogue {
    /// The same catalogue with other tools. A name that stands twice keeps its first place, with a warning.
    pub fn set_tools(&mut self, listing: Listing<Tool>, mut warnings: Vec<Warning>) {
        let tools = ToolSet::new(listing.items, |tool| {
            let message = "a tool of that name stands twice in the list; the second is left out";
            warnings.push(Warning::new("duplicate_tool", message, Some(tool.name().to_owned())));
        });
        self.tools = Arc::new(tools);
        self.tools_state = listing.state;
        self.set_warnings(ListKind::Tools, warnings);
    }

    /// The same catalogue with another list of prompts, resources or resource templates. An item that stands twice keeps
    /// its first place, with a warning.
    pub fn set_items(&mut self, kind: ListKind, mut listing: Listing<ListItem>, mut warnings: Vec<Warning>) {
        let mut seen: HashSet<Box<str>> = HashSet::with_capacity(listing.items.len());
        listing.items.retain(|item| {
            let is_new = seen.insert(item.key().into());
            if !is_new {
                let message = format!("it stands twice in `{}`; the second is left out", kind.member());
                warnings.push(Warning::new("duplicate_item", message, Some(item.key().to_owned())));
            }
            is_new
        });
        let listing = Arc::new(listing);
        match kind {
            ListKind::Tools => return,
            ListKind::Prompts => self.prompts = listing,
            ListKind::Resources => self.resources = listing,
            ListKind::ResourceTemplates => self.resource_templates = listing,
        }
        self.set_warnings(kind, warnings);
    }

    fn set_warnings(&mut self, kind: ListKind, warnings: Vec<Warning>) {
        self.warnings.retain(|(of, _)| *of != kind);
        self.warnings.extend(warnings.into_iter().map(|warning| (kind, warning)));
    }

    /// The same catalogue, marked as the last one known (or as the present one).
    #[must_use]
    pub fn stale(mut self, is_stale: bool) -> Self {
        self.is_stale = is_stale;
        self
    }

    /// Whether this is the last one known rather than the present one.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// The same catalogue whose list of that kind holds until `expiry`, by the server's own word.
    pub fn set_expiry(&mut self, kind: ListKind, expiry: Option<Timestamp>) {
        let expiries = &mut self.expiries;
        match kind {
            ListKind::Tools => expiries.tools = expiry,
            ListKind::Prompts => expiries.prompts = expiry,
            ListKind::Resources => expiries.resources = expiry,
            ListKind::ResourceTemplates => expiries.resource_templates = expiry,
        }
    }

    /// Until when the list of that kind holds; `None` when the server does not say.
    #[must_use]
    pub fn expiry(&self, kind: ListKind) -> Option<Timestamp> {
        match kind {
            ListKind::Tools => self.expiries.tools,
            ListKind::Prompts => self.expiries.prompts,
            ListKind::Resources => self.expiries.resources,
            ListKind::ResourceTemplates => self.expiries.resource_templates,
        }
    }

    /// Until when each list holds.
    #[must_use]
    pub fn expiries(&self) -> ListExpiries {
        self.expiries
    }

    /// Whether the time of any list is over.
    #[must_use]
    pub fn may_have_expired(&self, now: Timestamp) -> bool {
        ListKind::ALL.into_iter().any(|kind| self.expiry(kind).is_some_and(|expiry| expiry <= now))
    }

    /// Whether every list that the server offers is known whole and still holds.
    pub fn holds(&self, now: Timestamp, offers: impl Fn(ListKind) -> bool) -> bool {
        let states = self.states();
        ListKind::ALL.into_iter().all(|kind| {
            let state = match kind {
                ListKind::Tools => states.tools,
                ListKind::Prompts => states.prompts,
                ListKind::Resources => states.resources,
                ListKind::ResourceTemplates => states.resource_templates,
            };
            match state {
                ListState::Ok => offers(kind) && self.expiry(kind).is_some_and(|expiry| now < expiry),
                // Templates are often left out by servers that have resources.
                ListState::Unsupported => !offers(kind) || kind == ListKind::ResourceTemplates,
                ListState::Pending | ListState::Partial | ListState::Failed => false,
            }
        })
    }

    /// The tools, in the server's order.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.tools.tools
    }

    /// The tool of that name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// The tools as they may be shared with what was approved.
    pub(super) fn tool_set(&self) -> &Arc<ToolSet> {
        &self.tools
    }

    /// How the tools differ from those that were approved, as of the last [`ServerCatalogue::compared`].
    #[must_use]
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    pub(super) fn set_comparison(&mut self, comparison: Comparison) {
        self.comparison = Arc::new(comparison);
    }

    /// The prompts, resources or resource templates, in the server's order. Tools have a view of their own.
    #[must_use]
    pub fn items(&self, kind: ListKind) -> &[ListItem] {
        match kind {
            ListKind::Tools => &[],
            ListKind::Prompts => &self.prompts.items,
            ListKind::Resources => &self.resources.items,
            ListKind::ResourceTemplates => &self.resource_templates.items,
        }
    }

    /// Whether every list of it is the same as in `other`, to the byte.
    #[must_use]
    pub fn offers_the_same(&self, other: &Self) -> bool {
        let is_same = |kind| self.items(kind) == other.items(kind);
        self.states() == other.states() && self.tools() == other.tools() && ListKind::ALL.into_iter().all(is_same)
    }

    /// How many items each list has.
    #[must_use]
    pub fn counts(&self) -> ListCounts {
        let of = |kind| self.items(kind).len();
        ListCounts {
            tools: self.tools.len(),
            prompts: of(ListKind::Prompts),
            resources: of(ListKind::Resources),
            resource_templates: of(ListKind::ResourceTemplates),
        }
    }

    /// How each list stands.
    #[must_use]
    pub fn states(&self) -> ListStates {
        ListStates {
            tools: self.tools_state,
            prompts: self.prompts.state,
            resources: self.resources.state,
            resource_templates: self.resource_templates.state,
        }
    }

    /// What was worked around while the lists were read.
    pub fn warnings(&self) -> impl Iterator<Item = &Warning> {
        self.warnings.iter().map(|(_, warning)| warning)
    }
}

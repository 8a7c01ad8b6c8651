//! What one server offers, as one immutable value that readers share.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::status::{ListState, ListStates, Warning};
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

/// What one server offers.
#[derive(Debug, Clone, Default)]
pub struct ServerCatalogue {
    tools: Arc<Listing<Tool>>,
    /// Places in the list of tools, by name.
    by_name: Arc<HashMap<Box<str>, u32>>,
    prompts: Arc<Listing<ListItem>>,
    resources: Arc<Listing<ListItem>>,
    resource_templates: Arc<Listing<ListItem>>,
    warnings: Vec<(ListKind, Warning)>,
    is_stale: bool,
}

impl ServerCatalogue {
    /// The same catalogue with other tools. A name that stands twice keeps its first place, with a warning.
    pub fn set_tools(&mut self, mut listing: Listing<Tool>, mut warnings: Vec<Warning>) {
        let mut by_name: HashMap<Box<str>, u32> = HashMap::with_capacity(listing.items.len());
        listing.items.retain(|tool| {
            let next = u32::try_from(by_name.len()).unwrap_or(u32::MAX);
            if by_name.contains_key(tool.name()) {
                let message = "a tool of that name stands twice in the list; the second is left out";
                warnings.push(Warning::new("duplicate_tool", message, Some(tool.name().to_owned())));
                return false;
            }
            by_name.insert(tool.name().into(), next);
            true
        });
        self.tools = Arc::new(listing);
        self.by_name = Arc::new(by_name);
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

    /// The tools, in the server's order.
    #[must_use]
    pub fn tools(&self) -> &[Tool] {
        &self.tools.items
    }

    /// The tool of that name.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.items.get(*self.by_name.get(name)? as usize)
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

    /// How each list stands.
    #[must_use]
    pub fn states(&self) -> ListStates {
        ListStates {
            tools: self.tools.state,
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

//! How the tools of a server differ from those that were approved.
//!
//! Approval is per definition: what was approved is what the tool said of itself, kept whole, so that the old and the new
//! can be shown. The comparison is made when a catalogue is stored. A call asks for its outcome with one look-up.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::change::{Change, Severity, changes};
use super::snapshot::{ServerCatalogue, ToolSet};
use crate::spec::DriftPolicy;
use crate::status::{ListState, Warning};
use crate::time::Timestamp;
use crate::wire::Tool;

/// The most tools that are named in the warnings of a server or in an event.
pub const MOST_NAMED: usize = 100;

/// The tools of a server as they were approved.
#[derive(Debug, Clone, Default)]
pub struct Approval {
    /// When; `None` when what was approved cannot be read any more.
    pub at: Option<Timestamp>,
    /// Their definitions.
    pub tools: Arc<ToolSet>,
}

/// How a tool that is there differs from what was approved.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// No tool of that name was approved.
    Added,
    /// A tool of that name was approved with another definition.
    Changed(Vec<Change>),
}

/// Why a tool is not offered, and calls of it are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withheld<'a> {
    /// It is not what was approved.
    Changed(&'a [Change]),
    /// It was never approved.
    Unapproved,
}

impl Withheld<'_> {
    /// The word for it in the list of tools.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Changed(_) => "changed",
            Self::Unapproved => "unapproved",
        }
    }
}

/// The outcome of a comparison, as part of a catalogue.
#[derive(Debug, Default)]
pub struct Comparison {
    approval: Option<Approval>,
    differences: HashMap<Box<str>, Difference>,
    removed: Vec<Box<str>>,
}

impl Comparison {
    /// What was approved; `None` while nothing was.
    #[must_use]
    pub fn approval(&self) -> Option<&Approval> {
        self.approval.as_ref()
    }

    /// Names of tools that are new, in order.
    #[must_use]
    pub fn added(&self) -> Vec<&str> {
        let added = self.differences.iter().filter(|(_, difference)| **difference == Difference::Added);
        let mut added: Vec<&str> = added.map(|(name, _)| &**name).collect();
        added.sort_unstable();
        added
    }

    /// Names of tools that were approved and are gone, in order.
    #[must_use]
    pub fn removed(&self) -> &[Box<str>] {
        &self.removed
    }

    /// Tools that are not what was approved, in the order of their names.
    #[must_use]
    pub fn changed(&self) -> Vec<(&str, &[Change])> {
        let changed = self.differences.iter().filter_map(|(name, difference)| match difference {
            Difference::Changed(changes) => Some((&**name, &**changes)),
            Difference::Added => None,
        });
        let mut changed: Vec<_> = changed.collect();
        changed.sort_unstable_by_key(|(name, _)| *name);
        changed
    }

    /// Whether everything is as it was approved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty() && self.removed.is_empty()
    }
}

impl ServerCatalogue {
    /// The approval of everything that is listed, for a server of which nothing was approved yet; `None` when the list of
    /// tools could not be read.
    #[must_use]
    pub fn first_approval(&self, at: Timestamp) -> Option<Approval> {
        let is_read = matches!(self.states().tools, ListState::Ok | ListState::Partial | ListState::Unsupported);
        is_read.then(|| Approval { at: Some(at), tools: self.tool_set().clone() })
    }

    /// The same catalogue, compared with what was approved.
    #[must_use]
    pub fn compared(mut self, approval: Option<Approval>) -> Self {
        let present = self.tool_set().clone();
        let known = |name: &str| approval.as_ref().and_then(|approval| approval.tools.get(name));
        let differences = present.iter().filter_map(|tool| {
            let difference = match known(tool.name()) {
                None => Difference::Added,
                Some(approved) => match changes(approved, tool) {
                    changes if changes.is_empty() => return None,
                    changes => Difference::Changed(changes),
                },
            };
            Some((tool.name().into(), difference))
        });
        let differences: HashMap<Box<str>, Difference> = differences.collect();
        // A list that was cut does not show what is gone.
        let is_whole = matches!(self.states().tools, ListState::Ok | ListState::Unsupported);
        let gone = approval.iter().filter(|_| is_whole).flat_map(|approval| approval.tools.iter());
        let gone = gone.filter(|tool| present.get(tool.name()).is_none()).map(|tool| tool.name().into());
        let mut removed: Vec<Box<str>> = gone.collect();
        removed.sort_unstable();
        let approval = approval.map(|mut approval| {
            if differences.is_empty() && approval.tools.len() == present.len() {
                // The same in other bytes at most; kept once.
                approval.tools = present;
            }
            approval
        });
        self.set_comparison(Comparison { approval, differences, removed });
        self
    }

    /// What is approved once a person approved `names` of what is listed, or all of it.
    ///
    /// # Errors
    /// The first name of a tool that is neither listed nor approved.
    pub fn approving<'a>(&self, names: Option<&'a [String]>, at: Timestamp) -> Result<Approval, &'a str> {
        let (present, known) = (self.tool_set(), self.comparison().approval());
        let approved = |name: &str| known.and_then(|approval| approval.tools.get(name));
        if let Some(unknown) = names.into_iter().flatten().find(|name| present.get(name).or(approved(name)).is_none()) {
            return Err(unknown);
        }
        let is_whole = matches!(self.states().tools, ListState::Ok | ListState::Unsupported);
        let meant: Option<HashSet<&str>> = names.map(|names| names.iter().map(String::as_str).collect());
        let is_meant = |name: &str| meant.as_ref().is_none_or(|meant| meant.contains(name));
        let mut tools: Vec<Tool> = Vec::new();
        for old in known.iter().flat_map(|approval| approval.tools.iter()) {
            match present.get(old.name()) {
                Some(new) if is_meant(old.name()) => tools.push(new.clone()),
                // A tool that is gone is not approved any more, if it comes back.
                None if is_meant(old.name()) && is_whole => {}
                _ => tools.push(old.clone()),
            }
        }
        tools.extend(present.iter().filter(|new| approved(new.name()).is_none() && is_meant(new.name())).cloned());
        Ok(Approval { at: Some(at), tools: Arc::new(ToolSet::new(tools, |_| {})) })
    }

    /// Why a call of that tool is refused, when it is.
    #[must_use]
    pub fn withheld(&self, name: &str, policy: DriftPolicy) -> Option<Withheld<'_>> {
        if !policy.refuses() {
            return None;
        }
        let refuses_new = policy == DriftPolicy::RefuseUnapproved;
        match self.comparison().differences.get(name) {
            Some(Difference::Changed(changes)) => Some(Withheld::Changed(changes)),
            Some(Difference::Added) if refuses_new => Some(Withheld::Unapproved),
            // What is not listed was compared with nothing.
            None if refuses_new && self.tool(name).is_none() => Some(Withheld::Unapproved),
            _ => None,
        }
    }

    /// Whether something differs here that did not, or not in this way, in `before`.
    #[must_use]
    pub fn has_new_drift(&self, before: &Self) -> bool {
        let (new, old) = (self.comparison(), before.comparison());
        let is_known = |name: &str| {
            let json = |catalogue: &Self| catalogue.tool(name).map(|tool| tool.json().clone());
            old.differences.contains_key(name) && json(self) == json(before)
        };
        new.differences.keys().any(|name| !is_known(name))
            || new.removed.iter().any(|name| old.removed.binary_search(name).is_err())
    }

    /// The warnings that a server's status shows of it, the weightiest first.
    #[must_use]
    pub fn drift_warnings(&self, policy: DriftPolicy) -> Vec<Warning> {
        let comparison = self.comparison();
        if policy == DriftPolicy::Off || comparison.differences.is_empty() {
            return Vec::new();
        }
        let withheld = |name: &str| match self.withheld(name, policy) {
            Some(_) => "; withheld until it is approved",
            None => "",
        };
        if comparison.approval.is_none() {
            let message = format!("nothing is approved yet; tools withheld: {}", comparison.differences.len());
            return vec![Warning::new("tool_drift", message, None)];
        }
        let mut changed = comparison.changed();
        changed.sort_by_key(|(_, changes)| std::cmp::Reverse(severity(changes)));
        let changed = changed.into_iter().map(|(name, changes)| {
            let (severity, kinds) = (severity(changes), kinds(changes).join(", "));
            let message = format!("changed since it was approved ({severity}: {kinds}){}", withheld(name));
            Warning::new("tool_drift", message, Some(name.to_owned()))
        });
        let added = comparison.added().into_iter().map(|name| {
            let message = format!("new since the tools were approved{}", withheld(name));
            Warning::new("tool_drift", message, Some(name.to_owned()))
        });
        changed.chain(added).take(MOST_NAMED).collect()
    }
}

/// The weight of the weightiest change.
#[must_use]
pub fn severity(changes: &[Change]) -> Severity {
    changes.iter().map(|change| change.severity).max().unwrap_or(Severity::Low)
}

/// The kinds of some changes, the weightiest first, each once.
#[must_use]
pub fn kinds(changes: &[Change]) -> Vec<String> {
    let mut kinds = Vec::new();
    for kind in changes.iter().map(|change| change.kind.to_string()) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

#[cfg(test)]
mod tests;

//! Comparing and approving, without a server.

use serde_json::{Value, json};

use super::*;
use crate::catalogue::Listing;
use crate::wire::model::tools_page;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A catalogue of tools, each a name and a description.
fn catalogue(tools: &[(&str, &str)]) -> ServerCatalogue {
    in_state(tools, ListState::Ok)
}

fn in_state(tools: &[(&str, &str)], state: ListState) -> ServerCatalogue {
    let tools: Vec<Value> = tools.iter().map(|(name, text)| json!({"name": name, "description": text})).collect();
    let page = tools_page(&json!({ "tools": tools }).into()).unwrap();
    let mut catalogue = ServerCatalogue::default();
    catalogue.set_tools(Listing { items: page.items, state }, Vec::new());
    catalogue
}

/// `present`, of which `approved` was approved.
fn drifted(approved: &[(&str, &str)], present: ServerCatalogue) -> ServerCatalogue {
    present.compared(catalogue(approved).first_approval(NOW))
}

fn withheld(catalogue: &ServerCatalogue, policy: DriftPolicy) -> Vec<Option<&'static str>> {
    ["a", "b", "c", "x"].map(|name| catalogue.withheld(name, policy).map(Withheld::word)).to_vec()
}

#[test]
fn what_was_added_removed_and_changed_is_told_in_order() {
    let found = drifted(&[("z", ""), ("b", "1"), ("y", "")], catalogue(&[("c", ""), ("b", "2"), ("a", "")]));
    let comparison = found.comparison();
    assert_eq!(comparison.added(), ["a", "c"]);
    assert_eq!(comparison.removed().iter().map(|name| &**name).collect::<Vec<_>>(), ["y", "z"]);
    let changed = comparison.changed();
    assert_eq!((changed.len(), changed[0].0, changed[0].1.len()), (1, "b", 1));
    assert!(!comparison.is_empty());
}

#[test]
fn each_policy_withholds_what_it_says() {
    let found = drifted(&[("a", "1"), ("b", "1")], catalogue(&[("a", "1"), ("b", "2"), ("c", "")]));
    assert_eq!(withheld(&found, DriftPolicy::Off), [None; 4]);
    assert_eq!(withheld(&found, DriftPolicy::Warn), [None; 4]);
    assert_eq!(withheld(&found, DriftPolicy::RefuseChanged), [None, Some("changed"), None, None]);
    let strict = [None, Some("changed"), Some("unapproved"), Some("unapproved")];
    assert_eq!(withheld(&found, DriftPolicy::RefuseUnapproved), strict);
    let unseen = catalogue(&[("a", "")]).compared(None);
    assert_eq!(withheld(&unseen, DriftPolicy::RefuseUnapproved), [Some("unapproved"); 4]);
}

#[test]
fn warnings_name_the_tools_and_the_weightiest_come_first() {
    let found = drifted(&[("a", "1"), ("b", "1")], catalogue(&[("a", "2"), ("b", "see http://x.example"), ("c", "")]));
    let told = |policy| -> Vec<(String, String)> {
        let warnings = found.drift_warnings(policy).into_iter();
        warnings.map(|warning| (warning.item.unwrap(), warning.message)).collect()
    };
    assert_eq!(told(DriftPolicy::Off), []);
    let expected = [
        ("b", "changed since it was approved (high: address, wording)"),
        ("a", "changed since it was approved (low: wording)"),
        ("c", "new since the tools were approved"),
    ];
    assert_eq!(told(DriftPolicy::Warn), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    assert!(told(DriftPolicy::RefuseChanged)[0].1.ends_with("; withheld until it is approved"));
    assert!(!told(DriftPolicy::RefuseChanged)[2].1.contains("withheld"));
    let many: Vec<String> = (0..1000).map(|index| format!("t{index}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(drifted(&[], catalogue(&many)).drift_warnings(DriftPolicy::Warn).len(), MOST_NAMED);
    assert_eq!(catalogue(&many).compared(None).drift_warnings(DriftPolicy::RefuseUnapproved).len(), 1);
}

#[test]
fn b189_approval_is_per_definition() {
    let found = drifted(&[("a", "1"), ("b", "1"), ("z", "")], catalogue(&[("a", "2"), ("b", "2"), ("c", "")]));
    let names = ["a".to_owned(), "z".to_owned()];
    let approval = found.approving(Some(&names), NOW).unwrap();
    let compared = found.clone().compared(Some(approval.clone()));
    assert_eq!(compared.comparison().changed().iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["b"]);
    assert_eq!((compared.comparison().added(), compared.comparison().removed().len()), (vec!["c"], 0));
    // The next change of an approved tool is a change again, and so is the way back.
    for text in ["3", "1"] {
        let later = catalogue(&[("a", text), ("b", "1")]).compared(Some(approval.clone()));
        assert_eq!(later.comparison().changed()[0].0, "a", "{text}");
    }
    assert!(catalogue(&[("a", "2"), ("b", "1")]).compared(Some(approval)).comparison().is_empty());
    let all = found.approving(None, NOW).unwrap();
    assert!(found.clone().compared(Some(all)).comparison().is_empty());
    let unknown = ["a".to_owned(), "nope".to_owned()];
    assert_eq!(found.approving(Some(&unknown), NOW).unwrap_err(), "nope");
}

#[test]
fn a_list_that_was_cut_takes_nothing_away() {
    let cut = drifted(&[("a", "1"), ("z", "1")], in_state(&[("a", "2")], ListState::Partial));
    assert_eq!(cut.comparison().removed().len(), 0);
    assert_eq!(cut.approving(None, NOW).unwrap().tools.len(), 2, "what is not shown stays approved");
    assert!(in_state(&[], ListState::Failed).first_approval(NOW).is_none());
    assert!(in_state(&[], ListState::Unsupported).first_approval(NOW).is_some());
}

#[test]
fn what_is_approved_and_present_is_kept_once() {
    let same = drifted(&[("a", "1")], catalogue(&[("a", "1")]));
    assert!(Arc::ptr_eq(&same.comparison().approval().unwrap().tools, same.tool_set()));
}

#[test]
fn drift_is_news_once() {
    let old = drifted(&[("a", "1")], catalogue(&[("a", "1")]));
    let news = drifted(&[("a", "1")], catalogue(&[("a", "2")]));
    assert!(news.has_new_drift(&old));
    assert!(!news.clone().stale(false).has_new_drift(&news));
    assert!(drifted(&[("a", "1")], catalogue(&[("a", "3")])).has_new_drift(&news));
    assert!(drifted(&[("a", "1")], catalogue(&[])).has_new_drift(&news));
    assert!(!old.has_new_drift(&news), "what was approved is no news");
}

//! Tool keys: the names under which a model sees the tools of all servers.
//!
//! Providers accept 1 to 64 characters of `A-Z a-z 0-9 _ -`, while servers name their tools as they like. The plain key
//! is `tool_`, the server id without its hyphens, `_`, and the tool's own name. It is kept when it is legal and no other
//! tool has it. Every other tool gets a readable form of the same with a hash of (server id, tool name) behind it.
//!
//! A key depends on nothing but the set of tools: not on their order, and on another tool only when the two collide. All
//! that collide get the hash, so that it makes no difference which of them was there first.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::id::ServerId;

/// The longest tool key, in characters.
pub const TOOL_KEY_MAX_LENGTH: usize = 64;

/// What every key begins with; a letter in front is what some providers ask for.
const PREFIX: &str = "tool_";

/// How many hexadecimal digits of the hash a key carries, from one round of collisions to the next.
const HASH_DIGITS: [usize; 4] = [0, 10, 20, 40];

/// How much of a long server id is kept when a key must be shortened, so that the tool's name stays readable.
const SHORT_ID_LENGTH: usize = 16;

/// The name under which a model sees one tool: 1 to 64 characters of `A-Z a-z 0-9 _ -`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolKey(Arc<str>);

impl ToolKey {
    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ToolKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for ToolKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for ToolKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// The keys of all `tools`, each a server id and the tool's own name, in the order given.
///
/// Different tools have different keys. The same tool given twice has the same key twice.
///
/// ```
/// use switchboard::{ServerId, catalogue::naming};
/// let (hub, files) = (ServerId::parse("git-hub")?, ServerId::parse("files")?);
/// let keys = naming::assign([(&hub, "search"), (&files, "search"), (&files, "fs.read")].into_iter());
/// assert_eq!(keys[0].as_str(), "tool_github_search");
/// assert_eq!(keys[1].as_str(), "tool_files_search");
/// assert!(keys[2].as_str().starts_with("tool_files_fs_read_"));
/// # Ok::<(), switchboard::Error>(())
/// ```
pub fn assign<'a>(tools: impl Iterator<Item = (&'a ServerId, &'a str)>) -> Vec<ToolKey> {
    let mut writer = Writer::default();
    let mut rounds: Vec<u8> = Vec::with_capacity(tools.size_hint().0);
    let mut keys: Vec<ToolKey> = Vec::with_capacity(tools.size_hint().0);
    let mut known: Vec<(&ServerId, &str)> = Vec::with_capacity(tools.size_hint().0);
    for (server, name) in tools {
        let round = u8::from(!writer.plain(server, name));
        if round > 0 {
            writer.hashed(server, name, HASH_DIGITS[1]);
        }
        keys.push(writer.key());
        rounds.push(round);
        known.push((server, name));
    }
    // Each round is decided by the set of keys alone, and only makes hashes longer, so the order of tools is no matter.
    while let Some(clashing) = clashes(&known, &keys) {
        let mut changed = false;
        for index in clashing {
            let next = usize::from(rounds[index]) + 1;
            let Some(&digits) = HASH_DIGITS.get(next) else { continue };
            let (server, name) = known[index];
            writer.hashed(server, name, digits);
            keys[index] = writer.key();
            rounds[index] += 1;
            changed = true;
        }
        if !changed {
            break;
        }
    }
    keys
}

/// The tools whose key is also that of a different tool; `None` when there are none.
fn clashes(tools: &[(&ServerId, &str)], keys: &[ToolKey]) -> Option<Vec<usize>> {
    let mut first: HashMap<&str, usize> = HashMap::with_capacity(keys.len());
    let mut shared: HashSet<&str> = HashSet::new();
    for (index, key) in keys.iter().enumerate() {
        let earlier = *first.entry(key.as_str()).or_insert(index);
        if earlier != index && tools[earlier] != tools[index] {
            shared.insert(key.as_str());
        }
    }
    if shared.is_empty() {
        return None;
    }
    Some((0..keys.len()).filter(|&index| shared.contains(keys[index].as_str())).collect())
}

/// Writes keys into one buffer that is used again and again, so that each key costs one allocation.
#[derive(Default)]
struct Writer {
    text: String,
}

impl Writer {
    fn key(&self) -> ToolKey {
        ToolKey(Arc::from(self.text.as_str()))
    }

    /// Writes the plain key and says whether it is legal.
    fn plain(&mut self, server: &ServerId, name: &str) -> bool {
        self.text.clear();
        self.text.push_str(PREFIX);
        for part in server.as_str().split('-') {
            self.text.push_str(part);
        }
        self.text.push('_');
        self.text.push_str(name);
        !name.is_empty() && self.text.len() <= TOOL_KEY_MAX_LENGTH && name.bytes().all(is_legal)
    }

    /// Writes the readable form of the key with `digits` digits of the hash behind it.
    fn hashed(&mut self, server: &ServerId, name: &str, digits: usize) {
        let id = server.as_str().replace('-', "");
        let name_part = readable(name);
        // The prefix, the two underscores between the three parts, and the hash are always there.
        let room = TOOL_KEY_MAX_LENGTH - PREFIX.len() - 2 - digits;
        let id_room = room.saturating_sub(name_part.len()).max(SHORT_ID_LENGTH).min(id.len()).min(room);
        let name_room = (room - id_room).min(name_part.len());
        self.text.clear();
        for part in [PREFIX, &id[..id_room], "_", &name_part[..name_room], "_"] {
            self.text.push_str(part);
        }
        self.text.push_str(&digest(server, name)[..digits]);
    }
}

const fn is_legal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The name with each run of illegal characters as one `_`, and none of those at its ends.
fn readable(name: &str) -> String {
    let mut text = String::with_capacity(name.len().min(TOOL_KEY_MAX_LENGTH));
    for part in name.split(|c: char| !c.is_ascii() || !is_legal(c as u8)).filter(|part| !part.is_empty()) {
        if !text.is_empty() {
            text.push('_');
        }
        text.push_str(part);
        if text.len() > TOOL_KEY_MAX_LENGTH {
            break;
        }
    }
    text.trim_matches('_').to_owned()
}

/// The hexadecimal SHA-256 of (server id, tool name). An id never contains a NUL, so the pair is unambiguous.
fn digest(server: &ServerId, name: &str) -> String {
    let hash = Sha256::new().chain_update(server.as_str()).chain_update([0]).chain_update(name).finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> ServerId {
        ServerId::stored(text)
    }

    fn keys(tools: &[(&str, &str)]) -> Vec<String> {
        let owned: Vec<(ServerId, &str)> = tools.iter().map(|(server, name)| (id(server), *name)).collect();
        assign(owned.iter().map(|(server, name)| (server, *name))).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_legal_and_unique_key_is_what_users_of_other_clients_know() {
        assert_eq!(keys(&[("my-id", "search_code")]), ["tool_myid_search_code"]);
    }

    #[test]
    fn b059_two_servers_with_the_same_tool_are_both_callable() {
        assert_eq!(keys(&[("a", "search"), ("b", "search")]), ["tool_a_search", "tool_b_search"]);
        let same = keys(&[("a-b", "search"), ("ab", "search")]);
        assert_ne!(same[0], same[1]);
        assert!(same.iter().all(|key| key.starts_with("tool_ab_search_")), "both get the hash: {same:?}");
        let split = keys(&[("x_y", "z"), ("x", "y_z")]);
        assert_ne!(split[0], split[1]);
    }

    #[test]
    fn b061_names_that_providers_refuse_become_legal() {
        let keys = keys(&[("s", "admin.tools.list"), ("s", "user/update"), ("s", "my tool"), ("s", "工具"), ("s", "")]);
        let starts = ["tool_s_admin_tools_list_", "tool_s_user_update_", "tool_s_my_tool_", "tool_s__", "tool_s__"];
        for (key, start) in keys.iter().zip(starts) {
            assert!(key.starts_with(start) && key.len() == start.len() + 10, "{key}");
        }
    }

    #[test]
    fn keys_are_the_same_after_a_restart_and_in_the_next_version() {
        assert_eq!(keys(&[("my-id", "a.b/c d")]), ["tool_myid_a_b_c_d_2ade90685e"]);
    }

    #[test]
    fn a_long_server_id_leaves_room_for_the_name() {
        let server = "a".repeat(64);
        let keys = keys(&[(&server, "list_pull_requests"), (&server, "get_me")]);
        assert!(keys[0].contains("_list_pull_requests_"), "{}", keys[0]);
        assert!(keys.iter().all(|key| key.len() == TOOL_KEY_MAX_LENGTH));
    }

    #[test]
    fn a_tool_named_like_the_hashed_key_of_another_does_not_take_it() {
        let hashed = keys(&[("s", "a.b")]).remove(0);
        let imitation = hashed.strip_prefix("tool_s_").unwrap();
        let both = keys(&[("s", "a.b"), ("s", imitation)]);
        assert_ne!(both[0], both[1]);
        assert_ne!(both[1], hashed);
    }

    #[test]
    fn a_tool_that_a_server_lists_twice_is_one_tool() {
        let keys = keys(&[("s", "echo"), ("s", "echo")]);
        assert_eq!(keys, ["tool_s_echo", "tool_s_echo"]);
    }

    /// Few ids and few name parts, so that collisions of every kind are common.
    fn tool() -> impl Strategy<Value = (String, String)> {
        let server = prop::sample::select(vec!["a", "a-b", "ab", "a_b", "b", "a-b-c"]).prop_map(str::to_owned);
        let part = prop::sample::select(vec!["a", "b", "_", "-", ".", "é", "b_c", "x"]);
        let short = prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat());
        (prop_oneof![4 => server, 1 => "[a-z][a-z0-9_-]{0,63}"], prop_oneof![4 => short, 1 => "\\PC{0,150}"])
    }

    fn assigned(tools: &[(String, String)]) -> HashMap<(String, String), String> {
        let pairs: Vec<(&str, &str)> = tools.iter().map(|(server, name)| (server.as_str(), name.as_str())).collect();
        tools.iter().cloned().zip(keys(&pairs)).collect()
    }

    proptest! {
        #[test]
        fn every_key_is_legal(tools in prop::collection::vec(tool(), 0..40)) {
            for key in assigned(&tools).values() {
                prop_assert!((1..=TOOL_KEY_MAX_LENGTH).contains(&key.len()), "{key}");
                prop_assert!(key.starts_with("tool_") && key.bytes().all(is_legal), "{key}");
            }
        }

        #[test]
        fn different_tools_have_different_keys(tools in prop::collection::vec(tool(), 0..40)) {
            let keys = assigned(&tools);
            let distinct: HashSet<&String> = keys.values().collect();
            prop_assert_eq!(distinct.len(), keys.len());
        }

        #[test]
        fn the_order_of_tools_changes_nothing(
            (tools, shuffled) in prop::collection::vec(tool(), 0..40)
                .prop_flat_map(|tools| (Just(tools.clone()), Just(tools).prop_shuffle()))
        ) {
            prop_assert_eq!(assigned(&tools), assigned(&shuffled));
        }

        #[test]
        fn a_key_changes_only_for_tools_that_collide(
            tools in prop::collection::vec(tool(), 0..20),
            others in prop::collection::vec(tool(), 0..20),
        ) {
            let before = assigned(&tools);
            let all: Vec<_> = tools.iter().chain(&others).cloned().collect();
            let after = assigned(&all);
            let alone: HashMap<_, _> = others.iter().map(|tool| (tool, assigned(std::slice::from_ref(tool)))).collect();
            for (tool, key) in before.iter().filter(|&(tool, key)| after[tool] != *key) {
                // Whoever changed had a key that a newcomer would also have had on its own, or had before the collision.
                let rival = alone.iter().any(|(other, keys)| *other != tool && keys[*other] == *key);
                let plain = assigned(std::slice::from_ref(tool));
                let same_plain = alone.iter().any(|(other, keys)| *other != tool && keys[*other] == plain[tool]);
                prop_assert!(rival || same_plain, "{tool:?}: {key} became {}", after[tool]);
            }
        }
    }
}

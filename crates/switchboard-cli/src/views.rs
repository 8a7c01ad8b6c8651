//! The documents of the HTTP API, read as far as tables need them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use switchboard::time::Timestamp;
use switchboard::wire::Json;
use switchboard::{ServerId, State};

use crate::names::nearest;
use crate::output::Output;
use crate::problem::{Problem, Result};
use crate::table::{Cell, Paint, Table};

/// The widest text of a free column.
const WIDE: usize = 60;

/// `GET /servers`.
#[derive(Debug, Clone)]
pub(crate) struct Servers(Vec<(String, Server)>);

/// One server of it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Server {
    /// What people call it.
    pub(crate) name: String,
    /// Its state.
    pub(crate) state: State,
    /// Where to sign in.
    pub(crate) auth_url: Option<String>,
    /// The last failure in one line.
    pub(crate) error: Option<String>,
    /// How it is spoken to.
    pub(crate) transport: Option<String>,
    /// The revision that is spoken.
    #[serde(rename = "protocolVersion")]
    pub(crate) protocol_version: Option<String>,
    /// Since when it is in that state.
    pub(crate) since: Option<Timestamp>,
    /// Which attempt to connect is under way or was last.
    #[serde(default)]
    attempt: u32,
    /// When the next attempt is due.
    #[serde(rename = "nextAttemptAt")]
    next_attempt_at: Option<Timestamp>,
    /// How long its last quick answer took.
    #[serde(rename = "latencyMs")]
    latency_ms: Option<f64>,
    /// How much it offers.
    #[serde(default)]
    pub(crate) counts: Counts,
    /// Whether what is shown is what was known last.
    #[serde(default)]
    pub(crate) stale: bool,
    /// What was worked around.
    #[serde(default)]
    pub(crate) warnings: Vec<Map<String, Value>>,
}

/// How many items its lists have.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Counts {
    pub(crate) tools: usize,
    pub(crate) prompts: usize,
    pub(crate) resources: usize,
    pub(crate) resource_templates: usize,
}

/// The servers in the order of the document. Read directly and not by way of a tree, which has a depth limit: what
/// tables do not show, such as a server's capabilities, is passed over however deep it is.
struct InOrder(Vec<(String, Server)>);

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = InOrder;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of servers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<InOrder, A::Error> {
                let mut servers = Vec::new();
                while let Some(member) = members.next_entry()? {
                    servers.push(member);
                }
                Ok(InOrder(servers))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl Servers {
    /// Reads the document.
    pub(crate) fn read(document: &Json) -> Result<Self> {
        #[derive(Deserialize)]
        struct Document {
            servers: InOrder,
        }
        let strange = |cause| Problem::new("protocol_violation", "the list of servers cannot be read").because(cause);
        let document: Document = document.read().map_err(strange)?;
        Ok(Self(document.servers.0))
    }

    /// The servers with their ids, in the order of registration.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Server)> {
        self.0.iter().map(|(id, server)| (id.as_str(), server))
    }

    /// The server of that id.
    pub(crate) fn by_id(&self, id: &str) -> Option<&Server> {
        self.iter().find(|(other, _)| *other == id).map(|(_, server)| server)
    }

    /// The id of the server that is meant by an id or by a name that only one server has.
    pub(crate) fn resolve(&self, wanted: &str) -> Result<String, Problem> {
        let normal = ServerId::parse(wanted).map(|id| id.to_string()).unwrap_or_default();
        let by_id = |id: &str| self.iter().find(|(other, _)| *other == id).map(|(id, _)| id.to_owned());
        let by_name: Vec<&str> = self.iter().filter(|(_, server)| server.name == wanted).map(|(id, _)| id).collect();
        match (by_id(wanted), by_name.as_slice()) {
            (Some(id), _) => Ok(id),
            (None, [only]) => Ok((*only).to_owned()),
            (None, []) => by_id(&normal).ok_or_else(|| {
                let known = self.iter().flat_map(|(id, server)| [id, server.name.as_str()]);
                Problem::new("unknown_server", format!("no server `{wanted}` is registered"))
                    .with("nearest", nearest(wanted, known))
            }),
            (None, several) => Err(Problem::input(format!("more than one server is called `{wanted}`"))
                .with("nearest", several.to_vec())
                .hint("name the one that is meant by its id")),
        }
    }

    /// The ids among `ids` (all, when there are none) of servers that are still connecting.
    pub(crate) fn unsettled(&self, ids: &[String]) -> Vec<String> {
        let is_meant = |id: &str| ids.is_empty() || ids.iter().any(|wanted| wanted == id);
        let unsettled = self.iter().filter(|(id, server)| is_meant(id) && !server.state.is_settled());
        unsettled.map(|(id, _)| id.to_owned()).collect()
    }

    /// The table of all servers.
    pub(crate) fn table(&self, now: Timestamp) -> Table {
        let mut table =
            Table::new(["ID", "NAME", "STATE", "SINCE", "NEXT", "LATENCY", "PROTOCOL", "TRANSPORT", "TOOLS", "WHY"]);
        for (id, server) in self.iter() {
            // A name that says no more than the id is left out.
            let name = if server.name == id { "" } else { &server.name };
            let tools = match server.counts.tools {
                0 if server.state != State::Ready => String::new(),
                count => format!("{count}{}", if server.stale { " (last known)" } else { "" }),
            };
            table.row([
                id.into(),
                Cell::short(name, 30),
                Cell::painted(server.state.as_str(), paint(server.state)),
                server.since.map(|since| age(since, now)).unwrap_or_default().into(),
                server.next(now).into(),
                server.latency_ms.map(|millis| format!("{millis:.1} ms")).unwrap_or_default().into(),
                server.protocol_version.as_deref().unwrap_or_default().into(),
                server.transport.as_deref().unwrap_or_default().into(),
                tools.into(),
                Cell::short(&server.why(id), 2 * WIDE),
            ]);
        }
        table
    }
}

impl Server {
    /// When it is tried again, such as `in 3 s (attempt 2)`.
    fn next(&self, now: Timestamp) -> String {
        let Some(next) = self.next_attempt_at else { return String::new() };
        let attempt = if self.state == State::Failed { 1 } else { self.attempt + 1 };
        format!("in {} (attempt {attempt})", age(now, next))
    }

    /// Why it is in its state, when that needs a word.
    fn why(&self, id: &str) -> String {
        match (&self.auth_url, &self.error) {
            (Some(url), _) if self.state != State::Closed => format!("sign in at {url}"),
            (_, Some(error)) if self.state != State::Ready => {
                // The row says already which server it is.
                error.strip_prefix(&format!("server `{id}`: ")).unwrap_or(error).to_owned()
            }
            _ => self
                .warnings
                .iter()
                .filter_map(|warning| warning.get("message")?.as_str())
                .collect::<Vec<_>>()
                .join("; "),
        }
    }
}

const fn paint(state: State) -> Paint {
    match state {
        State::Ready => Paint::Good,
        State::Failed => Paint::Bad,
        State::Closed => Paint::Faint,
        _ => Paint::Waiting,
    }
}

/// How long ago a moment was, in the largest unit that says something.
fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_millis().saturating_sub(since.as_millis()) / 1000;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The items of a list document, as trees.
pub(crate) fn items(document: &Json, member: &str) -> Vec<Value> {
    let members: BTreeMap<String, Json> = document.read().unwrap_or_default();
    let items: Vec<Json> = members.get(member).and_then(|items| items.read().ok()).unwrap_or_default();
    items.iter().map(tree).collect()
}

/// An item as a tree. A member that is nested too deep to be read is null there, and costs neither the item nor the list.
fn tree(item: &Json) -> Value {
    let whole = item.to_value();
    if !whole.is_null() {
        return whole;
    }
    let members: BTreeMap<String, Json> = item.read().unwrap_or_default();
    members.into_iter().map(|(name, member)| (name, member.to_value())).collect()
}

/// A text member of an item.
pub(crate) fn text<'a>(item: &'a Value, member: &str) -> &'a str {
    item.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// The first sentence of an item's description, or its title.
pub(crate) fn about(item: &Value) -> Cell {
    let described = match text(item, "description") {
        "" => text(item, "title"),
        description => description,
    };
    Cell::short(described.lines().next().unwrap_or_default(), WIDE)
}

/// What an empty registry is told with.
pub(crate) const NO_SERVER: &str = "no server is registered; `switchboard add --help` shows how to add one";

/// Says which servers were not waited for any longer, and that what they show may be old.
pub(crate) fn note_missing(output: &Output, missing: &[String]) {
    if !missing.is_empty() {
        let names = missing.join("`, `");
        output.note(&format!("note: still connecting: `{names}`; --wait-ms waits longer, what is shown may be old"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_that_are_nested_too_deep_cost_no_server() {
        let deep = format!("{}1{}", "[".repeat(1000), "]".repeat(1000));
        let server = format!(r#"{{"name": "n", "state": "ready", "capabilities": {{"experimental": {deep}}}}}"#);
        let servers = Servers::read(&format!(r#"{{"servers": {{"b": {server}, "a": {server}}}}}"#).parse().unwrap());
        assert_eq!(servers.unwrap().iter().map(|(id, _)| id.to_owned()).collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn a_member_that_is_nested_too_deep_costs_neither_its_item_nor_the_list() {
        let deep = format!("{}1{}", "[".repeat(1000), "]".repeat(1000));
        let document =
            format!(r#"{{"tools": [{{"name": "a", "inputSchema": {deep}}}, {{"name": "b"}}], "x": {deep}}}"#);
        let tools = items(&document.parse().unwrap(), "tools");
        assert_eq!(tools.iter().map(|tool| text(tool, "name")).collect::<Vec<_>>(), ["a", "b"]);
        assert!(tools[0]["inputSchema"].is_null());
    }

    fn servers() -> Servers {
        let document = r#"{"servers": {
            "b": {"name": "Two", "server_url": "http://h/", "auth_url": null, "state": "failed", "error": "could not connect: refused",
                  "transport": "streamable-http", "protocolVersion": null, "since": "2026-01-01T00:00:00.000Z"},
            "a-b": {"name": "a.b", "server_url": "x", "auth_url": null, "state": "ready", "error": null, "transport": "stdio",
                  "protocolVersion": "2025-11-25", "since": "2026-01-01T00:00:00.000Z", "latencyMs": 1.25,
                  "counts": {"tools": 1}},
            "c": {"name": "Two", "server_url": "x", "auth_url": null, "state": "connecting", "error": null, "attempt": 1,
                  "nextAttemptAt": "2026-01-01T00:05:03.000Z"}}}"#;
        Servers::read(&document.parse().unwrap()).unwrap()
    }

    #[test]
    fn servers_are_found_by_id_by_name_and_by_what_the_name_becomes() {
        let servers = servers();
        for (wanted, id) in [("a-b", "a-b"), ("a.b", "a-b"), ("A B", "a-b"), ("c", "c")] {
            assert_eq!(servers.resolve(wanted).unwrap(), id, "{wanted}");
        }
        let unknown = servers.resolve("a-bb").unwrap_err();
        assert_eq!(unknown.code(), "unknown_server");
        assert!(unknown.text().contains("did you mean: `a-b`"), "{}", unknown.text());
        assert!(servers.resolve("Two").unwrap_err().text().contains("`b`, `c`"));
    }

    #[test]
    fn the_table_says_how_each_server_is_and_why() {
        let text = servers().table("\"2026-01-01T00:05:00.000Z\"".parse::<Json>().unwrap().read().unwrap()).text(false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("ID   NAME  STATE"), "{text}");
        assert!(lines[1].contains("failed") && lines[1].contains("5 min") && lines[1].ends_with("refused"), "{text}");
        assert!(lines[2].contains("1.2 ms") && lines[2].contains("2025-11-25  stdio            1"), "{text}");
        assert!(lines[3].contains("in 3 s (attempt 2)"), "{text}");
        assert_eq!(servers().unsettled(&[]), ["c"]);
        assert!(servers().unsettled(&["b".to_owned()]).is_empty());
    }

    #[test]
    fn ages_are_said_in_the_unit_that_fits() {
        let at = Timestamp::from_millis;
        let ages = [0, 119_000, 600_000, 8_000_000, 200_000_000].map(|millis| age(at(0), at(millis)));
        assert_eq!(ages, ["0 s", "119 s", "10 min", "2 h", "2 d"]);
    }
}

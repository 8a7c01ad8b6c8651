//! Fingerprints of tools: two definitions that say the same have the same one, however they are written.
//!
//! A fingerprint is the SHA-256 of a canonical text: JSON without white space, members sorted by name, whole numbers
//! without a fraction. It covers what a model is told of a tool, and the hints by which people decide what it may do:
//! name, title, description, input schema and annotations. Members that are absent, `null` or empty are left out; a
//! missing schema is the empty object schema. The output schema, icons and `_meta` do not count, because no model is
//! instructed by them.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Number, Value, json};
use sha2::{Digest, Sha256};

use crate::wire::{Json, Tool};

/// Whole numbers below this are exact in every JSON implementation.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// What identifies a definition of a tool, or all tools of a server. Prints as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of one tool.
    #[must_use]
    pub fn of(tool: &Tool) -> Self {
        match Definition::of(tool) {
            Some(definition) => Self::of_text(&definition.canonical()),
            None => Self::of_text(tool.json().as_str()),
        }
    }

    /// The fingerprint of several tools; their order does not matter.
    #[must_use]
    pub fn combined<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Self {
        let mut pairs: Vec<_> = tools.into_iter().map(|tool| (tool.name(), Self::of(tool).to_string())).collect();
        pairs.sort_unstable();
        Self::of_text(&canonical(&json!(pairs)))
    }

    fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The parts of a tool that its fingerprint covers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) title: Value,
    pub(super) description: Value,
    pub(super) input_schema: Value,
    pub(super) annotations: Map<String, Value>,
}

impl Definition {
    /// `None` when the tool has a text twice, so that nobody knows which of them a reader takes.
    pub(super) fn of(tool: &Tool) -> Option<Self> {
        #[derive(Deserialize)]
        struct Texts {
            #[serde(default)]
            title: Value,
            #[serde(default)]
            description: Value,
        }
        let Texts { title, description } = tool.json().read().ok()?;
        Some(Self {
            name: tool.name().to_owned(),
            title,
            description,
            input_schema: tool.input_schema().map_or_else(|| json!({"properties": {}, "type": "object"}), tree),
            annotations: match tool.annotations().map(tree) {
                Some(Value::Object(annotations)) => annotations,
                Some(unread) => Map::from_iter([(String::new(), unread)]),
                None => Map::new(),
            },
        })
    }

    /// The text that is hashed.
    pub(super) fn canonical(&self) -> String {
        let mut whole = Map::new();
        whole.insert("name".into(), self.name.as_str().into());
        whole.insert("inputSchema".into(), self.input_schema.clone());
        for (member, text) in [("title", &self.title), ("description", &self.description)] {
            if !text.is_null() && text != "" {
                whole.insert(member.into(), text.clone());
            }
        }
        if !self.annotations.is_empty() {
            whole.insert("annotations".into(), self.annotations.clone().into());
        }
        canonical(&Value::Object(whole))
    }
}

/// The value as a tree; one that is nested too deeply to be read is its own text.
fn tree(json: &Json) -> Value {
    json.read().unwrap_or_else(|_| json.as_str().into())
}

/// The canonical text of a value.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// Trees are at most as deep as the parser lets them be, so the recursion is bounded.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push('{');
            for (index, (name, member)) in members.into_iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                // Writing a string cannot fail.
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write(member, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                write(item, text);
            }
            text.push(']');
        }
        Value::Number(number) => write_number(number, text),
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
}

/// `1.0` and `1` are the same number.
fn write_number(number: &Number, text: &mut String) {
    let whole = number.as_f64().filter(|value| number.is_f64() && value.fract() == 0.0 && value.abs() < EXACT);
    let _ = match whole {
        // Zero has no sign in the other spelling.
        Some(value) => write!(text, "{:.0}", if value == 0.0 { 0.0 } else { value }),
        None => write!(text, "{number}"),
    };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::model::tools_page;

    fn tools(texts: &[String]) -> Vec<Tool> {
        tools_page(&format!(r#"{{"tools":[{}]}}"#, texts.join(",")).parse().unwrap()).unwrap().items
    }

    fn tool(text: &str) -> Tool {
        tools(&[text.to_owned()]).remove(0)
    }

    #[test]
    fn a_tool_with_nothing_but_a_name_has_the_fingerprint_that_others_know() {
        let text = r#"{"inputSchema":{"properties":{},"type":"object"},"name":"t"}"#;
        let known = "0df53ebc499c64aa4c03e4ac9da5741dd5de82e10f86a9b2fde930a7af3e230d";
        for same in [
            r#"{"name":"t"}"#,
            r#"{"name":"t","inputSchema":null,"description":"","title":null,"annotations":{}}"#,
            r#"{ "inputSchema": {"type":"object","properties":{}}, "name":"\u0074", "outputSchema": {}, "_meta": {"x":1} }"#,
        ] {
            assert_eq!(Definition::of(&tool(same)).unwrap().canonical(), text, "{same}");
            assert_eq!(Fingerprint::of(&tool(same)).to_string(), known, "{same}");
        }
    }

    #[test]
    fn every_part_that_a_model_or_a_policy_goes_by_counts() {
        let texts = [
            r#"{"name":"t"}"#,
            r#"{"name":"u"}"#,
            r#"{"name":"t","title":"x"}"#,
            r#"{"name":"t","description":"x"}"#,
            r#"{"name":"t","annotations":{"readOnlyHint":true}}"#,
            r#"{"name":"t","inputSchema":{"type":"object"}}"#,
            r#"{"name":"t","inputSchema":{"type":"object","maximum":1}}"#,
            r#"{"name":"t","inputSchema":{"type":"object","maximum":1.5}}"#,
        ];
        let distinct: std::collections::HashSet<_> = texts.iter().map(|text| Fingerprint::of(&tool(text))).collect();
        assert_eq!(distinct.len(), texts.len());
    }

    #[test]
    fn the_same_number_in_another_spelling_is_no_difference() {
        let of = |number: &str| canonical(&serde_json::from_str(number).unwrap());
        assert_eq!([of("1.0"), of("-0.0"), of("1e2"), of("-3.0")], ["1", "0", "100", "-3"]);
        assert_eq!([of("1.5"), of("18446744073709551615"), of("1e300")], ["1.5", "18446744073709551615", "1e+300"]);
    }

    #[test]
    fn odd_names_double_names_and_bottomless_schemas_are_harmless() {
        let proto = r#"{"name":"__proto__","inputSchema":{"__proto__":{"x":1},"type":"object"}}"#;
        assert_ne!(Fingerprint::of(&tool(proto)), Fingerprint::of(&tool(r#"{"name":"__proto__"}"#)));
        let doubled = tools(&[r#"{"name":"t"}"#.to_owned(), r#"{"name":"t","title":"x"}"#.to_owned()]);
        assert_eq!(Fingerprint::combined(&doubled), Fingerprint::combined(doubled.iter().rev()));
        let deep = |inner: &str| {
            let (open, close) = (r#"{"not":"#.repeat(500), "}".repeat(500));
            Fingerprint::of(&tool(&format!(r#"{{"name":"t","inputSchema":{open}{inner}{close}}}"#)))
        };
        assert_eq!(deep("{}"), deep("{}"));
        assert_ne!(deep("{}"), deep(r#"{"a":1}"#), "what cannot be read as a tree is compared as text");
        let twice = |second: &str| Fingerprint::of(&tool(&format!(r#"{{"name":"t","title":"a","title":"{second}"}}"#)));
        assert_ne!(twice("b"), twice("c"));
    }

    #[test]
    fn the_fingerprint_of_many_does_not_know_their_order() {
        let two = tools(&[r#"{"name":"a"}"#.to_owned(), r#"{"name":"b"}"#.to_owned()]);
        assert_eq!(Fingerprint::combined(&two), Fingerprint::combined(two.iter().rev()));
        assert_ne!(Fingerprint::combined(&two), Fingerprint::combined(&two[..1]));
        assert_ne!(Fingerprint::combined(&two[..1]), Fingerprint::of(&two[0]));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "\\PC{0,6}|__proto__".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec(("[a-c]|__proto__|\\PC{0,3}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The same value with its members in the opposite order.
    fn turned(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                Value::Object(members.iter().rev().map(|(name, member)| (name.clone(), turned(member))).collect())
            }
            Value::Array(items) => items.iter().map(turned).collect(),
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn the_order_of_members_and_white_space_do_not_matter(schema in any_value(), text in "\\PC{0,20}") {
            let schema = json!({"type": "object", "properties": {"a": schema}});
            let whole = json!({"name": "t", "description": text, "inputSchema": schema});
            let plain = tool(&whole.to_string());
            let other = tool(&serde_json::to_string_pretty(&turned(&whole)).unwrap());
            prop_assert_eq!(Fingerprint::of(&plain), Fingerprint::of(&other));
        }

        #[test]
        fn the_canonical_text_is_json_and_its_own_canonical_text(value in any_value()) {
            let text = canonical(&value);
            let read: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&read, &value);
            prop_assert_eq!(canonical(&read), text);
        }
    }
}

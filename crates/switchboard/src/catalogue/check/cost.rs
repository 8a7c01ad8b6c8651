//! How much work it is to check a value against a schema, bounded before it is done.
//!
//! References can multiply: forty definitions that each refer twice to the next make a schema of a thousand lines that
//! takes longer than anyone lives. The work at one place of a value is counted by the depth of that place, with every
//! branch taken and, of an object's properties, the costliest; times the size of the value it bounds the whole.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::catalogue::schema::target_name;

/// The most work for a check that only says yes or no.
pub(super) const MAX_WORK: u64 = 5_000_000;

/// The most work for a check that lists what is wrong, which is slower.
pub(super) const MAX_WORK_OF_ERRORS: u64 = 100_000;

/// The most schemas that may apply, one inside the other, to the same place of a value.
const MAX_CHAIN: usize = 24;

/// The deepest value that is checked. With [`MAX_CHAIN`] it bounds how deep the checker calls itself.
const MAX_VALUE_DEPTH: usize = 64;

/// The work at a place of a value, by its depth.
#[derive(Debug)]
pub(super) struct Cost {
    /// The costliest place down to each depth; the last goes on where values are deeper than the schema.
    peaks: Vec<u64>,
}

impl Cost {
    /// The cost of a clean schema; `None` when it has no bound.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let mut graph = Graph::default();
        let root = graph.add(schema);
        for (name, definition) in schema.get("$defs").and_then(Value::as_object).into_iter().flatten() {
            let node = graph.add(definition);
            graph.definitions.insert(name.as_str(), node);
        }
        graph.link();
        let order = graph.order()?;
        let mut layer = vec![0_u64; graph.nodes.len()];
        let mut peaks: Vec<u64> = Vec::new();
        for depth in 0..=MAX_VALUE_DEPTH {
            layer = graph.next_layer(&order, &layer, depth);
            if depth > 0 && layer.iter().all(|work| *work == 0) {
                break;
            }
            peaks.push(layer[root].max(peaks.last().copied().unwrap_or(0)));
        }
        Some(Self { peaks })
    }

    /// The work of checking this value.
    pub(super) fn of_value(&self, value: &Value) -> u64 {
        let (size, depth) = measure(value);
        if depth > MAX_VALUE_DEPTH {
            return u64::MAX;
        }
        let peak = self.peaks.get(depth).or(self.peaks.last()).copied().unwrap_or(1);
        size.saturating_mul(peak)
    }
}

/// How many values a value consists of, and how deep they lie.
fn measure(value: &Value) -> (u64, usize) {
    let children: Vec<&Value> = match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => return (1, 0),
    };
    children.into_iter().map(measure).fold((1, 0), |(size, depth), (more, below)| (size + more, depth.max(below + 1)))
}

/// One schema: which others apply with it, and which apply to what lies inside the value.
#[derive(Default)]
struct Node<'a> {
    reference: Option<&'a str>,
    same: Vec<usize>,
    properties: Vec<usize>,
    any_property: Vec<usize>,
    items: Vec<usize>,
}

#[derive(Default)]
struct Graph<'a> {
    nodes: Vec<Node<'a>>,
    definitions: HashMap<&'a str, usize>,
}

impl<'a> Graph<'a> {
    fn add(&mut self, schema: &'a Value) -> usize {
        let mut node = Node { reference: target_name(schema), ..Node::default() };
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            match keyword.as_str() {
                "allOf" | "anyOf" | "oneOf" => node.same.extend(self.add_list(value)),
                "not" | "if" | "then" | "else" | "propertyNames" => node.same.push(self.add(value)),
                "dependentSchemas" => node.same.extend(self.add_map(value)),
                "properties" => node.properties.extend(self.add_map(value)),
                "patternProperties" => node.any_property.extend(self.add_map(value)),
                "additionalProperties" | "unevaluatedProperties" => node.any_property.push(self.add(value)),
                "items" | "contains" | "unevaluatedItems" => node.items.push(self.add(value)),
                "prefixItems" => node.items.extend(self.add_list(value)),
                _ => {}
            }
        }
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn add_list(&mut self, schemas: &'a Value) -> Vec<usize> {
        schemas.as_array().into_iter().flatten().map(|schema| self.add(schema)).collect()
    }

    fn add_map(&mut self, schemas: &'a Value) -> Vec<usize> {
        schemas.as_object().into_iter().flat_map(Map::values).map(|schema| self.add(schema)).collect()
    }

    fn link(&mut self) {
        for node in &mut self.nodes {
            node.same.extend(node.reference.and_then(|name| self.definitions.get(name)));
        }
    }

    /// The nodes, each after those that apply with it; `None` when some apply without end, or too many in a row.
    fn order(&self) -> Option<Vec<usize>> {
        let mut above: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut open: Vec<usize> = self.nodes.iter().map(|node| node.same.len()).collect();
        let mut chain = vec![1_usize; self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for &below in &node.same {
                above[below].push(index);
            }
        }
        let mut order: Vec<usize> = (0..self.nodes.len()).filter(|&index| open[index] == 0).collect();
        let mut next = 0;
        while let Some(&index) = order.get(next) {
            next += 1;
            if chain[index] > MAX_CHAIN {
                return None;
            }
            for &upper in &above[index] {
                chain[upper] = chain[upper].max(chain[index] + 1);
                open[upper] -= 1;
                if open[upper] == 0 {
                    order.push(upper);
                }
            }
        }
        (order.len() == self.nodes.len()).then_some(order)
    }

    /// The work of each schema at places `depth` below where it applies, from the work one level higher up.
    fn next_layer(&self, order: &[usize], before: &[u64], depth: usize) -> Vec<u64> {
        let mut layer = vec![0_u64; self.nodes.len()];
        let sum = |nodes: &[usize], work: &[u64]| nodes.iter().fold(0_u64, |sum, &node| sum.saturating_add(work[node]));
        for &index in order {
            let node = &self.nodes[index];
            let below = if depth == 0 {
                1
            } else {
                let named = node.properties.iter().map(|&property| before[property]).max().unwrap_or(0);
                sum(&node.items, before).max(named.saturating_add(sum(&node.any_property, before)))
            };
            layer[index] = below.saturating_add(sum(&node.same, &layer));
        }
        layer
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_and_recursive_schemas_cost_the_same_at_every_depth() {
        let flat = json!({"properties": {"a": {"type": "string"}, "b": {"anyOf": [{}, {}]}}});
        assert_eq!(Cost::of(&flat).unwrap().peaks, [1, 3]);
        let node = json!({"properties": {"left": {"$ref": "#/$defs/N"}, "right": {"$ref": "#/$defs/N"}}});
        let tree = json!({"$ref": "#/$defs/N", "$defs": {"N": node}});
        let cost = Cost::of(&tree).unwrap();
        assert_eq!(cost.peaks.first(), cost.peaks.last());
    }

    #[test]
    fn what_multiplies_or_never_ends_is_seen() {
        let twice = json!({"anyOf": [{"properties": {"x": {"$ref": "#/$defs/N"}}}, {"properties": {"x": {"$ref": "#/$defs/N"}}}]});
        let cost = Cost::of(&json!({"$ref": "#/$defs/N", "$defs": {"N": twice}})).unwrap();
        assert!(cost.peaks[30] > MAX_WORK && cost.peaks[2] < 100);
        assert!(Cost::of(&json!({"$ref": "#/$defs/N", "$defs": {"N": {"allOf": [{"$ref": "#/$defs/N"}]}}})).is_none());
        let chain: Map<String, Value> =
            (0..100).map(|level| (format!("L{level}"), json!({"$ref": format!("#/$defs/L{}", level + 1)}))).collect();
        assert!(Cost::of(&json!({"$ref": "#/$defs/L0", "$defs": chain})).is_none());
    }
}

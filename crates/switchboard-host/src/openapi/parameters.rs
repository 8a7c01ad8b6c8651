//! Parameters of paths and queries, each described once.

use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, RefOr, Required, Type};

use switchboard::catalogue::ToolFormat;

use crate::call_table::CallState;

/// The parameters in braces in `path`.
pub(super) fn of_path(path: &str) -> impl Iterator<Item = Parameter> {
    let names = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| {
        let text = match name {
            "agent" => "The agent, in kebab-case",
            "instance" => "The instance, 1 to 128 characters",
            _ => "The id of a server or a call",
        };
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(text))
            .schema(Some(kind(Type::String)))
            .build()
    })
}

/// The query parameters of these names.
pub(super) fn of_query(names: &[&str]) -> impl Iterator<Item = Parameter> {
    names.iter().map(|name| {
        let (name, text, schema) = described(name);
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Query)
            .description(Some(text))
            .schema(Some(schema))
            .build()
    })
}

/// Name, text and schema. `callState` is the parameter `state` where it means calls.
fn described(name: &str) -> (&str, &'static str, Schema) {
    const STATES: [&str; 7] = ["connecting", "connected", "discovering", "ready", "authenticating", "failed", "closed"];
    match name {
        "serverId" => (name, "Only of servers with one of these ids; may repeat", many(kind(Type::String))),
        "serverName" => (name, "Only of servers with one of these names; may repeat", many(kind(Type::String))),
        "state" => (name, "Only of servers in one of these states; may repeat", many(one_of(&STATES))),
        "callState" => (
            "state",
            "Only calls in one of these states; may repeat",
            many(one_of(&CallState::ALL.map(|(name, _)| name))),
        ),
        "format" => (name, "The shape in which tools are sent", one_of(&ToolFormat::ALL.map(ToolFormat::name))),
        "limit" => (name, "The most items of one page; all without it", kind(Type::Integer)),
        "brief" => (name, "`true`: without the lists; how long they are stands with each server", kind(Type::Boolean)),
        "after" => (name, "The number of the last event that is known", kind(Type::Integer)),
        _ => (name, "The `nextCursor` of the page before", kind(Type::String)),
    }
}

fn kind(kind: Type) -> Schema {
    ObjectBuilder::new().schema_type(kind).into()
}

fn one_of(names: &[&str]) -> Schema {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names.iter().copied())).into()
}

fn many(items: Schema) -> Schema {
    ArrayBuilder::new().items(RefOr::T(items)).into()
}

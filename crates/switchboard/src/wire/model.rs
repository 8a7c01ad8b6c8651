//! Typed views of what a server lists and answers. Each keeps the bytes it was read from, unknown members included.

use std::ops::Range;

use bytes::Bytes;
use serde::{Serialize, Serializer};

use super::Json;
use super::meta::{ParamHeader, param_headers};
use super::scan::Cursor;

/// One item of a list: a tool, a prompt, a resource or a resource template, known by its name or its URI.
#[derive(Debug, Clone, PartialEq)]
pub struct ListItem {
    json: Json,
    key: Box<str>,
}

impl ListItem {
    /// The whole item, byte for byte.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// Its name, URI or URI template.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl Serialize for ListItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

/// A tool, as the server listed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    item: ListItem,
    input_schema: Option<Json>,
    output_schema: Option<Json>,
    annotations: Option<Json>,
    param_headers: Option<Box<[ParamHeader]>>,
    header_fault: Option<Box<str>>,
}

impl Tool {
    /// The whole item, byte for byte.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.item.json
    }

    /// The server's own name for it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.item.key
    }

    /// The schema of its arguments; absent when the server sent none.
    #[must_use]
    pub fn input_schema(&self) -> Option<&Json> {
        self.input_schema.as_ref()
    }

    /// The schema of its structured results.
    #[must_use]
    pub fn output_schema(&self) -> Option<&Json> {
        self.output_schema.as_ref()
    }

    /// The server's hints about what it does; not to be trusted unless the server is.
    #[must_use]
    pub fn annotations(&self) -> Option<&Json> {
        self.annotations.as_ref()
    }

    /// Parameters that revision 2026-07-28 mirrors into HTTP headers.
    #[must_use]
    pub fn param_headers(&self) -> &[ParamHeader] {
        self.param_headers.as_deref().unwrap_or_default()
    }

    /// Why the parameters that it declares for HTTP headers cannot be mirrored. Such a tool may not be offered where they
    /// have to be: over Streamable HTTP in the modern era. Elsewhere it is a tool like any other.
    #[must_use]
    pub fn header_fault(&self) -> Option<&str> {
        self.header_fault.as_deref()
    }

    /// Its description, when it has one.
    #[must_use]
    pub fn description(&self) -> Option<String> {
        text_member(self.json(), "description")
    }

    /// Its title: its own, else the one among its annotations.
    #[must_use]
    pub fn title(&self) -> Option<String> {
        text_member(self.json(), "title").or_else(|| text_member(self.annotations.as_ref()?, "title"))
    }
}

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.item.serialize(serializer)
    }
}

/// An item of a list that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadItem {
    /// Its name, when it has one, else its place in the list.
    pub item: String,
    /// What is wrong with it.
    pub reason: String,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items that can be used, in order.
    pub items: Vec<T>,
    /// Those that cannot.
    pub bad: Vec<BadItem>,
    /// Where the next page begins.
    pub next_cursor: Option<Json>,
}

/// The kinds of lists that a server may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    ResourceTemplates,
}

impl ListKind {
    /// Every list.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::ResourceTemplates];

    /// The method that lists them.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::ResourceTemplates => "resources/templates/list",
        }
    }

    /// The member of the result that holds the items.
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
        }
    }

    /// The server capability that announces it.
    #[must_use]
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::ResourceTemplates => "resources",
        }
    }

    /// The member of an item by which it is known.
    const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::ResourceTemplates => "uriTemplate",
        }
    }
}

/// The spans of a page's items and of its cursor.
struct PageSpans {
    items: Vec<ItemSpans>,
    next_cursor: Option<Range<usize>>,
}

/// Where an item is, and the members of it that we look at.
struct ItemSpans {
    whole: Range<usize>,
    key: Option<Range<usize>>,
    input_schema: Option<Range<usize>>,
    output_schema: Option<Range<usize>>,
    annotations: Option<Range<usize>>,
}

/// Reads a page of tools from the result of `tools/list`. A bad tool costs itself.
///
/// # Errors
/// When the result has no list of tools.
pub fn tools_page(result: &Json) -> Result<Page<Tool>, String> {
    read_page(result, ListKind::Tools, tool_parts, |item, parts| Tool {
        item,
        input_schema: parts.input_schema,
        output_schema: parts.output_schema,
        annotations: parts.annotations,
        param_headers: parts.param_headers,
        header_fault: parts.header_fault,
    })
}

/// Reads a page of prompts, resources or resource templates. A bad item costs itself.
///
/// # Errors
/// When the result has no such list.
pub fn items_page(result: &Json, kind: ListKind) -> Result<Page<ListItem>, String> {
    read_page(result, kind, |_, _| Ok(()), |item, ()| item)
}

/// What a tool has besides its bytes and its name.
struct ToolParts {
    input_schema: Option<Json>,
    output_schema: Option<Json>,
    annotations: Option<Json>,
    param_headers: Option<Box<[ParamHeader]>>,
    header_fault: Option<Box<str>>,
}

fn tool_parts(spans: ItemSpans, cut: &dyn Fn(Range<usize>) -> Json) -> Result<ToolParts, String> {
    let input_schema = spans.input_schema.map(cut).filter(|schema| !schema.is_null());
    if input_schema.as_ref().is_some_and(|schema| !schema.is_object()) {
        return Err("its input schema is not an object".to_owned());
    }
    let (param_headers, header_fault) = match input_schema.as_ref().map_or_else(|| Ok(Vec::new()), param_headers) {
        Ok(headers) => (headers, None),
        Err(fault) => (Vec::new(), Some(fault.into())),
    };
    Ok(ToolParts {
        input_schema,
        // A schema may also be `true`, which says nothing.
        output_schema: spans.output_schema.map(cut).filter(Json::is_object),
        annotations: spans.annotations.map(cut).filter(Json::is_object),
        param_headers: (!param_headers.is_empty()).then(|| param_headers.into()),
        header_fault,
    })
}

fn read_page<P, T>(
    result: &Json,
    kind: ListKind,
    parts: impl Fn(ItemSpans, &dyn Fn(Range<usize>) -> Json) -> Result<P, String>,
    build: impl Fn(ListItem, P) -> T,
) -> Result<Page<T>, String> {
    let spans = page_spans(result, kind)?;
    let bytes = result.as_bytes();
    let cut = |span: Range<usize>| Json::trusted(bytes.slice(span));
    let mut page = Page {
        items: Vec::with_capacity(spans.items.len()),
        bad: Vec::new(),
        next_cursor: spans.next_cursor.map(cut).filter(|cursor| !cursor.is_null()),
    };
    for (index, item) in spans.items.into_iter().enumerate() {
        let json = cut(item.whole.clone());
        match read_key(bytes, &item, kind) {
            Err(reason) => page.bad.push(BadItem { item: format!("#{index}"), reason }),
            Ok(key) => match parts(item, &cut) {
                Err(reason) => page.bad.push(BadItem { item: key.into(), reason }),
                Ok(parts) => page.items.push(build(ListItem { json, key }, parts)),
            },
        }
    }
    Ok(page)
}

fn read_key(bytes: &Bytes, item: &ItemSpans, kind: ListKind) -> Result<Box<str>, String> {
    let span = item.key.clone().ok_or_else(|| format!("it has no `{}`", kind.key()))?;
    let quoted = &bytes[span];
    let plain = quoted.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let key: Box<str> = match plain.filter(|plain| !plain.contains(&b'\\')).map(std::str::from_utf8) {
        Some(Ok(plain)) => plain.into(),
        _ => serde_json::from_slice(quoted).map_err(|_| format!("its `{}` is not a string", kind.key()))?,
    };
    if key.trim().is_empty() {
        return Err(format!("its `{}` is empty", kind.key()));
    }
    Ok(key)
}

fn page_spans(result: &Json, kind: ListKind) -> Result<PageSpans, String> {
    let mut cursor = Cursor::new(result.as_bytes());
    let mut spans = PageSpans { items: Vec::new(), next_cursor: None };
    let mut has_list = false;
    if cursor.enter_object() {
        while let Some(name) = cursor.next_member() {
            let name = cursor.slice(&name);
            if name == kind.member().as_bytes() && cursor.enter_array() {
                has_list = true;
                while cursor.next_element() {
                    spans.items.push(item_spans(&mut cursor, kind.key().as_bytes()));
                }
            } else if name == kind.member().as_bytes() {
                // What some languages write for an empty list.
                let value = cursor.skip();
                has_list |= cursor.slice(&value) == b"null";
            } else if name == b"nextCursor" {
                spans.next_cursor = Some(cursor.skip());
            } else {
                cursor.skip();
            }
        }
    }
    if has_list { Ok(spans) } else { Err(format!("the result has no list `{}`", kind.member())) }
}

fn item_spans(cursor: &mut Cursor<'_>, key: &[u8]) -> ItemSpans {
    cursor.peek();
    let start = cursor.position();
    let mut item =
        ItemSpans { whole: start..start, key: None, input_schema: None, output_schema: None, annotations: None };
    if !cursor.enter_object() {
        item.whole = cursor.skip();
        return item;
    }
    while let Some(name) = cursor.next_member() {
        let name = cursor.slice(&name);
        let value = cursor.skip();
        match name {
            _ if name == key => item.key = Some(value),
            b"inputSchema" => item.input_schema = Some(value),
            b"outputSchema" => item.output_schema = Some(value),
            b"annotations" => item.annotations = Some(value),
            _ => {}
        }
    }
    item.whole = start..cursor.position();
    item
}

/// What matters of a tool's result besides its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResultFlags {
    /// `isError`: the tool failed; the content says why.
    pub is_error: bool,
    /// `resultType` is `input_required`: the server asks something first (2026-07-28, multi round-trip requests).
    pub needs_input: bool,
    /// `resultType` is something that we do not know, which makes the result invalid.
    pub is_unknown_type: bool,
}

/// Reads the flags of a result in one pass over its top level.
#[must_use]
pub fn result_flags(result: &Json) -> ResultFlags {
    let mut flags = ResultFlags::default();
    let mut cursor = Cursor::new(result.as_bytes());
    if cursor.enter_object() {
        while let Some(name) = cursor.next_member() {
            let name = cursor.slice(&name);
            let value = cursor.skip();
            match (name, cursor.slice(&value)) {
                (b"isError", b"true") => flags.is_error = true,
                (b"resultType", b"\"complete\"" | b"null") => {}
                (b"resultType", b"\"input_required\"") => flags.needs_input = true,
                (b"resultType", _) => flags.is_unknown_type = true,
                _ => {}
            }
        }
    }
    flags
}

/// The value of the top-level member `name` of an object.
#[must_use]
pub fn member(object: &Json, name: &str) -> Option<Json> {
    let mut cursor = Cursor::new(object.as_bytes());
    let mut found = None;
    if cursor.enter_object() {
        while let Some(key) = cursor.next_member() {
            let key = cursor.slice(&key);
            let value = cursor.skip();
            if key == name.as_bytes() {
                found = Some(Json::trusted(object.as_bytes().slice(value)));
            }
        }
    }
    found
}

/// The same as text; nothing when it is something else. The other members may be nested too deep for a tree.
fn text_member(object: &Json, name: &str) -> Option<String> {
    member(object, name)?.read().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        text.parse().unwrap()
    }

    #[test]
    fn tools_keep_their_bytes_and_unknown_members() {
        let text = r#"{"name":"a","inputSchema":{"type":"object"},"execution": {"x":  1},"n":12345678901234567890}"#;
        let page = tools_page(&json(&format!(r#"{{"tools":[ {text} ],"nextCursor":"c"}}"#))).unwrap();
        assert_eq!(page.items[0].json().as_str(), text);
        assert_eq!(page.items[0].input_schema().unwrap().as_str(), r#"{"type":"object"}"#);
        assert_eq!(page.next_cursor, Some(json("\"c\"")));
    }

    #[test]
    fn b063_a_bad_tool_costs_itself_and_is_named() {
        let page = tools_page(&json(
            r#"{"tools":[{"name":"good"},5,{"title":"no name"},{"name":""},{"name":7},{"name":"s","inputSchema":[]},
                {"name":"h","inputSchema":{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}},{"name":"o","outputSchema":true}]}"#,
        ))
        .unwrap();
        assert_eq!(page.items.iter().map(Tool::name).collect::<Vec<_>>(), ["good", "h", "o"]);
        assert!(page.items[1].header_fault().is_some() && page.items[0].header_fault().is_none());
        assert_eq!(page.bad.iter().map(|bad| bad.item.as_str()).collect::<Vec<_>>(), ["#1", "#2", "#3", "#4", "s"]);
    }

    #[test]
    fn b085_a_null_cursor_is_none() {
        assert_eq!(tools_page(&json(r#"{"tools":[],"nextCursor":null}"#)).unwrap().next_cursor, None);
    }

    #[test]
    fn a_result_without_the_list_is_refused() {
        for text in ["{}", "[]", r#"{"tools":{}}"#, r#"{"tools":"null"}"#] {
            assert!(tools_page(&json(text)).is_err(), "{text}");
        }
        assert_eq!(tools_page(&json(r#"{"tools": null }"#)).unwrap().items, []);
    }

    #[test]
    fn names_with_escapes_are_read() {
        let page = items_page(&json(r#"{"resources":[{"uri":"a\u00e9\"b"}]}"#), ListKind::Resources).unwrap();
        assert_eq!(page.items[0].key(), "aé\"b");
    }

    #[test]
    fn flags_are_read_at_the_top_level_only() {
        let flags = |text| result_flags(&json(text));
        assert!(flags(r#"{"content":[],"isError":true}"#).is_error);
        assert!(!flags(r#"{"structuredContent":{"isError":true}}"#).is_error);
        assert!(flags(r#"{"resultType":"input_required"}"#).needs_input);
        assert!(flags(r#"{"resultType":"task"}"#).is_unknown_type);
        assert_eq!(flags(r#"{"resultType":"complete"}"#), ResultFlags::default());
    }
}

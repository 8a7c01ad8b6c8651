//! One operation, described in the words that its route gives.

use std::collections::BTreeMap;

use http::StatusCode;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{self, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{ContentBuilder, HeaderBuilder, ObjectBuilder, Ref, Required, ResponseBuilder, Type};

use super::parameters;
use crate::code::Code;

const JSON: &str = "application/json";

/// What a route says of itself.
#[derive(Debug)]
pub(crate) struct Operation {
    tag: &'static str,
    id: &'static str,
    summary: &'static str,
    query: &'static [&'static str],
    takes: Option<&'static str>,
    /// Whether the body may be left out.
    may_be_empty: bool,
    prefers_async: bool,
    answers: Vec<Answer>,
    streams: Option<&'static str>,
    fails: Vec<Code>,
}

/// One successful answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    text: &'static str,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Json(&'static str),
    Text,
    Nothing,
}

impl Operation {
    pub(crate) fn new(tag: &'static str, id: &'static str, summary: &'static str) -> Self {
        Self {
            tag,
            id,
            summary,
            query: &[],
            takes: None,
            may_be_empty: false,
            prefers_async: false,
            answers: Vec::new(),
            streams: None,
            fails: Vec::new(),
        }
    }

    /// Takes these query parameters, by their names in [`parameters`].
    pub(crate) fn query(mut self, names: &'static [&'static str]) -> Self {
        self.query = names;
        self
    }

    /// Takes a body of that schema.
    pub(crate) fn takes(mut self, schema: &'static str) -> Self {
        self.takes = Some(schema);
        self
    }

    /// Takes a body of that schema, or none.
    pub(crate) fn may_take(mut self, schema: &'static str) -> Self {
        self.may_be_empty = true;
        self.takes(schema)
    }

    /// Obeys `Prefer: respond-async`.
    pub(crate) fn prefers_async(mut self) -> Self {
        self.prefers_async = true;
        self
    }

    /// Answers with JSON of that schema.
    pub(crate) fn answers(mut self, status: u16, text: &'static str, schema: &'static str) -> Self {
        self.answers.push(Answer { status, text, content: Content::Json(schema) });
        self
    }

    /// Answers with plain text.
    pub(crate) fn text(mut self) -> Self {
        self.answers.push(Answer { status: 200, text: "the text", content: Content::Text });
        self
    }

    /// Answers with nothing.
    pub(crate) fn empty(mut self) -> Self {
        self.answers.push(Answer { status: 204, text: "it is so", content: Content::Nothing });
        self
    }

    /// Also answers with a stream of events of that schema.
    pub(crate) fn streams(mut self, schema: &'static str) -> Self {
        self.streams = Some(schema);
        self
    }

    /// Fails with these codes, besides those that every path can fail with.
    pub(crate) fn fails(mut self, codes: &[Code]) -> Self {
        self.fails.extend_from_slice(codes);
        self
    }

    /// The operation of `path`, whose parameters are read from it.
    pub(super) fn build(self, path: &str) -> path::Operation {
        let mut operation = OperationBuilder::new()
            .tag(self.tag)
            .operation_id(Some(self.id))
            .summary(Some(self.summary))
            .parameters(Some(parameters::of_path(path).chain(parameters::of_query(self.query))));
        if self.prefers_async {
            operation = operation.parameter(prefer());
        }
        if let Some(schema) = self.takes {
            let required = if self.may_be_empty { Required::False } else { Required::True };
            let body = RequestBodyBuilder::new().content(JSON, content(schema)).required(Some(required));
            operation = operation.request_body(Some(body.build()));
        }
        for answer in &self.answers {
            operation = operation.response(answer.status.to_string(), self.response(answer));
        }
        for (status, codes) in self.failures() {
            operation = operation.response(status.to_string(), problem(&codes));
        }
        operation.response("default", problem(&["any other problem"])).build()
    }

    fn response(&self, answer: &Answer) -> ResponseBuilder {
        let response = ResponseBuilder::new().description(answer.text);
        let response = match answer.content {
            Content::Json(schema) => response.content(JSON, content(schema)),
            Content::Text => response.content("text/plain", ContentBuilder::new().schema(Some(string())).build()),
            Content::Nothing => response,
        };
        let response = match self.streams {
            Some(schema) => response.content("text/event-stream", content(schema)),
            None => response,
        };
        match answer.status {
            201 | 202 => response.header("Location", text_header("where it is to be found")),
            200 if self.prefers_async => response.header(
                "Switchboard-Warning",
                text_header("`output-schema` when the result does not fit the tool's output schema"),
            ),
            _ => response,
        }
    }

    /// The codes by status, those of a body added where there is one.
    fn failures(&self) -> BTreeMap<u16, Vec<&'static str>> {
        let of_bodies = [
            Code::Kind(switchboard::ErrorKind::InvalidInput),
            Code::UnsupportedMediaType,
            Code::BodyTooLarge,
            Code::BodyTimeout,
        ];
        let of_bodies = of_bodies.into_iter().filter(|_| self.takes.is_some());
        let mut by_status = BTreeMap::<u16, Vec<&'static str>>::new();
        for code in self.fails.iter().copied().chain(of_bodies) {
            let codes = by_status.entry(StatusCode::as_u16(&code.status())).or_default();
            if !codes.contains(&code.text()) {
                codes.push(code.text());
            }
        }
        // An answer that is not a problem keeps its status.
        by_status.retain(|status, _| self.answers.iter().all(|answer| answer.status != *status));
        by_status
    }
}

fn content(schema: &str) -> utoipa::openapi::Content {
    ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build()
}

fn problem(codes: &[&str]) -> ResponseBuilder {
    ResponseBuilder::new().description(codes.join(", ")).content("application/problem+json", content("Problem"))
}

fn string() -> Schema {
    ObjectBuilder::new().schema_type(Type::String).into()
}

fn text_header(text: &str) -> Header {
    HeaderBuilder::new().schema(Some(string())).description(Some(text)).build()
}

fn prefer() -> Parameter {
    ParameterBuilder::new()
        .name("Prefer")
        .parameter_in(ParameterIn::Header)
        .description(Some("`respond-async`: answer at once, with where to ask for the outcome"))
        .schema(Some(string()))
        .build()
}

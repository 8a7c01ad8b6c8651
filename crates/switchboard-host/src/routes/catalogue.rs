//! The merged catalogue: tools, prompts, resources and resource templates, filtered and in pages.

use axum::response::Response;
use http::{StatusCode, Uri};
use serde::Serialize;
use switchboard::catalogue::ToolFormat;
use switchboard::manager::{Entry, ToolEntry};
use switchboard::{ErrorKind, Filter};

use super::Routes;
use crate::address::At;
use crate::body::json;
use crate::code::Code;
use crate::formats;
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::query::Parameters;

/// The parameters of every list.
const LIST: [&str; 5] = ["serverId", "serverName", "state", "limit", "cursor"];
/// The parameters of the list of tools.
const TOOLS: [&str; 6] = ["serverId", "serverName", "state", "format", "limit", "cursor"];

/// One page of one list; the member that is there names the list.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_templates: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl<T> Listed<T> {
    fn empty(next_cursor: Option<String>) -> Self {
        Self { tools: None, prompts: None, resources: None, resource_templates: None, next_cursor }
    }
}

pub(super) fn routes(routes: Routes) -> Routes {
    let list = |id, summary, schema| {
        Operation::new("catalogue", id, summary)
            .query(&LIST)
            .answers(200, "the items of the servers that fit", schema)
            .fails(&[Code::Kind(ErrorKind::InvalidInput)])
    };
    routes
        .get(
            "~/tools",
            tools,
            Operation::new(
                "catalogue",
                "listTools",
                "Tools, as their servers list them or as a model provider takes them",
            )
            .query(&TOOLS)
            .answers(200, "the tools of the servers that fit", "ToolList")
            .fails(&[Code::Kind(ErrorKind::InvalidInput)]),
        )
        .get("~/prompts", prompts, list("listPrompts", "Prompts", "PromptList"))
        .get("~/resources", resources, list("listResources", "Resources", "ResourceList"))
        .get(
            "~/resource-templates",
            resource_templates,
            list("listResourceTemplates", "Resource templates", "ResourceTemplateList"),
        )
}

async fn tools(at: At, uri: Uri) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &TOOLS)?;
    let format =
        parameters.one("format")?.map_or(Ok(ToolFormat::Mcp), str::parse).map_err(|error| Problem::of(&error))?;
    let (filter, page) = (parameters.filter()?, parameters.page()?);
    if format == ToolFormat::Mcp {
        let (tools, next_cursor) = page.of(at.manager.tools(&filter), identity_of_tool);
        return json(StatusCode::OK, &Listed { tools: Some(tools), ..Listed::empty(next_cursor) });
    }
    let (tools, next_cursor) = formats::page(&at.manager, format, &filter, &page)?;
    json(StatusCode::OK, &Listed { tools: Some(tools), ..Listed::empty(next_cursor) })
}

async fn prompts(at: At, uri: Uri) -> Result<Response, Problem> {
    let (prompts, next_cursor) = page(&uri, |filter| at.manager.prompts(filter))?;
    json(StatusCode::OK, &Listed { prompts: Some(prompts), ..Listed::empty(next_cursor) })
}

async fn resources(at: At, uri: Uri) -> Result<Response, Problem> {
    let (resources, next_cursor) = page(&uri, |filter| at.manager.resources(filter))?;
    json(StatusCode::OK, &Listed { resources: Some(resources), ..Listed::empty(next_cursor) })
}

async fn resource_templates(at: At, uri: Uri) -> Result<Response, Problem> {
    let (templates, next_cursor) = page(&uri, |filter| at.manager.resource_templates(filter))?;
    json(StatusCode::OK, &Listed { resource_templates: Some(templates), ..Listed::empty(next_cursor) })
}

/// The page that `uri` asks for of the items that `list` has for its filter.
fn page(uri: &Uri, list: impl FnOnce(&Filter) -> Vec<Entry>) -> Result<(Vec<Entry>, Option<String>), Problem> {
    let parameters = Parameters::read(uri, &LIST)?;
    let page = parameters.page()?;
    Ok(page.of(list(&parameters.filter()?), |entry| (entry.server.clone(), entry.item.key().to_owned())))
}

fn identity_of_tool(tool: &ToolEntry) -> (String, String) {
    (tool.server.to_string(), tool.key.to_string())
}

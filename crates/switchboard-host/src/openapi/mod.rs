//! The description of the API (OpenAPI 3.1), made from the same calls that make the router.

mod operation;
mod parameters;
mod schemas;

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{InfoBuilder, LicenseBuilder, OpenApiBuilder, PathItem, PathsBuilder, SecurityRequirement, Tag};

use crate::routes::{self, Described, Routes};

pub(crate) use operation::Operation;

const ABOUT: &str = "Many MCP servers as one: registered, connected, called. Paths under `/agents/{agent}/{instance}` belong to \
one instance of an agent; the program's own is `/agents/switchboard/default`. Every failure is a problem document (RFC 9457) \
with a stable `code`. Objects of MCP are passed on as the server sent them.";

/// The description of the API as JSON, as `GET /openapi.json` answers it.
#[must_use]
pub fn openapi_json() -> String {
    document(routes::all(Routes::default()).into_parts().1)
}

/// The description of these operations.
pub(crate) fn document(operations: Vec<Described>) -> String {
    let paths = operations.into_iter().fold(PathsBuilder::new(), |paths, described| {
        let operation = described.operation.build(&described.path);
        paths.path(described.path, PathItem::new(described.method, operation))
    });
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = schemas::components().security_scheme("bearer", SecurityScheme::Http(bearer)).build();
    let document = OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Switchboard")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(ABOUT))
                .license(Some(
                    LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build(),
                )),
        )
        .tags(Some(TAGS.map(|(name, text)| {
            let mut tag = Tag::new(name);
            tag.description = Some(text.to_owned());
            tag
        })))
        .paths(paths)
        .components(Some(components))
        // No token is needed on the loopback, unless one is configured.
        .security(Some([SecurityRequirement::default(), SecurityRequirement::new("bearer", Vec::<String>::new())]))
        .build();
    // Maps with string keys and nothing that can fail to serialise.
    document.to_pretty_json().unwrap_or_default()
}

const TAGS: [(&str, &str); 5] = [
    ("servers", "Servers: registered, changed, connected, closed, removed"),
    ("catalogue", "What the servers offer, merged"),
    ("calls", "Requests to servers"),
    ("events", "What happened"),
    ("daemon", "The daemon itself"),
];

#[cfg(test)]
mod tests;

//! Every path, each with the handler that answers it and the description of what it takes and gives.

mod call;
mod calls;
mod catalogue;
mod drift;
mod events;
mod health;
mod notices;
mod servers;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use utoipa::openapi::HttpMethod;

use crate::app::App;
use crate::openapi::Operation;

pub(crate) use call::{CompleteRequest, PromptRequest, ResourceRequest, ToolRequest};
pub(crate) use drift::ApproveRequest;
pub(crate) use notices::{LogLevelRequest, SubscriptionRequest};

/// Where instances live.
const INSTANCE: &str = "/agents/{agent}/{instance}";

/// Routes and their descriptions, always added together, so that neither is ever without the other.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<App>,
    operations: Vec<Described>,
}

/// One method of one path, described.
pub(crate) struct Described {
    pub(crate) path: String,
    pub(crate) method: HttpMethod,
    pub(crate) operation: Operation,
}

impl Routes {
    pub(crate) fn into_parts(self) -> (Router<App>, Vec<Described>) {
        (self.router, self.operations)
    }

    /// `GET` of a path.
    fn get<T: 'static>(self, path: &str, handler: impl Handler<T, App>, operation: Operation) -> Self {
        self.add((HttpMethod::Get, MethodFilter::GET), path, handler, operation)
    }

    /// `POST` to a path.
    fn post<T: 'static>(self, path: &str, handler: impl Handler<T, App>, operation: Operation) -> Self {
        self.add((HttpMethod::Post, MethodFilter::POST), path, handler, operation)
    }

    /// `PATCH` of a path.
    fn patch<T: 'static>(self, path: &str, handler: impl Handler<T, App>, operation: Operation) -> Self {
        self.add((HttpMethod::Patch, MethodFilter::PATCH), path, handler, operation)
    }

    /// `DELETE` of a path.
    fn delete<T: 'static>(self, path: &str, handler: impl Handler<T, App>, operation: Operation) -> Self {
        self.add((HttpMethod::Delete, MethodFilter::DELETE), path, handler, operation)
    }

    /// A path that begins with `~` is relative to an instance.
    fn add<T: 'static>(
        mut self,
        (method, filter): (HttpMethod, MethodFilter),
        path: &str,
        handler: impl Handler<T, App>,
        operation: Operation,
    ) -> Self {
        let path = path.strip_prefix('~').map_or_else(|| path.to_owned(), |rest| format!("{INSTANCE}{rest}"));
        self.router = self.router.route(&path, on(filter, handler));
        self.operations.push(Described { path, method, operation });
        self
    }
}

/// All of them.
pub(crate) fn all(routes: Routes) -> Routes {
    [
        health::routes,
        servers::routes,
        catalogue::routes,
        drift::routes,
        events::routes,
        notices::routes,
        call::routes,
        calls::routes,
    ]
    .into_iter()
    .fold(routes, |routes, add| add(routes))
}

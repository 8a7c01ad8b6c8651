//! What a path names: an instance, and inside it a server or a call.

use std::ops::Deref;
use std::sync::Arc;

use axum::RequestPartsExt;
use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use switchboard::{Error, ServerId};

use crate::app::App;
use crate::code::Code;
use crate::host::HostError;
use crate::instance::{Instance, InstanceName};
use crate::problem::Problem;

/// The instance at `/agents/{agent}/{instance}`, opened when it is not.
pub(crate) struct At(Arc<Instance>);

impl At {
    /// What the library reports about a server of this instance.
    pub(crate) fn problem(&self, error: &Error) -> Problem {
        Problem::of_server(error, &self.manager)
    }
}

impl Deref for At {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        &self.0
    }
}

impl FromRequestParts<App> for At {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let agent = parameter(parts, "agent").await?;
        let instance = parameter(parts, "instance").await?;
        let name = InstanceName::new(&agent, &instance).map_err(|error| Problem::of(&error))?;
        Ok(Self(app.host().instance(&name).await?))
    }
}

/// The server at `/servers/{id}`, under its normalised id.
pub(crate) struct Server(pub(crate) ServerId);

impl FromRequestParts<App> for Server {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let id = parameter(parts, "id").await?;
        ServerId::parse(&id).map(Self).map_err(|error| Problem::of(&error))
    }
}

/// The call at `/calls/{id}`.
pub(crate) struct CallId(pub(crate) String);

impl FromRequestParts<App> for CallId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        parameter(parts, "id").await.map(Self)
    }
}

/// The decoded segment of that name.
async fn parameter(parts: &mut Parts, name: &str) -> Result<String, Problem> {
    let parameters = parts
        .extract::<RawPathParams>()
        .await
        .map_err(|rejection| Problem::invalid_at("", format!("the path cannot be read: {}", rejection.body_text())))?;
    let value = parameters.iter().find(|(given, _)| *given == name).map(|(_, value)| value.to_owned());
    // The router matched a path with this name in it.
    value.ok_or_else(|| Problem::new(Code::NotFound, format!("the path names no {name}")))
}

impl From<HostError> for Problem {
    fn from(error: HostError) -> Self {
        let detail = error.to_string();
        match error {
            HostError::UnknownAgent { known, .. } => {
                Self::new(Code::UnknownAgent, detail).with(|members| members.nearest = known)
            }
            HostError::TooManyInstances { .. } => Self::new(Code::TooManyInstances, detail),
            HostError::Stopping => Self::new(Code::Stopping, detail),
            HostError::Open(error) => Self::of(&error),
        }
    }
}

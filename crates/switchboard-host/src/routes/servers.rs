//! Servers: registered, changed, connected, closed, removed.

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, Uri, header};
use serde::Serialize;
use serde_json::{Map, Value};
use switchboard::manager::SettingsPatch;
use switchboard::spec::SpecDocument;
use switchboard::{Added, ErrorKind, Registered, ServerId, ServerSpec, State as ServerState};

use super::Routes;
use crate::access::Caller;
use crate::address::{At, Server};
use crate::app::App;
use crate::body::{Input, json};
use crate::code::Code;
use crate::openapi::Operation;
use crate::problem::{ErrorObject, Problem};
use crate::query::Parameters;

/// Members of a registration that say what runs on this machine. Only those who may register commands may change them:
/// a variable such as `LD_PRELOAD` is as good as a command.
const OF_COMMANDS: [&str; 5] = ["command", "args", "env", "inheritEnv", "cwd"];

/// The parameters of the state of all servers.
const OVERVIEW: [&str; 1] = ["brief"];

/// How an attempt to connect ended.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Standing {
    id: ServerId,
    state: ServerState,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
}

pub(super) fn routes(routes: Routes) -> Routes {
    use ErrorKind::{BlockedUrl, IdInUse, InvalidInput, UnknownServer};
    let standing = |operation: Operation| {
        operation.answers(200, "how the attempt ended", "Standing").fails(&[Code::Kind(UnknownServer)])
    };
    routes
        .get(
            "~/servers",
            list,
            Operation::new("servers", "listServers", "All servers with all that they offer").query(&OVERVIEW).answers(
                200,
                "the state of all servers",
                "ServersState",
            ),
        )
        .post(
            "~/servers",
            add,
            Operation::new("servers", "addServer", "Registers a server, connects to it and reads its lists")
                .takes("Registration")
                .answers(201, "it is new", "Standing")
                .answers(200, "it was known", "Standing")
                .fails(&[
                    Code::Kind(InvalidInput),
                    Code::Kind(IdInUse),
                    Code::Kind(BlockedUrl),
                    Code::CommandsNotAllowed,
                ]),
        )
        .patch(
            "~/servers/{id}",
            change,
            Operation::new("servers", "changeServer", "Changes settings of a registration and reconnects")
                .takes("SettingsPatch")
                .answers(200, "how the attempt to reconnect ended", "Standing")
                .fails(&[Code::Kind(UnknownServer), Code::Kind(InvalidInput), Code::CommandsNotAllowed]),
        )
        .delete(
            "~/servers/{id}",
            remove,
            Operation::new("servers", "removeServer", "Closes and forgets a server; doing so again is fine").empty(),
        )
        .post(
            "~/servers/{id}/connect",
            connect,
            standing(Operation::new("servers", "connectServer", "Connects, or joins the attempt under way")),
        )
        .post(
            "~/servers/{id}/discover",
            discover,
            standing(Operation::new("servers", "discoverServer", "Reads the lists of a server anew")),
        )
        .post(
            "~/servers/{id}/close",
            close,
            Operation::new("servers", "closeServer", "Closes a connection; the server stays registered")
                .empty()
                .fails(&[Code::Kind(UnknownServer)]),
        )
}

async fn list(at: At, uri: Uri) -> Result<Response, Problem> {
    let state = match Parameters::read(&uri, &OVERVIEW)?.one("brief")? {
        None | Some("false") => at.manager.servers(),
        Some("true") => at.manager.overview(),
        Some(_) => return Err(Problem::invalid_at("brief", "must be `true` or `false`")),
    };
    json(StatusCode::OK, &state)
}

async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    at: At,
    Input(document): Input<SpecDocument>,
) -> Result<Response, Problem> {
    if document.command.is_some() && !app.access().may_use_commands(caller) {
        return Err(commands_not_allowed());
    }
    let spec = ServerSpec::try_from(document).map_err(|error| Problem::of(&error))?;
    let (registered, id) = at.manager.register(spec).await.map_err(|error| at.problem(&error))?;
    let standing = standing(at.manager.establish(&id).await.map_err(|error| at.problem(&error))?)?;
    if registered != Registered::New {
        return json(StatusCode::OK, &standing);
    }
    let location = at.name.path_to(&format!("servers/{}", standing.id));
    let mut response = json(StatusCode::CREATED, &standing)?;
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

async fn change(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    at: At,
    Server(id): Server,
    Input(members): Input<Map<String, Value>>,
) -> Result<Response, Problem> {
    let patch = SettingsPatch(members);
    if touches_commands(&patch) && !app.access().may_use_commands(caller) {
        return Err(commands_not_allowed());
    }
    connected(&at, at.manager.update(&id, patch).await)
}

async fn remove(at: At, Server(id): Server) -> Result<Response, Problem> {
    at.manager.remove(&id).await.map_err(|error| at.problem(&error))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn connect(at: At, Server(id): Server) -> Result<Response, Problem> {
    connected(&at, at.manager.establish(&id).await)
}

async fn discover(at: At, Server(id): Server) -> Result<Response, Problem> {
    connected(&at, at.manager.discover(&id).await)
}

async fn close(at: At, Server(id): Server) -> Result<Response, Problem> {
    at.manager.close(&id).await.map_err(|error| at.problem(&error))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn connected(at: &At, outcome: switchboard::Result<Added>) -> Result<Response, Problem> {
    json(StatusCode::OK, &standing(outcome.map_err(|error| at.problem(&error))?)?)
}

fn standing(added: Added) -> Result<Standing, Problem> {
    let state = added.state();
    match added {
        Added::Ready { id } => Ok(Standing { id, state, auth_url: None, error: None }),
        Added::Authenticating { id, auth_url } => Ok(Standing { id, state, auth_url: Some(auth_url), error: None }),
        Added::Failed { id, error } => Ok(Standing { id, state, auth_url: None, error: Some(ErrorObject::of(&error)) }),
        other => Err(Problem::new(Code::Internal, format!("the API has no words for `{other:?}`"))),
    }
}

fn touches_commands(patch: &SettingsPatch) -> bool {
    OF_COMMANDS.iter().any(|member| patch.0.contains_key(*member))
}

fn commands_not_allowed() -> Problem {
    Problem::new(Code::CommandsNotAllowed, "only the owner of this daemon may register or change commands over HTTP")
        .hint("show the owner's token, or start the daemon with `--allow-commands`")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchboard::Error;

    use super::*;

    fn shown(added: Added) -> Value {
        serde_json::to_value(standing(added).unwrap()).unwrap()
    }

    #[test]
    fn the_three_ends_of_an_add_have_the_documented_shapes() {
        let id = ServerId::parse("github").unwrap();
        assert_eq!(shown(Added::Ready { id: id.clone() }), json!({"id": "github", "state": "ready"}));
        let auth_url = "https://a.example/authorize?x=1".to_owned();
        assert_eq!(
            shown(Added::Authenticating { id: id.clone(), auth_url: auth_url.clone() }),
            json!({"id": "github", "state": "authenticating", "authUrl": auth_url})
        );
        let error = Error::new(ErrorKind::ConnectFailed, "could not connect").because(std::io::Error::other("refused"));
        assert_eq!(
            shown(Added::Failed { id, error }),
            json!({"id": "github", "state": "failed", "error":
                {"code": "connect_failed", "message": "could not connect", "causes": ["refused"]}})
        );
    }

    #[test]
    fn a_patch_of_what_runs_here_counts_as_a_command() {
        let patch = |member: &str| SettingsPatch(Map::from_iter([(member.to_owned(), json!(null))]));
        for member in OF_COMMANDS {
            assert!(touches_commands(&patch(member)), "{member}");
        }
        assert!(!touches_commands(&patch("timeouts")));
    }
}

//! The protocol's own steps, as the library makes them: handshake, lists, and what was worked around.

use serde_json::Value;
use switchboard::manager::Added;
use switchboard::status::{ListState, ServerStatus};
use switchboard::{Filter, Manager, ServerId};

use super::steps::{Checkup, Finding};
use crate::problem::{Problem, Result};

/// Connects, and tells about each list.
pub(super) async fn check(manager: &Manager, id: &ServerId, checkup: &mut Checkup<'_>) -> Result<()> {
    if !checkup.step("handshake", handshake(manager, id)).await? {
        return checkup.skip("lists", "an earlier step failed");
    }
    let status = manager.status(id)?;
    let filter = Filter::all().server(id);
    let lists = [
        ("tools", status.lists.tools, manager.tools(&filter).len()),
        ("prompts", status.lists.prompts, manager.prompts(&filter).len()),
        ("resources", status.lists.resources, manager.resources(&filter).len()),
        ("resource templates", status.lists.resource_templates, manager.resource_templates(&filter).len()),
    ];
    for (name, state, count) in lists {
        checkup.say(name, of_list(state, count))?;
    }
    for warning in &status.warnings {
        let item = warning.item.as_ref().map(|item| format!("`{item}`: ")).unwrap_or_default();
        let found = format!("{item}{} ({} times)", warning.message, warning.count);
        checkup.say("warning", Finding::warning(found, "it is worked around; the server's owner should know"))?;
    }
    Ok(())
}

async fn handshake(manager: &Manager, id: &ServerId) -> Finding {
    match manager.establish(id).await {
        Ok(Added::Ready { .. }) => match manager.status(id) {
            Ok(status) => Finding::ok(who(&status)),
            Err(error) => Finding::failed(error.to_string(), "it was removed meanwhile"),
        },
        Ok(Added::Authenticating { auth_url, .. }) => Finding::failed("it needs a sign-in", format!("open {auth_url}")),
        Ok(Added::Failed { error, .. }) | Err(error) => {
            let advice = error.data().hint.clone().unwrap_or_else(|| "the server's log may tell more".to_owned());
            Finding::failed(Problem::from(error).line(), advice)
        }
        Ok(_) => Finding::failed("it is not ready", "try again"),
    }
}

/// The server's own name and version, and what is spoken.
fn who(status: &ServerStatus) -> String {
    let info = status.server_info.as_ref().map(switchboard::wire::Json::to_value).unwrap_or_default();
    let part = |name: &str| info.get(name).and_then(Value::as_str).unwrap_or("unnamed").to_owned();
    let version = status.protocol_version.as_deref().unwrap_or("an unknown version");
    format!("protocol {version} over {}; {} {}", status.transport, part("name"), part("version"))
}

fn of_list(state: ListState, count: usize) -> Finding {
    match state {
        ListState::Ok => Finding::ok(count.to_string()),
        ListState::Partial => Finding::warning(format!("{count}, and more"), "the list is longer than the bound"),
        ListState::Unsupported => Finding::skipped("the server does not offer them"),
        ListState::Failed => Finding::failed("the list could not be read", "`switchboard -vv connect ID` shows why"),
        _ => Finding::skipped("not read"),
    }
}

//! `add`: registers a server, connects to it, and reads its lists.

use serde_json::{Map, Value, json};
use switchboard::ServerId;

use super::outcome;
use crate::args::{Add, AddConnection, AddTools, DriftPolicy, OutputSchema, Transport};
use crate::backend::{Wake, local};
use crate::problem::{Exit, Problem, Result};
use crate::session::Session;
use crate::settings::Settings;
use crate::typing::parse_json;

pub(super) async fn run(add: &Add, session: &Session) -> Result<Exit> {
    let document = document(add, &session.settings)?;
    // Mistakes are found before anything is started or asked.
    local::spec(&document)?;
    let backend = session.backend(Wake::Nothing).await?;
    let answer = {
        let _progress = session.output.progress(format!("connecting to {}", add.name));
        backend.add(&document).await?
    };
    outcome::report(session, &backend, &answer, outcome::Asked::Add).await
}

/// The registration as `POST /servers` takes it.
fn document(add: &Add, settings: &Settings) -> Result<Value, Problem> {
    let mut document = Map::new();
    document.insert("name".into(), add.name.as_str().into());
    if add.name.trim().is_empty() {
        return Err(switchboard::Error::invalid("name", "a server needs a name").into());
    }
    let id = ServerId::parse(add.id.as_deref().unwrap_or(&add.name)).map_err(Problem::from)?;
    document.insert("id".into(), id.as_str().into());
    target(add, settings, &mut document)?;
    connection(&add.connection, &mut document)?;
    tools(&add.tools, &mut document);
    Ok(Value::Object(document))
}

fn target(add: &Add, settings: &Settings, document: &mut Map<String, Value>) -> Result<(), Problem> {
    let (remote, local) = (&add.remote, &add.local);
    match (&add.url, add.command.split_first()) {
        (Some(_), Some(_)) => return Err(Problem::input("give either a URL or a command behind `--`, not both")),
        (None, None) => {
            return Err(Problem::input("a URL or a command is missing")
                .hint("`switchboard add NAME URL`, or `switchboard add NAME -- COMMAND ARG…`"));
        }
        (Some(url), None) => {
            if !url.contains("://") {
                return Err(Problem::input(format!("`{url}` is not a URL"))
                    .hint("a URL begins with http:// or https://; a command stands behind `--`"));
            }
            document.insert("url".into(), url.as_str().into());
        }
        (None, Some((command, arguments))) => {
            document.insert("command".into(), command_path(command, settings).into());
            document.insert("args".into(), json!(arguments));
        }
    }
    if let Some(transport) = remote.transport {
        let word = match transport {
            Transport::Auto => "auto",
            Transport::StreamableHttp => "streamable-http",
            Transport::Sse => "sse",
        };
        document.insert("transport".into(), word.into());
    }
    if !remote.headers.is_empty() {
        document.insert("headers".into(), json!(remote.headers));
    }
    if !local.env.is_empty() {
        let env: Map<String, Value> =
            local.env.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        document.insert("env".into(), env.into());
    }
    if local.inherit_env.iter().any(|name| name == "all") {
        document.insert("inheritEnv".into(), "all".into());
    } else if !local.inherit_env.is_empty() {
        document.insert("inheritEnv".into(), json!(local.inherit_env));
    }
    if let Some(folder) = &local.cwd {
        let folder = settings.absolute(folder);
        if !folder.is_dir() {
            return Err(Problem::input(format!("`--cwd`: `{}` is not a folder", folder.display())));
        }
        let text = folder.to_str().ok_or_else(|| Problem::input("`--cwd`: the folder's name is not UTF-8"))?;
        document.insert("cwd".into(), text.into());
    }
    Ok(())
}

/// A command that is a relative path would mean something else in another folder; a bare name is looked up in `PATH`.
fn command_path(command: &str, settings: &Settings) -> String {
    let path = std::path::Path::new(command);
    let is_bare = path.components().count() == 1 && !command.starts_with(['.', '~']);
    let absolute = settings.absolute(path);
    match absolute.to_str() {
        Some(text) if !is_bare => text.to_owned(),
        _ => command.to_owned(),
    }
}

fn connection(typed: &AddConnection, document: &mut Map<String, Value>) -> Result<(), Problem> {
    let group = |members: &[(&str, Option<u64>)]| -> Map<String, Value> {
        members.iter().filter_map(|(name, value)| Some(((*name).to_owned(), json!((*value)?)))).collect()
    };
    let retry = group(&[
        ("maxAttempts", typed.retry_attempts.map(u64::from)),
        ("baseDelayMs", typed.retry_base_ms),
        ("maxDelayMs", typed.retry_max_ms),
    ]);
    let timeouts = group(&[
        ("connectMs", typed.connect_timeout_ms),
        ("probeMs", typed.probe_timeout_ms),
        ("requestMs", typed.timeout_ms),
        ("maxRequestMs", typed.max_timeout_ms),
        ("discoveryMs", typed.discovery_timeout_ms),
        ("heartbeatMs", typed.heartbeat_ms),
    ]);
    let limits =
        group(&[("messageBytes", typed.max_message), ("inFlight", typed.in_flight), ("waiting", typed.waiting)]);
    for (name, members) in [("retry", retry), ("timeouts", timeouts), ("limits", limits)] {
        if !members.is_empty() {
            document.insert(name.into(), members.into());
        }
    }
    if let Some(capabilities) = &typed.capabilities {
        let capabilities = parse_json(capabilities, "`--capabilities`")?;
        document.insert("client".into(), json!({"capabilities": capabilities.to_value()}));
    }
    Ok(())
}

fn tools(typed: &AddTools, document: &mut Map<String, Value>) {
    let mut tools = Map::new();
    if !typed.allow_tool.is_empty() {
        tools.insert("allow".into(), json!(typed.allow_tool));
    }
    if !typed.deny_tool.is_empty() {
        tools.insert("deny".into(), json!(typed.deny_tool));
    }
    if !typed.rename_tool.is_empty() {
        let names = typed.rename_tool.iter().map(|(name, other)| (name.clone(), Value::from(other.as_str())));
        tools.insert("rename".into(), names.collect::<Map<_, _>>().into());
    }
    if !tools.is_empty() {
        document.insert("tools".into(), tools.into());
    }
    if let Some(policy) = typed.output_schema {
        let word = match policy {
            OutputSchema::Warn => "warn",
            OutputSchema::Refuse => "refuse",
            OutputSchema::Off => "off",
        };
        document.insert("outputSchema".into(), word.into());
    }
    if let Some(policy) = typed.drift {
        let word = match policy {
            DriftPolicy::Off => "off",
            DriftPolicy::Warn => "warn",
            DriftPolicy::RefuseChanged => "refuse-changed",
            DriftPolicy::RefuseUnapproved => "refuse-unapproved",
        };
        document.insert("drift".into(), word.into());
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use switchboard::spec::Target;

    use super::*;
    use crate::args::{Arguments, Command};
    use crate::env::Environment;

    fn typed(line: &[&str]) -> Result<Value, Problem> {
        let line = ["switchboard", "add"].iter().chain(line).copied();
        let arguments = Arguments::try_parse_from(line).unwrap();
        let found = Environment::of(vec![("HOME".into(), "/home/me".into())], "/".into());
        let settings = Settings::resolve(&arguments.global, found, "off").unwrap();
        let Command::Add(add) = &arguments.command else { panic!("another command") };
        document(add, &settings)
    }

    #[test]
    fn a_command_line_becomes_a_registration() {
        let document = typed(&[
            "My Server",
            "--env",
            "A=b=c",
            "--cwd",
            "tmp",
            "--inherit-env",
            "HTTPS_PROXY",
            "--",
            "npx",
            "-y",
            "x",
        ]);
        let spec = local::spec(&document.unwrap()).unwrap();
        assert_eq!(spec.id.unwrap().as_str(), "my-server");
        let Target::Stdio(target) = spec.target else { panic!("another target") };
        assert_eq!((target.command.as_str(), target.args.as_slice()), ("npx", &["-y".to_owned(), "x".to_owned()][..]));
        assert_eq!(target.cwd.unwrap(), std::path::Path::new("/tmp"));
    }

    #[test]
    fn a_url_becomes_a_registration_with_its_settings() {
        let line = [
            "gh",
            "https://h.example/mcp",
            "--id",
            "Git Hub",
            "--transport",
            "streamable-http",
            "--header",
            "X-Key: a: b",
            "--retry-attempts",
            "1",
            "--timeout-ms",
            "700000",
            "--deny-tool",
            "rm*",
            "--drift",
            "refuse-changed",
        ];
        let spec = local::spec(&typed(&line).unwrap()).unwrap();
        assert_eq!(spec.id.as_ref().unwrap().as_str(), "git-hub");
        assert_eq!(spec.retry.max_attempts, 1);
        assert_eq!(spec.timeouts.request.as_millis(), 700_000);
        assert!(!spec.tools.allows("rmdir"));
        assert_eq!(spec.drift, switchboard::spec::DriftPolicy::RefuseChanged);
        let Target::Http(target) = spec.target else { panic!("another target") };
        assert_eq!(target.headers.iter().next().unwrap().1, "a: b");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_advice() {
        assert!(typed(&["n"]).unwrap_err().text().contains("-- COMMAND"));
        assert!(typed(&["n", "npx"]).unwrap_err().text().contains("behind `--`"));
        assert!(typed(&["n", "http://h/", "--", "x"]).unwrap_err().text().contains("not both"));
        assert!(typed(&["n", "--cwd", "/no/such/folder", "--", "x"]).unwrap_err().text().contains("--cwd"));
        assert!(typed(&["n", "http://h/", "--capabilities", "{"]).unwrap_err().text().contains("line 1"));
        for line in
            [&["n", "ftp://h/"][..], &["n", "http://h/", "--retry-attempts", "0"], &["n", "http://h/", "--env", "A=b"]]
        {
            assert!(local::spec(&typed(line).unwrap()).is_err(), "{line:?}");
        }
    }

    #[test]
    fn commands_that_are_relative_paths_are_made_absolute() {
        let command = |typed_command: &str| typed(&["n", "--", typed_command]).unwrap()["command"].clone();
        assert_eq!(command("npx"), "npx");
        assert_eq!(command("./server"), "/server");
        assert_eq!(command("bin/server"), "/bin/server");
        assert_eq!(command("~/server"), "/home/me/server");
    }
}

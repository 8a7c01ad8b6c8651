//! Commands that start and commands that do not; what children are given.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use switchboard::spec::{Inherit, Target};
use switchboard::{Error, ErrorKind, Manager, ServerSpec, State, ToolCall};
use switchboard_testing::stdio::{Script, ToolAnswer};

use crate::stdio::{SOON, failed, lines, manager, once, ready, scripted, shell, text_of, whole};

async fn with_environment(variables: &[(&str, &str)]) -> Manager {
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    Manager::builder("test", "1.0.0").environment(variables).start().await.unwrap()
}

/// The environment that the child itself sees.
async fn environment(inherit: Inherit) -> BTreeMap<String, String> {
    let given = [
        ("HTTPS_PROXY", "proxy"),
        ("XDG_CONFIG_HOME", "/config"),
        ("SECRET_X", "secret"),
        ("HOME", "/home/me"),
        ("TEMP", "/t"),
    ];
    let manager = with_environment(&given).await;
    let mut spec = scripted(&Script::both().tool("env", ToolAnswer::Environment)).env("HOME", "/explicit");
    let Target::Stdio(target) = &mut spec.target else { unreachable!() };
    target.inherit = inherit;
    let id = ready(&manager, spec).await;
    serde_json::from_str(&text_of(&manager, ToolCall::new(id, "env")).await).unwrap()
}

#[tokio::test]
async fn b107_a_child_inherits_the_safe_list_named_ones_or_all_and_explicit_values_win() {
    let names = |environment: &BTreeMap<String, String>| environment.keys().cloned().collect::<Vec<_>>();
    let seen = environment(Inherit::Safe).await;
    assert_eq!((names(&seen), seen["HOME"].as_str()), (vec!["HOME".to_owned()], "/explicit"));
    let seen =
        environment(Inherit::Also(vec!["HTTPS_PROXY".into(), "XDG_CONFIG_HOME".into(), "NOT_THERE".into()])).await;
    assert_eq!(names(&seen), ["HOME", "HTTPS_PROXY", "XDG_CONFIG_HOME"]);
    let seen = environment(Inherit::All).await;
    assert_eq!(names(&seen), ["HOME", "HTTPS_PROXY", "SECRET_X", "TEMP", "XDG_CONFIG_HOME"]);
    assert_eq!(seen["HOME"], "/explicit");
}

#[tokio::test]
async fn values_of_the_environment_may_hold_anything_but_a_nul() {
    let manager = manager().await;
    let value = "one\ntwo \"three\" = $HOME 漢字";
    let spec = scripted(&Script::both().tool("env", ToolAnswer::Environment));
    let id = ready(&manager, spec.clone().env("VALUE", value).env("EMPTY", "")).await;
    let seen: BTreeMap<String, String> =
        serde_json::from_str(&text_of(&manager, ToolCall::new(id, "env")).await).unwrap();
    assert_eq!((seen["VALUE"].as_str(), seen["EMPTY"].as_str()), (value, ""));
    for (name, value) in [("A\0B", "x"), ("A", "x\0y"), ("A=B", "x"), ("", "x")] {
        let error = manager.add(spec.clone().env(name, value)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
    }
}

#[tokio::test]
async fn arguments_arrive_as_they_were_given() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("arguments");
    let arguments =
        ["a b", "", "\"quoted\"", "it's", "two\nlines", "漢字 😀", "$HOME `id` $(id) ; & | > *", "%PATH%", "\\"];
    let script = scripted(&Script::both().tool("echo", ToolAnswer::Echo));
    let Target::Stdio(peer) = script.target else { unreachable!() };
    let start = r#"printf '%s\0' "$@" > "$FILE"; exec "$PEER" "$SCRIPT""#;
    let words = ["-c", start, "sh"].into_iter().chain(arguments);
    let spec = ServerSpec::stdio("peer", "/bin/sh", words).unwrap().env("FILE", file.to_str().unwrap());
    let manager = manager().await;
    ready(&manager, spec.env("PEER", peer.command).env("SCRIPT", peer.args[0].as_str())).await;
    let seen = std::fs::read_to_string(&file).unwrap();
    assert_eq!(seen.split_terminator('\0').collect::<Vec<_>>(), arguments);
}

/// How the start of a command fails: at once, for good, with a server that is kept.
async fn refusal(manager: &Manager, spec: ServerSpec) -> Error {
    let began = Instant::now();
    let mut events = manager.events();
    let (id, error) = failed(manager, spec).await;
    assert_eq!(error.kind(), ErrorKind::ConnectFailed, "{error:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let (_, begun) = crate::stdio::next_of(&mut events, switchboard::event::EventKind::Preconnect).await;
    assert_eq!(begun["attempt"], 1);
    let status = manager.status(&id).unwrap();
    assert_eq!(
        (status.state, status.attempt),
        (State::Failed, 1),
        "it would fail the same way if tried again: {status:?}"
    );
    assert_eq!(status.error_detail.unwrap().causes, error.causes());
    assert!(error.data().hint.is_some(), "{error:?}");
    error
}

fn command(command: impl AsRef<Path>) -> ServerSpec {
    ServerSpec::stdio("peer", command.as_ref().to_str().unwrap(), [""; 0]).unwrap()
}

#[tokio::test]
async fn a_command_that_is_not_there_is_named_with_where_it_was_looked_for() {
    let manager = with_environment(&[("PATH", "/nowhere:/bin")]).await;
    let error = refusal(&manager, command("no-such-command")).await;
    assert_eq!(error.causes(), ["the command `no-such-command` was not found in PATH"]);
    assert!(error.data().hint.as_deref().unwrap().contains("install"), "{error:?}");
    let error = refusal(&manager, command("/nowhere/command")).await;
    assert_eq!(error.causes(), ["the command `/nowhere/command` was not found"]);
    let manager = with_environment(&[]).await;
    let error = refusal(&manager, command("npx")).await;
    assert!(whole(&error).contains("no PATH was given"), "{error:?}");
    let error = refusal(&manager, command("./npx")).await;
    assert!(!whole(&error).contains("PATH"), "a command with a folder is not looked for in PATH: {error:?}");
}

#[tokio::test]
async fn a_command_that_is_no_program_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let manager = with_environment(&[("PATH", folder.path().to_str().unwrap())]).await;
    let error = refusal(&manager, command(folder.path())).await;
    assert!(whole(&error).contains("is a folder"), "{error:?}");
    let file = folder.path().join("text");
    std::fs::write(&file, "just text\n").unwrap();
    let error = refusal(&manager, command(&file)).await;
    assert!(whole(&error).contains("is not executable"), "{error:?}");
    let error = refusal(&manager, command("text")).await;
    assert!(whole(&error).contains("not found in PATH"), "{error:?}");
    make_executable(&file);
    let error = refusal(&manager, command(&file)).await;
    assert!(whole(&error).contains("could not be started: Exec format error"), "{error:?}");
    std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    let error = refusal(&manager, command(&file)).await;
    assert!(whole(&error).contains("could not be started: No such file"), "{error:?}");
}

fn make_executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_working_folder_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let manager = manager().await;
    let missing = folder.path().join("missing");
    let error = refusal(&manager, shell("").working_folder(&missing)).await;
    let named = format!("the working folder `{}`", missing.display());
    assert!(whole(&error).contains(&named), "{error:?}");
    std::fs::write(&missing, "a file").unwrap();
    let error = refusal(&manager, shell("true").working_folder(&missing)).await;
    assert!(whole(&error).contains(&named), "{error:?}");
    let error = manager.add(shell("").working_folder("relative/folder")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
}

#[tokio::test]
async fn a_command_with_a_folder_is_taken_from_the_working_folder_and_started_there() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().canonicalize().unwrap();
    std::fs::create_dir(here.join("bin")).unwrap();
    let Target::Stdio(server) = shell(r#"pwd > where"#).target else { unreachable!() };
    let file = here.join("bin/serve it");
    std::fs::write(&file, format!("#!/bin/sh\n{}", server.args[1])).unwrap();
    make_executable(&file);
    let manager = manager().await;
    ready(&manager, once(command("bin/serve it").working_folder(&here))).await;
    assert_eq!(lines(&here.join("where")), [here.to_str().unwrap()]);
}

#[tokio::test]
async fn a_command_is_looked_for_in_the_path_of_its_own_environment() {
    let folder = tempfile::tempdir().unwrap();
    let Target::Stdio(server) = shell("").target else { unreachable!() };
    let file = folder.path().join("my-server");
    std::fs::write(&file, format!("#!/bin/sh\n{}", server.args[1])).unwrap();
    make_executable(&file);
    let manager = with_environment(&[("PATH", "/bin")]).await;
    let path = format!("/nowhere:{}:/bin", folder.path().display());
    ready(&manager, once(command("my-server").env("PATH", path))).await;
}

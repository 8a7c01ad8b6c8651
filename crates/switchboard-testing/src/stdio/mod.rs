//! A peer as a real child process, driven by a [`Script`].

mod run;
mod script;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use serde_json::Value;

pub use run::run;
pub use script::{Script, ToolAnswer};

use crate::patience::{Alarm, PATIENCE, breath};

/// The program `scripted-peer`, which is built when it is missing or older than its source.
///
/// # Panics
/// When it cannot be built.
pub fn scripted_peer() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM
        .get_or_init(|| {
            let folder = profile_folder();
            let program = folder.join(format!("scripted-peer{}", std::env::consts::EXE_SUFFIX));
            let source = newest_source();
            let fresh =
                |program: &Path| program.metadata().and_then(|it| it.modified()).is_ok_and(|built| built >= source);
            if !fresh(&program) {
                build(&folder);
                // Cargo leaves a program as it is when only files changed that it is not made of.
                let _ = std::fs::File::open(&program).and_then(|file| file.set_modified(SystemTime::now()));
            }
            assert!(program.exists(), "cargo built no {}", program.display());
            program
        })
        .clone()
}

/// The folder of the profile in which the running test was built, such as `target/debug`.
fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    let folder = test.parent().expect("a file is in a folder");
    if folder.ends_with("deps") { folder.parent().expect("deps is in a folder").to_owned() } else { folder.to_owned() }
}

fn newest_source() -> SystemTime {
    fn newest(folder: &Path) -> Option<SystemTime> {
        let entries = std::fs::read_dir(folder).ok()?.flatten();
        entries
            .filter_map(|entry| {
                if entry.path().is_dir() { newest(&entry.path()) } else { entry.metadata().ok()?.modified().ok() }
            })
            .max()
    }
    newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn build(profile_folder: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = match profile_folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let target = profile_folder.parent().expect("the folder of a profile is in the target folder");
    let status = Command::new(cargo)
        .args(["build", "--offline", "--quiet", "--package", "switchboard-testing", "--bin", "scripted-peer"])
        .args(["--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cargo could not build `scripted-peer`");
}

/// Waits until a peer has written the ids of `count` processes, and gives them with their roles: `launcher`, `server`
/// or `child`.
///
/// # Panics
/// When it does not within 20 s of real time.
pub async fn pids(file: &Path, count: usize) -> Vec<(String, u32)> {
    let parse = |line: &str| {
        let (role, pid) = line.split_once(' ')?;
        Some((role.to_owned(), pid.parse().ok()?))
    };
    let lines = wait_for_lines(file, count).await;
    lines.iter().filter_map(|line| parse(line)).collect()
}

/// Waits until a peer has recorded a message of this method, and gives all that it recorded.
///
/// # Panics
/// When it does not within 20 s of real time.
pub async fn wait_for_recorded(file: &Path, method: &str) -> Vec<Value> {
    let what = || format!("{} to hold `{method}`", file.display());
    wait(what, || {
        let messages = recorded(file);
        messages.iter().any(|message| message["method"] == method).then_some(messages)
    })
    .await
}

/// The messages that a peer has recorded so far.
pub fn recorded(file: &Path) -> Vec<Value> {
    whole_lines(file).iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

async fn wait_for_lines(file: &Path, count: usize) -> Vec<String> {
    let what = || format!("{} to hold {count} lines", file.display());
    wait(what, || Some(whole_lines(file)).filter(|lines| lines.len() >= count)).await
}

fn whole_lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

async fn wait<T>(what: impl Fn() -> String, check: impl Fn() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = check() {
                return found;
            }
            breath().await;
        }
    };
    let mut alarm = Alarm::after(PATIENCE);
    tokio::select! {
        found = looking => found,
        () = alarm.rings() => panic!("waited {PATIENCE:?} in vain for {}", what()),
    }
}

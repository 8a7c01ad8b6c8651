//! The data folder: can it be read and written, is there room, does the store open, who else uses it.

use std::io::Write;
use std::path::Path;

use switchboard::Manager;

use super::steps::{Checkup, Finding};
use crate::backend::Wake;
use crate::daemon_file;
use crate::problem::{Failure, Result};
use crate::session::Session;

/// Less room than this is worth a word; less than the other is a failure.
const LITTLE: u64 = 256 << 20;
const NONE: u64 = 1 << 20;

/// Checks the folder; the manager on it, when it opens.
pub(super) async fn check(session: &Session, checkup: &mut Checkup<'_>) -> Result<Option<Manager>> {
    let folder = &session.settings.data;
    if !checkup.step("folder", async { is_folder(folder) }).await? {
        return Ok(None);
    }
    if folder.is_dir() {
        checkup.step("writable", async { writable(folder) }).await?;
        checkup.step("free space", async { room(folder) }).await?;
    }
    checkup.step("daemon", daemon(folder)).await?;
    if checkup.has_failed() {
        checkup.skip("store", "an earlier step failed")?;
        return Ok(None);
    }
    let mut manager = None;
    let opening = async {
        match session.manager(folder, Wake::Nothing).await {
            Ok(opened) => {
                let count = opened.registrations().len();
                manager = Some(opened);
                Finding::ok(format!("opens; {count} servers are registered"))
            }
            Err(failure) => {
                Finding::failed(words(failure), "what is in the folder may be damaged, or of a newer version")
            }
        }
    };
    checkup.step("store", opening).await?;
    Ok(manager)
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Problem(problem) => problem.line(),
        Failure::ClosedPipe => "nobody reads".to_owned(),
    }
}

fn is_folder(folder: &Path) -> Finding {
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => match std::fs::read_dir(folder) {
            Ok(_) => Finding::ok("is there and can be read"),
            Err(cause) => Finding::failed(cause.to_string(), "give this user the right to read it"),
        },
        Ok(_) => Finding::failed("it is a file", "name a folder with --data DIR"),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            Finding::ok("is not there yet; it is made when it is needed")
        }
        Err(cause) => Finding::failed(cause.to_string(), "name another folder with --data DIR"),
    }
}

fn writable(folder: &Path) -> Finding {
    let tried = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        file.write_all(&[0; 4096])?;
        file.as_file().sync_all()
    });
    match tried {
        Ok(()) => Finding::ok("can be written"),
        Err(cause) => Finding::failed(
            cause.to_string(),
            "give this user the right to write there, free some space, or name another folder with --data DIR",
        ),
    }
}

#[cfg(unix)]
fn room(folder: &Path) -> Finding {
    match rustix::fs::statvfs(folder) {
        Ok(system) => of_room(system.f_bavail.saturating_mul(system.f_frsize)),
        Err(cause) => Finding::warning(cause.to_string(), "nobody knows how much room is left"),
    }
}

#[cfg(not(unix))]
fn room(_folder: &Path) -> Finding {
    Finding::skipped("not known on this system")
}

fn of_room(bytes: u64) -> Finding {
    let found = format!("{} MiB are free", bytes >> 20);
    match bytes {
        0..NONE => Finding::failed(found, "free some space on that disk"),
        NONE..LITTLE => Finding::warning(found, "free some space on that disk"),
        _ => Finding::ok(found),
    }
}

async fn daemon(folder: &Path) -> Finding {
    match daemon_file::running(folder).await {
        Ok(Some(daemon)) => Finding::ok(format!("runs at http://{} (process {})", daemon.address, daemon.pid)),
        Ok(None) => Finding::skipped("none runs on this folder"),
        Err(failure) => Finding::warning(words(failure), "is it hanging? end it, and start it anew"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps::Status;
    use super::*;

    #[test]
    fn a_file_a_missing_folder_and_a_folder_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(is_folder(folder.path()).status, Status::Ok);
        assert_eq!(is_folder(&folder.path().join("none")).status, Status::Ok);
        assert_eq!(is_folder(&file).status, Status::Failed);
        assert_eq!(writable(folder.path()).status, Status::Ok);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the check leaves nothing behind");
    }

    #[test]
    fn little_room_is_worth_a_word() {
        assert_eq!(of_room(10).status, Status::Failed);
        assert_eq!(of_room(10 << 20).status, Status::Warning);
        assert_eq!(of_room(10 << 30).found, "10240 MiB are free");
    }
}

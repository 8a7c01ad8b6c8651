//! How a daemon on a data folder is found: `daemon.lock`, held for as long as it lives, and `daemon.json`, which says where
//! it listens and how its owner proves to be the owner.
//!
//! The lock is the truth: the operating system gives it back however the daemon ends, so a `daemon.json` without a held lock
//! is what a killed daemon left. The token is new at each start, so an old file opens nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use switchboard::secret::Secret;

use crate::problem::{Problem, Result};

const LOCK: &str = "daemon.lock";
const FILE: &str = "daemon.json";

/// How often, and how far apart, a look at a lock or file that may change at once is repeated.
const LOOKS: usize = 40;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Where a running daemon is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DaemonFile {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its process.
    pub(crate) pid: u32,
    /// What its owner shows.
    pub(crate) token: Secret,
}

/// Proof that this process is the one daemon of a data folder.
#[derive(Debug)]
pub(crate) struct DaemonLock {
    folder: PathBuf,
    /// Locked for as long as it is open.
    _file: File,
}

impl DaemonLock {
    /// Takes the lock of `folder`, or says who has it. What a killed daemon left is taken over.
    ///
    /// Clients look whether the lock is held by taking it for a moment, hence the patience.
    pub(crate) async fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(LOCK);
        let file =
            private().create(true).truncate(false).read(true).open(&path).map_err(|cause| failed(&path, cause))?;
        for look in 0..LOOKS {
            match file.try_lock() {
                Ok(()) => {
                    remove(&folder.join(FILE))?;
                    return Ok(Self { folder: folder.to_path_buf(), _file: file });
                }
                Err(TryLockError::Error(cause)) => return Err(failed(&path, cause).into()),
                // Whoever holds it long enough to have written where it listens is a daemon.
                Err(TryLockError::WouldBlock) if look >= 4 => {
                    if let Some(other) = read(folder) {
                        return Err(taken(folder, Some(&other)).into());
                    }
                }
                Err(TryLockError::WouldBlock) => {}
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        Err(taken(folder, read(folder).as_ref()).into())
    }

    /// Tells clients where this daemon is.
    pub(crate) fn announce(&self, daemon: &DaemonFile) -> Result<()> {
        let path = self.folder.join(FILE);
        let fresh = self.folder.join(format!("{FILE}.{}", daemon.pid));
        // The token must never be readable by others, not even between creating and restricting.
        let written = private().create(true).truncate(true).open(&fresh).and_then(|mut file| {
            serde_json::to_writer(&mut file, daemon)?;
            file.write_all(b"\n")?;
            file.sync_all()
        });
        written.and_then(|()| std::fs::rename(&fresh, &path)).map_err(|cause| {
            // Half a file helps nobody.
            let _ = std::fs::remove_file(&fresh);
            failed(&path, cause).into()
        })
    }

    /// Takes the announcement back; the lock goes with `self`.
    pub(crate) fn withdraw(self) -> Result<()> {
        remove(&self.folder.join(FILE))
    }
}

/// The daemon that runs on `folder`, if one does.
pub(crate) async fn running(folder: &Path) -> Result<Option<DaemonFile>> {
    let path = folder.join(LOCK);
    let Ok(file) = File::open(&path) else { return Ok(None) };
    for _ in 0..LOOKS {
        match file.try_lock_shared() {
            Ok(()) => return Ok(None),
            Err(TryLockError::Error(cause)) => return Err(failed(&path, cause).into()),
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(daemon) = read(folder) {
            return Ok(Some(daemon));
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Err(Problem::new("not_ready", format!("a daemon on `{}` is starting, but does not say where", folder.display()))
        .hint("try again in a moment")
        .into())
}

fn read(folder: &Path) -> Option<DaemonFile> {
    serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(failed(path, cause).into()),
        _ => Ok(()),
    }
}

/// A file for its owner's eyes.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn failed(path: &Path, cause: io::Error) -> Problem {
    let problem = Problem::new("store_failed", format!("`{}` cannot be used", path.display()));
    let hint = match cause.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "the data folder must be writable; --data DIR names another one"
        }
        io::ErrorKind::StorageFull => "the disk is full; free some space, or name another folder with --data DIR",
        _ => "`switchboard doctor` checks the data folder",
    };
    problem.because(cause).hint(hint)
}

fn taken(folder: &Path, other: Option<&DaemonFile>) -> Problem {
    let who = other.map_or_else(String::new, |other| format!(" at http://{} (process {})", other.address, other.pid));
    let problem = Problem::new("daemon_running", format!("a daemon{who} runs on `{}` already", folder.display()));
    match other {
        Some(other) => problem.with("address", other.address.to_string()).with("pid", other.pid).hint(format!(
            "use it, end it with `kill {}`, or start this one on another folder with --data DIR",
            other.pid
        )),
        None => problem.hint("start this one on another folder with --data DIR"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(port: u16) -> DaemonFile {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        DaemonFile { address, pid: std::process::id(), token: Secret::new("t0k3n".to_owned()) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_is_found_while_it_lives_and_not_after() {
        let folder = tempfile::tempdir().unwrap();
        assert!(running(folder.path()).await.unwrap().is_none());
        let lock = DaemonLock::take(folder.path()).await.unwrap();
        lock.announce(&daemon(7)).unwrap();
        let found = running(folder.path()).await.unwrap().unwrap();
        assert_eq!((found.address.port(), found.token.expose().as_str()), (7, "t0k3n"));
        lock.withdraw().unwrap();
        assert!(running(folder.path()).await.unwrap().is_none());
        assert!(!folder.path().join(FILE).exists());
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_daemon_names_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = DaemonLock::take(folder.path()).await.unwrap();
        first.announce(&daemon(7)).unwrap();
        let Err(crate::problem::Failure::Problem(problem)) = DaemonLock::take(folder.path()).await else {
            panic!("two daemons on one folder")
        };
        assert_eq!(problem.exit(), crate::problem::Exit::Failed);
        assert!(problem.text().contains("127.0.0.1:7 (process"), "{}", problem.text());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_killed_daemon_left_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let killed = DaemonLock::take(folder.path()).await.unwrap();
        killed.announce(&daemon(7)).unwrap();
        drop(killed);
        assert!(running(folder.path()).await.unwrap().is_none(), "the file alone proves nothing");
        let next = DaemonLock::take(folder.path()).await.unwrap();
        assert!(!folder.path().join(FILE).exists(), "the old address is gone before the new one is known");
        next.announce(&daemon(8)).unwrap();
        assert_eq!(running(folder.path()).await.unwrap().unwrap().address.port(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_looks_at_the_same_moment_does_not_keep_a_daemon_from_starting() {
        let folder = tempfile::tempdir().unwrap();
        drop(DaemonLock::take(folder.path()).await.unwrap());
        let looking = File::open(folder.path().join(LOCK)).unwrap();
        looking.try_lock_shared().unwrap();
        let starting = DaemonLock::take(folder.path());
        let ending = async {
            tokio::time::sleep(BETWEEN_LOOKS * 2).await;
            drop(looking);
        };
        let (lock, ()) = tokio::join!(starting, ending);
        lock.unwrap();
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_files_are_for_the_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let lock = DaemonLock::take(folder.path()).await.unwrap();
        lock.announce(&daemon(7)).unwrap();
        for name in [LOCK, FILE] {
            let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        assert!(!format!("{:?}", daemon(7)).contains("t0k3n"));
    }
}

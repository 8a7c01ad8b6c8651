//! Turns what SQLite and the operating system say into a [`StoreError`] that names the file.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{ErrorCode, ffi};

use super::super::StoreError;

/// The file of a store, as it is named in errors.
#[derive(Debug, Clone)]
pub(super) struct Place(Arc<Path>);

impl Place {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Which file is there now; `None` when there is none, or where files have no such number.
    #[cfg(unix)]
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(&self.0).ok().map(|file| (file.dev(), file.ino()))
    }

    #[cfg(not(unix))]
    #[expect(clippy::unused_self, reason = "the same call on every system")]
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        None
    }

    /// What the operating system said.
    pub(super) fn io(&self, source: io::Error) -> StoreError {
        let (place, kind) = (self.to_string(), source.kind());
        let source = source.into();
        match kind {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { place, source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full { place, source },
            _ => StoreError::Io { place, source },
        }
    }

    /// What SQLite said.
    pub(super) fn sqlite(&self, error: impl Into<Arc<rusqlite::Error>>) -> StoreError {
        let error = error.into();
        let (place, code) = (self.to_string(), error.sqlite_error_code());
        let extended = error.sqlite_error().map(|error| error.extended_code);
        let source = error.into();
        match code {
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { place, source },
            Some(ErrorCode::CannotOpen) if !self.folder_is_writable() => StoreError::ReadOnly { place, source },
            Some(ErrorCode::DiskFull) => StoreError::Full { place, source },
            // The index of the write-ahead log could not grow, which SQLite does not call a full disk.
            _ if extended == Some(ffi::SQLITE_IOERR_SHMSIZE) => StoreError::Full { place, source },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { place, source },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt {
                place,
                reason: "the file is damaged or no SQLite file".to_owned(),
                source: Some(source),
            },
            _ => StoreError::Io { place, source },
        }
    }

    /// Whether this user may make files beside this one, as SQLite must. A folder that is not there counts as writable:
    /// it is missing, not protected.
    #[cfg(unix)]
    fn folder_is_writable(&self) -> bool {
        use rustix::fs::{Access, access};
        let Some(folder) = self.0.parent() else { return true };
        !matches!(access(folder, Access::WRITE_OK), Err(rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS))
    }

    #[cfg(not(unix))]
    fn folder_is_writable(&self) -> bool {
        true
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sqlite_says_becomes_what_a_person_can_act_on() {
        let place = Place::new(Path::new("/nowhere/agent.db"));
        let said = |code| place.sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        for code in
            [ffi::SQLITE_READONLY, ffi::SQLITE_READONLY_DBMOVED, ffi::SQLITE_READONLY_DIRECTORY, ffi::SQLITE_PERM]
        {
            assert!(matches!(said(code), StoreError::ReadOnly { .. }), "{code}");
        }
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_SHMSIZE] {
            assert!(matches!(said(code), StoreError::Full { .. }), "{code}");
        }
        for code in [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_RECOVERY, ffi::SQLITE_LOCKED] {
            assert!(matches!(said(code), StoreError::Busy { .. }), "{code}");
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB] {
            assert!(matches!(said(code), StoreError::Corrupt { .. }), "{code}");
        }
        for code in [ffi::SQLITE_CANTOPEN, ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_NOMEM] {
            let error = said(code);
            assert!(matches!(error, StoreError::Io { .. }), "{code}");
            assert!(error.to_string().contains("/nowhere/agent.db"), "{error}");
        }
    }

    #[test]
    fn what_the_system_says_becomes_what_a_person_can_act_on() {
        let place = Place::new(Path::new("/nowhere/agent.db"));
        let said = |kind: io::ErrorKind| place.io(kind.into());
        assert!(matches!(said(io::ErrorKind::ReadOnlyFilesystem), StoreError::ReadOnly { .. }));
        assert!(matches!(said(io::ErrorKind::PermissionDenied), StoreError::ReadOnly { .. }));
        assert!(matches!(said(io::ErrorKind::StorageFull), StoreError::Full { .. }));
        assert!(matches!(said(io::ErrorKind::NotFound), StoreError::Io { .. }));
    }
}

//! The only reader of the environment. Everything else is handed values.

use std::ffi::OsString;
use std::path::PathBuf;

/// What the environment says that this program listens to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    /// `SWITCHBOARD_DATA`: the data folder.
    pub(crate) data: Option<PathBuf>,
    /// `XDG_DATA_HOME`.
    pub(crate) data_home: Option<PathBuf>,
    /// `HOME`.
    pub(crate) home: Option<PathBuf>,
    /// `NO_COLOR`, set to anything but nothing.
    pub(crate) no_color: bool,
    /// `SWITCHBOARD_LOG`: which log lines go to standard error.
    pub(crate) log: Option<String>,
    /// `PATH`.
    pub(crate) path: Option<OsString>,
    /// All of it, for child processes, which get the safe part.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// The folder that the program was started in.
    pub(crate) working_folder: PathBuf,
}

impl Environment {
    /// Reads the environment of this process.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub(crate) fn read() -> Self {
        let variables: Vec<_> = std::env::vars_os().collect();
        let working_folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        Self::of(variables, working_folder)
    }

    /// The environment that `variables` describe. Empty values count as absent.
    pub(crate) fn of(variables: Vec<(OsString, OsString)>, working_folder: PathBuf) -> Self {
        let value = |name: &str| {
            let found = variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
            found.filter(|value| !value.is_empty())
        };
        Self {
            data: value("SWITCHBOARD_DATA").map(PathBuf::from),
            data_home: value("XDG_DATA_HOME").map(PathBuf::from),
            home: value("HOME").map(PathBuf::from),
            no_color: value("NO_COLOR").is_some(),
            log: value("SWITCHBOARD_LOG").and_then(|text| text.into_string().ok()),
            path: value("PATH"),
            working_folder,
            variables,
        }
    }
}

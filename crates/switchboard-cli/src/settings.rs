//! What will happen: the typed and the found settings, resolved. No `Option` where there is a default.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Component, Path, PathBuf};

use crate::args::Global;
use crate::env::Environment;
use crate::problem::Problem;

/// The settings that every command shares.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The data folder, absolute.
    pub(crate) data: PathBuf,
    /// Which instance of the program's own agent is meant.
    pub(crate) instance: String,
    /// JSON on standard output, problem documents on standard error.
    pub(crate) json: bool,
    /// Whether standard output is a terminal.
    pub(crate) stdout_is_terminal: bool,
    /// Whether standard error is a terminal, so that progress may be shown.
    pub(crate) stderr_is_terminal: bool,
    /// Whether colours are wanted on standard output.
    pub(crate) color: bool,
    /// Which log lines go to standard error, in the words of `tracing`'s filter.
    pub(crate) log: String,
    /// `HOME`, for `~`.
    pub(crate) home: Option<PathBuf>,
    /// `PATH`, to look up commands.
    pub(crate) path: OsString,
    /// The folder that relative paths start from.
    pub(crate) working_folder: PathBuf,
    /// The environment that child processes inherit the safe part of.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

impl Settings {
    /// Resolves what was typed against what was found. `log` is what is logged when nobody says.
    pub(crate) fn resolve(typed: &Global, found: Environment, log: &'static str) -> Result<Self, Problem> {
        let data = data_folder(typed.data.as_deref(), &found)?;
        check_instance(&typed.instance)?;
        let stdout_is_terminal = std::io::stdout().is_terminal();
        Ok(Self {
            data,
            instance: typed.instance.clone(),
            json: typed.json,
            stdout_is_terminal,
            stderr_is_terminal: std::io::stderr().is_terminal(),
            color: stdout_is_terminal && !found.no_color && !typed.json,
            log: found.log.unwrap_or_else(|| log_level(typed.verbose).unwrap_or(log).to_owned()),
            home: found.home,
            path: found.path.unwrap_or_default(),
            working_folder: found.working_folder,
            variables: found.variables,
        })
    }

    /// The path made absolute: `~` is the home folder, relative paths start at the working folder.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        absolute(path, self.home.as_deref(), &self.working_folder)
    }
}

/// `--data`, else `SWITCHBOARD_DATA`, else `$XDG_DATA_HOME/switchboard`, else `~/.local/share/switchboard`.
fn data_folder(typed: Option<&Path>, found: &Environment) -> Result<PathBuf, Problem> {
    if let Some(named) = typed.or(found.data.as_deref()) {
        return Ok(absolute(named, found.home.as_deref(), &found.working_folder));
    }
    // The XDG specification asks that a relative path there is ignored.
    let base = found.data_home.clone().filter(|path| path.is_absolute());
    let base = base.or_else(|| found.home.as_ref().map(|home| home.join(".local/share")));
    let base = base.ok_or_else(|| {
        Problem::input("there is no home folder to keep data in").hint("name a data folder with --data DIR")
    })?;
    Ok(absolute(&base.join("switchboard"), None, &found.working_folder))
}

fn absolute(path: &Path, home: Option<&Path>, working_folder: &Path) -> PathBuf {
    let expanded = match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_path_buf(),
    };
    let whole = working_folder.join(expanded);
    whole.components().filter(|part| *part != Component::CurDir).collect()
}

fn log_level(verbose: u8) -> Option<&'static str> {
    match verbose {
        0 => None,
        1 => Some("info"),
        2 => Some("debug"),
        _ => Some("trace"),
    }
}

/// An instance's name stands in addresses and in the store.
fn check_instance(name: &str) -> Result<(), Problem> {
    let fits = (1..=128).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@'))
        && !matches!(name, "." | "..");
    if fits {
        Ok(())
    } else {
        Err(Problem::input(format!("`--instance`: `{name}` is not a name of an instance"))
            .hint("1 to 128 characters of a-z A-Z 0-9 - _ . @"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Environment::of(variables, PathBuf::from("/here"))
    }

    fn data(typed: Option<&str>, variables: &[(&str, &str)]) -> String {
        let folder = data_folder(typed.map(Path::new), &environment(variables)).unwrap();
        folder.to_string_lossy().into_owned()
    }

    #[test]
    fn the_data_folder_is_what_was_typed_then_what_was_found_then_the_usual_place() {
        let all = [("SWITCHBOARD_DATA", "/found"), ("XDG_DATA_HOME", "/xdg"), ("HOME", "/home/me")];
        assert_eq!(data(Some("typed"), &all), "/here/typed");
        assert_eq!(data(Some("~/x"), &all), "/home/me/x");
        assert_eq!(data(None, &all), "/found");
        assert_eq!(data(None, &all[1..]), "/xdg/switchboard");
        assert_eq!(data(None, &all[2..]), "/home/me/.local/share/switchboard");
        assert_eq!(data(None, &[("XDG_DATA_HOME", "relative"), ("HOME", "/h")]), "/h/.local/share/switchboard");
        assert_eq!(data(None, &[("SWITCHBOARD_DATA", ""), ("HOME", "/h")]), "/h/.local/share/switchboard");
    }

    #[test]
    fn without_a_home_a_data_folder_must_be_named() {
        let problem = data_folder(None, &environment(&[])).unwrap_err();
        assert!(problem.text().contains("--data"));
    }

    #[test]
    fn names_of_instances_are_safe_in_an_address() {
        for good in ["default", "user-1", "a@b.example"] {
            check_instance(good).unwrap();
        }
        for bad in ["", "a/b", "..", "a b", "é"] {
            assert!(check_instance(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn folders_are_made_absolute() {
        let here = Path::new("/here");
        assert_eq!(absolute(Path::new("./a"), None, here), Path::new("/here/a"));
        assert_eq!(absolute(Path::new("~"), Some(Path::new("/h")), here), Path::new("/h"));
        assert_eq!(absolute(Path::new("~other"), Some(Path::new("/h")), here), Path::new("/here/~other"));
    }
}

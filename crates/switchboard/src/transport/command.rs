//! From a registration to a program that can be started: its path, its arguments, its environment.
//!
//! The environment comes in as a value; this library reads none.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SpawnError;
use crate::spec::{Inherit, StdioTarget};

/// The environment that children may inherit from.
#[derive(Clone, Default)]
pub(crate) struct Environment(Arc<BTreeMap<OsString, OsString>>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Names that every child inherits; those of the second row are what Windows needs to start a program.
const SAFE: [&str; 20] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "LC_ALL",
    "LC_CTYPE",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "COMSPEC",
    "PATHEXT",
    "TEMP",
    "TMP",
    "APPDATA",
    "LOCALAPPDATA",
    "USERPROFILE",
];

impl Environment {
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(Arc::new(variables.into_iter().collect()))
    }

    /// The environment of one child: what it inherits, overridden by what its registration gives.
    pub(super) fn for_child(&self, target: &StdioTarget) -> BTreeMap<OsString, OsString> {
        let inherits = |name: &OsStr| {
            let text = name.to_string_lossy();
            let is_safe = SAFE.iter().any(|safe| text.eq_ignore_ascii_case(safe)) || text.starts_with("LC_");
            match &target.inherit {
                Inherit::Safe => is_safe,
                Inherit::Also(names) => is_safe || names.iter().any(|name| *name == text),
                Inherit::All => true,
            }
        };
        let inherited =
            self.0.iter().filter(|(name, _)| inherits(name)).map(|(name, value)| (name.clone(), value.clone()));
        let given = target.env.iter().map(|(name, value)| (name.into(), value.expose().into()));
        inherited.chain(given).collect()
    }
}

/// A program that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// Its path.
    pub(super) path: PathBuf,
    /// Its arguments.
    pub(super) args: Vec<OsString>,
    /// On Windows a batch file runs through its interpreter, with a command line that is quoted already.
    pub(super) verbatim: Option<String>,
}

/// Finds the program that a registration names, in the `PATH` of its own environment.
///
/// # Errors
/// When there is none.
pub(super) fn find(
    target: &StdioTarget,
    environment: &BTreeMap<OsString, OsString>,
    is_program: &dyn Fn(&Path) -> bool,
) -> Result<Program, SpawnError> {
    let path = environment.get(OsStr::new("PATH"));
    let not_found = || SpawnError::NotFound { command: target.command.clone(), has_path: path.is_some() };
    let plain = |path: PathBuf| Program { path, args: target.args.iter().map(Into::into).collect(), verbatim: None };
    let command = Path::new(&target.command);
    if command.components().count() > 1 || command.is_absolute() {
        let path = target.cwd.as_ref().map_or_else(|| command.to_owned(), |cwd| cwd.join(command));
        return if is_program(&path) { Ok(plain(path)) } else { Err(not_found()) };
    }
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    folders.map(|folder| folder.join(command)).find(|path| is_program(path)).map(plain).ok_or_else(not_found)
}

/// Whether a file can be run.
pub(super) fn is_program(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    #[cfg(unix)]
    let is_executable = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let is_executable = true;
    metadata.is_file() && is_executable
}

/// How Windows finds and starts programs. Pure, so that it is tested everywhere.
#[cfg(any(windows, test))]
pub(super) mod windows {
    use super::{OsString, PathBuf, Program, SpawnError};

    /// Finds `command` in the folders of `path` with the endings of `pathext`, as the Windows shell does. A batch file is
    /// run by the command interpreter, with its arguments quoted so that none of them can start anything else.
    ///
    /// # Errors
    /// When there is no such program, or an argument cannot be passed to a batch file safely.
    pub(in crate::transport) fn find(
        command: &str,
        args: &[String],
        (path, pathext): (Option<&str>, Option<&str>),
        exists: &dyn Fn(&str) -> bool,
    ) -> Result<Program, SpawnError> {
        let not_found = || SpawnError::NotFound { command: command.to_owned(), has_path: path.is_some() };
        let endings: Vec<String> =
            pathext.unwrap_or(".COM;.EXE;.BAT;.CMD").split(';').map(str::to_ascii_lowercase).collect();
        let lower = command.to_ascii_lowercase();
        let has_ending = endings.iter().any(|ending| !ending.is_empty() && lower.ends_with(ending.as_str()));
        let has_folder = command.contains(['\\', '/', ':']);
        let folders: Vec<&str> =
            if has_folder { vec![""] } else { path.unwrap_or_default().split(';').filter(|f| !f.is_empty()).collect() };
        let candidates = folders.iter().flat_map(|folder| {
            let stem = if folder.is_empty() {
                command.to_owned()
            } else {
                format!("{}\\{command}", folder.trim_end_matches('\\'))
            };
            let with_endings: Vec<String> = endings.iter().map(|ending| format!("{stem}{ending}")).collect();
            if has_ending { vec![stem] } else { with_endings }
        });
        let program = candidates.into_iter().find(|candidate| exists(candidate)).ok_or_else(not_found)?;
        let is_batch = [".cmd", ".bat"].iter().any(|ending| program.to_ascii_lowercase().ends_with(ending));
        if !is_batch {
            let args = args.iter().map(OsString::from).collect();
            return Ok(Program { path: PathBuf::from(program), args, verbatim: None });
        }
        let line = batch_line(&program, args).ok_or_else(|| SpawnError::Refused {
            command: command.to_owned(),
            source: std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "an argument cannot be passed to a batch file",
            ),
        })?;
        Ok(Program { path: PathBuf::from("cmd.exe"), args: Vec::new(), verbatim: Some(line) })
    }

    /// The interpreter's command line. Every argument is quoted; a quote is doubled; a percent sign is kept from starting a
    /// variable by an expansion that is always empty; line breaks cannot be passed.
    fn batch_line(program: &str, args: &[String]) -> Option<String> {
        let mut line = format!("/e:ON /v:OFF /d /c \"\"{program}\"");
        for arg in args {
            if arg.contains(['\r', '\n', '\0']) {
                return None;
            }
            line.push_str(" \"");
            let mut backslashes = 0;
            for character in arg.chars() {
                match character {
                    '\\' => backslashes += 1,
                    '"' => {
                        // Backslashes before a quote must be doubled, and the quote too.
                        line.extend(std::iter::repeat_n('\\', backslashes));
                        line.push('"');
                        backslashes = 0;
                    }
                    '%' => {
                        line.push_str("%%cd:~,");
                        backslashes = 0;
                    }
                    _ => backslashes = 0,
                }
                line.push(character);
            }
            line.extend(std::iter::repeat_n('\\', backslashes));
            line.push('"');
        }
        line.push('"');
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(inherit: Inherit) -> BTreeMap<OsString, OsString> {
        let mut target = StdioTarget::new("x", Vec::new()).unwrap();
        target.inherit = inherit;
        target.env.insert("TERM".into(), "explicit".to_owned().into());
        let given = [("PATH", "/bin"), ("LC_TIME", "C"), ("TERM", "xterm"), ("HTTPS_PROXY", "p"), ("SECRET_X", "s")];
        let given = Environment::new(given.map(|(name, value)| (name.into(), value.into())));
        given.for_child(&target)
    }

    fn names(environment: &BTreeMap<OsString, OsString>) -> Vec<&str> {
        environment.keys().map(|name| name.to_str().unwrap()).collect()
    }

    #[test]
    fn b107_children_inherit_the_safe_list_named_ones_or_all() {
        assert_eq!(names(&environment(Inherit::Safe)), ["LC_TIME", "PATH", "TERM"]);
        assert_eq!(
            names(&environment(Inherit::Also(vec!["HTTPS_PROXY".into()]))),
            ["HTTPS_PROXY", "LC_TIME", "PATH", "TERM"]
        );
        assert_eq!(names(&environment(Inherit::All)), ["HTTPS_PROXY", "LC_TIME", "PATH", "SECRET_X", "TERM"]);
    }

    #[test]
    fn b107_explicit_values_win() {
        for inherit in [Inherit::Safe, Inherit::All] {
            assert_eq!(environment(inherit)[OsStr::new("TERM")], "explicit");
        }
    }

    #[test]
    fn commands_are_found_in_the_path_that_was_given() {
        let target = StdioTarget::new("npx", vec!["-y".into()]).unwrap();
        let environment = BTreeMap::from([("PATH".into(), "/a:/b".into())]);
        let found = find(&target, &environment, &|path| path == Path::new("/b/npx")).unwrap();
        assert_eq!((found.path, found.args), (PathBuf::from("/b/npx"), vec![OsString::from("-y")]));
        let error = find(&target, &environment, &|_| false).unwrap_err();
        assert_eq!(error.to_string(), "the command `npx` was not found in PATH");
        let error = find(&target, &BTreeMap::new(), &|_| true).unwrap_err();
        assert!(error.to_string().contains("no PATH was given"), "{error}");
    }

    #[test]
    fn a_command_with_a_folder_is_taken_from_the_working_folder() {
        let mut target = StdioTarget::new("./serve", Vec::new()).unwrap();
        target.cwd = Some("/srv".into());
        let found = find(&target, &BTreeMap::new(), &|path| path == Path::new("/srv/./serve")).unwrap();
        assert_eq!(found.path, Path::new("/srv/./serve"));
    }

    fn on_windows(command: &str, args: &[&str], files: &[&str]) -> Result<Program, SpawnError> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        windows::find(command, &args, (Some(r"C:\node;C:\Windows"), Some(".EXE;.CMD")), &|path| {
            files.iter().any(|file| file.eq_ignore_ascii_case(path))
        })
    }

    #[test]
    fn b105_a_bare_command_is_found_by_its_endings() {
        let found = on_windows("npx", &["-y", "a b"], &[r"C:\node\npx.cmd"]).unwrap();
        assert_eq!(found.path, Path::new("cmd.exe"));
        assert_eq!(found.verbatim.unwrap(), r#"/e:ON /v:OFF /d /c ""C:\node\npx.cmd" "-y" "a b"""#);
        let found = on_windows("uvx", &["a b"], &[r"C:\Windows\uvx.exe"]).unwrap();
        assert_eq!((found.path, found.verbatim), (PathBuf::from(r"C:\Windows\uvx.exe"), None));
        assert!(on_windows("nothing", &[], &[]).is_err());
    }

    #[test]
    fn b105_arguments_to_a_batch_file_cannot_start_anything_else() {
        let line =
            |arg: &str| on_windows("npx", &[arg], &[r"C:\node\npx.cmd"]).map(|program| program.verbatim.unwrap());
        assert!(line(r#"a"&calc"#).unwrap().ends_with(r#" "a""&calc"""#));
        assert!(line("%PATH%").unwrap().ends_with(r#" "%%cd:~,%PATH%%cd:~,%"""#));
        assert!(line(r"dir\").unwrap().ends_with(r#" "dir\\"""#));
        assert!(line("a\r\ncalc").is_err());
    }
}

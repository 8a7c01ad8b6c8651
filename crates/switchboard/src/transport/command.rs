//! From a registration to a program that can be started: its path, its arguments, its environment.
//!
//! The environment comes in as a value; this library reads none.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Looked, SpawnError};
use crate::spec::{Inherit, StdioTarget};

/// The environment that children may inherit from.
#[derive(Clone, Default)]
pub(crate) struct Environment(Arc<BTreeMap<OsString, OsString>>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Names that every child inherits, besides those that begin with `LC_`.
const SAFE: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR"];
/// What programs need besides to start on Windows and to find their places there.
const SAFE_ON_WINDOWS: [&str; 20] = [
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "COMSPEC",
    "PATHEXT",
    "TEMP",
    "TMP",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "COMMONPROGRAMFILES",
    "USERPROFILE",
    "USERNAME",
    "HOMEDRIVE",
    "HOMEPATH",
    "PROCESSOR_ARCHITECTURE",
    "NUMBER_OF_PROCESSORS",
];

/// How a system reads the names in an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Case makes a difference.
    Unix,
    /// Case makes none, and there are more safe names.
    Windows,
}

impl Names {
    const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Unix };

    fn are_same(self, one: &str, two: &str) -> bool {
        match self {
            Self::Unix => one == two,
            Self::Windows => one.eq_ignore_ascii_case(two),
        }
    }

    fn is_safe(self, name: &str) -> bool {
        let more: &[&str] = if self == Self::Windows { &SAFE_ON_WINDOWS } else { &[] };
        name.starts_with("LC_") || SAFE.iter().chain(more).any(|safe| self.are_same(name, safe))
    }
}

impl Environment {
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(Arc::new(variables.into_iter().collect()))
    }

    /// The environment of one child: what it inherits, overridden by what its registration gives.
    pub(super) fn for_child(&self, target: &StdioTarget) -> BTreeMap<OsString, OsString> {
        self.for_child_of(target, Names::HERE)
    }

    fn for_child_of(&self, target: &StdioTarget, names: Names) -> BTreeMap<OsString, OsString> {
        let inherits = |name: &OsStr| {
            let text = name.to_string_lossy();
            let is_inherited = match &target.inherit {
                Inherit::Safe => names.is_safe(&text),
                Inherit::Also(also) => names.is_safe(&text) || also.iter().any(|name| names.are_same(name, &text)),
                Inherit::All => true,
            };
            // A name in another case would stand beside the explicit one, and might win.
            is_inherited && !target.env.keys().any(|given| names.are_same(given, &text))
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

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    /// A file that can be run.
    Program,
    /// A folder.
    Folder,
    /// A file that may not be run.
    File,
    /// Nothing.
    Nothing,
}

/// Looks at a path.
pub(super) fn look_at(path: &Path) -> Thing {
    let Ok(metadata) = path.metadata() else { return Thing::Nothing };
    #[cfg(unix)]
    let is_executable = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let is_executable = true;
    match (metadata.is_dir(), is_executable) {
        (true, _) => Thing::Folder,
        (false, true) if metadata.is_file() => Thing::Program,
        (false, _) => Thing::File,
    }
}

/// Finds the program that a registration names, in the `PATH` of its own environment.
///
/// # Errors
/// When there is none.
pub(super) fn find(
    target: &StdioTarget,
    environment: &BTreeMap<OsString, OsString>,
    look_at: &dyn Fn(&Path) -> Thing,
) -> Result<Program, SpawnError> {
    let not_found = |looked| SpawnError::NotFound { command: target.command.clone(), looked };
    let no_program = |is| SpawnError::NoProgram { command: target.command.clone(), is };
    let plain = |path: PathBuf| Program { path, args: target.args.iter().map(Into::into).collect(), verbatim: None };
    let command = Path::new(&target.command);
    if command.components().count() > 1 || command.is_absolute() {
        let path = target.cwd.as_ref().map_or_else(|| command.to_owned(), |cwd| cwd.join(command));
        return match look_at(&path) {
            Thing::Program => Ok(plain(path)),
            Thing::Folder => Err(no_program("is a folder")),
            Thing::File => Err(no_program("is not executable")),
            Thing::Nothing => Err(not_found(Looked::There)),
        };
    }
    let Some(path) = environment.get(OsStr::new("PATH")) else { return Err(not_found(Looked::Nowhere)) };
    let mut places = std::env::split_paths(path).map(|folder| folder.join(command));
    places.find(|path| look_at(path) == Thing::Program).map(plain).ok_or_else(|| not_found(Looked::InPath))
}

/// How Windows finds and starts programs. Pure, so that it is tested everywhere.
#[cfg(any(windows, test))]
pub(super) mod windows {
    use super::{Looked, OsString, PathBuf, Program, SpawnError};

    /// The endings of what can be started. `PATHEXT` may name more, such as `.JS`, which only a shell knows to open.
    const ENDINGS: [&str; 4] = [".com", ".exe", ".bat", ".cmd"];

    /// What the environment says of where programs are.
    #[derive(Debug, Clone, Copy, Default)]
    pub(in crate::transport) struct Places<'a> {
        /// `PATH`.
        pub(in crate::transport) path: Option<&'a str>,
        /// `PATHEXT`.
        pub(in crate::transport) pathext: Option<&'a str>,
        /// `SystemRoot`.
        pub(in crate::transport) system_root: Option<&'a str>,
        /// The working folder of the child.
        pub(in crate::transport) cwd: Option<&'a str>,
    }

    impl Places<'_> {
        /// The endings to try, in the order of `PATHEXT`.
        fn endings(&self) -> Vec<String> {
            let named = self.pathext.unwrap_or_default().split(';').map(|ending| ending.trim().to_ascii_lowercase());
            let named: Vec<String> = named.filter(|ending| ENDINGS.contains(&ending.as_str())).collect();
            if named.is_empty() { ENDINGS.map(str::to_owned).to_vec() } else { named }
        }

        /// The places where `command` may be, without its ending. A bare name is never taken from the working folder,
        /// where anybody may have put it.
        fn of(&self, command: &str) -> Vec<String> {
            let join = |folder: &str| format!("{}\\{command}", folder.trim_end_matches(['\\', '/']));
            if !command.contains(['\\', '/', ':']) {
                return folders(self.path.unwrap_or_default()).iter().map(|folder| join(folder)).collect();
            }
            let is_rooted = command.starts_with(['\\', '/']) || command.contains(':');
            let cwd = self.cwd.filter(|_| !is_rooted);
            vec![cwd.map_or_else(|| command.to_owned(), join)]
        }

        /// The command interpreter, from where only an administrator can have put it.
        fn interpreter(&self) -> String {
            let folder = self.system_root.map(|root| format!("{}\\System32\\", root.trim_end_matches('\\')));
            folder.unwrap_or_default() + "cmd.exe"
        }
    }

    /// The folders of a `PATH`; a semicolon within quotes belongs to a name.
    fn folders(path: &str) -> Vec<String> {
        let mut folders = vec![String::new()];
        let mut is_quoted = false;
        for character in path.chars() {
            match (character, folders.last_mut()) {
                ('"', _) => is_quoted = !is_quoted,
                (';', _) if !is_quoted => folders.push(String::new()),
                (character, Some(folder)) => folder.push(character),
                (_, None) => {}
            }
        }
        folders.retain(|folder| !folder.is_empty());
        folders
    }

    /// Finds `command` in the folders of `PATH` with the endings of `PATHEXT`, as the Windows shell does. A batch file is
    /// run by the command interpreter, with its arguments quoted so that none of them can start anything else.
    ///
    /// # Errors
    /// When there is no such program, or an argument cannot be passed to a batch file safely.
    pub(in crate::transport) fn find(
        command: &str,
        args: &[String],
        places: Places<'_>,
        exists: &dyn Fn(&str) -> bool,
    ) -> Result<Program, SpawnError> {
        let endings = places.endings();
        let lower = command.to_ascii_lowercase();
        let has_ending = ENDINGS.iter().any(|ending| lower.ends_with(ending));
        let found = places.of(command).into_iter().find_map(|stem| {
            let mut candidates = if has_ending { vec![stem.clone()] } else { Vec::new() };
            candidates.extend(endings.iter().map(|ending| format!("{stem}{ending}")));
            candidates.into_iter().find(|candidate| exists(candidate))
        });
        let program = found.ok_or_else(|| {
            let looked = match places.path {
                _ if command.contains(['\\', '/', ':']) => Looked::There,
                Some(_) => Looked::InPath,
                None => Looked::Nowhere,
            };
            SpawnError::NotFound { command: command.to_owned(), looked }
        })?;
        let is_batch = [".cmd", ".bat"].iter().any(|ending| program.to_ascii_lowercase().ends_with(ending));
        if !is_batch {
            let args = args.iter().map(OsString::from).collect();
            return Ok(Program { path: PathBuf::from(program), args, verbatim: None });
        }
        let line = batch_line(&program, args).ok_or_else(|| SpawnError::Refused {
            command: command.to_owned(),
            source: std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "an argument with a line break cannot be passed to a batch file",
            ),
        })?;
        Ok(Program { path: PathBuf::from(places.interpreter()), args: Vec::new(), verbatim: Some(line) })
    }

    /// The interpreter's command line. Every argument is quoted; a quote is doubled; a percent sign is kept from starting a
    /// variable by an expansion that is always empty; line breaks cannot be passed.
    fn batch_line(program: &str, args: &[String]) -> Option<String> {
        let program = program.replace('%', "%%cd:~,%");
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
        let given = [("PATH", "/bin"), ("LC_TIME", "C"), ("TERM", "xterm"), ("HTTPS_PROXY", "p"), ("SECRET_X", "s")];
        of_child(inherit, Names::HERE, &given)
    }

    fn of_child(inherit: Inherit, names: Names, given: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        let mut target = StdioTarget::new("x", Vec::new()).unwrap();
        target.inherit = inherit;
        target.env.insert("TERM".into(), "explicit".to_owned().into());
        Environment::new(given.iter().map(|(name, value)| (name.into(), value.into()))).for_child_of(&target, names)
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
    fn b107_names_are_read_as_the_system_reads_them() {
        let given = [("Path", "p"), ("SystemRoot", "r"), ("Term", "inherited"), ("TEMP", "t"), ("lc_all", "C")];
        let seen = of_child(Inherit::Safe, Names::Windows, &given);
        assert_eq!(names(&seen), ["Path", "SystemRoot", "TEMP", "TERM"]);
        assert_eq!(seen[OsStr::new("TERM")], "explicit");
        assert_eq!(names(&of_child(Inherit::Safe, Names::Unix, &given)), ["TERM"]);
        assert_eq!(
            names(&of_child(Inherit::Also(vec!["term".into(), "Term".into()]), Names::Unix, &given)),
            ["TERM", "Term"]
        );
        assert_eq!(
            names(&of_child(Inherit::All, Names::Windows, &given)),
            ["Path", "SystemRoot", "TEMP", "TERM", "lc_all"]
        );
    }

    fn is(program: &str) -> impl Fn(&Path) -> Thing {
        move |path| if path == Path::new(program) { Thing::Program } else { Thing::Nothing }
    }

    #[test]
    fn commands_are_found_in_the_path_that_was_given() {
        let target = StdioTarget::new("npx", vec!["-y".into()]).unwrap();
        let environment = BTreeMap::from([("PATH".into(), "/a:/b".into())]);
        let found = find(&target, &environment, &is("/b/npx")).unwrap();
        assert_eq!((found.path, found.args), (PathBuf::from("/b/npx"), vec![OsString::from("-y")]));
        let error = find(&target, &environment, &|_| Thing::File).unwrap_err();
        assert_eq!(error.to_string(), "the command `npx` was not found in PATH");
        let error = find(&target, &BTreeMap::new(), &|_| Thing::Program).unwrap_err();
        assert!(error.to_string().contains("no PATH was given"), "{error}");
    }

    #[test]
    fn a_command_with_a_folder_is_taken_from_the_working_folder() {
        let mut target = StdioTarget::new("./serve", Vec::new()).unwrap();
        target.cwd = Some("/srv".into());
        let found = find(&target, &BTreeMap::new(), &is("/srv/./serve")).unwrap();
        assert_eq!(found.path, Path::new("/srv/./serve"));
    }

    const PLACES: windows::Places<'_> = windows::Places {
        path: Some(r#"C:\node;"C:\with;semicolon";C:\Windows\"#),
        pathext: Some(".COM;.EXE;.BAT;.CMD;.VBS;.JS"),
        system_root: Some(r"C:\Windows"),
        cwd: None,
    };

    fn on_windows(command: &str, args: &[&str], files: &[&str]) -> Result<Program, SpawnError> {
        on_windows_at(PLACES, command, args, files)
    }

    fn on_windows_at(
        places: windows::Places<'_>,
        command: &str,
        args: &[&str],
        files: &[&str],
    ) -> Result<Program, SpawnError> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        windows::find(command, &args, places, &|path| files.iter().any(|file| file.eq_ignore_ascii_case(path)))
    }

    #[test]
    fn b105_a_bare_command_is_found_by_its_endings() {
        let found = on_windows("npx", &["-y", "a b"], &[r"C:\node\npx", r"C:\node\npx.cmd"]).unwrap();
        assert_eq!(found.path, Path::new(r"C:\Windows\System32\cmd.exe"));
        assert_eq!(found.verbatim.unwrap(), r#"/e:ON /v:OFF /d /c ""C:\node\npx.cmd" "-y" "a b"""#);
        let found = on_windows("uvx", &["a b"], &[r"C:\Windows\uvx.exe"]).unwrap();
        assert_eq!((found.path, found.verbatim), (PathBuf::from(r"C:\Windows\uvx.exe"), None));
        assert_eq!(found.args, ["a b"]);
        assert_eq!(
            on_windows("nothing", &[], &[]).unwrap_err().to_string(),
            "the command `nothing` was not found in PATH"
        );
    }

    #[test]
    fn b105_the_endings_of_pathext_are_tried_in_their_order_and_only_those_that_can_be_started() {
        let path = |places, command, files: &[&str]| on_windows_at(places, command, &[], files).map(|found| found.path);
        let both = [r"C:\node\x.exe", r"C:\node\x.com"];
        assert_eq!(path(PLACES, "x", &both).unwrap(), Path::new(r"C:\node\x.com"));
        let places = windows::Places { pathext: Some(".exe; .COM"), ..PLACES };
        assert_eq!(path(places, "x", &both).unwrap(), Path::new(r"C:\node\x.exe"));
        for pathext in [None, Some(""), Some(".JS")] {
            let places = windows::Places { pathext, ..PLACES };
            assert_eq!(path(places, "x", &both).unwrap(), Path::new(r"C:\node\x.com"), "{pathext:?}");
        }
        let script_first = [r"C:\node\x.js", r"C:\Windows\x.exe"];
        assert_eq!(path(PLACES, "x", &script_first).unwrap(), Path::new(r"C:\Windows\x.exe"));
        // An ending that is given is tried first; a dot alone makes none.
        assert_eq!(path(PLACES, "X.EXE", &both).unwrap(), Path::new(r"C:\node\X.EXE"));
        assert_eq!(
            path(PLACES, "python3.12", &[r"C:\node\python3.12.exe"]).unwrap(),
            Path::new(r"C:\node\python3.12.exe")
        );
        assert_eq!(path(PLACES, "a.bat", &[r"C:\node\a.bat.exe"]).unwrap(), Path::new(r"C:\node\a.bat.exe"));
    }

    #[test]
    fn b105_folders_in_quotes_are_read_and_the_working_folder_is_not_searched() {
        let found = on_windows("x", &[], &[r"C:\with;semicolon\x.exe"]).unwrap();
        assert_eq!(found.path, Path::new(r"C:\with;semicolon\x.exe"));
        let places = windows::Places { cwd: Some(r"C:\work\"), ..PLACES };
        assert!(on_windows_at(places, "x", &[], &[r"C:\work\x.exe", "x.exe", r"\x.exe"]).is_err());
        let found = on_windows_at(places, r"bin/x", &[], &[r"C:\work\bin/x.exe"]).unwrap();
        assert_eq!(found.path, Path::new(r"C:\work\bin/x.exe"));
        for rooted in [r"D:\x", r"\\share\x", r"\x"] {
            let file = format!("{rooted}.exe");
            assert_eq!(on_windows_at(places, rooted, &[], &[&file]).unwrap().path, Path::new(&file));
        }
        let places = windows::Places::default();
        assert!(on_windows_at(places, "x", &[], &[]).unwrap_err().to_string().contains("no PATH was given"));
        assert_eq!(
            on_windows_at(places, r".\x", &[], &[]).unwrap_err().to_string(),
            r"the command `.\x` was not found"
        );
        let found = on_windows_at(places, r".\x", &[], &[r".\x.bat"]).unwrap();
        assert_eq!(found.path, Path::new("cmd.exe"));
    }

    #[test]
    fn b105_arguments_to_a_batch_file_cannot_start_anything_else() {
        let line =
            |arg: &str| on_windows("npx", &[arg], &[r"C:\node\npx.cmd"]).map(|program| program.verbatim.unwrap());
        assert!(line(r#"a"&calc"#).unwrap().ends_with(r#" "a""&calc"""#));
        assert!(line("%PATH%").unwrap().ends_with(r#" "%%cd:~,%PATH%%cd:~,%"""#));
        assert!(line(r"dir\").unwrap().ends_with(r#" "dir\\"""#));
        assert!(line(r#"a\\"b"#).unwrap().ends_with(r#" "a\\\\""b"""#));
        assert!(line("").unwrap().ends_with(r#" """"#));
        assert!(line("^ | > < ( ) ! & 漢字").unwrap().ends_with(r#" "^ | > < ( ) ! & 漢字"""#));
        for arg in ["a\r\ncalc", "a\ncalc", "a\rcalc", "a\0"] {
            assert!(line(arg).unwrap_err().to_string().contains("could not be started"), "{arg:?}");
        }
        let found = on_windows(r"C:\100% mine\x", &[], &[r"C:\100% mine\x.cmd"]).unwrap();
        assert_eq!(found.verbatim.unwrap(), r#"/e:ON /v:OFF /d /c ""C:\100%%cd:~,% mine\x.cmd"""#);
    }
}

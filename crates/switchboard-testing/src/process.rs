//! What tests ask about processes: who lives, who is gone, and what this one holds.

use std::path::Path;
use std::time::Duration;

use crate::patience::{Alarm, breath};

/// One process as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The id of its parent.
    pub parent: u32,
    /// The id of its group.
    pub group: u32,
    /// Its state as one letter; `Z` is a zombie.
    pub state: char,
}

impl Process {
    /// The process with this id, dead or alive.
    pub fn find(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, so the fields are counted from its end.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        Some(Self { pid, state, parent: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
    }

    /// Every process that can be seen.
    pub fn all() -> Vec<Self> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Self::find(entry.file_name().to_str()?.parse().ok()?)).collect()
    }

    /// True unless it has ended and only waits for its parent to look.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// True when the process exists and is no zombie.
pub fn is_alive(pid: u32) -> bool {
    Process::find(pid).is_some_and(|process| process.is_alive())
}

/// True when any process of this group is alive.
pub fn is_group_alive(group: u32) -> bool {
    Process::all().iter().any(|process| process.group == group && process.is_alive())
}

/// The children of this process that have ended and that nobody has waited for.
pub fn zombie_children() -> Vec<u32> {
    let own = std::process::id();
    let zombies = Process::all().into_iter().filter(|process| process.parent == own && !process.is_alive());
    zombies.map(|process| process.pid).collect()
}

/// Waits in real time until the process is gone or a zombie; false when it still lives after `bound`.
pub async fn wait_until_gone(pid: u32, bound: Duration) -> bool {
    wait_until(bound, || !is_alive(pid)).await
}

/// Waits in real time until no process of this group lives; false when one still does after `bound`.
pub async fn wait_until_group_gone(group: u32, bound: Duration) -> bool {
    wait_until(bound, || !is_group_alive(group)).await
}

/// Waits in real time until `condition` holds, looking every few milliseconds; false when it does not within `bound`.
/// For what gives no notice of its own.
pub async fn wait_until(bound: Duration, condition: impl Fn() -> bool) -> bool {
    let looking = async {
        while !condition() {
            breath().await;
        }
    };
    let mut alarm = Alarm::after(bound);
    tokio::select! {
        () = looking => true,
        () = alarm.rings() => condition(),
    }
}

/// The memory of this process that is in RAM, in bytes.
///
/// # Panics
/// Where there is no `/proc`.
pub fn resident_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is a /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the status tells the memory");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("it is a number of kB");
    kibibytes * 1024
}

/// The file descriptors that this process has open.
///
/// # Panics
/// Where there is no `/proc`.
pub fn open_files() -> usize {
    let entries = std::fs::read_dir(Path::new("/proc/self/fd")).expect("there is a /proc");
    // One of them is the folder that is being read.
    entries.count() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_an_impossible_one_is_not() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(u32::MAX));
    }

    #[tokio::test]
    async fn an_ended_child_is_a_zombie_until_its_parent_looks() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        assert!(wait_until_gone(child.id(), Duration::from_secs(10)).await);
        assert!(zombie_children().contains(&child.id()));
        child.wait().unwrap();
        assert_eq!(Process::find(child.id()), None);
    }

    #[tokio::test]
    async fn waiting_for_a_process_that_stays_is_bounded() {
        assert!(!wait_until_gone(std::process::id(), Duration::from_millis(20)).await);
    }

    #[test]
    fn open_files_count() {
        let before = open_files();
        let _files: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        // Other tests in this process may close some of theirs meanwhile.
        assert!(open_files() > before + 25);
        assert!(resident_memory() > 1024 * 1024);
    }
}

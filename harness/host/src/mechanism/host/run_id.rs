//! The identity of a run on a host, and whether its coordinator still lives.
//!
//! Process ids are reused, also after a reboot. A coordinator is therefore named by the boot, the
//! namespace of its process id, the id and the start time. Every process that a run starts has this
//! name in its environment.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

use procfs::process::Process;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId {
    /// The boot of the host, `/proc/sys/kernel/random/boot_id`.
    boot: String,
    /// The namespace of the process id, by its inode.
    namespace: u64,
    pid: u32,
    /// Start of the process in clock ticks since the boot (proc_pid_stat(5), field 22).
    started: u64,
}

/// What this process knows about the coordinator of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Runs,
    Ended,
    /// It was started before the last boot.
    EarlierBoot,
    /// Its process id is of another namespace, as in a container.
    Unknown,
}

/// A text that names no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no run (accepted: BOOT:NAMESPACE:PID:START)")]
pub struct NoRun(String);

impl RunId {
    pub fn own() -> std::io::Result<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let pid = std::process::id();
        let started = start_of(pid).ok_or_else(|| std::io::Error::other("/proc/self/stat"))?;
        Ok(Self {
            boot: boot.trim().to_owned(),
            namespace: std::fs::metadata("/proc/self/ns/pid")?.ino(),
            pid,
            started,
        })
    }

    /// Process id of the coordinator.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the coordinator still lives, as far as `own` can tell.
    pub fn life(&self, own: &Self) -> Life {
        if self.boot != own.boot {
            Life::EarlierBoot
        } else if self.namespace != own.namespace {
            Life::Unknown
        } else if start_of(self.pid) == Some(self.started) {
            Life::Runs
        } else {
            Life::Ended
        }
    }

    /// A text for the names of its folders that no other run has.
    pub fn short(&self) -> String {
        let boot: String = self.boot.chars().take(4).collect();
        format!("{}-{:x}-{boot}", self.pid, self.started)
    }
}

/// When a process started; `None` if it has ended, also if it was not waited for.
fn start_of(pid: u32) -> Option<u64> {
    let stat = Process::new(pid.try_into().ok()?).ok()?.stat().ok()?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat.starttime)
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pid, started) = (self.pid, self.started);
        write!(f, "{}:{}:{pid}:{started}", self.boot, self.namespace)
    }
}

impl FromStr for RunId {
    type Err = NoRun;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let [boot, namespace, pid, started]: [&str; 4] =
                text.split(':').collect::<Vec<_>>().try_into().ok()?;
            Some(Self {
                boot: boot.to_owned(),
                namespace: namespace.parse().ok()?,
                pid: pid.parse().ok()?,
                started: started.parse().ok()?,
            })
        };
        read().ok_or_else(|| NoRun(text.to_owned()))
    }
}

impl TryFrom<String> for RunId {
    type Error = NoRun;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(run: RunId) -> Self {
        run.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{Life, RunId};

    #[test]
    fn a_run_is_read_as_it_was_written_and_other_texts_are_refused() -> std::io::Result<()> {
        let own = RunId::own()?;
        assert_eq!(own.to_string().parse(), Ok(own));
        for text in ["", "a:1:2", "a:1:2:3:4", "a:1:-2:3", "a:b:2:3"] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
        Ok(())
    }

    #[test]
    fn only_the_same_process_of_the_same_boot_is_alive() -> std::io::Result<()> {
        let own = RunId::own()?;
        let changed = |change: fn(&mut RunId)| {
            let mut run = own.clone();
            change(&mut run);
            run.life(&own)
        };
        assert_eq!(changed(|_| ()), Life::Runs);
        assert_eq!(changed(|run| run.started += 1), Life::Ended);
        assert_eq!(changed(|run| run.boot.push('x')), Life::EarlierBoot);
        assert_eq!(changed(|run| run.namespace += 1), Life::Unknown);
        Ok(())
    }

    #[test]
    fn a_process_that_ended_and_was_not_waited_for_is_dead() -> std::io::Result<()> {
        let own = RunId::own()?;
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn()?;
        let started = super::start_of(child.id()).ok_or_else(|| std::io::Error::other("dead"))?;
        let run = RunId { pid: child.id(), started, ..own.clone() };
        assert_eq!(run.life(&own), Life::Runs);
        drop(child.stdin.take());
        while run.life(&own) == Life::Runs {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(run.life(&own), Life::Ended);
        child.wait().map(|_| ())
    }
}

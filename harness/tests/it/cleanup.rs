//! `gpubench cleanup` after a run that died together with its guard process: it undoes what is
//! left, for the device that is named, and leaves no file behind.

use std::path::PathBuf;
use std::process::{Child, Command};

use crate::support::guarded::kill_both;
use crate::support::mechanism::daemons;
use crate::support::{Error, Lab, TestResult, finish, wait_for};

/// The folders in which a run keeps files.
const FOLDERS: [(&str, &str); 4] = [
    ("XDG_STATE_HOME", "state"),
    ("XDG_CACHE_HOME", "cache"),
    ("XDG_RUNTIME_DIR", "run"),
    ("TMPDIR", "tmp"),
];

/// A lab whose runs keep all their files in it.
struct Host(Lab);

impl Host {
    fn new() -> Result<Self, Error> {
        let lab = Lab::on("hopper")?;
        for (_, folder) in FOLDERS {
            std::fs::create_dir(lab.path(folder))?;
        }
        Ok(Self(lab))
    }

    fn with_folders(&self, mut command: Command) -> Command {
        for (variable, folder) in FOLDERS {
            command.env(variable, self.0.path(folder));
        }
        command
    }

    fn gpubench(&self, args: &[&str]) -> Command {
        self.with_folders(self.0.gpubench(args))
    }

    /// A run of `mps` that died with its guard process while its daemon ran. Returns its journal.
    fn died(&self) -> Result<String, Error> {
        let mut run: Child = self.with_folders(self.0.reconfigure("mps", "out")).spawn()?;
        self.0.wait_for_journal(&mut run, "mps-daemon")?;
        let journal = self.0.journal();
        wait_for("a daemon", || !daemons(&journal).is_empty())?;
        kill_both(&mut run)?;
        Ok(journal)
    }

    fn left(&self) -> Vec<PathBuf> {
        let entries = FOLDERS.iter().flat_map(|(_, folder)| {
            let folder = self.0.path(folder);
            std::fs::read_dir(folder).into_iter().flatten().flatten()
        });
        // The state folder itself stays, with what is kept for later runs.
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| !path.ends_with("state/gpubench") || self.0.journal() != "").collect()
    }
}

#[test]
fn cleanup_of_the_virtual_device_undoes_what_is_left_and_leaves_no_file() -> TestResult {
    for device in ["virtual", "virtual:hopper"] {
        let host = Host::new()?;
        let journal = host.died()?;
        assert_ne!(host.left(), Vec::<PathBuf>::new());
        let cleaned = finish(host.gpubench(&["cleanup", "--device", device]))?.ended_with(0)?;
        for part in ["undone: MPS daemon in", "undone: folder", "removed "] {
            assert!(cleaned.stdout.contains(part), "{device}: {}", cleaned.stdout);
        }
        assert_eq!(daemons(&journal), Vec::<u32>::new(), "{device}");
        assert_eq!(host.left(), Vec::<PathBuf>::new(), "{device}");
        let again = finish(host.gpubench(&["cleanup", "--device", device]))?.ended_with(0)?;
        assert_eq!(again.stdout, "nothing to clean up\n", "{device}");
    }
    Ok(())
}

#[test]
fn cleanup_of_another_device_leaves_the_journal() -> TestResult {
    let host = Host::new()?;
    let journal = host.died()?;
    finish(host.gpubench(&["cleanup", "--device", "virtual:turing"]))?.ended_with(0)?;
    assert_eq!(host.0.journal(), journal);
    finish(host.gpubench(&["cleanup"]))?.ended_with(0)?;
    assert_eq!(host.0.journal(), "");
    assert_eq!(host.left(), Vec::<PathBuf>::new());
    Ok(())
}

#[test]
fn an_unknown_device_is_a_usage_error() -> TestResult {
    let host = Host::new()?;
    for (device, part) in [
        ("GPU-00000000-0000-0000-0000-000000000000", "no journal names it"),
        ("7", "no journal names it"),
        ("virtual:nothing", "nothing"),
        ("gpu7", "is not a device"),
    ] {
        let refused = finish(host.gpubench(&["cleanup", "--device", device]))?.ended_with(2)?;
        assert!(refused.stderr.contains(part), "{device}: {}", refused.stderr);
        assert_eq!(refused.stdout, "", "{device}");
    }
    assert_eq!(host.left(), Vec::<PathBuf>::new());
    Ok(())
}

//! A process is killed before and after every step of making and undoing changes. The cleanup then
//! restores the host to its initial state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::{initial, unclean};
use crate::device::mig::Placement;
use crate::mechanism::host::fake::{FakeHost, State};
use crate::mechanism::host::{Change, DaemonConfig, Found, Guard, JournalLocation, Step};
use crate::mechanism::host::{Recovered, Recovery, When, leftovers, recover};

const GPU: &str = "GPU-kill-test";
const FOLDER: &str = "GPUBENCH_KILL_TEST_FOLDER";
const STEPS: &str = "GPUBENCH_KILL_TEST_STEPS";

/// A host in its initial state, in a folder of its own.
fn fresh() -> (tempfile::TempDir, Arc<FakeHost>) {
    let dir = tempfile::tempdir().expect("a folder");
    let host = Arc::new(FakeHost::new(&dir.path().join("host.json"), None));
    host.put(&initial());
    (dir, host)
}

/// One change of each kind, in an order in which a mechanism could make them.
fn changes() -> Vec<Change> {
    let instance = |start| Change::MigInstance {
        profile: "3g.40gb".to_owned(),
        profile_id: 9,
        placement: Placement { start, size: 4 },
        uuids: Vec::new(),
    };
    vec![
        Change::ComputeMode { found: "DEFAULT".to_owned(), set: "EXCLUSIVE_PROCESS".to_owned() },
        Change::Timeslice { found: "default".to_owned(), set: "short".to_owned() },
        Change::MigMode { found: false, set: true },
        instance(0),
        instance(4),
        Change::Folder { path: PathBuf::from("/private/gpubench") },
        Change::MpsDaemon {
            daemon: DaemonConfig {
                pipes: PathBuf::from("/private/gpubench/pipe"),
                logs: PathBuf::from("/private/gpubench/log"),
                device: GPU.to_owned(),
                static_partitions: false,
                protocol: 3,
                configuration: None,
            },
        },
        Change::Command {
            mechanism: "described".to_owned(),
            enter: Step { run: "enter described".to_owned(), limit_s: 1 },
            leave: Step { run: "leave described".to_owned(), limit_s: 1 },
            variables: BTreeMap::new(),
        },
    ]
}

fn journals(folder: &Path) -> JournalLocation {
    JournalLocation::new(&folder.join("state"), GPU, None)
}

/// The process that is killed, not a test: it returns at once without its variables.
#[test]
fn victim() {
    let (Some(folder), Ok(steps)) = (std::env::var_os(FOLDER), std::env::var(STEPS)) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let steps = steps.parse().expect("a number");
    let host = Arc::new(FakeHost::new(&folder.join("host.json"), Some(steps)));
    if unclean(&folder.join("state"), GPU).expect("readable").is_some() {
        clean_up_with(&host, &folder);
        return;
    }
    let mut guard = Guard::new(host, journals(&folder));
    for change in changes() {
        guard.make(change).expect("made");
    }
    guard.restore().expect("restored");
}

/// Runs the process; whether it ended by itself.
fn run_victim(folder: &Path, steps: u32) -> bool {
    let status = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "mechanism::host::tests::kills::victim"])
        .env(FOLDER, folder)
        .env(STEPS, steps.to_string())
        .output()
        .expect("started")
        .status;
    status.success()
}

fn clean_up(folder: &Path) {
    clean_up_with(&FakeHost::new(&folder.join("host.json"), None), folder);
}

/// As the guard process does, which follows the death at once.
fn clean_up_with(host: &FakeHost, folder: &Path) {
    let left = leftovers(&folder.join("state"), None, &|_| true).expect("readable");
    for (journal, left) in left {
        let recovery = Recovery::Whole(When::InRun);
        let Recovered { failed, .. } = recover(host, journal, &left, recovery).expect("written");
        assert_eq!(failed, [], "{left:?}");
    }
}

#[test]
fn restores_the_host_after_a_kill_at_any_step() {
    let mut completed_at = None;
    for steps in 0..64 {
        let (dir, host) = fresh();
        let completed = run_victim(dir.path(), steps);
        let left = unclean(&dir.path().join("state"), GPU).expect("readable");
        if completed {
            assert_eq!((host.state(), left), (initial(), None), "step {steps}");
            completed_at = Some(steps);
            break;
        }
        assert!(left.is_some(), "killed at step {steps} without a journal");
        // The cleanup is killed too, a few steps on, and runs again.
        let _ = run_victim(dir.path(), steps % 5);
        clean_up(dir.path());
        assert_eq!(host.state(), initial(), "killed at step {steps}");
        let left = unclean(&dir.path().join("state"), GPU).expect("readable");
        assert_eq!(left, None, "killed at step {steps}");
    }
    // Seven changes are made and undone, each with a step before and after.
    assert_eq!(completed_at, Some(32));
}

#[test]
fn restores_the_host_after_a_panic() {
    let (dir, host) = fresh();
    let (guarded, location) = (Arc::clone(&host), journals(dir.path()));
    let thread = std::thread::spawn(move || {
        let mut guard = Guard::new(guarded, location);
        for change in changes() {
            guard.make(change).expect("made");
        }
        panic!("in the middle of a run");
    });
    assert!(thread.join().is_err());
    assert_eq!(host.state(), initial());
    let left = unclean(&dir.path().join("state"), GPU).expect("readable");
    assert_eq!(left, None);
}

#[test]
fn reports_and_keeps_a_setting_that_another_process_changed() {
    let (dir, host) = fresh();
    let mut guard = Guard::new(host.clone(), journals(dir.path()));
    guard.make(changes().remove(0)).expect("made");
    host.put(&State { compute_mode: "PROHIBITED".to_owned(), ..initial() });
    let message = guard.restore().map_err(|error| error.to_string());
    assert!(
        message.as_ref().is_err_and(|text| text.contains("PROHIBITED now: left alone")),
        "{message:?}"
    );
    assert_eq!(host.state().compute_mode, "PROHIBITED");
    let left = unclean(&dir.path().join("state"), GPU).expect("readable");
    assert!(left.is_some_and(|text| text.contains("compute mode")));
}

#[test]
fn ignores_an_incomplete_last_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let state = dir.path().join("state");
    std::fs::create_dir(&state).expect("made");
    let found = serde_json::to_string(&Found::default()).expect("text");
    let began = format!("{{\"entry\":\"began\",\"gpu\":\"{GPU}\",\"pid\":1,\"found\":{found}}}\n");
    let torn = "{\"entry\":\"change\",\"number\":1,\"wh";
    let path = state.join(format!("{GPU}.jsonl"));
    std::fs::write(&path, format!("{began}{torn}")).expect("written");
    assert_eq!(unclean(&state, GPU).expect("readable"), None);
    assert!(!path.exists(), "a journal with nothing left is removed");
    std::fs::write(&path, format!("{began}nonsense\n")).expect("written");
    let message = unclean(&state, GPU).map_err(|error| error.to_string());
    assert!(message.is_err_and(|text| text.contains("line 2 is no entry")));
}

#[test]
fn ignores_the_journal_of_a_live_run() {
    let (dir, host) = fresh();
    let mut guard = Guard::new(host, journals(dir.path()));
    guard.make(changes().remove(5)).expect("made");
    let state = dir.path().join("state");
    assert!(state.join(format!("{GPU}.jsonl")).exists());
    assert_eq!(unclean(&state, GPU).expect("readable"), None);
    guard.restore().expect("restored");
    assert!(!state.join(format!("{GPU}.jsonl")).exists());
}

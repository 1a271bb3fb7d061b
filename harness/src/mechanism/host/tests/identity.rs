//! What is undone after a death is known by identity: an operator's own instances, settings and
//! folders stay, also where they are like those of the run.

use std::path::Path;
use std::sync::Arc;

use crate::device::mig::{ComputeInstance, Instance, Placement};
use crate::mechanism::host::fake::{FakeHost, State};
use crate::mechanism::host::{Change, Guard, JournalLocation, RunId};
use crate::mechanism::host::{Recovered, Recovery, When, leftovers, recover};

const GPU: &str = "GPU-identity-test";
const HALF: Placement = Placement { start: 0, size: 4 };

fn initial() -> State {
    State { compute_mode: "DEFAULT".to_owned(), slice: "default".to_owned(), ..State::default() }
}

fn instance(id: u32, uuid: &str) -> Instance {
    Instance {
        id,
        profile_id: 9,
        placement: HALF,
        compute: vec![ComputeInstance { id: 0, profile_id: 0, uuid: uuid.to_owned() }],
    }
}

/// A host on which a run died that had set the compute mode and made an instance.
struct Died {
    dir: tempfile::TempDir,
    host: Arc<FakeHost>,
}

impl Died {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let host = Arc::new(FakeHost::new(&dir.path().join("host.json"), None));
        host.put(&initial());
        let location = JournalLocation::new(&dir.path().join("state"), GPU, None);
        let mut guard = Guard::new(host.clone(), location);
        let changes = [
            Change::ComputeMode {
                found: "DEFAULT".to_owned(),
                set: "EXCLUSIVE_PROCESS".to_owned(),
            },
            Change::MigMode { found: false, set: true },
            Change::MigInstance {
                profile: "3g.40gb".to_owned(),
                profile_id: 9,
                placement: HALF,
                uuids: Vec::new(),
            },
        ];
        for change in changes {
            guard.make(change).expect("made");
        }
        let journal = dir.path().join("state").join(format!("{GPU}.jsonl"));
        let text = std::fs::read(&journal).expect("a journal");
        let state = host.state();
        drop(guard);
        // As the run would have left them, had it not restored them when it was dropped.
        std::fs::write(journal, text).expect("written");
        host.put(&state);
        Self { dir, host }
    }

    fn journal(&self) -> std::path::PathBuf {
        self.dir.path().join("state").join(format!("{GPU}.jsonl"))
    }

    /// Changes the text of the journal.
    fn edit(&self, edit: impl FnOnce(String) -> String) {
        let text = std::fs::read_to_string(self.journal()).expect("a journal");
        std::fs::write(self.journal(), edit(text)).expect("written");
    }

    fn recover(&self, when: When) -> Recovered {
        let state: &Path = &self.dir.path().join("state");
        let mut left = leftovers(state, None, &|_| true).expect("readable");
        assert_eq!(left.len(), 1);
        let (journal, left) = left.remove(0);
        recover(&*self.host, journal, &left, Recovery::Whole(when)).expect("written")
    }
}

/// Why changes could not be undone.
fn whys(recovered: &Recovered) -> String {
    let failed = recovered.failed.iter();
    failed.map(|(_, why)| format!("{why}\n")).collect()
}

#[test]
fn an_instance_of_another_uuid_at_the_same_placement_stays() {
    let died = Died::new();
    let mut state = died.host.state();
    state.instances = vec![instance(7, "MIG-operator")];
    died.host.put(&state);
    let recovered = died.recover(When::Later);
    assert_eq!(died.host.state().instances, state.instances);
    // MIG mode cannot be restored under it, so the journal stays.
    assert!(whys(&recovered).contains("MIG mode"));
    assert!(died.journal().exists());
    assert_eq!(died.host.state().compute_mode, "DEFAULT");
}

#[test]
fn after_a_reboot_instances_and_settings_are_of_the_operator() {
    let died = Died::new();
    let operators = State {
        compute_mode: "EXCLUSIVE_PROCESS".to_owned(),
        mig: true,
        // A driver may derive UUIDs from placements, so they can recur after a reboot.
        instances: died.host.state().instances,
        ..initial()
    };
    died.host.put(&operators);
    let recovered = died.recover(When::AfterReboot);
    assert_eq!(died.host.state(), operators);
    assert_eq!(recovered.failed, []);
    assert_eq!(recovered.left_alone, ["MIG mode is on, and MIG instances still exist"]);
    assert!(!died.journal().exists());
}

#[test]
fn a_mig_mode_that_outlived_a_reboot_is_restored() {
    let died = Died::new();
    died.host.put(&State { mig: true, ..initial() });
    assert_eq!(died.recover(When::AfterReboot).failed, []);
    assert_eq!(died.host.state(), initial());
}

#[test]
fn an_instance_without_a_recorded_uuid_is_left_to_the_user_later_and_ended_at_once() {
    let without_uuids = |text: String| {
        let lines = text.lines().filter(|line| !line.contains("\"made\""));
        lines.map(|line| format!("{line}\n")).collect()
    };
    let died = Died::new();
    died.edit(without_uuids);
    let recovered = died.recover(When::Later);
    assert!(whys(&recovered).contains("may be of another user"));
    assert_eq!(died.host.state().instances.len(), 1);
    assert_eq!(died.recover(When::InRun).failed, []);
    assert_eq!(died.host.state(), initial());
}

#[test]
fn a_setting_that_another_process_changed_stays_and_refuses_no_later_run() {
    let died = Died::new();
    let mut state = died.host.state();
    state.compute_mode = "PROHIBITED".to_owned();
    died.host.put(&state);
    let recovered = died.recover(When::Later);
    assert_eq!(recovered.failed, []);
    assert!(recovered.left_alone[0].contains("PROHIBITED now: left alone"));
    assert_eq!(died.host.state().compute_mode, "PROHIBITED");
    assert!(!died.journal().exists());
}

#[test]
fn a_journal_names_its_run() {
    let died = Died::new();
    let left = leftovers(&died.dir.path().join("state"), None, &|_| true).expect("readable");
    assert_eq!(left[0].1.run, RunId::own().ok());
}

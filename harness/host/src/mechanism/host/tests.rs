//! Set-ups that are killed at every step, on a host whose state is a file.

mod kills;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use gpubench_plan::profile::{Overrides, built_in};
use gpubench_predict::mig::tables;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::{JournalError, leftovers};
use crate::device::mig::{ComputeInstance, Instance, InstanceProfile, Placement};
use crate::mechanism::host::fake::{FakeHost, State};
use crate::mechanism::host::{
    Change, Guard, JournalLocation, Recovered, Recovery, RunId, When, recover,
};
use crate::mechanism::mig_layout::tests::profiles;
use crate::mechanism::mig_layout::{Layout, enter, fit, layout};
use crate::mechanism::{HostFacts, MechanismContext};

/// The changes that dead runs left on a GPU, in one line; `None` if there are none.
fn unclean(dir: &Path, gpu: &str) -> Result<Option<String>, JournalError> {
    let left = leftovers(dir, Some(gpu), &|left| left.gpu == gpu)?;
    let changes: Vec<String> = left
        .iter()
        .flat_map(|(_, left)| left.changes.iter().map(|(_, change)| change.describe()))
        .collect();
    Ok((!changes.is_empty()).then(|| changes.join("; ")))
}

// What is undone after a death is known by identity: an operator's own instances, settings and
// folders stay, also where they are like those of the run.

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

// Property test over MIG layouts: a layout is set up beside existing instances, and the process is
// killed at a random step. The host is restored, and the layout keeps to the vendor's placements.

const RESTORED_GPU: &str = "GPU-mig-restore-test";
const FOLDER: &str = "GPUBENCH_MIG_RESTORE_TEST_FOLDER";

/// The layout to set up on a GPU, and the steps until the process is killed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Case {
    gpu: usize,
    layout: String,
    count: usize,
    steps: Option<u32>,
}

impl Case {
    fn all(&self) -> Vec<InstanceProfile> {
        profiles(&tables()[self.gpu])
    }

    fn facts(&self, state: &State) -> HostFacts {
        HostFacts {
            mig: Some(state.mig),
            mig_profiles: self.all(),
            mig_instances: state.instances.clone(),
            ..HostFacts::default()
        }
    }

    /// Sets the layout up on the host in a folder, and restores it. Returns the state in between;
    /// `None` if the layout does not fit.
    fn run(&self, folder: &Path) -> Option<State> {
        let host = Arc::new(FakeHost::new(&folder.join("host.json"), self.steps));
        let profile = built_in("smoke", &Overrides::default()).expect("built in");
        let facts = self.facts(&host.state());
        let cx = MechanismContext { profile: &profile, facts: &facts };
        if !matches!(layout(&cx, &self.layout, self.count), Ok(Layout::Make(_))) {
            return None;
        }
        let location = JournalLocation::new(&folder.join("state"), RESTORED_GPU, None);
        let mut guard = Guard::new(host.clone(), location);
        enter(&cx, &mut guard, &self.layout, self.count).expect("it fits");
        let set_up = host.state();
        guard.restore().expect("restored");
        Some(set_up)
    }
}

/// `SIGKILL`, which ends the process at a step.
const KILL: i32 = 9;

/// The process that is killed, not a test: it returns at once without its variable.
#[test]
fn victim() {
    if let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) {
        let text = std::fs::read_to_string(folder.join("case.json")).expect("a case");
        let case: Case = serde_json::from_str(&text).expect("a case");
        case.run(&folder);
    }
}

/// Instances of the longest prefix of these sizes that fits.
fn found(all: &[InstanceProfile], picks: &[usize]) -> Vec<Instance> {
    let wanted: Vec<&InstanceProfile> = picks.iter().map(|pick| &all[pick % all.len()]).collect();
    let longest = (0..=wanted.len()).rev();
    let placed = longest.filter_map(|length| fit(all, &wanted[..length], &[]));
    let placed = placed.into_iter().next().unwrap_or_default();
    let instance = |(id, one): (u32, crate::mechanism::mig_layout::Wanted)| Instance {
        id,
        profile_id: one.profile.id,
        placement: one.placement,
        compute: vec![ComputeInstance { id: 0, profile_id: 0, uuid: format!("MIG-found-{id}") }],
    };
    (1..).zip(placed).map(instance).collect()
}

/// Whether a GPU can have these instances (MIG User Guide, "Supported MIG profiles").
fn is_legal(all: &[InstanceProfile], slices: u32, instances: &[Instance]) -> bool {
    let of = |instance: &Instance| all.iter().find(|p| p.id == instance.profile_id);
    let apart = |(at, one): (usize, &Instance)| {
        instances[at + 1..].iter().all(|other| {
            let (a, b) = (one.placement, other.placement);
            a.start + a.size <= b.start || b.start + b.size <= a.start
        })
    };
    let placed = |one: &Instance| of(one).is_some_and(|p| p.placements.contains(&one.placement));
    let few = all.iter().all(|profile| {
        let same = instances.iter().filter(|one| one.profile_id == profile.id);
        same.count() <= profile.max as usize
    });
    let used: u32 = instances.iter().filter_map(of).map(|p| p.slices).sum();
    few && used <= slices && instances.iter().all(placed) && instances.iter().enumerate().all(apart)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn restores_the_host_after_a_kill_at_any_step(
        gpu in 0..tables().len(),
        picks_found in prop::collection::vec(0_usize..32, 0..4),
        picks_wanted in prop::collection::vec(0_usize..32, 1..5),
        is_on in any::<bool>(),
        steps in 0_u32..24,
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let all = profiles(&tables()[gpu]);
        let names: Vec<&str> =
            picks_wanted.iter().map(|pick| all[pick % all.len()].name.as_str()).collect();
        let whole = Case { gpu, layout: names.join("+"), count: names.len(), steps: None };
        let instances = found(&all, &picks_found);
        let initial = State {
            compute_mode: "DEFAULT".to_owned(),
            mig: is_on || !instances.is_empty(),
            instances,
            ..State::default()
        };
        let host = FakeHost::new(&dir.path().join("host.json"), None);
        host.put(&initial);
        let set_up = whole.run(dir.path());
        prop_assume!(set_up.is_some());
        let set_up = set_up.expect("it fits");
        prop_assert_eq!(host.state(), initial.clone(), "after a whole run");
        prop_assert!(set_up.mig);
        prop_assert!(is_legal(&all, tables()[gpu].slices, &set_up.instances), "{:?}", set_up);
        prop_assert!(initial.instances.iter().all(|one| set_up.instances.contains(one)));
        prop_assert_eq!(set_up.instances.len(), initial.instances.len() + names.len());
        let killed = Case { steps: Some(steps), ..whole };
        let text = serde_json::to_string(&killed).expect("text");
        std::fs::write(dir.path().join("case.json"), text).expect("written");
        let ended = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "mechanism::host::tests::victim"])
            .env(FOLDER, dir.path())
            .output()
            .expect("started");
        let died = ended.status.signal() == Some(KILL);
        let passed = String::from_utf8_lossy(&ended.stdout).contains("1 passed");
        prop_assert!(died || passed, "{:?}", ended);
        let state = dir.path().join("state");
        for (journal, left) in leftovers(&state, None, &|_| true).expect("readable") {
            let recovery = Recovery::Whole(When::InRun);
            let recovered = recover(&host, journal, &left, recovery).expect("written");
            prop_assert_eq!(recovered.failed, []);
        }
        prop_assert_eq!(host.state(), initial, "killed at step {}", steps);
        prop_assert_eq!(unclean(&state, RESTORED_GPU).expect("readable"), None);
    }
}

/// A journal has commands that are run.
#[test]
fn a_journal_that_another_user_may_have_written_is_refused() -> std::io::Result<()> {
    use std::os::unix::fs::{chown, symlink};

    let dir = tempfile::tempdir()?;
    let path = dir.path().join(format!("{GPU}.jsonl"));
    let began = r#""found":{"compute_mode":"Default","timeslice":"Default"}}"#;
    let change = r#"{"entry":"change","number":1,"what":{"change":"folder","path":"/none"}}"#;
    let text = format!("{{\"entry\":\"began\",\"gpu\":\"{GPU}\",{began}\n{change}\n");
    std::fs::write(&path, text)?;
    let found = || leftovers(dir.path(), Some(GPU), &|_| true).map(|found| found.len());
    let refused = |why: &str| found().is_err_and(|error| error.to_string().contains(why));
    assert_eq!(found().ok(), Some(1));
    let other = dir.path().join("other");
    std::fs::hard_link(&path, &other)?;
    assert!(refused("it has several names"));
    std::fs::remove_file(&path)?;
    symlink(&other, &path)?;
    assert!(found().is_err(), "a link");
    std::fs::remove_file(&path)?;
    std::fs::rename(&other, &path)?;
    assert_eq!(found().ok(), Some(1));
    // Root alone can give a file away.
    if chown(&path, Some(1), None).is_ok() {
        assert!(refused("it is of user id 1"));
        chown(&path, Some(0), None)?;
        chown(dir.path(), Some(1), None)?;
        assert!(refused("it belongs to another user"));
        chown(dir.path(), Some(0), None)?;
    }
    Ok(())
}

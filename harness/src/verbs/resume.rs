//! An interrupted run that goes on: what its folder holds, and whether this host can continue it.
//!
//! Plan, seed, profile, calibration, labels and permissions come from the folder. The profile can
//! name a program to run, so the folder must be of the user who resumes it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gpubench_host::device::{DeviceSelector, identity};
use gpubench_judge::score;
use gpubench_judge::score::MACHINE_HASH;
use gpubench_plan::blocks_left;
use gpubench_plan::profile;
use gpubench_plan::profile::Profile;
use gpubench_record::{
    Calibration, DeviceIdentity, DeviceKind, INTERRUPTED, Interruption, Outcome, OutcomeKind, Plan,
    ProbeFound, Provenance, RunEvent, RunSettings,
};
use gpubench_run::Continued;
use gpubench_store::StoreError;
use gpubench_store::{EVENTS_FILE, RECORD_FILE, plan_of, read_events};

use super::run_folder::RunFolder;
use super::{DeviceSession, HostOptions, Reconfigure, calibration, ptx_hash, run_folder, verdict};
use crate::error::ExpectedError;

/// An interrupted run, whose folder is held.
pub struct Interrupted {
    pub dir: PathBuf,
    /// The profile with the values of the first command line.
    pub profile: Profile,
    pub options: HostOptions,
    /// The device of the first command line; a real one by its UUID.
    pub device: Option<DeviceSelector>,
    pub labels: BTreeMap<String, String>,
    /// Its calibration, if it got that far.
    pub calibration: Option<Calibration>,
    planned: Plan,
    /// The same with what happened since.
    plan: Plan,
    identity: DeviceIdentity,
    provenance: Provenance,
    settings: RunSettings,
    events: Vec<RunEvent>,
    last_event_at: String,
    lacks: Lacks,
    folder: RunFolder,
}

/// What is measured again: what an interruption cut, or also cells and trials that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacks {
    Cut,
    CutOrFailed,
}

/// Reads the folder of an interrupted run and holds it. Changes nothing.
/// Fails when it is no such folder, a run still writes it, nothing is missing, or another build
/// wrote it.
pub fn open(dir: &Path, lacks: Lacks) -> Result<Interrupted, ExpectedError> {
    let of_store = |error| verdict::from_store(dir, error);
    let events_file = dir.join(EVENTS_FILE);
    if !events_file.is_file() {
        return Err(if dir.join(RECORD_FILE).exists() {
            let problem = format!("it has no {EVENTS_FILE}, which a run is resumed from");
            unreadable(dir, problem)
        } else {
            of_store(StoreError::no_record(dir))
        });
    }
    let folder = run_folder::hold(dir)?;
    let last_event_at = last_event_at(dir, &events_file)?;
    let events = read_events(dir).map_err(of_store)?.events;
    let (Some(RunEvent::Began { plan, device, provenance, settings, .. }), Some(now)) =
        (events.first().cloned(), plan_of(&events))
    else {
        return Err(unreadable(dir, "it has no plan".to_owned()));
    };
    refuse_complete(dir, &events, &now, lacks)?;
    let Some(settings) = settings else {
        let gpubench = &provenance.gpubench;
        let problem = format!(
            "gpubench {gpubench} wrote it without its settings, which this version resumes from"
        );
        return Err(unreadable(dir, problem));
    };
    build(dir, &provenance, &settings)?;
    let profile = profile::restored(&settings.profile, &plan.profile, settings.rotation_run)
        .filter(|profile| profile.seed == plan.seed)
        .filter(|profile| profile::profile_hash(profile, &settings.ptx_hash) == plan.profile_hash)
        .ok_or_else(|| unreadable(dir, "its profile is damaged".to_owned()))?;
    let named = settings.device.as_deref().map(str::parse).transpose();
    let device_of_run = match device.kind {
        DeviceKind::Real => Some(device.uuid.parse()),
        DeviceKind::Virtual => None,
    };
    let damaged = |_| unreadable(dir, "its device is damaged".to_owned());
    let selector = match device_of_run {
        Some(uuid) => Some(uuid.map_err(damaged)?),
        None => named.map_err(damaged)?,
    };
    Ok(Interrupted {
        dir: dir.to_owned(),
        options: HostOptions {
            hami_lib: settings.hami_lib.as_ref().map(PathBuf::from),
            reconfigure: match settings.may_reconfigure {
                None => Reconfigure::OnVirtual,
                Some(true) => Reconfigure::Allowed,
                Some(false) => Reconfigure::Refused,
            },
        },
        device: selector,
        labels: provenance.labels.clone(),
        calibration: calibration_done(&events),
        profile,
        planned: *plan,
        plan: now,
        identity: *device,
        provenance: *provenance,
        settings: *settings,
        events,
        last_event_at,
        lacks,
        folder,
    })
}

/// The ids of the events of one kind, in their order.
macro_rules! ids {
    ($events:expr, $kind:ident) => {
        $events.iter().filter_map(|event| match event {
            RunEvent::$kind { id, .. } => Some(id.clone()),
            _ => None,
        })
    };
}

/// The cell or trial that ended with this event. A cell that the interruption ended runs again with
/// its block, also where it was the last one of it.
fn ended(event: &RunEvent, lacks: Lacks) -> Option<&String> {
    let (id, failure) = match event {
        RunEvent::CellEnded { id, failure, .. } => (id, failure),
        RunEvent::FaultTrialEnded { id, observed } => (id, &observed.failure),
        _ => return None,
    };
    let mut reasons = failure.iter().flat_map(|failure| failure.split("; "));
    let is_again = match lacks {
        Lacks::Cut => reasons.any(|reason| reason == INTERRUPTED),
        Lacks::CutOrFailed => failure.is_some(),
    };
    (!is_again).then_some(id)
}

impl Interrupted {
    /// The command line that began it.
    pub fn command(&self) -> &[String] {
        &self.provenance.command
    }

    /// Checks that this host is as it was. `planned` is what it would plan now, without what comes
    /// after the cells.
    pub fn check(&self, session: &DeviceSession, planned: &Plan) -> Result<(), ExpectedError> {
        let clock = session.clock().name().to_owned();
        let before = (&self.identity, self.provenance.clock.as_str());
        device(&self.dir, before, (session.identity(), &clock))?;
        plans(&self.dir, &self.planned, planned)?;
        calibration_differs(&self.dir, self.calibration.as_ref(), session)
    }

    /// The remaining plan, the finished part, and the folder.
    pub fn resumed(self, provenance: Provenance, boot_id: Option<String>) -> ResumedRun {
        let mut plan = self.plan;
        let began: BTreeSet<String> = ids!(self.events, CellBegan).collect();
        let done = self.events.iter().filter_map(|event| ended(event, self.lacks));
        let ended: BTreeSet<String> = done.cloned().collect();
        let waived = |victim: &str, aggressor: Option<&str>| {
            let calibration = self.calibration.as_ref();
            calibration.is_some_and(|one| one.waived(victim, aggressor).is_some())
        };
        let blocks = blocks_left(&plan, &began, &ended, |cell| {
            waived(&cell.victim, cell.aggressor.as_deref())
        });
        let interruption = Interruption {
            last_event_at: self.last_event_at,
            reason: match self.lacks {
                Lacks::Cut => reason(&self.events),
                Lacks::CutOrFailed => Some("what failed is measured again".to_owned()),
            },
            blocks_before: blocks.complete,
            blocks_after: blocks.left,
            superseded: blocks.superseded.len() as u32,
            boot_ids: [recorded_boot_id(&self.events, &self.settings), boot_id],
            provenance,
        };
        let again = ids!(self.events, FaultTrialBegan).filter(|id| !ended.contains(id));
        let left = blocks.with_trials(again.collect());
        plan.resume(&left);
        let again: BTreeSet<&String> = left.cells.iter().map(|cell| &cell.id).collect();
        let cells = plan.cells.iter().map(|cell| &cell.id);
        let cells = cells.filter(|id| !again.contains(id)).cloned().collect();
        ResumedRun {
            plan,
            continued: Continued {
                interruption,
                left,
                cells,
                ended: variants(&self.events, self.lacks),
                found: findings(&self.events),
                trials: ended,
                trials_stopped: trials_stopped(&self.events),
            },
            calibration: self.calibration,
            folder: self.folder,
        }
    }
}

pub struct ResumedRun {
    /// Its plan, without what the interruption cut.
    pub plan: Plan,
    pub continued: Continued,
    /// Its calibration, if it got that far.
    pub calibration: Option<Calibration>,
    pub folder: RunFolder,
}

fn last_event_at(dir: &Path, events: &Path) -> Result<String, ExpectedError> {
    let facts = std::fs::metadata(events).map_err(|error| unreadable(dir, error.to_string()))?;
    let (owner, user) = (facts.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        let problem = format!(
            "it belongs to user id {owner}, and a run, which can start a program that its profile \
             names, is resumed by its own user (user id {user} here)"
        );
        return Err(unreadable(dir, problem));
    }
    let time = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH).max(SystemTime::UNIX_EPOCH);
    Ok(humantime::format_rfc3339_seconds(time).to_string())
}

fn refuse_complete(
    dir: &Path,
    events: &[RunEvent],
    plan: &Plan,
    lacks: Lacks,
) -> Result<(), ExpectedError> {
    // What was measured again has another id in the plan.
    let cells = plan.cells.iter().map(|cell| &cell.id);
    let counting: BTreeSet<_> = cells.chain(plan.fault_trials.iter().map(|one| &one.id)).collect();
    let ends = |lacks| {
        let ids = events.iter().filter_map(|event| ended(event, lacks));
        ids.filter(|id| counting.contains(id)).count()
    };
    let failed = ends(Lacks::Cut) - ends(Lacks::CutOrFailed);
    let is_complete = matches!(events.last(), Some(RunEvent::Ended { complete: true, .. }));
    if !is_complete || (lacks == Lacks::CutOrFailed && failed > 0) {
        return Ok(());
    }
    let folder = dir.display();
    if failed > 0 {
        let problem = format!("nothing is missing in {folder}: {failed} cells or trials failed");
        return Err(ExpectedError::usage(problem, Some("--retry-failed measures them again")));
    }
    // A run that was killed while it was scored lacks no measurement.
    let scores = if dir.join(RECORD_FILE).exists() {
        String::new()
    } else {
        format!("; gpubench report --repair {folder} stores its scores")
    };
    Err(ExpectedError::usage(
        format!("nothing is missing in {folder}: all that was planned ran{scores}"),
        None,
    ))
}

fn unreadable(dir: &Path, problem: String) -> ExpectedError {
    ExpectedError::unreadable_record(dir, problem)
}

// What must be equal for a run to go on: build, device, driver, and what the host can run.

fn build(dir: &Path, began: &Provenance, settings: &RunSettings) -> Result<(), ExpectedError> {
    let ptx_hash = ptx_hash();
    equal(
        dir,
        &[
            ("gpubench", &began.gpubench, env!("CARGO_PKG_VERSION")),
            ("scoring rules", &settings.scoring, score::VERSION),
            ("kernels (hash of their PTX)", &settings.ptx_hash, &ptx_hash),
        ],
    )
}

/// Compares the device of the run, and its clock, with those of this start.
fn device(
    dir: &Path,
    (before, clock_before): (&DeviceIdentity, &str),
    (now, clock_now): (&DeviceIdentity, &str),
) -> Result<(), ExpectedError> {
    let machine = |device: &'_ DeviceIdentity| -> String {
        device.facts.get(MACHINE_HASH).cloned().unwrap_or_default()
    };
    equal(
        dir,
        &[
            ("device", &before.uuid, &now.uuid),
            ("driver", &before.driver, &now.driver),
            ("CUDA", &before.cuda, &now.cuda),
            ("machine file (hash)", &machine(before), &machine(now)),
            ("clock", clock_before, clock_now),
        ],
    )
}

/// Compares the first plan of the run with what this host would plan now. What comes after the
/// cells does not count: the plan of the folder decides it.
fn plans(dir: &Path, before: &Plan, now: &Plan) -> Result<(), ExpectedError> {
    for planned in &before.mechanisms {
        if now.mechanisms.iter().any(|one| one.variant == planned.variant) {
            continue;
        }
        let mut skips = now.skips.iter();
        let skip = skips.find(|skip| skip.name == planned.name && skip.axis.is_none());
        let reason = skip.map_or("it has another variant", |skip| skip.reason.as_str());
        let variant = &planned.variant;
        return refuse(dir, format!("{variant} could run before and cannot now: {reason}"));
    }
    if before.cells != now.cells || before.required_proofs != now.required_proofs {
        let differs = "this host plans other cells than those of the record".to_owned();
        return refuse(dir, differs);
    }
    Ok(())
}

/// Checks that the calibration of the run fits this device.
fn calibration_differs(
    dir: &Path,
    made: Option<&Calibration>,
    session: &DeviceSession,
) -> Result<(), ExpectedError> {
    let here = identity::binding(session.identity(), session.peaks()?);
    let bound = made.and_then(|made| made.binding.as_ref());
    match bound.and_then(|bound| calibration::mismatch(bound, &here)) {
        None => Ok(()),
        Some(problem) => refuse(dir, format!("calibration: {problem}")),
    }
}

/// Refuses with every value that differs.
fn equal(dir: &Path, values: &[(&str, &str, &str)]) -> Result<(), ExpectedError> {
    let differs = values.iter().filter(|(_, before, now)| before != now);
    let differs: Vec<String> = differs
        .map(|(what, before, now)| format!("{what}: {before:?} before, {now:?} now"))
        .collect();
    if differs.is_empty() {
        return Ok(());
    }
    refuse(dir, differs.join("; "))
}

fn refuse(dir: &Path, differs: String) -> Result<(), ExpectedError> {
    Err(ExpectedError::CannotResume { path: dir.to_owned(), differs })
}

// What of an interrupted run is done, from its events.

/// The calibration; `None` where the run did not get that far, or had no tenant to calibrate.
fn calibration_done(events: &[RunEvent]) -> Option<Calibration> {
    let found = events.iter().rev().find_map(|event| match event {
        RunEvent::Calibrated { calibration, .. } => Some(calibration.clone()),
        _ => None,
    });
    found.filter(|calibration| !calibration.entries.is_empty())
}

/// Whether the device cannot run further fault trials.
fn trials_stopped(events: &[RunEvent]) -> bool {
    let is_stop = |event: &RunEvent| matches!(event, RunEvent::FaultTrialsStopped { .. });
    events.iter().any(is_stop)
}

/// The outcomes of variants that failed or cannot run.
fn variants(events: &[RunEvent], lacks: Lacks) -> BTreeMap<String, Outcome> {
    let is_done = |outcome: OutcomeKind| match outcome {
        OutcomeKind::Measured => false,
        OutcomeKind::Failed => lacks == Lacks::Cut,
        OutcomeKind::Waived | OutcomeKind::Inconclusive => true,
    };
    let rows = events.iter().filter_map(|event| match event {
        RunEvent::Mechanism { row } if is_done(row.outcome.outcome) => Some(row),
        _ => None,
    });
    rows.map(|row| (row.variant.clone(), row.outcome.clone())).collect()
}

/// How many findings there are, by variant and name of the probe.
fn findings(events: &[RunEvent]) -> BTreeMap<(String, String), usize> {
    let mut found = BTreeMap::new();
    for event in events {
        if let RunEvent::Probed { result } = event {
            let key = (result.variant.clone(), name(&result.found));
            *found.entry(key).or_default() += 1;
        }
    }
    found
}

fn name(found: &ProbeFound) -> String {
    if let ProbeFound::Broken { name, .. } = found {
        return name.clone();
    }
    let value = serde_json::to_value(found).unwrap_or_default();
    value["probe"].as_str().unwrap_or_default().to_owned()
}

/// Why the last start ended; `None` where it was killed.
fn reason(events: &[RunEvent]) -> Option<String> {
    match events.last() {
        Some(RunEvent::Ended { reason, .. }) => reason.clone(),
        _ => None,
    }
}

/// The boot of the host at the last start.
fn recorded_boot_id(events: &[RunEvent], settings: &RunSettings) -> Option<String> {
    let last = events.iter().rev().find_map(|event| match event {
        RunEvent::Resumed { interruption, .. } => Some(interruption.boot_ids[1].clone()),
        _ => None,
    });
    last.unwrap_or_else(|| settings.boot_id.clone())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpubench_run::probe::CATALOGUE;

    use super::{Lacks, ended, equal, name};

    #[test]
    fn every_value_that_differs_is_named_with_both_values() {
        assert!(equal(Path::new("out"), &[("driver", "580", "580")]).is_ok());
        let values =
            [("device", "GPU-a", "GPU-a"), ("driver", "580", "590"), ("clock", "wall", "virtual")];
        let error = equal(Path::new("out"), &values).expect_err("accepted");
        assert_eq!(error.exit_code().code(), 20);
        assert_eq!(
            error.to_string(),
            "cannot resume the run in out: driver: \"580\" before, \"590\" now; clock: \"wall\" \
             before, \"virtual\" now"
        );
    }

    #[test]
    fn a_cell_that_an_interruption_ended_has_not_ended() {
        for (failure, has_ended) in [
            (None, true),
            (Some("the victim ended"), true),
            (Some("interrupted"), false),
            (Some("interrupted; the victim ended"), false),
        ] {
            let event = serde_json::json!({
                "event": "cell-ended", "id": "0001", "tenants": [], "failure": failure,
                "other_processes": null, "throttle_reasons": null, "xids": null,
                "cpu_steal_ratio": null,
            });
            let event = serde_json::from_value(event).expect("an event");
            assert_eq!(ended(&event, Lacks::Cut).is_some(), has_ended, "{failure:?}");
            assert_eq!(ended(&event, Lacks::CutOrFailed).is_some(), failure.is_none());
        }
    }

    #[test]
    fn a_finding_has_the_name_of_its_probe() {
        let broken = |name: &str| {
            let text = format!(r#"{{"probe": "broken", "name": "{name}", "reason": ""}}"#);
            serde_json::from_str(&text).expect("a finding")
        };
        for probe in CATALOGUE {
            assert_eq!(name(&broken(probe.name)), probe.name);
        }
        let text = r#"{"probe": "out-of-memory", "trials": []}"#;
        let found = serde_json::from_str(text).expect("a finding");
        assert_eq!(name(&found), "out-of-memory");
        assert!(CATALOGUE.iter().any(|probe| probe.name == "out-of-memory"));
    }
}

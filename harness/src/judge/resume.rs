//! An interrupted run that goes on: what its folder holds, and whether this host can continue it.
//!
//! Plan, seed, profile, calibration, labels and permissions come from the folder. The profile can
//! name a program to run, so the folder must be of the user who resumes it.

mod differs;
mod done;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gpubench_record::{
    Calibration, DeviceIdentity, DeviceKind, Interruption, Plan, Provenance, RunEvent, RunSettings,
};
use gpubench_reports::StoreError;
use gpubench_reports::store::{EVENTS_FILE, RECORD_FILE, plan_of, read_events};

use super::run_folder::{self, RunFolder};
use super::{DeviceSession, HostOptions, Reconfigure, expected};
use crate::device::DeviceSelector;
use crate::error::ExpectedError;
use crate::plan::blocks_left;
use crate::profile::{self, Profile};
use crate::run::Continued;

/// An interrupted run, whose folder is held.
pub struct Interrupted {
    /// Its folder.
    pub dir: PathBuf,
    /// The profile with the values of the first command line.
    pub profile: Profile,
    /// The options of the host on the first command line.
    pub options: HostOptions,
    /// The device of the first command line; a real one by its UUID.
    pub device: Option<DeviceSelector>,
    pub labels: BTreeMap<String, String>,
    /// Its calibration, if it got that far.
    pub calibration: Option<Calibration>,
    /// What it was planned to do.
    planned: Plan,
    /// The same with what happened since.
    plan: Plan,
    identity: DeviceIdentity,
    provenance: Provenance,
    settings: RunSettings,
    events: Vec<RunEvent>,
    last_event_at: String,
    folder: RunFolder,
}

/// Reads the folder of an interrupted run and holds it. Changes nothing.
///
/// # Errors
/// When it is no such folder, a run still writes it, nothing is missing, or another build wrote it.
pub fn open(dir: &Path) -> Result<Interrupted, ExpectedError> {
    let of_store = |error| expected::from_store(dir, error);
    let events_file = dir.join(EVENTS_FILE);
    if !events_file.is_file() {
        return Err(if dir.join(RECORD_FILE).exists() {
            let problem = format!("it has no {EVENTS_FILE}, which a run is resumed from");
            unreadable(dir, problem)
        } else {
            of_store(StoreError::NoRecord { dir: dir.to_owned() })
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
    refuse_complete(dir, &events)?;
    let Some(settings) = settings else {
        let gpubench = &provenance.gpubench;
        let problem = format!(
            "gpubench {gpubench} wrote it without its settings, which this version resumes from"
        );
        return Err(unreadable(dir, problem));
    };
    differs::build(dir, &provenance, &settings)?;
    let profile = profile::restored(&settings.profile, &plan.profile, settings.rotation_run)
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
        calibration: done::calibration(&events),
        profile,
        planned: *plan,
        plan: now,
        identity: *device,
        provenance: *provenance,
        settings: *settings,
        events,
        last_event_at,
        folder,
    })
}

impl Interrupted {
    /// The command line that began it.
    #[must_use]
    pub fn command(&self) -> &[String] {
        &self.provenance.command
    }

    /// Checks that this host is as it was. `planned` is what it would plan now, without what comes
    /// after the cells.
    ///
    /// # Errors
    /// When something differs.
    pub fn check(&self, session: &DeviceSession, planned: &Plan) -> Result<(), ExpectedError> {
        let clock = session.clock().name().to_owned();
        let before = (&self.identity, self.provenance.clock.as_str());
        differs::device(&self.dir, before, (session.identity(), &clock))?;
        differs::plans(&self.dir, &self.planned, planned)?;
        differs::calibration(&self.dir, self.calibration.as_ref(), session)
    }

    /// The remaining plan, the finished part, and the folder.
    #[must_use]
    pub fn resumed(self, provenance: Provenance, boot_id: Option<String>) -> ResumedRun {
        let mut plan = self.plan;
        let began = done::began(&self.events);
        let ended = done::ended(&self.events);
        let waived = |victim: &str, aggressor: Option<&str>| {
            let calibration = self.calibration.as_ref();
            calibration.is_some_and(|one| one.waived(victim, aggressor).is_some())
        };
        let blocks = blocks_left(&plan, &began, &ended, |cell| {
            waived(&cell.victim, cell.aggressor.as_deref())
        });
        let interruption = Interruption {
            last_event_at: self.last_event_at,
            reason: done::reason(&self.events),
            blocks_before: blocks.complete,
            blocks_after: blocks.left,
            superseded: blocks.superseded.len() as u32,
            boot_ids: [done::boot_id(&self.events, &self.settings), boot_id],
            provenance,
        };
        let trials = done::trials(&self.events);
        let left = blocks.with_trials(done::trials_again(&self.events, &trials));
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
                ended: done::variants(&self.events),
                found: done::findings(&self.events),
                trials,
                trials_stopped: done::trials_stopped(&self.events),
            },
            calibration: self.calibration,
            folder: self.folder,
        }
    }
}

/// A resumed run.
pub struct ResumedRun {
    /// Its plan, without what the interruption cut.
    pub plan: Plan,
    /// What is done.
    pub continued: Continued,
    /// Its calibration, if it got that far.
    pub calibration: Option<Calibration>,
    pub folder: RunFolder,
}

/// When the events were last written. They must be of this user.
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
    let time = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(humantime::format_rfc3339_seconds(time).to_string())
}

/// Refuses a run that ended with everything that was planned.
fn refuse_complete(dir: &Path, events: &[RunEvent]) -> Result<(), ExpectedError> {
    if !matches!(events.last(), Some(RunEvent::Ended { complete: true, .. })) {
        return Ok(());
    }
    let folder = dir.display();
    // A run that was killed while it was scored lacks no measurement.
    let scores = if dir.join(RECORD_FILE).exists() {
        String::new()
    } else {
        format!("; gpubench report --repair {folder} stores its scores")
    };
    Err(ExpectedError::Usage {
        problem: format!("nothing is missing in {folder}: all that was planned ran{scores}"),
        remedy: None,
    })
}

fn unreadable(dir: &Path, problem: String) -> ExpectedError {
    ExpectedError::RecordUnreadable { path: dir.to_owned(), problem }
}

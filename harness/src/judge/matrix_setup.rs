//! Everything that a matrix needs before it runs: the plan and the setup of the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpubench_record::Plan;

use super::after_cells::{self, AfterCells};
use super::provenance::OTHER_GPUS;
use super::resume::Interrupted;
use super::run_folder::RunFolder;
use super::{
    DeviceSession, HostOptions, KeptCalibrations, calibration, capabilities, host_facts, journal,
    kernel_log, other_work, provenance, ptx_hash, run_folder, settings, top_up,
};
use crate::device::{Allotment, DeviceSelector};
use crate::error::ExpectedError;
use crate::mechanism::HostFacts;
use crate::mechanism::host::JournalLocation;
use crate::plan;
use crate::profile::Profile;
use crate::run::{HostSetup, KernelLog, Setup};
use crate::tenant::Spawner;

/// The environment of the user's program, in the words of records.
const VICTIM_ENVIRONMENT: &str =
    "the user's environment, under the variables of the mechanism and the run";

/// What the command line adds to the profile.
#[derive(Debug, Clone, Default)]
pub struct MatrixRequest {
    /// A record or file with the calibration to reuse.
    pub calibration: Option<PathBuf>,
    /// Whether the kept calibration of this device is not used.
    pub recalibrate: bool,
    /// Probes and faults after the cells.
    pub after_cells: AfterCells,
    /// Labels of the run.
    pub labels: BTreeMap<String, String>,
    /// Devices that other runs of the same command line measure at the same time.
    pub beside: Vec<String>,
    /// The device on the command line.
    pub device: Option<DeviceSelector>,
}

/// Everything for a run, and what is done after it.
pub struct MatrixSetup {
    pub setup: Setup,
    /// The kernel log, if it can be read.
    pub kernel_log: Option<KernelLog>,
    /// Where the calibration is kept after the run.
    pub calibrations: Option<KeptCalibrations>,
    /// What the user should know before the run.
    pub notes: Vec<String>,
    /// The folder, held until the report is written.
    pub folder: RunFolder,
}

/// Plans the matrix and makes its folder.
///
/// # Errors
/// When nothing can run, the host is not restored, or the folder is not writable.
pub fn matrix_setup(
    session: &DeviceSession,
    options: &HostOptions,
    profile: Profile,
    request: &MatrixRequest,
    out: &Path,
) -> Result<MatrixSetup, ExpectedError> {
    let mut host = Host::of(session, options, &profile)?;
    let mut plan = host.plan(&profile)?;
    let is_virtual = session.clock().is_virtual();
    after_cells::add(&mut plan, &profile, &request.after_cells, is_virtual)?;
    let calibration = request.calibration.as_deref();
    let calibration =
        calibration.map(|path| calibration::read(path, &plan, session)).transpose()?;
    let file = KeptCalibrations::of(session, &plan, &host.facts)?;
    // A named calibration is neither mixed with kept ones nor kept.
    let file = file.filter(|_| calibration.is_none());
    let (kept, left_out) = match file.as_ref().filter(|_| !request.recalibrate) {
        Some(file) => file.read(session)?,
        None => Default::default(),
    };
    host.notes.extend(left_out);
    let settings = settings::of_run(&profile, options, request.device.as_ref(), &host.ptx_hash)?;
    let folder = run_folder::make(out)?;
    let (mut setup, kernel_log, notes) =
        host.setup(session, profile, plan, &request.labels, out)?;
    if !request.beside.is_empty() {
        let others = request.beside.join(", ");
        setup.provenance.host.insert(OTHER_GPUS.to_owned(), others);
    }
    Ok(MatrixSetup {
        setup: Setup { calibration, kept, settings: Some(settings), ..setup },
        kernel_log,
        calibrations: file,
        notes,
        folder,
    })
}

/// Everything for an interrupted run that goes on.
///
/// # Errors
/// When this host differs from the one of its first start, or is not restored.
pub fn resumed_setup(
    session: &DeviceSession,
    run: Interrupted,
) -> Result<MatrixSetup, ExpectedError> {
    let profile = run.profile.clone();
    let host = Host::of(session, &run.options, &profile)?;
    let planned = host.plan(&profile)?;
    run.check(session, &planned)?;
    let (labels, out) = (run.labels.clone(), run.dir.clone());
    let (setup, kernel_log, notes) = host.setup(session, profile, planned, &labels, &out)?;
    let run = run.resumed(setup.provenance.clone(), settings::boot_id());
    Ok(MatrixSetup {
        setup: Setup {
            plan: run.plan,
            calibration: run.calibration,
            continued: Some(run.continued),
            ..setup
        },
        kernel_log,
        calibrations: None,
        notes,
        folder: run.folder,
    })
}

/// The host before a run.
struct Host {
    facts: HostFacts,
    journal: JournalLocation,
    ptx_hash: String,
    notes: Vec<String>,
}

impl Host {
    /// Undoes what dead runs left, and gathers the facts.
    fn of(
        session: &DeviceSession,
        options: &HostOptions,
        profile: &Profile,
    ) -> Result<Self, ExpectedError> {
        let (journal, notes) = journal::journal_of(session)?;
        other_work::check(session)?;
        Ok(Self {
            facts: host_facts::of_session(session, options, profile),
            journal,
            ptx_hash: ptx_hash(),
            notes,
        })
    }

    /// The plan of the cells.
    fn plan(&self, profile: &Profile) -> Result<Plan, ExpectedError> {
        let capabilities = capabilities(&self.facts, profile);
        Ok(plan::plan(profile, &capabilities, &self.ptx_hash)?)
    }

    /// The setup of a run without calibration, with the kernel log and the notes.
    fn setup(
        self,
        session: &DeviceSession,
        profile: Profile,
        plan: Plan,
        labels: &BTreeMap<String, String>,
        out: &Path,
    ) -> Result<(Setup, Option<KernelLog>, Vec<String>), ExpectedError> {
        let kernel_log = kernel_log::open(session);
        let mut provenance = provenance::of_run(&session.clock(), &plan);
        for (key, text) in [
            ("observed", host_facts::labels(&self.facts).join("; ")),
            ("kernel_log", kernel_log::describe(&kernel_log)),
        ] {
            provenance.host.insert(key.to_owned(), text);
        }
        provenance.labels.clone_from(labels);
        provenance.visible_devices = session.allotment().map(Allotment::describe);
        provenance.victim_environment =
            plan.user_victim.as_ref().map(|_| VICTIM_ENVIRONMENT.to_owned());
        let setup = Setup {
            out: out.to_path_buf(),
            clock: session.clock(),
            nvml: session.nvml(),
            identity: session.identity().clone(),
            provenance,
            spawner: Spawner::new(session.environment()).map_err(|error| {
                ExpectedError::Internal {
                    what: format!("the path of this program is unknown: {error}"),
                }
            })?,
            ptx_hash: self.ptx_hash,
            calibration: None,
            kept: Vec::new(),
            settings: None,
            continued: None,
            top_up: top_up::look(&profile),
            host: HostSetup::new(profile, self.facts, self.journal),
            plan,
        };
        Ok((setup, kernel_log.ok(), self.notes))
    }
}

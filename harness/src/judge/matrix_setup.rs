//! Everything that a matrix needs before it runs: the plan and the setup of the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::after_cells::{self, AfterCells};
use super::provenance::OTHER_GPUS;
use super::run_folder::RunFolder;
use super::{
    DeviceSession, HostOptions, KeptCalibrations, calibration, capabilities, host_facts, journal,
    kernel_log, other_work, provenance, ptx_hash, run_folder, top_up,
};
use crate::device::Allotment;
use crate::error::ExpectedError;
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
}

/// Everything for a run, and what is done after it.
pub struct MatrixSetup {
    /// The setup.
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
    let (journal, mut notes) = journal::journal_of(session)?;
    other_work::check(session)?;
    let facts = host_facts::of_session(session, options, &profile);
    let ptx_hash = ptx_hash();
    let mut plan = plan::plan(&profile, &capabilities(&facts, &profile), &ptx_hash)?;
    let is_virtual = session.clock().is_virtual();
    after_cells::add(&mut plan, &profile, &request.after_cells, is_virtual)?;
    let calibration = request.calibration.as_deref();
    let calibration = calibration
        .map(|path| calibration::read(path, &plan, session))
        .transpose()?;
    let file = KeptCalibrations::of(session, &plan, &facts)?;
    // A named calibration is neither mixed with kept ones nor kept.
    let file = file.filter(|_| calibration.is_none());
    let (kept, left_out) = match file.as_ref().filter(|_| !request.recalibrate) {
        Some(file) => file.read(session)?,
        None => Default::default(),
    };
    notes.extend(left_out);
    let folder = run_folder::make(out)?;
    let kernel_log = kernel_log::open(session);
    let mut provenance = provenance::of_run(&session.clock());
    for (key, text) in [
        ("observed", host_facts::labels(&facts).join("; ")),
        ("kernel_log", kernel_log::describe(&kernel_log)),
    ] {
        provenance.host.insert(key.to_owned(), text);
    }
    if !request.beside.is_empty() {
        let others = request.beside.join(", ");
        provenance.host.insert(OTHER_GPUS.to_owned(), others);
    }
    provenance.labels.clone_from(&request.labels);
    provenance.visible_devices = session.allotment().map(Allotment::describe);
    provenance.victim_environment = plan
        .user_victim
        .as_ref()
        .map(|_| VICTIM_ENVIRONMENT.to_owned());
    let setup = Setup {
        out: out.to_path_buf(),
        clock: session.clock(),
        nvml: session.nvml(),
        identity: session.identity().clone(),
        provenance,
        spawner: Spawner::new(session.environment()).map_err(|error| ExpectedError::Internal {
            what: format!("the path of this program is unknown: {error}"),
        })?,
        ptx_hash,
        calibration,
        kept,
        top_up: top_up::look(&profile),
        host: HostSetup::new(profile, facts, journal),
        plan,
    };
    Ok(MatrixSetup {
        setup,
        kernel_log: kernel_log.ok(),
        calibrations: file,
        notes,
        folder,
    })
}

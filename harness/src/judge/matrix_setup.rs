//! Everything that a matrix needs before it runs: the plan and the setup of the run.

use std::path::{Path, PathBuf};

use super::{
    DeviceSession, HostOptions, calibration, capabilities, host_facts, journal, kernel_log,
    provenance, ptx_hash, run_folder,
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
    /// Whether mechanisms are probed after the cells.
    pub probes: bool,
    /// Whether limits are bypassed after the cells.
    pub escape: bool,
    /// Faults to inject; an empty list means all.
    pub faults: Option<Vec<String>>,
    /// Trials of each fault, in place of the profile's number.
    pub fault_trials: Option<u32>,
}

/// Plans the matrix and makes its folder. Returns the setup and the kernel log, if it can be read.
///
/// # Errors
/// When nothing can run, the host is not restored, or the folder is not writable.
pub fn matrix_setup(
    session: &DeviceSession,
    options: &HostOptions,
    profile: Profile,
    request: &MatrixRequest,
    out: &Path,
) -> Result<(Setup, Option<KernelLog>), ExpectedError> {
    let journal = journal::journal_of(session)?;
    let facts = host_facts::of_session(session, options, &profile);
    let ptx_hash = ptx_hash();
    let mut plan = plan::plan(&profile, &capabilities(&facts, &profile), &ptx_hash)?;
    if let Some(wish) = fault_wish(request, session, &profile) {
        plan::add_faults(&mut plan, &wish);
    }
    let calibration = request.calibration.as_deref();
    let calibration = calibration
        .map(|path| calibration::read(path, &plan, session))
        .transpose()?;
    run_folder::make(out)?;
    let kernel_log = kernel_log::open(session);
    let mut provenance = provenance::of_run(&session.clock());
    for (key, text) in [
        ("observed", host_facts::labels(&facts).join("; ")),
        ("kernel_log", kernel_log::describe(&kernel_log)),
    ] {
        provenance.host.insert(key.to_owned(), text);
    }
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
        probes: request.probes,
        escape: request.escape,
        host: HostSetup::new(profile, facts, journal),
        plan,
    };
    Ok((setup, kernel_log.ok()))
}

/// The faults to inject; none without `--faults`.
fn fault_wish(
    request: &MatrixRequest,
    session: &DeviceSession,
    profile: &Profile,
) -> Option<plan::FaultWish> {
    let names = request.faults.clone()?;
    Some(plan::FaultWish {
        names,
        trials: request.fault_trials.unwrap_or(profile.faults.trials),
        is_virtual_time: session.clock().is_virtual(),
    })
}

//! Verdicts in words: whether a mechanism can run, and the exit code of a matrix.
//!
//! The exit code follows from the record and the command line:
//!
//! - 4: a mechanism could not be set up, or its proof does not hold; likewise a failed cell.
//! - 3: every mechanism but the reference is waived, or `--mechanism` names a waived one.
//! - 0: a mechanism that `all` or the profile selected is waived: both are written for every host.

use std::path::Path;

use gpubench_host::device::nvml::QueryError;
use gpubench_host::device::selector::VisibleError;
use gpubench_host::device::virtual_gpu::VirtualGpuError;
use gpubench_host::device::{NoAnswer, nvml};
use gpubench_host::mechanism::host::{HostError, JournalError};
use gpubench_host::tenant::TenantError;
use gpubench_plan::{Availability, Capability};
use gpubench_record::{ExitCode, MechanismRow, OutcomeKind, RefusalKind, RunRecord};
use gpubench_run::RunError;
use gpubench_store::{EVENTS_FILE, StoreError};

use crate::error::ExpectedError;

/// The exit code of a finished run. `named` are the mechanisms of `--mechanism`.
/// Fails for every exit code but done and inconclusive.
pub fn exit_code(
    record: &RunRecord,
    named: &[String],
    strict: bool,
) -> Result<ExitCode, ExpectedError> {
    if let Some(reason) = &record.fault_trials_stopped {
        return Err(ExpectedError::FaultTrialsStopped {
            reason: reason.clone(),
            not_run: record.fault_trials_not_held().count(),
            planned: record.plan.fault_trials.len(),
        });
    }
    let failed = |kind: OutcomeKind| kind == OutcomeKind::Failed;
    let cells = record.cells.iter();
    let broken: Vec<_> = cells.filter(|cell| failed(cell.outcome.outcome)).collect();
    if let Some(first) = broken.first() {
        return Err(ExpectedError::TrialFailed {
            failed: broken.len(),
            cells: record.cells.len(),
            first: first.cell.id.clone(),
            reason: first.outcome.reason.clone().unwrap_or_default(),
        });
    }
    in_force(&record.mechanisms)?;
    let mut rows = record.matrix.iter();
    let inconclusive = |kind: OutcomeKind| kind == OutcomeKind::Inconclusive;
    if strict && rows.any(|row| inconclusive(row.outcome.outcome)) {
        return Ok(ExitCode::Inconclusive);
    }
    could_run(&record.mechanisms, &record.plan.reference, named).map(|()| ExitCode::Done)
}

/// Fails where a mechanism failed.
fn in_force(mechanisms: &[MechanismRow]) -> Result<(), ExpectedError> {
    let mut rows = mechanisms.iter();
    match rows.find(|row| row.outcome.outcome == OutcomeKind::Failed) {
        None => Ok(()),
        Some(row) => Err(ExpectedError::MechanismFailed {
            variant: row.variant.clone(),
            reason: row.outcome.reason.clone().unwrap_or_default(),
        }),
    }
}

/// Whether the requested mechanisms could run. The reference alone is no measurement.
fn could_run(
    mechanisms: &[MechanismRow],
    reference: &str,
    named: &[String],
) -> Result<(), ExpectedError> {
    let waived = |row: &&MechanismRow| row.outcome.outcome == OutcomeKind::Waived;
    let reasons = |rows: &[&MechanismRow]| {
        let one = |row: &&MechanismRow| {
            let reason = row.outcome.reason.as_deref().unwrap_or("no reason is recorded");
            format!("{}: {reason}", row.variant)
        };
        rows.iter().map(one).collect::<Vec<String>>().join("; ")
    };
    let under_test: Vec<&MechanismRow> =
        mechanisms.iter().filter(|row| row.name != reference).collect();
    if !under_test.is_empty() && under_test.iter().all(waived) {
        return Err(ExpectedError::NothingRan { reason: reasons(&under_test) });
    }
    let missing: Vec<&MechanismRow> =
        mechanisms.iter().filter(|row| waived(row) && named.contains(&row.name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ExpectedError::NamedAndWaived { mechanisms: reasons(&missing) })
}

/// A mechanism of this host: its variant, its verdict and the remedy.
pub fn mechanism_row(capability: &Capability) -> [String; 3] {
    let (verdict, remedy) = match &capability.availability {
        Availability::Available => ("available".to_owned(), None),
        Availability::Waived { reason, remedy } => (format!("waived: {reason}"), remedy.clone()),
    };
    [capability.variant.variant.clone(), verdict, remedy.unwrap_or_else(|| "-".to_owned())]
}

// The user's view of an error: what a failure of another room means for the exit code and the
// message.

/// A virtual GPU did not start.
pub fn from_virtual_gpu(error: VirtualGpuError) -> ExpectedError {
    match error {
        VirtualGpuError::Machine(error) => ExpectedError::usage(error.to_string(), None),
        VirtualGpuError::Limit(error) => error.into(),
        other => ExpectedError::NothingRan { reason: other.to_string() },
    }
}

/// NVML gives no access to a device.
pub fn from_nvml(error: QueryError) -> ExpectedError {
    match error {
        QueryError::Device { ref which, .. } if error.is_of_name() => ExpectedError::NoDevice {
            wanted: which.clone(),
            // What is found serves the message alone; without it the message is still true.
            found: nvml::devices().unwrap_or_default(),
        },
        other => no_devices(other),
    }
}

/// The driver does not answer.
pub fn no_answer(error: NoAnswer) -> ExpectedError {
    ExpectedError::NothingRan { reason: error.to_string() }
}

/// `CUDA_VISIBLE_DEVICES` allows no choice of a device.
pub fn from_visible(error: VisibleError) -> ExpectedError {
    match error {
        VisibleError::Hidden(_) => ExpectedError::DevicesHidden { problem: error.to_string() },
        VisibleError::Order(_) => ExpectedError::usage(
            error.to_string(),
            Some("set CUDA_DEVICE_ORDER=PCI_BUS_ID, or list UUIDs"),
        ),
        VisibleError::Query(error) => from_nvml(error),
    }
}

/// The driver lists no device.
pub fn no_devices(error: QueryError) -> ExpectedError {
    match error {
        QueryError::Load(source) => {
            let source = source.to_string();
            // The words of a library that a user does not know.
            let reason = source.strip_prefix("a libloading error occurred: ").unwrap_or(&source);
            ExpectedError::NoDriver { reason: format!("{reason}{}", nvml::hidden()) }
        }
        QueryError::Refused(_)
        | QueryError::NoAnswer(_)
        | QueryError::NoneListed
        | QueryError::OnlyInstances
        | QueryError::Device { .. }
        | QueryError::Fact { .. } => ExpectedError::NothingRan { reason: error.to_string() },
    }
}

/// A change of the host failed.
pub fn from_host(error: HostError) -> ExpectedError {
    match error {
        HostError::Journal(error) => from_journal(error),
        HostError::Refused(error) => ExpectedError::NotRestored { what: error.to_string() },
        HostError::NotRestored(what) => ExpectedError::NotRestored { what },
    }
}

/// The journal of host changes cannot be used.
pub fn from_journal(error: JournalError) -> ExpectedError {
    match error {
        JournalError::Io { path, source } => ExpectedError::from_write(Path::new(&path), source),
        JournalError::Line { .. } => ExpectedError::NotRestored { what: error.to_string() },
        JournalError::NoFolder => ExpectedError::usage(
            error.to_string(),
            Some("set XDG_STATE_HOME to a folder that stays"),
        ),
    }
}

/// The folder of a record cannot be used.
pub fn from_store(dir: &Path, error: StoreError) -> ExpectedError {
    let (path, problem) = (dir.to_owned(), error.to_string());
    match error {
        StoreError::Version { source, .. } => {
            ExpectedError::IncompatibleVersion { path, problem: source.to_string() }
        }
        StoreError::Io { action: "read" | "list", .. } => {
            ExpectedError::unreadable_record(&path, problem)
        }
        StoreError::Io { path, source, .. } => ExpectedError::from_write(path, source),
        StoreError::Json { .. } if dir.join(EVENTS_FILE).is_file() => {
            let way = "move it away, and gpubench report --repair makes it again from the events";
            ExpectedError::unreadable_record(&path, format!("{problem}; {way}"))
        }
        StoreError::Occupied { .. } | StoreError::InUse { .. } => {
            ExpectedError::usage(problem, None)
        }
        _ => ExpectedError::unreadable_record(&path, problem),
    }
}

pub fn from_user_victim(error: TenantError) -> ExpectedError {
    match error {
        TenantError::Refused { kind: RefusalKind::Program, what, .. } => {
            ExpectedError::VictimProgram { problem: what }
        }
        error => ExpectedError::RunFailed { problem: error.to_string() },
    }
}

/// A run ended before its plan did. What the host answers before the first measured cell means
/// that nothing can run here; a tenant that dies is a failed trial at any time.
pub fn from_run(error: RunError, out: &Path, has_user_victim: bool) -> ExpectedError {
    match error {
        RunError::AfterCells(error) => from_run(*error, out, has_user_victim).after_cells(),
        RunError::Tenant(error) if has_user_victim => from_user_victim(error),
        RunError::Store(error) => from_store(out, error),
        error @ (RunError::Spawn(_)
        | RunError::Tenant(TenantError::Refused { .. })
        | RunError::NoAnswer(_)
        | RunError::Verification(_)
        | RunError::Unloadable(_)) => ExpectedError::NothingRan { reason: error.to_string() },
        RunError::Tenant(error) => ExpectedError::RunFailed { problem: error.to_string() },
        error @ RunError::VirtualClock(_) => ExpectedError::internal(error.to_string()),
        RunError::Bug(what) => ExpectedError::internal(what),
        RunError::Cores(error) => {
            ExpectedError::internal(format!("placing threads on cores: {error}"))
        }
        RunError::DiskFull => ExpectedError::DiskFull { path: out.to_path_buf() },
        RunError::Interrupted => ExpectedError::Interrupted { record: out.to_path_buf() },
        RunError::Host(error) => from_host(error),
        RunError::UnknownMechanism(name) => {
            ExpectedError::internal(format!("mechanism {name} is planned and cannot be run"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpubench_host::device::NoAnswer;
    use gpubench_record::{MechanismRow, Outcome};
    use gpubench_run::RunError;

    use super::{TenantError, could_run, from_run, in_force};

    #[test]
    fn a_run_that_ends_before_its_first_measured_cell_ran_nothing() {
        let hang = || RunError::from(NoAnswer { doing: "asking".into(), problem: "hangs".into() });
        let unloadable = || RunError::Unloadable("no kernel".into());
        let after = |error| RunError::AfterCells(Box::new(error));
        let ended =
            || TenantError::Ended { tenant: "victim".into(), how: "killed by signal 9".into() };
        for (error, code) in [
            (hang(), 3),
            (after(hang()), 4),
            (unloadable(), 3),
            (after(unloadable()), 4),
            (ended().into(), 4),
            (after(ended().into()), 4),
            (after(RunError::DiskFull), 5),
        ] {
            let text = format!("{error:?}");
            let found = from_run(error, Path::new("out"), false);
            assert_eq!(found.exit_code().code(), code, "{text}: {found}");
        }
    }

    fn row(name: &str, outcome: Outcome) -> MechanismRow {
        MechanismRow {
            name: name.to_owned(),
            variant: format!("{name}[x]"),
            outcome,
            remedy: None,
            proof: Vec::new(),
            tenants: std::collections::BTreeMap::new(),
        }
    }

    /// The exit code of these rows, with these mechanisms named on the command line.
    fn status(rows: &[MechanismRow], named: &[&str]) -> (u8, String) {
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        match in_force(rows).and_then(|()| could_run(rows, "exclusive", &named)) {
            Ok(()) => (0, String::new()),
            Err(error) => (error.exit_code().code(), error.to_string()),
        }
    }

    #[test]
    fn failed_and_waived_mechanisms_decide_the_exit_code() {
        let (exclusive, mps) =
            (row("exclusive", Outcome::measured()), row("mps", Outcome::measured()));
        let no_mig = row("mig", Outcome::waived("the device has no MIG"));
        let no_mps = row("mps", Outcome::waived("it takes no more clients"));
        let off = row("mps", Outcome::failed("not in force: no client"));
        for (rows, named, code, part) in [
            (vec![&exclusive], vec!["exclusive"], 0, ""),
            (vec![&exclusive, &mps], vec![], 0, ""),
            (vec![&exclusive, &mps, &no_mig], vec![], 0, ""),
            (vec![&exclusive, &mps, &no_mig], vec!["mps"], 0, ""),
            (vec![&exclusive, &mps, &no_mig], vec!["mps", "mig"], 3, "mig[x]: the device has no"),
            (vec![&exclusive, &no_mps, &no_mig], vec![], 3, "mps[x]: it takes"),
            (vec![&no_mps], vec!["mps"], 3, "nothing could run"),
            (vec![&exclusive, &off, &no_mig], vec![], 4, "mps[x] failed: not in force"),
            (vec![&off, &no_mig], vec!["mig"], 4, "mps[x]"),
        ] {
            let rows: Vec<MechanismRow> = rows.into_iter().cloned().collect();
            let (found, text) = status(&rows, &named);
            assert_eq!(found, code, "{rows:?} {named:?}: {text}");
            assert!(text.contains(part), "{text}");
        }
    }
}

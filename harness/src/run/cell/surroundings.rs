//! Observations around a cell beside processes and proofs: memory errors, clocks of processes, and
//! what could not be observed.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

use gpubench_record::{Surroundings, Unobserved};

use super::{RunError, Sampled, TenantSet, XidMonitor};

/// Observes after the samples, while the tenants are still there.
pub async fn observe(
    tenants: &TenantSet,
    monitor: &mut XidMonitor,
    sampled: &Sampled,
) -> Result<Surroundings, RunError> {
    let mut found = Surroundings {
        span: sampled.span,
        sm_clock_khz: sampled.mean_sm_clock_khz(),
        unobserved: sampled.unobserved.clone(),
        ..Surroundings::default()
    };
    match monitor.memory_errors().await? {
        Ok(span) => found.ecc = Some(span),
        Err(error) => found.note(Unobserved::Ecc, Some(error)),
    }
    if tenants.handles().setup.clock.is_virtual() {
        return Ok(found);
    }
    match other_clocks(&tenants.stamping()) {
        Ok(others) => found.other_clocks = Some(others),
        Err(error) => found.note(Unobserved::Clocks, Some(error)),
    }
    Ok(found)
}

/// The processes of another time namespace than this one, whose monotonic clock can be shifted.
fn other_clocks(processes: &[(String, u32)]) -> Result<Vec<String>, String> {
    let Some(own) = time_namespace("self")? else {
        // A kernel before 5.6: all processes have one clock.
        return Ok(Vec::new());
    };
    let mut others = Vec::new();
    for (name, pid) in processes {
        let found = time_namespace(&pid.to_string())?;
        // A process that has ended stamps nothing more.
        if found.is_some_and(|found| found != own) {
            others.push(format!("{name} (process {pid})"));
        }
    }
    Ok(others)
}

/// The inode that names the time namespace of a process; `None` if there is no such process, or the
/// kernel has no time namespaces.
fn time_namespace(process: &str) -> Result<Option<u64>, String> {
    let path = format!("/proc/{process}/ns/time");
    match std::fs::metadata(&path) {
        Ok(meta) => Ok(Some(meta.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{other_clocks, time_namespace};

    #[test]
    fn the_processes_of_this_program_share_its_clock() {
        let own = ("own".to_owned(), std::process::id());
        let ended = ("ended".to_owned(), u32::MAX);
        assert_eq!(other_clocks(&[own, ended]), Ok(Vec::new()));
        assert_eq!(time_namespace("0"), Ok(None));
    }
}

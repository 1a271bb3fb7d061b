//! A GPU on which other processes compute is refused before anything starts: every cell beside them
//! would be excluded, and faults and changed settings would harm them.

use std::time::Duration;

use super::DeviceSession;
use crate::error::ExpectedError;

/// Waits for processes of a dead run, which its guard process or this run has just ended.
const WAITS: u32 = 30;
const STEP: Duration = Duration::from_millis(100);
/// Processes that the message names.
const NAMED_MAX: usize = 8;

/// Checks that no process has a context on the device.
///
/// # Errors
/// When there is one, with the process ids.
pub(super) fn check(session: &DeviceSession) -> Result<(), ExpectedError> {
    let mut pids = Vec::new();
    for _ in 0..WAITS {
        // Without a list the proofs of the mechanisms say so.
        pids = session.nvml().compute_pids().unwrap_or_default();
        if pids.is_empty() {
            return Ok(());
        }
        std::thread::sleep(STEP);
    }
    Err(ExpectedError::Busy { gpu: session.identity().uuid.clone(), holder: holders(&pids) })
}

fn holders(pids: &[u32]) -> String {
    let name = |pid: &u32| {
        // It may have ended, or belong to another namespace.
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        let comm = comm.map_or_else(|_| String::new(), |comm| format!(" ({})", comm.trim()));
        format!("{pid}{comm}")
    };
    let named: Vec<String> = pids.iter().take(NAMED_MAX).map(name).collect();
    let more = match pids.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let process = if pids.len() == 1 { "process" } else { "processes" };
    format!("other work: {process} {}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::holders;

    #[test]
    fn processes_are_named_with_their_programs() {
        let own = std::process::id();
        let text = holders(&[own]);
        assert!(text.starts_with(&format!("other work: process {own} (")), "{text}");
        let many: Vec<u32> = (0..10).map(|at| u32::MAX - at).collect();
        let text = holders(&many);
        assert!(text.starts_with("other work: processes 4294967295, "), "{text}");
        assert!(text.ends_with(" and 2 more"), "{text}");
    }
}

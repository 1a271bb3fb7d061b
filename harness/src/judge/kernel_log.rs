//! The kernel log of this host, which names the process of each Xid, and whether it can be read.

use std::path::{Path, PathBuf};

use gpubench_virtual_gpu::kernel_log;
use gpubench_virtual_gpu::session::{ENV, Session};

use super::DeviceSession;
use crate::run::{KernelLog, RunClock};

/// The device file of the kernel log.
const OF_THE_KERNEL: &str = "/dev/kmsg";

/// Opens the kernel log at its end. A virtual device has a log of its own.
///
/// # Errors
/// Why it cannot be read, in one line.
pub fn open(session: &DeviceSession) -> Result<KernelLog, String> {
    let address = session.nvml().pci_address();
    let Some(device) = std::env::var_os(ENV).map(PathBuf::from) else {
        return KernelLog::open(Path::new(OF_THE_KERNEL), address, 0);
    };
    // The stamps of a virtual device are those of its own clock.
    let epoch_ns = match session.clock() {
        RunClock::Virtual(_) => 0,
        RunClock::Wall => {
            let read = Session::read(&device).map_err(|error| error.to_string())?;
            read.0.wall_epoch_ns
        }
    };
    KernelLog::open(&kernel_log::path(&device), address, epoch_ns)
}

/// Whether the log can be read, in the words of records and `doctor`.
pub fn describe(opened: &Result<KernelLog, String>) -> String {
    match opened {
        Ok(log) if log.has_our_pids() => "read; it names the process of each Xid".to_owned(),
        Ok(_) => "read; its process ids belong to another PID namespace".to_owned(),
        Err(reason) => format!("not read, so Xids have no process and no MIG instance: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::describe;
    use crate::run::KernelLog;

    #[test]
    fn a_log_that_cannot_be_read_names_the_loss_and_the_reason() {
        let nowhere = KernelLog::open(std::path::Path::new("/nowhere/kmsg"), None, 0);
        assert_eq!(
            describe(&nowhere),
            "not read, so Xids have no process and no MIG instance: /nowhere/kmsg: No such file or \
             directory (os error 2)"
        );
    }
}

//! Where the kernel's log of this host is, which says whose an Xid was; and whether it can be read.

use std::path::PathBuf;

use gpubench_virtual_gpu::kernel_log;
use gpubench_virtual_gpu::session::ENV;

use super::bench::Bench;
use crate::run::KernelLog;

/// The kernel gives it here, record by record.
const OF_THE_KERNEL: &str = "/dev/kmsg";

/// Opens it at its end; a virtual device has one of its own.
///
/// # Errors
/// Why it cannot be read, in one line.
pub fn open(bench: &Bench) -> Result<KernelLog, String> {
    let device = std::env::var_os(ENV).map(PathBuf::from);
    let path = device.map_or_else(
        || PathBuf::from(OF_THE_KERNEL),
        |device| kernel_log::path(&device),
    );
    KernelLog::open(&path, bench.nvml().seat())
}

/// Whether it can be read, as records and `doctor` say it.
pub fn told(opened: &Result<KernelLog, String>) -> String {
    match opened {
        Ok(log) if log.has_our_numbers() => "read, for whose an Xid is".to_owned(),
        Ok(_) => "read; its process numbers are those of another namespace".to_owned(),
        Err(reason) => format!("not read, so Xids name no process and no MIG instance: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::told;
    use crate::run::KernelLog;

    #[test]
    fn a_log_that_cannot_be_read_is_told_with_what_is_lost_and_why() {
        let nowhere = KernelLog::open(std::path::Path::new("/nowhere/kmsg"), None);
        assert_eq!(
            told(&nowhere),
            "not read, so Xids name no process and no MIG instance: /nowhere/kmsg: No such file or \
             directory (os error 2)"
        );
    }
}

//! The device's part of the kernel's log: one line for each Xid, as the driver writes them.
//!
//! A program that uses NVML receives an Xid as an event; the administrator finds a line in the
//! kernel's log, which also names the process. A virtual device has no kernel, so its lines
//! stand in a file of its folder. The form is that of the open kernel modules (595.45.04,
//! `kernel_rc.c`, `krcReportXid`): address, Xid, process, name, text. The texts are our own.
//!
//! The file is written under the lock of the state and before the state is published, which says
//! how much of the file counts: a writer that dies in between leaves a tail that the next one cuts
//! off.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::code;
use gpubench_virtual_gpu_model::state::{State, Xid};

/// Name of the file, in the device's folder.
pub const FILE: &str = "kernel.log";

/// The PCI bus on which the device sits; domain, device and function are 0.
pub const PCI_BUS: u32 = 1;

/// Device and vendor: 10de below an id that no product has, so that no table of names takes it for
/// silicon.
pub const PCI_ID: u32 = 0xffff_10de;

/// Where the log of a device lies.
pub fn path(device_dir: &Path) -> PathBuf {
    device_dir.join(FILE)
}

/// The log of one device, to be written.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
}

impl KernelLog {
    /// Opens the log beside a state file; it is made if need be.
    pub fn beside(state_file: &Path) -> io::Result<Self> {
        let path = state_file.with_file_name(FILE);
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path)?;
        Ok(Self { file })
    }

    /// Writes the lines of what a draft has raised since there were `before` Xids, and notes in it
    /// how long the log is then.
    pub fn write_news(&self, draft: &mut State, before: u64) -> io::Result<()> {
        let text: String = draft.xids_since(before).iter().map(line).collect();
        self.file.set_len(draft.kernel_log_bytes)?;
        self.file.write_all_at(text.as_bytes(), draft.kernel_log_bytes)?;
        draft.kernel_log_bytes += text.len() as u64;
        Ok(())
    }
}

/// One line of the log, its end included. Stamps are those of the device's clock, as the kernel's
/// are those of its own.
fn line(xid: &Xid) -> String {
    let (seconds, micros) = (xid.time_ns / 1_000_000_000, xid.time_ns / 1_000 % 1_000_000);
    let instance = xid
        .instance
        .map_or_else(String::new, |(gpu, compute)| format!(" GPU-I:{gpu:02} GPU-CI:{compute:02}"));
    let end = xid.name.iter().position(|byte| *byte == 0);
    let name = String::from_utf8_lossy(&xid.name[..end.unwrap_or(xid.name.len())]);
    // Lines without a process have no such field.
    let process = match xid.pid {
        0 => String::new(),
        pid => format!("pid={pid}, name={name}, "),
    };
    let (number, text) = (xid.number, text(xid));
    format!(
        "[{seconds:5}.{micros:06}] NVRM: Xid (PCI:{:04x}:{PCI_BUS:02x}:{:02x}{instance}): \
         {number}, {process}{text}\n",
        0, 0
    )
}

/// The text of an Xid: its kind, and the error that the program gets.
fn text(xid: &Xid) -> String {
    let kind = match xid.number {
        8 => "GPU stopped processing",
        13 => "exception in the graphics engine",
        31 => "fault of the memory management unit",
        43 => "the program has to end",
        45 => "work removed with its process",
        _ => "planted by the machine file",
    };
    match code::describe(xid.fault).filter(|_| xid.fault != 0) {
        Some((_, what)) => format!("{kind}: {what}"),
        None => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{path, text};
    use crate::shm::Shared;
    use gpubench_virtual_gpu_model::state::{
        ComputeEngine, Context, GpuInstance, Process, State, Xid,
    };

    /// A device with a process in the second compute instance of a GPU instance.
    fn divided() -> Box<State> {
        let mut state = State::new(1, 0);
        state.now_ns = 12_000_345_678;
        state.processes.used = 1;
        state.processes.rows[0] = Process { pid: 77, ..Process::default() };
        state.processes.rows[0].name[..5].copy_from_slice(b"train");
        (state.contexts.used, state.instances.used, state.engines.used) = (1, 2, 2);
        state.instances.rows[1] = GpuInstance { live: true, id: 5, ..GpuInstance::default() };
        state.engines.rows[1] =
            ComputeEngine { live: true, id: 2, instance: 1, ..ComputeEngine::default() };
        state.contexts.rows[0] = Context { live: true, engine: 1, ..Context::default() };
        state
    }

    #[test]
    fn every_xid_leaves_one_line_that_says_whose_it_was_and_where()
    -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let shared = Shared::create(&dir.path().join("state"), &divided())?;
        let read = || std::fs::read_to_string(path(dir.path()));
        assert_eq!(read()?, "", "nothing happened yet");
        let log = |state: &mut State, number, fault| {
            let xid = Xid::of_context(state, 0, fault);
            state.log_xid(Xid { number, ..xid });
        };
        shared.transact(|state, _| log(state, 31, 700))?;
        let first = "[   12.000345] NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 31, pid=77, \
                     name=train, fault of the memory management unit: an illegal memory access was \
                     encountered\n";
        assert_eq!(read()?, first);
        // Lines of a writer that died before it published the count are cut off.
        std::fs::write(path(dir.path()), format!("{first}{}", "x".repeat(4096)))?;
        shared.transact(|state, _| {
            state.contexts.rows[0].engine = 0;
            log(state, 45, 0);
        })?;
        let second = "[   12.000345] NVRM: Xid (PCI:0000:01:00): 45, pid=77, name=train, work \
                      removed with its process\n";
        assert_eq!(read()?, format!("{first}{second}"));
        shared.transact(|state, _| state.now_ns += 1)?;
        assert_eq!(read()?, format!("{first}{second}"), "once each");
        shared.transact(|state, _| {
            state.log_xid(Xid { number: 13, ..Xid::default() });
        })?;
        let nobodys = "[   12.000345] NVRM: Xid (PCI:0000:01:00): 13, exception in the graphics \
                       engine\n";
        assert_eq!(read()?, format!("{first}{second}{nobodys}"));
        Ok(())
    }

    #[test]
    fn a_planted_xid_is_called_that() {
        let (number, fault) = (79, 719);
        let xid = Xid { number, fault, ..Xid::default() };
        let expected = "planted by the machine file: unspecified launch failure";
        assert_eq!(text(&xid), expected);
    }
}

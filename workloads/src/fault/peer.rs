//! Reads another process's device memory after that process was killed.
//!
//! The result is undefined (CUDA driver API, `cuIpcGetMemHandle`): on some systems the memory
//! remains until the importer closes it.

use gpubench_kernels::driver::{DeviceBuffer, IpcHandle, IpcMapping};
use gpubench_kernels::kernel::fault_misaligned::FaultMisaligned;
use gpubench_kernels::{Kernel, Launcher};

use super::{Answer, Armed, Arming, Class, FAULT, Fault, HostAct, InjectError, Moment};
use crate::load::{Gpu, LoadError};

/// The entries of the catalogue.
pub(super) const FAULTS: &[Fault] = &[EXPORTER_EXIT];

const EXPORTER_EXIT: Fault = Fault {
    name: NAME,
    class: Class::Mmu,
    summary: "reads memory that another process exported by CUDA IPC before it was killed",
    resource: "memory shared between processes",
    act: HostAct::KillHelper,
    answer: Answer::Open(&[700, 1]),
    xids: &[31],
    arm: |gpu, how| Ok(Box::new(Importer::new(gpu, how)?)),
    helper: Some(|gpu| {
        let words = DeviceBuffer::from_slice(&gpu.context, &[1_u32; WORDS])?;
        let handle = to_text(&words.ipc_handle()?);
        Ok((Box::new(Exporter { _words: words }), Some(handle)))
    }),
    ..FAULT
};

const NAME: &str = "ipc-exporter-exit";
/// Words of the exported memory.
const WORDS: usize = 1024;
/// The second word is read, because mapping the memory may read the first one.
const OFFSET_BYTES: u32 = 4;

/// Exports memory until it is killed.
struct Exporter {
    _words: DeviceBuffer<u32>,
}

impl Armed for Exporter {
    fn inject(&mut self, _gpu: &Gpu, moment: &Moment<'_>) -> Result<(), InjectError> {
        Ok(moment.time.sleep_until(moment.until_ns)?)
    }
}

/// Maps the exported memory and reads it.
struct Importer {
    launch: FaultMisaligned,
    _mapping: IpcMapping,
    _out: DeviceBuffer<u32>,
}

impl Importer {
    fn new(gpu: &Gpu, how: &Arming<'_>) -> Result<Self, LoadError> {
        let handle = how.from_helper.and_then(from_text);
        let handle = handle.ok_or(LoadError::Fault {
            fault: NAME,
            what: "the exporter sent no handle of 64 bytes",
        })?;
        gpu.kernels.prepare(&[Kernel::FaultMisaligned])?;
        let mapping = IpcMapping::open(&gpu.context, handle)?;
        let out = DeviceBuffer::from_slice(&gpu.context, &[0_u32])?;
        let launch = FaultMisaligned {
            base: mapping.device_ptr(),
            offset_bytes: OFFSET_BYTES,
            out: out.device_ptr(),
        };
        Ok(Self { launch, _mapping: mapping, _out: out })
    }
}

impl Armed for Importer {
    fn inject(&mut self, gpu: &Gpu, _moment: &Moment<'_>) -> Result<(), InjectError> {
        self.launch.launch(&gpu.kernels, &gpu.stream)?;
        Ok(gpu.stream.synchronize()?)
    }
}

/// A handle as hexadecimal digits.
fn to_text(handle: &IpcHandle) -> String {
    handle.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_text(text: &str) -> Option<IpcHandle> {
    let mut bytes = [0; 64];
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(IpcHandle(bytes))
}

#[cfg(test)]
mod tests {
    use super::{IpcHandle, from_text, to_text};

    #[test]
    fn a_handle_is_unchanged_after_text_conversion() {
        let mut handle = IpcHandle([0; 64]);
        for (index, byte) in handle.0.iter_mut().enumerate() {
            *byte = (index * 37 % 256) as u8;
        }
        assert_eq!(from_text(&to_text(&handle)), Some(handle));
        for wrong in ["", "00", &"0".repeat(127), &"g".repeat(128), &"é".repeat(64)] {
            assert_eq!(from_text(wrong), None, "{wrong}");
        }
    }
}

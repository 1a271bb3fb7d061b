//! Memory of another tenant, by a handle that it gives away.

use gpubench_kernels::driver::{DeviceBuffer, IpcHandle, IpcMapping};
use gpubench_record::ProbeTold;

use super::ProbeError;
use crate::load::Gpu;

/// Bytes of a handle.
const HANDLE_BYTES: usize = 64;

/// Takes memory, keeps it, and tells its handle.
pub(super) fn export(
    gpu: &Gpu,
    kept: &mut Vec<DeviceBuffer<u32>>,
    bytes: u64,
) -> Result<ProbeTold, ProbeError> {
    let words = usize::try_from(bytes / 4).map_err(ProbeError::asked)?;
    let memory = DeviceBuffer::<u32>::alloc(&gpu.context, words)?;
    let handle = memory.ipc_handle()?;
    kept.push(memory);
    let hex = handle.0.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(ProbeTold::Exported { handle: hex })
}

/// Maps memory by its handle and unmaps it at once.
pub(super) fn import(gpu: &Gpu, handle: &str) -> Result<ProbeTold, ProbeError> {
    let handle = parse(handle)
        .ok_or_else(|| ProbeError::asked(format!("{} digits are no handle", handle.len())))?;
    let refused_with = match IpcMapping::open(&gpu.context, handle) {
        Ok(_mapped) => None,
        Err(error) => match error.code() {
            Some(code) => Some(code),
            None => return Err(error.into()),
        },
    };
    Ok(ProbeTold::Imported { refused_with })
}

fn parse(text: &str) -> Option<IpcHandle> {
    let mut bytes = [0; HANDLE_BYTES];
    if text.len() != 2 * HANDLE_BYTES {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(IpcHandle(bytes))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_handle_is_all_of_its_digits() {
        let text: String = (0..64).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(parse(&text).map(|handle| handle.0[63]), Some(63));
        for wrong in [&text[1..], &text.replace('0', "g"), ""] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }
}

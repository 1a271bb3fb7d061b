//! Memory of another tenant, through an IPC handle that it exports.

use gpubench_kernels::driver::{DeviceBuffer, IpcHandle, IpcMapping};
use gpubench_record::probe::step::{ExportMemory, ExportedMemory, ImportMemory, ImportedMemory};

use super::{ProbeError, RunStep, StepContext};

const HANDLE_BYTES: usize = 64;

impl RunStep for ExportMemory {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<ExportedMemory, ProbeError> {
        let words = usize::try_from(self.bytes / 4).map_err(ProbeError::parameter)?;
        let memory = DeviceBuffer::<u32>::alloc(&cx.gpu.context, words)?;
        let handle = memory.ipc_handle()?;
        cx.kept.push(memory);
        let handle = handle.0.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(ExportedMemory { handle })
    }
}

impl RunStep for ImportMemory {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<ImportedMemory, ProbeError> {
        let handle = parse(&self.handle).ok_or_else(|| {
            let (found, accepted) = (self.handle.len(), 2 * HANDLE_BYTES);
            ProbeError::parameter(format!(
                "a handle of {found} characters (accepted: {accepted} hexadecimal digits)"
            ))
        })?;
        let refused_with = match IpcMapping::open(&cx.gpu.context, handle) {
            Ok(_mapped) => None,
            Err(error) => match error.code() {
                Some(code) => Some(code),
                None => return Err(error.into()),
            },
        };
        Ok(ImportedMemory { refused_with })
    }
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
    fn reads_a_handle_with_all_of_its_digits_only() {
        let text: String = (0..64).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(parse(&text).map(|handle| handle.0[63]), Some(63));
        for wrong in [&text[1..], &text.replace('0', "g"), ""] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }
}

//! Memory visibility: what a tenant can observe of another, namely free memory and its addresses.

use gpubench_kernels::driver::DevicePtr;
use gpubench_kernels::pattern_word;
use gpubench_record::probe::step::{AddressReads, MemoryInfo, ReadAddresses, ReadMemoryInfo};

use super::{ProbeError, RunStep, StepContext};

/// Words that are copied from each address.
const WORDS: usize = 16;

impl RunStep for ReadMemoryInfo {
    fn run(&self, cx: &mut StepContext<'_>) -> Result<MemoryInfo, ProbeError> {
        let memory = cx.gpu.context.mem_info()?;
        Ok(MemoryInfo { total_bytes: memory.total_bytes, free_bytes: memory.free_bytes })
    }
}

impl RunStep for ReadAddresses {
    /// The driver checks a copy before it submits it, so a refusal breaks no context. Reads by a
    /// kernel are not tested.
    fn run(&self, cx: &mut StepContext<'_>) -> Result<AddressReads, ProbeError> {
        let mark: Vec<u32> = (0..WORDS as u64).map(|i| pattern_word(i, self.seed)).collect();
        let mut reads = AddressReads::default();
        for &address in &self.addresses {
            let mut words = [0_u32; WORDS];
            match DevicePtr(address).read(&cx.gpu.context, &mut words) {
                Ok(()) if words[..] == mark[..] => reads.marked += 1,
                Ok(()) => reads.other += 1,
                Err(error) => {
                    let Some(code) = error.code() else {
                        return Err(error.into());
                    };
                    reads.refused += 1;
                    reads.refused_with.get_or_insert(code);
                }
            }
        }
        Ok(reads)
    }
}

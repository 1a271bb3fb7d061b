//! Memory visibility: what a tenant can see of another, namely free memory and its addresses.

use gpubench_kernels::driver::DevicePtr;
use gpubench_kernels::pattern_word;
use gpubench_record::ProbeTold;

use super::ProbeError;
use crate::load::Gpu;

/// Words that are copied from each address.
const WORDS: usize = 16;

/// What `cuMemGetInfo` shows.
pub(super) fn look(gpu: &Gpu) -> Result<ProbeTold, ProbeError> {
    let memory = gpu.context.mem_info()?;
    Ok(ProbeTold::Shown {
        total_bytes: memory.total_bytes,
        free_bytes: memory.free_bytes,
    })
}

/// Copies from addresses of another tenant. A copy is checked by the driver before it is submitted,
/// so a refusal breaks no context; what a kernel would see is not tested.
pub(super) fn read(gpu: &Gpu, addresses: &[u64], seed: u32) -> Result<ProbeTold, ProbeError> {
    let canary: Vec<u32> = (0..WORDS as u64).map(|i| pattern_word(i, seed)).collect();
    let (mut refused, mut carried, mut other, mut refused_with) = (0, 0, 0, None);
    for &address in addresses {
        let mut words = [0_u32; WORDS];
        match DevicePtr(address).read(&gpu.context, &mut words) {
            Ok(()) if words[..] == canary[..] => carried += 1,
            Ok(()) => other += 1,
            Err(error) => {
                let Some(code) = error.code() else {
                    return Err(error.into());
                };
                refused += 1;
                refused_with.get_or_insert(code);
            }
        }
    }
    Ok(ProbeTold::Read {
        refused,
        canary: carried,
        other,
        refused_with,
    })
}

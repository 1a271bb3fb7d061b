//! Running out of memory: what the refusal is, how long it takes, and whether the context is of use
//! afterwards.

use gpubench_kernels::driver::DeviceBuffer;
use gpubench_record::{Exhausted, ProbeTold};

use super::ProbeError;
use super::allocate_to_limit::until_refused;
use super::stamp::Stamps;
use crate::clock::Time;
use crate::load::Gpu;

/// Pieces in which everything is taken at first.
const PIECES: u32 = 32;
/// Size of the request that is repeated when no memory is left.
const MORE_WORDS: usize = 4 << 20;

/// Takes memory until it is refused, asks once more, works without giving anything back, and takes
/// some again when all is given back.
pub(super) fn exhaust(
    gpu: &Gpu,
    time: &dyn Time,
    most_bytes: u64,
) -> Result<ProbeTold, ProbeError> {
    // The launch's memory is allocated before memory runs out.
    let stamps = Stamps::new(gpu, 1)?;
    stamps.put(gpu, 0)?;
    gpu.stream.synchronize()?;
    let taken = until_refused(most_bytes, PIECES, |bytes| {
        DeviceBuffer::<u32>::alloc(&gpu.context, bytes.div_ceil(4))
    })?;
    let from_ns = time.now_ns();
    let more = DeviceBuffer::<u32>::alloc(&gpu.context, MORE_WORDS);
    let refusal_ns = time.now_ns() - from_ns;
    let refused_with = more.as_ref().err().map(|error| error.code().unwrap_or(-1));
    drop(more);
    let works = stamps
        .put(gpu, 0)
        .and_then(|()| gpu.stream.synchronize())
        .and_then(|()| stamps.read(1));
    let serves_code = works.err().map_or(0, |error| error.code().unwrap_or(-1));
    taken.pieces.into_iter().try_for_each(DeviceBuffer::free)?;
    let again = DeviceBuffer::<u32>::alloc(&gpu.context, MORE_WORDS);
    let recovers_code = again.err().map_or(0, |error| error.code().unwrap_or(-1));
    Ok(ProbeTold::Exhausted(Exhausted {
        bytes: taken.bytes,
        refused_with,
        refusal_ns,
        serves_code,
        recovers_code,
    }))
}

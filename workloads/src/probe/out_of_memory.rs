//! Running out of memory: the refusal, its duration, and whether the context still works.

use gpubench_kernels::driver::DeviceBuffer;
use gpubench_record::Exhausted;
use gpubench_record::probe::step::ExhaustMemory;

use super::allocate_to_limit::until_refused;
use super::stamps::Stamps;
use super::{ProbeError, RunStep, StepContext};

/// Initial number of pieces.
const PIECES: u32 = 32;
/// Size of the request that is repeated when no memory is left.
const MORE_WORDS: usize = 4 << 20;

impl RunStep for ExhaustMemory {
    /// Allocates until refused, requests once more, launches while all memory is held, frees it,
    /// and allocates again.
    fn run(&self, cx: &mut StepContext<'_>) -> Result<Exhausted, ProbeError> {
        let (gpu, time) = (cx.gpu, cx.time);
        // The launch's memory is allocated before memory runs out.
        let stamps = Stamps::new(gpu, 1)?;
        stamps.put(gpu, 0)?;
        gpu.stream.synchronize()?;
        let held = until_refused(self.max_bytes, PIECES, |bytes| {
            DeviceBuffer::<u32>::alloc(&gpu.context, bytes.div_ceil(4))
        })?;
        let from_ns = time.now_ns();
        let more = DeviceBuffer::<u32>::alloc(&gpu.context, MORE_WORDS);
        let refusal_ns = time.now_ns() - from_ns;
        let refused_with = more.as_ref().err().map(|error| error.code().unwrap_or(-1));
        drop(more);
        let launched = stamps
            .put(gpu, 0)
            .and_then(|()| gpu.stream.synchronize())
            .and_then(|()| stamps.read(1));
        let serves_code = launched.err().map_or(0, |error| error.code().unwrap_or(-1));
        held.pieces.into_iter().try_for_each(DeviceBuffer::free)?;
        let again = DeviceBuffer::<u32>::alloc(&gpu.context, MORE_WORDS);
        let recovers_code = again.err().map_or(0, |error| error.code().unwrap_or(-1));
        Ok(Exhausted { bytes: held.bytes, refused_with, refusal_ns, serves_code, recovers_code })
    }
}

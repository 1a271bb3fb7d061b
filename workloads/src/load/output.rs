//! The output of a workload, and its digest.
//!
//! A digest is equal for equal bytes, whatever part of the device computes it: the shape of its
//! launch is fixed.

use gpubench_kernels::driver::{DeviceBuffer, DevicePtr, DriverError, Grid, PinnedBuffer, Pod};
use gpubench_kernels::kernel::digest::{Digest, step};
use gpubench_kernels::{Kernel, Launcher};

use super::Gpu;

/// Larger device buffers are digested on the device. Up to here a copy takes a few milliseconds.
const COPIED_BYTES_MAX: u64 = 16 << 20;

/// The launch that digests larger ones: enough threads to read at the speed of DRAM.
const GRID: Grid = Grid::new(128, 256);

/// Words of host memory that are read at a time, which the CPU's caches hold.
const HOST_WORDS: usize = 1 << 13;

/// Every byte of an output before a cell: a result that was never written shows.
const CLEARED: u8 = 0xff;

#[derive(Debug)]
pub enum Output<'a> {
    /// Memory whose contents are a fixed function of the inputs after one cycle of requests.
    Parts(Vec<Part<'a>>),
    /// None that is, with the reason.
    None(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// Device memory that kernels write.
    Written(DevicePtr, u64),
    /// Device memory that requests read, or that copies write.
    Kept(DevicePtr, u64),
    /// Host memory that copies write.
    Host(&'a PinnedBuffer<u64>),
}

impl Part<'_> {
    /// A buffer that kernels write.
    pub(super) fn written<T: Pod>(buffer: &DeviceBuffer<T>) -> Self {
        Self::Written(buffer.device_ptr(), buffer.bytes())
    }

    /// A buffer that requests read, or that copies write.
    pub(super) fn kept<T: Pod>(buffer: &DeviceBuffer<T>) -> Self {
        Self::Kept(buffer.device_ptr(), buffer.bytes())
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Written(_, bytes) | Self::Kept(_, bytes) => *bytes,
            Self::Host(buffer) => 8 * buffer.len() as u64,
        }
    }
}

impl Output<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Parts(parts) => parts.iter().map(Part::bytes).sum(),
            Self::None(_) => 0,
        }
    }

    /// The parts on the device, each with its whole words.
    pub(super) fn on_device(&self) -> Vec<(DevicePtr, u64)> {
        let Self::Parts(parts) = self else { return Vec::new() };
        let on_device = parts.iter().filter_map(|part| match *part {
            Part::Written(at, bytes) | Part::Kept(at, bytes) => Some((at, bytes / 8)),
            Part::Host(_) => None,
        });
        on_device.collect()
    }

    /// Overwrites what kernels write.
    pub(crate) fn clear(&self, gpu: &Gpu) -> Result<(), DriverError> {
        let Self::Parts(parts) = self else { return Ok(()) };
        for part in parts {
            if let Part::Written(at, bytes) = *part {
                at.fill_bytes(&gpu.context, CLEARED, bytes)?;
            }
        }
        Ok(())
    }

    /// The digest of all parts; `None` where there are none. The device must be idle.
    pub(crate) fn digest(&self, gpu: &Gpu) -> Result<Option<String>, DriverError> {
        let Self::Parts(parts) = self else { return Ok(None) };
        let mut fold = 0;
        for part in parts {
            fold = match *part {
                Part::Written(at, bytes) | Part::Kept(at, bytes) => {
                    step(fold, of_device(gpu, at, bytes)?)
                }
                Part::Host(buffer) => {
                    let mut words = vec![0; HOST_WORDS.min(buffer.len())];
                    for at in (0..buffer.len()).step_by(HOST_WORDS) {
                        let part = &mut words[..HOST_WORDS.min(buffer.len() - at)];
                        buffer.read(at, part)?;
                        fold = step(fold, of_words(part));
                    }
                    fold
                }
            };
        }
        Ok(Some(format!("{fold:016x}")))
    }
}

fn of_device(gpu: &Gpu, at: DevicePtr, bytes: u64) -> Result<u64, DriverError> {
    if bytes <= COPIED_BYTES_MAX {
        if bytes.is_multiple_of(8) {
            let mut words = vec![0; bytes as usize / 8];
            at.read(&gpu.context, &mut words)?;
            return Ok(of_words(&words));
        }
        let mut halves = vec![0_u32; bytes as usize / 4];
        at.read(&gpu.context, &mut halves)?;
        return Ok(of_words(&halves.iter().map(|half| u64::from(*half)).collect::<Vec<_>>()));
    }
    gpu.kernels.prepare(&[Kernel::Digest])?;
    let partials = DeviceBuffer::<u64>::alloc(&gpu.context, GRID.total_threads() as usize)?;
    let partials_at = partials.device_ptr();
    Digest { src: at, bytes, partials: partials_at, grid: GRID }
        .launch(&gpu.kernels, &gpu.stream)?;
    gpu.stream.synchronize()?;
    Ok(of_words(&partials.to_vec()?))
}

/// The digest of words. Four folds at a time: each step waits for the one before it.
pub(super) fn of_words(words: &[u64]) -> u64 {
    let (fours, rest) = words.as_chunks::<4>();
    let mut folds = [0, 1, 2, 3];
    for four in fours {
        for (fold, word) in folds.iter_mut().zip(four) {
            *fold = step(*fold, *word);
        }
    }
    folds.iter().chain(rest).fold(words.len() as u64, |fold, word| step(fold, *word))
}

#[cfg(test)]
mod tests {
    use super::of_words;

    #[test]
    fn every_bit_and_the_order_of_words_count() {
        let words: Vec<u64> = (0..23).map(|at| at * 0x0123_4567).collect();
        let digest = of_words(&words);
        for bit in 0..23 * 64 {
            let mut flipped = words.clone();
            flipped[bit / 64] ^= 1 << (bit % 64);
            assert_ne!(of_words(&flipped), digest, "bit {bit}");
        }
        for at in 1..23 {
            let mut swapped = words.clone();
            swapped.swap(at - 1, at);
            assert_ne!(of_words(&swapped), digest, "words {at} and the one before");
        }
        assert_ne!(of_words(&words[..22]), digest);
    }
}

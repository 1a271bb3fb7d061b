//! Memory as a capacity: `reserve`, the victim, and `memory-hog`.

use gpubench_catalogue::workload;
use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DriverError, error};
use gpubench_kernels::kernel::memory::TlbStride;
use gpubench_record::WorkloadSpec;

use super::calibrate::DEMAND_OF_SHARE;
use super::error::spec;
use super::{Gpu, Guess, Load, LoadError, More, Output, Params, Prepared, driver_calls};

// `reserve`: allocates the memory of its share in one piece and frees it. Counter: `cuMemGetInfo`.
//
// A request is one reservation; its length is not adjustable. A refusal for lack of memory is a
// failed request: the promised capacity was not available. It is an answer, and the score of its
// cells is the number of honoured reservations.

pub(super) const RESERVE: &[Load] = &[Load {
    facts: &workload::RESERVE,
    kernel: None,
    first_guess: of_share,
    setup: driver_calls::setup_alloc,
    verify: Some(driver_calls::verify_rounds),
    more: More { lacks, ..More::NONE },
}];

/// Why neither runs on an integrated device.
fn lacks(gpu: &Gpu) -> Result<Option<String>, LoadError> {
    Ok(gpu.props.has_own_memory().err().map(|error| error.to_string()))
}

fn of_share(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    let page = TlbStride::PAGE_BYTES;
    // Truncation gives fewer bytes.
    let bytes = (props.total_bytes as f64 * share * DEMAND_OF_SHARE) as u64;
    let bytes = (bytes / page).max(1) * page;
    Ok(spec(name, [("rounds", 1), ("bytes", bytes)]))
}

// `memory-hog`: allocates all free memory, touches it and frees it. Counter: `cuMemGetInfo`,
// `nvmlDeviceGetMemoryInfo`.
//
// A request is one such allocation; its length is not adjustable. Between requests it holds
// nothing, so a dose is the fraction of time in which the memory is occupied.

/// Pieces in which an empty device is allocated; less than one of them remains free.
const PIECES: u64 = 64;

/// Words at the start of each piece that are written, so that the memory really exists.
const TOUCHED_WORDS: usize = 1024;

pub(super) const MEMORY_HOG: &[Load] = &[Load {
    facts: &workload::MEMORY_HOG,
    kernel: None,
    first_guess: pieces,
    setup: |gpu, spec| Ok(Box::new(Hog::new(gpu, spec)?)),
    verify: Some(verify_memory_hog),
    more: More { lacks, ..More::NONE },
}];

fn pieces(name: &'static str, props: &DeviceProps, _share: f64) -> Guess {
    let page = TlbStride::PAGE_BYTES;
    let bytes = (props.total_bytes / PIECES / page).max(1) * page;
    Ok(spec(name, [("bytes", bytes)]))
}

/// The memory held within a request.
#[derive(Debug)]
struct Hog {
    len: usize,
    held: Vec<DeviceBuffer<u32>>,
    /// Bytes of the first allocation.
    taken_bytes: u64,
    mark: Vec<u32>,
}

impl Hog {
    fn new(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Self, LoadError> {
        let bytes = Params::of(spec).size("bytes")?;
        // The driver refuses a size beyond its memory at once.
        let len = bytes.div_ceil(4) as usize;
        let mut hog =
            Self { len, held: Vec::new(), taken_bytes: 0, mark: vec![1; TOUCHED_WORDS.min(len)] };
        hog.allocate_all(gpu)?;
        hog.taken_bytes = hog.held.iter().map(DeviceBuffer::bytes).sum();
        hog.free_all()?;
        Ok(hog)
    }

    /// Allocates piece after piece until the driver refuses.
    fn allocate_all(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        loop {
            match DeviceBuffer::alloc(&gpu.context, self.len) {
                Ok(piece) => {
                    piece.write(0, &self.mark)?;
                    self.held.push(piece);
                }
                Err(error) if error.code() == Some(error::OUT_OF_MEMORY) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn free_all(&mut self) -> Result<(), DriverError> {
        self.held.drain(..).try_for_each(DeviceBuffer::free)
    }
}

impl Prepared for Hog {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        self.allocate_all(gpu)?;
        self.free_all()
    }

    fn output(&self) -> Output<'_> {
        driver_calls::NO_OUTPUT
    }

    fn work_per_request(&self) -> f64 {
        self.taken_bytes as f64
    }
}

/// Less than a piece is free while the memory is held, and at least as much as before afterwards.
fn verify_memory_hog(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    let free = || gpu.context.mem_info().map(|info| info.free_bytes);
    let before = free()?;
    let mut hog = Hog::new(gpu, &pieces(name, &gpu.props, 1.0)?)?;
    hog.allocate_all(gpu)?;
    let during = free()?;
    hog.free_all()?;
    let after = free()?;
    // Memory may be free in several fragments that are each smaller than a piece. A driver also
    // frees what it had reserved for small allocations while the pieces are allocated, so that more
    // is free afterwards than before (2 MiB on an H100, driver 580).
    if hog.taken_bytes >= before / 2 && during + hog.taken_bytes <= after && after >= before {
        return Ok(());
    }
    let what = format!(
        "{before} bytes free before, {during} while {} were held, {after} after",
        hog.taken_bytes
    );
    Err(LoadError::Wrong { workload: name, what })
}

//! What each SM has of its own: L1, shared memory, address translation and block slots.

use gpubench_catalogue::workload::{self, STAY_NS_MAX};
use gpubench_kernels::Kernel;
use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DevicePtr};
use gpubench_kernels::kernel::memory::TlbStride;
use gpubench_kernels::kernel::on_chip::{L1Stream, SharedStream};
use gpubench_kernels::kernel::timing::BlockSlots;
use gpubench_record::WorkloadSpec;

use super::arithmetic::THREADS;
use super::error::{SIZE_MAX, spec, whole_sms};
use super::l2::NO_SUCH_SUM;
use super::launch::OneLaunch;
use super::{Gpu, Guess, Load, LoadError, More, Output, Params, Part, Prepared, expected};

// L1: `l1`, the victim, and `l1-hog`. Counter: that of `l1_stream`.

pub(super) const L1: &[Load] = &Load::pair(
    [&workload::L1, &workload::L1_HOG],
    Kernel::L1Stream,
    [on_whole_sms, on_every_sm],
    setup_l1,
    [More { expected: expected::L1, ..More::NONE }; 2],
);

fn setup_l1(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let grid = params.grid(&gpu.props)?;
    // The bound makes the casts exact.
    let part_bytes = params.get("part_bytes", 16..=u64::from(u32::MAX))?;
    let bytes = part_bytes * u64::from(grid.blocks);
    let src = DeviceBuffer::<u64>::alloc(&gpu.context, bytes.div_ceil(8) as usize)?;
    src.fill_bytes(0)?;
    let hits = DeviceBuffer::<u32>::from_slice(&gpu.context, &[0])?;
    let launch = L1Stream {
        src: src.device_ptr(),
        bytes_per_block: part_bytes as u32,
        passes: params.word("passes")?,
        trigger: NO_SUCH_SUM,
        hits: hits.device_ptr(),
        grid,
    };
    let output = Output::Parts(vec![Part::kept(&src), Part::kept(&hits)]);
    Ok(Box::new(OneLaunch::new(gpu, launch, |cost| cost.l1_bytes, output, (src, hits))?))
}

// Shared memory: `shared`, the victim, and `shared-hog`. Counter: that of `shared_stream`.

/// Shared memory that a launch may use without an opt-in, on every architecture (CUDA C++
/// Programming Guide, "Shared memory").
const PLAIN_BYTES_MAX: u32 = 48 << 10;

pub(super) const SHARED: &[Load] = &Load::pair(
    [&workload::SHARED, &workload::SHARED_HOG],
    Kernel::SharedStream,
    [on_whole_sms, on_every_sm],
    setup_shared,
    [More { expected: expected::SHARED, ..More::NONE }; 2],
);

fn on_whole_sms(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    Ok(parts_spec(name, props, whole_sms(name, props, share)?, 1))
}

fn on_every_sm(name: &'static str, props: &DeviceProps, _share: f64) -> Guess {
    let grid = props.full_grid(THREADS);
    let on_one_sm = grid.blocks / props.sm_count.max(1);
    Ok(parts_spec(name, props, grid.blocks.into(), on_one_sm))
}

/// Parameters of a load in which every block has its own part of the SM's memory.
fn parts_spec(name: &str, props: &DeviceProps, blocks: u64, on_one_sm: u32) -> WorkloadSpec {
    let part_bytes = props.l1_part_bytes(on_one_sm).min(PLAIN_BYTES_MAX);
    spec(
        name,
        [
            ("blocks", blocks),
            ("threads", THREADS.into()),
            ("passes", 100),
            ("part_bytes", part_bytes.into()),
        ],
    )
}

fn setup_shared(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let grid = params.grid(&gpu.props)?;
    let hits = DeviceBuffer::<u32>::from_slice(&gpu.context, &[0])?;
    let launch = SharedStream {
        // The bound makes the cast exact.
        bytes_per_block: params.get("part_bytes", 16..=PLAIN_BYTES_MAX.into())? as u32,
        passes: params.word("passes")?,
        trigger: NO_SUCH_SUM,
        hits: hits.device_ptr(),
        blocks: grid.blocks,
        threads: grid.threads,
    };
    let output = Output::Parts(vec![Part::kept(&hits)]);
    Ok(Box::new(OneLaunch::new(gpu, launch, |cost| cost.l1_bytes, output, hits)?))
}

// Address translation: `tlb`, the victim, and `tlb-stride`.
//
// It has no public counter (see `tlb_stride.cu`): the evidence is the time of a load compared with
// the same loads from one page. The victim's pages are its share of the aggressor's.

pub(super) const TLB: &[Load] = &Load::pair(
    [&workload::TLB, &workload::TLB_STRIDE],
    Kernel::TlbStride,
    [of_share, of_all],
    setup_tlb,
    [More { saturating_sms: expected::sms_of_loads, ..PAGES }, PAGES],
);

const PAGES: More = More { expected: expected::PAGES, ..More::NONE };

fn of_share(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    let blocks = whole_sms(name, props, share)?;
    // Truncation gives fewer pages.
    let bytes = (props.tlb_buffer_bytes() as f64 * share) as u64;
    Ok(pages_spec(name, blocks, bytes))
}

fn of_all(name: &'static str, props: &DeviceProps, _: f64) -> Guess {
    let blocks = props.full_grid(THREADS).blocks;
    Ok(pages_spec(name, blocks.into(), props.tlb_buffer_bytes()))
}

fn pages_spec(name: &str, blocks: u64, bytes: u64) -> WorkloadSpec {
    spec(
        name,
        [
            ("blocks", blocks),
            ("threads", THREADS.into()),
            ("steps", 20),
            ("pages", (bytes / TlbStride::PAGE_BYTES).max(1)),
        ],
    )
}

fn setup_tlb(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let grid = params.grid(&gpu.props)?;
    let pages = params.get("pages", 1..=SIZE_MAX / TlbStride::PAGE_BYTES)?;
    let bytes = pages * TlbStride::PAGE_BYTES;
    // The loaded values do not matter, and no page is written: a fill would take longer than a
    // cell.
    let buffer = DeviceBuffer::<u64>::alloc(&gpu.context, (bytes / 8) as usize)?;
    let sums = DeviceBuffer::<u32>::alloc(&gpu.context, grid.total_threads() as usize)?;
    let launch = TlbStride {
        base: buffer.device_ptr(),
        pages,
        page_bytes: TlbStride::PAGE_BYTES,
        steps: params.word("steps")?,
        sums: sums.device_ptr(),
        grid,
    };
    let (output, held) = (Output::None("it reads memory that nothing wrote"), (buffer, sums));
    Ok(Box::new(OneLaunch::new(gpu, launch, |cost| cost.page_touches, output, held)?))
}

// `block-slots`: blocks that sleep in every slot of every SM. Counter: that of `block_slots`.

/// One sleep; short compared with any request.
const NAP_NS: u32 = 1_000;

pub(super) const BLOCK_SLOTS: &[Load] = &[Load {
    facts: &workload::BLOCK_SLOTS,
    kernel: Some(Kernel::BlockSlots),
    first_guess: first_guess_block_slots,
    setup: setup_block_slots,
    verify: None,
    more: More::NONE,
}];

fn first_guess_block_slots(name: &'static str, props: &DeviceProps, _: f64) -> Guess {
    // Slots may outnumber the warps that an SM holds.
    let per_sm = props.blocks_per_sm.min(props.threads_per_sm / props.warp_threads.max(1));
    Ok(spec(
        name,
        [
            ("blocks", u64::from(props.sm_count) * u64::from(per_sm)),
            ("threads", props.warp_threads.into()),
            ("stay_ns", 100_000),
        ],
    ))
}

fn setup_block_slots(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Box<dyn Prepared>, LoadError> {
    let params = Params::of(spec);
    let stay_ns = params.get("stay_ns", 1..=STAY_NS_MAX)?;
    let launch = BlockSlots {
        duration_ns: stay_ns,
        budget_ns: stay_ns,
        nap_ns: NAP_NS,
        stamps: DevicePtr::NULL,
        grid: params.grid(&gpu.props)?,
    };
    let output = Output::None("its blocks sleep");
    Ok(Box::new(OneLaunch::new(gpu, launch, |cost| cost.block_busy_ns, output, ())?))
}

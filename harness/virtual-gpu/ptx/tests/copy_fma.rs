//! Typical bandwidth and compute kernels: a vector copy and chains of FMA, as compiled by NVRTC
//! 11.8.

mod support;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_ptx::parse;
use support::{Case, words};

const COPY: &str = include_str!("support/copy4.ptx");
const FMA: &str = include_str!("support/fma32.ptx");

#[test]
fn a_copy_copies_and_counts_its_bytes() {
    let n = 1000u64;
    let source = words((0..4 * n as u32).map(|i| i.wrapping_mul(2_654_435_761)));
    let mut buffers = [source.clone(), vec![0; source.len()]];
    let case = Case::new(COPY, "copy4").grid(3).block(96).buffer(0).buffer(1);
    let done = case.arg(n.to_le_bytes()).run(&mut buffers).expect("runs");
    assert_eq!(buffers[1], source);
    assert_eq!(done.counts.store_sector_bytes, 16 * n);
    assert_eq!(done.counts.load_sector_bytes, 16 * n, "full vectors waste no sector");
    // 16000 bytes are exactly 125 lines, each read once and written once.
    assert_eq!(done.footprint.bytes(), 32000);
    assert_eq!((done.footprint.read_ranges(), done.footprint.written_ranges()), (vec![0], vec![1]));
    assert_eq!((done.counts.blocks, done.counts.warps), (3, 9));
}

#[test]
fn parameters_and_properties_are_known_before_the_launch() {
    let module = parse(FMA).expect("parses");
    let kernel = module.kernel("fma32").expect("is there");
    let offsets: Vec<u32> = kernel.params.iter().map(|param| param.offset).collect();
    assert_eq!((offsets, kernel.param_bytes), (vec![0, 8, 12, 16], 20));
    assert!((4..40).contains(&kernel.registers), "{} registers", kernel.registers);
}

#[test]
fn a_warp_has_in_flight_what_it_loads_between_two_waits() {
    // 4 warps, of which each copies 4 vectors of 16 bytes a lane before it waits, and an odd
    // vector alone, which is all that the last launch has.
    const STREAM: &str = Kernel::StreamCopy.info().ptx;
    for (vectors, most) in [(128 * 21, 64), (128 * 20, 64), (128 * 4, 64), (128, 16)] {
        let source = words((0..4 * vectors as u32).map(|i| i.wrapping_mul(2_654_435_761)));
        let mut buffers = [source.clone(), vec![0; source.len()]];
        let case = Case::new(STREAM, "stream_copy").grid(2).block(64);
        let case = case.buffer(1).buffer(0).arg(u64::to_le_bytes(vectors));
        let done = case.run(&mut buffers).expect("runs");
        assert_eq!(buffers[1], source);
        assert_eq!(done.counts.most_loading_bytes, 32 * most, "{vectors}");
    }
}

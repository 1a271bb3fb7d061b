//! Throughput of the interpreter in lane-instructions per second, on FMA chains and a vector copy.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gpubench_virtual_gpu_ptx::{
    CycleModel, DeviceMemory, Execution, Launch, Limits, Program, Timer, execute, parse,
};

const COPY: &str = include_str!("../tests/support/copy4.ptx");
const FMA: &str = include_str!("../tests/support/fma32.ptx");
const BLOCKS: u32 = 16;
const THREADS: u32 = 256;
const SOURCE: u64 = 0x1000_0000;
const TARGET: u64 = 0x2000_0000;
const BUFFER_BYTES: usize = 1 << 20;

struct NoTimer;

impl Timer for NoTimer {
    fn globaltimer_ns(&mut self, active_ns: u64) -> u64 {
        active_ns
    }
}

fn run(program: &Program, kernel: &str, params: &[u8], memory: &mut DeviceMemory<'_>) -> Execution {
    let model = CycleModel::default();
    let launch = Launch {
        kernel,
        grid: [BLOCKS, 1, 1],
        block: [THREADS, 1, 1],
        dynamic_shared_bytes: 0,
        params,
        block_smid: &|block| block as u32,
        block_start_ns: &|_| 0,
        sm_count: BLOCKS,
        limits: Limits::default(),
        model: &model,
    };
    execute(program, &launch, 0..u64::from(BLOCKS), memory, &mut NoTimer).expect("runs")
}

fn bench(criterion: &mut Criterion, name: &str, text: &str, kernel: &str, params: &[u8]) {
    let module = Arc::new(parse(text).expect("parses"));
    let program = Program::bind(module, Vec::new()).expect("binds");
    let (mut source, mut target) = (vec![1u8; BUFFER_BYTES], vec![0u8; BUFFER_BYTES]);
    let mut memory = DeviceMemory::new();
    memory.map(SOURCE, &mut source, false).expect("maps");
    memory.map(TARGET, &mut target, true).expect("maps");
    let lanes = run(&program, kernel, params, &mut memory).counts.lanes();
    let mut group = criterion.benchmark_group("ptx");
    group.throughput(Throughput::Elements(lanes));
    group
        .bench_function(name, |b| b.iter(|| black_box(run(&program, kernel, params, &mut memory))));
    group.finish();
}

fn both(criterion: &mut Criterion) {
    let mut fma = TARGET.to_le_bytes().to_vec();
    fma.extend(1.000_001f32.to_le_bytes());
    fma.extend(0.5f32.to_le_bytes());
    fma.extend(512u32.to_le_bytes());
    bench(criterion, "fma chain", FMA, "fma32", &fma);
    let vectors = BUFFER_BYTES as u64 / 16;
    let copy: Vec<u8> = [SOURCE, TARGET, vectors].into_iter().flat_map(u64::to_le_bytes).collect();
    bench(criterion, "copy", COPY, "copy4", &copy);
}

criterion_group!(benches, both);
criterion_main!(benches);

//! Run time of the simulator: the reference model by generator, the disciplines, percentiles.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gpubench_predict::parallel::percentiles;
use gpubench_predict::rng::{FastRng, RngKind, Stream};
use gpubench_predict::simulate::event;
use gpubench_predict::simulate::event::{EventOptions, ends};
use gpubench_predict::simulate::summary::predict;
use gpubench_predict::simulate::{Mode, Scenario};
use std::hint::black_box;

/// About fifty thousand requests.
const DURATION_S: f64 = 600.0;

fn scenario(rng: RngKind) -> Scenario {
    Scenario { rng, duration_s: DURATION_S, ..Scenario::default() }
}

fn reference(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reference");
    for rng in [RngKind::Numpy, RngKind::Fast] {
        let scenario = scenario(rng);
        group.throughput(Throughput::Elements(predict(&scenario).offered));
        group.bench_function(format!("{rng:?}"), |bencher| bencher.iter(|| predict(&scenario)));
    }
    group.finish();
}

fn disciplines(criterion: &mut Criterion) {
    let scenario = scenario(RngKind::Fast);
    let sliced = EventOptions { quantum_ms: Some(2.0), ..EventOptions::default() };
    let requests = event::requests(&scenario, &sliced, 0);
    let mut group = criterion.benchmark_group("event");
    group.throughput(Throughput::Elements(requests.len() as u64));
    for mode in [Mode::Mig, Mode::Mps, Mode::TimeSlice, Mode::Hami] {
        group.bench_function(mode.name(), |bencher| {
            bencher.iter(|| ends(&scenario, &sliced, mode, &requests));
        });
    }
    group.finish();
}

fn selection(criterion: &mut Criterion) {
    let mut stream = FastRng::new(1);
    let values: Vec<f64> = (0..100_000).map(|_| stream.standard_exponential()).collect();
    criterion.bench_function("percentiles of 100000", |bencher| {
        bencher.iter_batched(
            || values.clone(),
            |mut values| percentiles(black_box(&mut values), [50.0, 99.0]),
            criterion::BatchSize::LargeInput,
        );
    });
}

criterion_group!(benches, reference, disciplines, selection);
criterion_main!(benches);

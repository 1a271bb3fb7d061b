//! Equality with the NumPy program to the last bit: streams, arrivals and figures of many seeds.
//!
//! Without an interpreter the test compares a fingerprint of all words with that of a run that
//! agreed.

use gpubench_predict::rng::{Pcg64, RngKind, Stream};
use gpubench_predict::simulate::Scenario;
use gpubench_predict::simulate::arrivals::arrivals;
use gpubench_predict::simulate::scenario::{Hostile, TenantOverride};
use gpubench_predict::simulate::summary::predict_seed;
use gpubench_stats::schedule_hash;
use serde_json::{Value, json};
use std::path::Path;

#[path = "../../../stats/tests/reference/mod.rs"]
mod reference;

const SEEDS: u64 = 100;
const RAW: usize = 64;
const UNIFORM: usize = 500;
// About 1.1 % of these draws need more than one word; about six a seed are in the tail.
const EXPONENTIAL: usize = 12_000;

fn parameter_sets() -> [Scenario; 5] {
    let base = Scenario { rng: RngKind::Numpy, duration_s: 12.0, ..Scenario::default() };
    let change = |index, service_ms, rate_per_s| TenantOverride { index, service_ms, rate_per_s };
    [
        base.clone(),
        Scenario { tenants: 3, service_ms: 2.5, rate_per_s: 90.0, duration_s: 6.0, ..base.clone() },
        Scenario { contention: 0.4, switch_ms: 2.3, slices: Some(8), tenants: 5, ..base.clone() },
        Scenario { hostile: Some(Hostile { tenant: 2, ..Hostile::default() }), ..base.clone() },
        Scenario {
            tenants: 4,
            slices: Some(7),
            rate_per_s: 31.0,
            tenant: vec![change(1, Some(3.3), None), change(3, Some(21.0), Some(4.7))],
            ..base
        },
    ]
}

/// Seeds of one word and of two, with the limits of both.
fn seed(number: u64) -> u64 {
    match number {
        97 => u64::from(u32::MAX),
        98 => 1 << 32,
        99 => u64::MAX,
        small => small,
    }
}

fn job(scenario: &Scenario, seed: u64) -> Value {
    // The program has milliseconds and rates as input; they include the factors of the hostile
    // tenant.
    let hostile = scenario.hostile.as_ref();
    let loads: Vec<[f64; 2]> = (0..scenario.tenants)
        .map(|index| {
            let change = scenario.tenant.iter().find(|change| change.index == index);
            let service_ms = change.and_then(|c| c.service_ms).unwrap_or(scenario.service_ms);
            let rate_per_s = change.and_then(|c| c.rate_per_s).unwrap_or(scenario.rate_per_s);
            match hostile.filter(|hostile| hostile.tenant == index) {
                Some(h) => [service_ms * h.service_factor, rate_per_s * h.rate_factor],
                None => [service_ms, rate_per_s],
            }
        })
        .collect();
    json!({
        "seed": seed, "loads": loads, "duration_s": scenario.duration_s,
        "slices": scenario.slices.unwrap_or(scenario.tenants),
        "contention": scenario.contention, "switch_ms": scenario.switch_ms,
        "hostile": hostile.map(|h| (h.tenant, h.contention)),
        "raw": RAW, "uniform": UNIFORM, "exponential": EXPONENTIAL,
    })
}

/// Of the words of all cases. They equalled those of NumPy 2.4.6.
const FINGERPRINT: u64 = 0x969a_3d94_053d_2ebf;

#[test]
fn every_bit_equals_the_numpy_program() {
    let sets = parameter_sets();
    let cases: Vec<(u64, &Scenario)> =
        (0..SEEDS).flat_map(|number| sets.iter().map(move |set| (seed(number), set))).collect();
    let jobs: Vec<Value> = cases.iter().map(|(seed, set)| job(set, *seed)).collect();
    let python = reference::interpreter("compared with a fingerprint");
    let mut program = python.map(|python| Words::of(&python, &Value::from(jobs)));
    let mut fingerprints = Vec::new();
    for (seed, scenario) in cases {
        let mut ours = streams(seed);
        ours.extend(model(scenario, seed));
        if let Some(program) = &mut program {
            let differs = ours.iter().position(|word| *word != program.next());
            assert_eq!(differs, None, "seed {seed}, {scenario:?}: this word differs");
        }
        fingerprints.push(schedule_hash(&ours));
    }
    let left = program.map_or(0, |program| program.left());
    assert_eq!(left, 0, "the program wrote more than expected");
    assert_eq!(schedule_hash(&fingerprints), FINGERPRINT);
}

/// The first words of a generator, as bits, uniforms and exponentials.
fn streams(seed: u64) -> Vec<u64> {
    let mut generator = Pcg64::new(seed);
    let mut words: Vec<u64> = (0..RAW).map(|_| generator.next_bits()).collect();
    words.extend((0..UNIFORM).map(|_| generator.uniform().to_bits()));
    words.extend((0..EXPONENTIAL).map(|_| generator.standard_exponential().to_bits()));
    words
}

/// The arrivals of a scenario and the figures of every mode.
fn model(scenario: &Scenario, seed: u64) -> Vec<u64> {
    let found = arrivals(scenario, seed);
    let mut words = vec![found.len() as u64];
    words.extend(found.iter().map(|(time_s, _)| time_s.to_bits()));
    words.extend(found.iter().map(|(_, tenant)| tenant as u64));
    for mode in predict_seed(scenario, seed).modes {
        let figures = [mode.p50_ms, mode.p99_ms];
        words.push(mode.served);
        words.extend(figures.map(|figure| figure.expect("a served request").to_bits()));
    }
    words
}

/// The 64-bit words that the program wrote, in order.
struct Words {
    bytes: Vec<u8>,
    position: usize,
}

impl Words {
    fn of(python: &Path, jobs: &Value) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let args = ["bits".as_ref(), file.path().as_os_str()];
        reference::run(python, "oracle_numpy.py", &args, jobs.to_string())
            .expect("the oracle reads its jobs");
        let bytes = std::fs::read(file.path()).expect("the oracle wrote its file");
        Self { bytes, position: 0 }
    }

    fn next(&mut self) -> u64 {
        let end = self.position + 8;
        let word =
            self.bytes.get(self.position..end).expect("the program wrote less than expected");
        self.position = end;
        u64::from_le_bytes(word.try_into().expect("eight bytes"))
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.position
    }
}

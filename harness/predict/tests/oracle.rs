//! Equality with the NumPy program to the last bit: streams, arrivals and figures of many seeds.
//!
//! `ci/install-oracles.sh` installs the interpreter. Without it the test prints a line and passes,
//! unless GPUBENCH_REQUIRE_ORACLES is 1, as in CI.

use gpubench_predict::rng::{Pcg64, RngKind, Stream};
use gpubench_predict::simulate::Scenario;
use gpubench_predict::simulate::arrivals::arrivals;
use gpubench_predict::simulate::scenario::{Hostile, TenantOverride};
use gpubench_predict::simulate::summary::predict_seed;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SEEDS: u64 = 100;
const RAW: usize = 64;
const UNIFORM: usize = 500;
// About 1.1 % of these draws need more than one word; about six a seed are in the tail.
const EXPONENTIAL: usize = 12_000;

/// Five parameter sets that cover every parameter of the model.
fn parameter_sets() -> [Scenario; 5] {
    let base = Scenario {
        rng: RngKind::Numpy,
        duration_s: 12.0,
        ..Scenario::default()
    };
    let change = |index, service_ms, rate_per_s| TenantOverride {
        index,
        service_ms,
        rate_per_s,
    };
    [
        base.clone(),
        Scenario {
            tenants: 3,
            service_ms: 2.5,
            rate_per_s: 90.0,
            duration_s: 6.0,
            ..base.clone()
        },
        Scenario {
            contention: 0.4,
            switch_ms: 2.3,
            slices: Some(8),
            tenants: 5,
            ..base.clone()
        },
        Scenario {
            hostile: Some(Hostile {
                tenant: 2,
                ..Hostile::default()
            }),
            ..base.clone()
        },
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
            let service_ms = change
                .and_then(|c| c.service_ms)
                .unwrap_or(scenario.service_ms);
            let rate_per_s = change
                .and_then(|c| c.rate_per_s)
                .unwrap_or(scenario.rate_per_s);
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

#[test]
fn every_bit_equals_the_numpy_program() {
    let Some(python) = interpreter() else { return };
    let sets = parameter_sets();
    let cases: Vec<(u64, &Scenario)> = (0..SEEDS)
        .flat_map(|number| sets.iter().map(move |set| (seed(number), set)))
        .collect();
    let jobs: Vec<Value> = cases.iter().map(|(seed, set)| job(set, *seed)).collect();
    let mut words = Words::of(&python, &Value::from(jobs));
    for (seed, scenario) in cases {
        compare_streams(&mut words, seed);
        compare_model(&mut words, scenario, seed);
    }
    assert_eq!(words.left(), 0, "the program wrote more than expected");
}

fn compare_streams(words: &mut Words, seed: u64) {
    let mut generator = Pcg64::new(seed);
    for index in 0..RAW {
        assert_eq!(
            words.next(),
            generator.next_bits(),
            "seed {seed}, word {index}"
        );
    }
    for index in 0..UNIFORM {
        assert_eq!(
            words.next(),
            generator.uniform().to_bits(),
            "seed {seed}, uniform {index}"
        );
    }
    for index in 0..EXPONENTIAL {
        let drawn = generator.standard_exponential().to_bits();
        assert_eq!(words.next(), drawn, "seed {seed}, exponential {index}");
    }
}

fn compare_model(words: &mut Words, scenario: &Scenario, seed: u64) {
    let found = arrivals(scenario, seed);
    let context = format!("seed {seed}, {scenario:?}");
    assert_eq!(words.next(), found.len() as u64, "{context}");
    for (time_s, _) in found.iter() {
        assert_eq!(words.next(), time_s.to_bits(), "{context}");
    }
    for (_, tenant) in found.iter() {
        assert_eq!(words.next(), tenant as u64, "{context}");
    }
    for mode in predict_seed(scenario, seed).modes {
        assert_eq!(words.next(), mode.served, "{:?}, {context}", mode.mode);
        assert_eq!(
            Some(words.next()),
            mode.p50_ms.map(f64::to_bits),
            "{:?}, {context}",
            mode.mode
        );
        assert_eq!(
            Some(words.next()),
            mode.p99_ms.map(f64::to_bits),
            "{:?}, {context}",
            mode.mode
        );
    }
}

/// The 64-bit words that the program wrote, in order.
struct Words {
    bytes: Vec<u8>,
    position: usize,
}

impl Words {
    fn of(python: &Path, jobs: &Value) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let script = root().join("ci/oracle_numpy.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg("bits")
            .arg(file.path())
            .stdin(Stdio::piped())
            .spawn()
            .expect("the interpreter of the oracle starts");
        let mut stdin = child.stdin.take().expect("stdin was piped");
        stdin
            .write_all(jobs.to_string().as_bytes())
            .expect("the oracle reads its jobs");
        drop(stdin);
        assert!(
            child.wait().expect("the oracle ends").success(),
            "the oracle failed"
        );
        let bytes = std::fs::read(file.path()).expect("the oracle wrote its file");
        Self { bytes, position: 0 }
    }

    fn next(&mut self) -> u64 {
        let end = self.position + 8;
        let word = self
            .bytes
            .get(self.position..end)
            .expect("the program wrote less than expected");
        self.position = end;
        u64::from_le_bytes(word.try_into().expect("eight bytes"))
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.position
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[expect(clippy::print_stderr, reason = "a test that cannot run prints it")]
fn interpreter() -> Option<PathBuf> {
    let python = root().join("target/oracles/bin/python");
    if python.exists() {
        return Some(python);
    }
    let is_required = std::env::var("GPUBENCH_REQUIRE_ORACLES").is_ok_and(|value| value == "1");
    assert!(
        !is_required,
        "target/oracles is missing: run ci/install-oracles.sh"
    );
    eprintln!("not compared with NumPy: target/oracles is missing; run ci/install-oracles.sh");
    None
}

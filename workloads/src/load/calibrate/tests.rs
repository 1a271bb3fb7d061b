//! Calibration with a simulated device.

use gpubench_record::RefusalKind;

use super::super::tests::small_device;
use super::super::{LOADS, find};
use super::miss;
use super::*;
use crate::load::expected::Measured;

const MS: u64 = 1_000_000;

/// A request costs a fixed time and its work; the rate of work follows the blocks up to a peak.
struct Model {
    fixed_ns: f64,
    block_per_ns: f64,
    peak_per_ns: f64,
    /// Relative error of every measurement, with alternating sign.
    wobble: f64,
    measurements: u32,
    last_blocks: u64,
}

impl Model {
    fn new() -> Self {
        Self {
            fixed_ns: 12_000.0,
            block_per_ns: 3.0,
            peak_per_ns: 40.0,
            wobble: 0.0,
            measurements: 0,
            last_blocks: 0,
        }
    }

    fn per_ns(&self, spec: &WorkloadSpec) -> f64 {
        let get = |param: &str, default: f64| spec.params.get(param).map_or(default, |v| *v as f64);
        let threads = get("threads", 256.0) / 256.0;
        let paced = match get("rate_per_s", 0.0) {
            0.0 => f64::INFINITY,
            rate_per_s => rate_per_s / 1e9,
        };
        (get("blocks", 1.0) * threads * self.block_per_ns).min(self.peak_per_ns).min(paced)
    }
}

fn work(spec: &WorkloadSpec) -> Result<f64, LoadError> {
    let knob = find(&spec.name)?.facts.knob;
    Ok(knob.map_or(1e6, |knob| spec.params[knob.param] as f64))
}

impl Bench for Model {
    fn measure(&mut self, spec: &WorkloadSpec, _requests: usize) -> Result<Measured, LoadError> {
        self.measurements += 1;
        self.last_blocks = spec.params.get("blocks").copied().unwrap_or(0);
        // A single driver call has no knob and a fixed length.
        let work = work(spec)?;
        let sign = if self.measurements.is_multiple_of(2) { 1.0 } else { -1.0 };
        let elapsed_ns = (self.fixed_ns + work / self.per_ns(spec)) * (1.0 + sign * self.wobble);
        let service_ns = elapsed_ns as u64;
        Ok(Measured { service_ns, rate_per_s: 1e9 / elapsed_ns, work_per_request: work })
    }

    fn peak_rate_per_s(&mut self, spec: &WorkloadSpec, _requests: usize) -> Result<f64, LoadError> {
        Ok(1e9 * self.per_ns(spec) / work(spec)?)
    }
}

fn found(name: &str, model: &mut Model, share: f64, ns: u64) -> Result<Calibrated, LoadError> {
    calibrate_with(find(name)?, model, &small_device(), share, ns)
}

#[test]
fn every_workload_reaches_every_wanted_length() -> Result<(), LoadError> {
    for workload in LOADS.iter().filter(|workload| workload.facts.knob.is_some()) {
        for target_ns in [MS / 10, MS, 10 * MS] {
            let calibrated = found(workload.facts.name, &mut Model::new(), 3.0 / 7.0, target_ns)?;
            let miss = miss(calibrated.service_ns as f64, target_ns);
            let allowed = match workload.facts.role {
                Role::Aggressor => TOLERANCE_AGGRESSOR,
                _ => TOLERANCE,
            };
            assert!(miss <= allowed, "{} at {target_ns} ns: {miss}", workload.facts.name);
        }
    }
    Ok(())
}

#[test]
fn a_derived_request_is_kept_without_a_search() -> Result<(), LoadError> {
    // The rate that the figures of this device give to 17 blocks, and some deviation.
    let per_ns = 128.0 * 1.59 * 17.0;
    let mut specs = Vec::new();
    for deviation in [0.94, 0.97, 1.0, 1.03, 1.06] {
        let mut model = Model {
            // The work of this model is one iteration: 8 chains of 256 threads are not counted.
            block_per_ns: deviation * per_ns / 17.0,
            peak_per_ns: f64::INFINITY,
            ..Model::new()
        };
        let calibrated = found("compute", &mut model, 3.0 / 7.0, MS)?;
        assert_eq!(model.measurements, 2);
        specs.push(calibrated.spec);
    }
    assert!(specs.iter().all(|spec| *spec == specs[0]), "{specs:?}");
    Ok(())
}

#[test]
fn a_search_takes_few_measurements() -> Result<(), LoadError> {
    let mut model = Model::new();
    found("compute", &mut model, 0.5, MS)?;
    assert!(model.measurements <= 7, "{} measurements", model.measurements);
    Ok(())
}

#[test]
fn a_throttled_victim_keeps_to_its_share() -> Result<(), LoadError> {
    for share in [3.0 / 7.0, 0.25, 0.1, 0.03] {
        let mut model = Model::new();
        let calibrated = found("stream", &mut model, share, MS)?;
        let per_ns = model.per_ns(&calibrated.spec);
        let used = per_ns / model.peak_per_ns;
        assert!(used <= DEMAND_KEPT[1] * share, "share {share} takes {used}");
        assert!(used > 0.3 * share, "share {share} is hardly used");
    }
    Ok(())
}

#[test]
fn a_victim_with_pauses_keeps_to_its_share() -> Result<(), LoadError> {
    let shares = [1.0, 3.0 / 7.0, 0.1];
    for (share, name) in shares.into_iter().flat_map(|s| [(s, "pcie"), (s, "pcie-download")]) {
        let mut model = Model::new();
        let calibrated = found(name, &mut model, share, MS)?;
        let peak_per_ns = model.block_per_ns;
        let used = model.per_ns(&calibrated.spec) / peak_per_ns;
        assert!((0.65..=0.95).contains(&(used / share)), "{name} at {share}: {used}");
    }
    Ok(())
}

#[test]
fn a_single_driver_call_keeps_its_length() -> Result<(), LoadError> {
    let mut model = Model::new();
    let calibrated = found("context-storm", &mut model, 1.0, MS)?;
    // A million units at three a nanosecond, and the fixed cost.
    assert_eq!(calibrated.service_ns, 12_000 + 1_000_000 / 3);
    assert_eq!(calibrated.spec.params["contexts"], 1);
    Ok(())
}

#[test]
fn a_victim_that_cannot_keep_to_its_share_is_refused() {
    let mut model = Model { block_per_ns: 4_000.0, ..Model::new() };
    let refused = found("stream", &mut model, 0.1, MS);
    assert!(matches!(refused, Err(LoadError::Demand { .. })), "{refused:?}");
}

#[test]
fn a_length_below_the_fixed_cost_is_refused_with_the_nearest() {
    let refused = found("compute", &mut Model::new(), 0.5, 5_000);
    let refused = refused.expect_err("no shorter than a launch");
    assert_eq!(refused.kind(), RefusalKind::Waived, "{refused:?}");
    // The fixed cost, and one iteration on seventeen SMs.
    assert_eq!(
        refused.to_string(),
        "no request of 5000 ns within 10 %: the nearest takes 12000 ns, the smallest (iterations = \
         1) 12000 ns"
    );
}

#[test]
fn lengths_between_the_steps_of_a_victim_are_refused_and_an_aggressor_takes_the_nearest()
-> Result<(), LoadError> {
    // One allocation takes 70 us, so 100 us lie between one and two of them.
    let model = || Model { block_per_ns: 1.0 / 58_000.0, ..Model::new() };
    let refused = found("alloc", &mut model(), 1.0, MS / 10);
    let Err(LoadError::NoSuchLength { nearest_ns, smallest_ns, smallest, .. }) = refused else {
        panic!("expected a refusal, got {refused:?}");
    };
    assert_eq!((nearest_ns, smallest_ns, smallest.as_str()), (128_000, 70_000, "rounds = 1"));
    let aggressor = found("alloc-storm", &mut model(), 1.0, MS / 10)?;
    assert_eq!(aggressor.service_ns, 128_000);
    let longer = found("alloc", &mut model(), 1.0, MS)?;
    // 17 are the nearest to a millisecond, and 18 the nearest of the grid.
    assert_eq!(longer.spec.params["rounds"], 18);
    Ok(())
}

#[test]
fn noise_below_the_tolerance_is_accepted_and_above_it_refused() {
    let mut model = Model { wobble: 0.04, ..Model::new() };
    assert!(found("compute", &mut model, 0.5, MS).is_ok());
    let mut model = Model { wobble: 0.5, ..Model::new() };
    assert!(matches!(found("compute", &mut model, 0.5, MS), Err(LoadError::Length { .. })));
}

#[test]
fn an_aggressor_reports_its_peak_and_a_victim_its_closed_loop() -> Result<(), LoadError> {
    let victim = found("compute", &mut Model::new(), 0.5, MS)?;
    assert!((victim.rate_per_s * victim.service_ns as f64 / 1e9 - 1.0).abs() < 1e-3);
    let aggressor = found("fma-hog", &mut Model::new(), 1.0, MS)?;
    // Without the 12 us of fixed cost per millisecond.
    assert!(aggressor.rate_per_s * aggressor.service_ns as f64 / 1e9 > 1.01);
    Ok(())
}

#[test]
fn impossible_targets_are_refused() {
    for (share, ns) in [(0.0, MS), (-1.0, MS), (1.1, MS), (f64::NAN, MS), (0.5, 0)] {
        let refused = found("pcie", &mut Model::new(), share, ns);
        assert!(matches!(refused, Err(LoadError::Param { .. })), "{share} {ns}");
    }
    // 3 % of 40 SMs are one SM, 2 % are none.
    assert!(found("compute", &mut Model::new(), 0.03, MS).is_ok());
    let refused = found("compute", &mut Model::new(), 0.02, MS);
    assert!(matches!(refused, Err(LoadError::TooSmall { .. })));
}

//! Figures of one discrete-event run: latencies of the requests after the warm-up.

use super::options::EventOptions;
use super::traffic::Request;
use crate::percentile::percentiles;
use crate::simulate::scenario::Scenario;
use crate::simulate::summary::{Mode, ModeSummary, Queue, State, judge};

/// The figures of one mode.
pub(super) fn summary(
    scenario: &Scenario,
    options: &EventOptions,
    mode: Mode,
    requests: &[Request],
    ends_s: &[f64],
) -> ModeSummary {
    let offered = requests.len() as u64;
    let served = ends_s.iter().filter(|end_s| **end_s < scenario.duration_s).count() as u64;
    let (load, state) = judge(&queues(scenario, mode, requests, ends_s));
    let pairs = requests.iter().zip(ends_s);
    let settled = pairs.filter(|(request, _)| request.arrival_s >= options.warmup_s);
    let mut latencies_s: Vec<f64> =
        settled.map(|(request, end_s)| end_s - request.arrival_s).collect();
    let found = percentiles(&mut latencies_s, [50.0, 99.0]);
    ModeSummary {
        mode,
        served,
        served_percent: (offered > 0).then(|| 100.0 * served as f64 / offered as f64),
        p50_ms: found.map(|[p50_s, _]| p50_s * 1000.0),
        p99_ms: found.map(|[_, p99_s]| p99_s * 1000.0),
        mean_ms: match state {
            State::Stable => crate::percentile::mean(&latencies_s).map(|mean_s| mean_s * 1000.0),
            State::Overloaded { .. } => None,
        },
        load,
        state,
    }
}

/// Arrival rate of each queue, and its busy time per finished request.
fn queues(scenario: &Scenario, mode: Mode, requests: &[Request], ends_s: &[f64]) -> Vec<Queue> {
    let count = scenario.tenants as usize;
    let each = || (0..count).map(Some).collect::<Vec<_>>();
    let tenants = match mode {
        Mode::Mig | Mode::Mps => each(),
        Mode::TimeSlice => vec![None],
        // A tenant without tokens waits, even for a free device.
        Mode::Hami => each().into_iter().chain([None]).collect(),
    };
    tenants.into_iter().map(|tenant| queue(scenario.duration_s, tenant, requests, ends_s)).collect()
}

fn queue(duration_s: f64, tenant: Option<usize>, requests: &[Request], ends_s: &[f64]) -> Queue {
    let (mut arrived, mut ended, mut busy_s, mut covered_s) = (0_u64, 0_u64, 0.0_f64, 0.0_f64);
    for (request, end_s) in requests.iter().zip(ends_s) {
        if tenant.is_some_and(|tenant| tenant != request.tenant) {
            continue;
        }
        arrived += 1;
        ended += u64::from(*end_s < duration_s);
        let until_s = end_s.min(duration_s);
        busy_s += (until_s - request.arrival_s.max(covered_s)).max(0.0);
        covered_s = covered_s.max(until_s);
    }
    let rate_per_s = arrived as f64 / duration_s;
    Queue { rate_per_s, busy_s: if arrived == 0 { 0.0 } else { busy_s / ended.max(1) as f64 } }
}

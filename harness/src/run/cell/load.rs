//! The load of each tenant of a cell, and the room for its samples.

use gpubench_record::{Calibration, Cell, LoadSpec, Plan, Role};

use crate::run::log_capacity;

/// Duty cycle of an aggressor at a dose below 1.
const PERIOD_NS: u64 = 10_000_000;
/// Requests that an aggressor keeps outstanding, so that its queue is never empty.
const DEPTH: u32 = 2;
/// Maximum of outstanding victim requests in the open loop.
const OUTSTANDING_MAX: u32 = 10_000;

/// The load of a tenant of a cell.
pub fn load(plan: &Plan, calibration: &Calibration, cell: &Cell, slot: usize) -> LoadSpec {
    let durations = plan.durations_of(cell);
    let end_ns = durations.cell_ns();
    // The victim's last request ends after its closed loop. Where neighbours stopped before, it
    // would run in part without them, and the contended rate would be too high.
    let neighbours_end_ns = if cell.closed_only { end_ns + plan.durations.gap_ns } else { end_ns };
    let native = calibration.entries.get(&cell.victim).map_or(0.0, |entry| entry.native_rate_per_s);
    let rate_per_s = native * plan.load;
    // No more can be outstanding than arrive; the factor of two covers the variance of arrivals.
    let outstanding_max = |length_ns: u64| {
        let arrivals = rate_per_s * length_ns as f64 / 1e9;
        ((arrivals * 2.0) as u32 + 64).min(OUTSTANDING_MAX)
    };
    match cell.tenants[slot].role {
        Role::Idle => LoadSpec::Idle { end_ns },
        Role::Aggressor => LoadSpec::Aggressor {
            end_ns: neighbours_end_ns,
            dose: cell.dose,
            period_ns: PERIOD_NS,
            depth: DEPTH,
        },
        // The victim's load from begin to end, with arrivals of its own.
        Role::Peer => LoadSpec::Victim {
            warmup_end_ns: 0,
            closed_end_ns: 0,
            open_start_ns: 0,
            open_end_ns: neighbours_end_ns,
            rate_per_s,
            bursts: plan.bursts,
            seed: cell.schedule_seed ^ slot as u64,
            outstanding_max: outstanding_max(neighbours_end_ns),
        },
        Role::Victim => {
            let closed_end_ns = durations.warmup_ns + durations.closed_ns;
            LoadSpec::Victim {
                warmup_end_ns: durations.warmup_ns,
                closed_end_ns,
                open_start_ns: closed_end_ns + durations.gap_ns,
                open_end_ns: end_ns,
                rate_per_s,
                bursts: plan.bursts,
                seed: cell.schedule_seed,
                outstanding_max: outstanding_max(durations.open_ns),
            }
        }
    }
}

/// Rows of a tenant's log in a cell.
pub fn capacity(plan: &Plan, load: &LoadSpec, rate_per_s: f64) -> u64 {
    if matches!(load, LoadSpec::Idle { .. }) {
        return 1;
    }
    log_capacity::rows(rate_per_s, plan.durations.cell_ns())
}

//! Usage of each compute engine, for its performance counters, and utilisation over consecutive
//! windows, as the driver keeps it for monitors.
//!
//! Use of a pipe or of memory is proportional to the speed of its kernels. A resident kernel holds
//! its slots and SMs at any speed. The windows follow from the clock alone, so a figure does not
//! depend on when a monitor reads it.

use super::Rules;
use super::placement::Running;
use crate::state::{FRACTION_BITS, Resource, State, Usage};

/// Stores the usage from now on.
pub fn note(state: &mut State, running: &[Running], speeds: &[u64]) {
    for engine in state.engines.live_mut() {
        engine.use_now = Usage::default();
    }
    for (kernel, &speed) in running.iter().zip(speeds) {
        let engine = state.contexts.rows[kernel.context as usize].engine as usize;
        let sums = &mut state.engines.rows[engine].use_now;
        for resource in Resource::ALL {
            let demand = u64::from(kernel.demand[resource as usize]);
            let share = match resource {
                Resource::SmSlots => demand,
                _ => (demand * speed) >> FRACTION_BITS,
            };
            sums.shares[resource as usize] += u128::from(share);
        }
        sums.sms += u128::from(kernel.sms);
    }
    for engine in state.engines.live_mut() {
        // Kernels that want the same slots and SMs cannot all have them.
        let slots = &mut engine.use_now.shares[Resource::SmSlots as usize];
        *slots = (*slots).min(u128::from(engine.sm_share));
        engine.use_now.sms = engine.use_now.sms.min(u128::from(engine.sm_count));
    }
}

/// Adds up usage over a time.
pub fn account(state: &mut State, dt_ns: u64) {
    for engine in state.engines.live_mut() {
        let now = engine.use_now;
        engine.used.add(&now, dt_ns);
    }
}

/// The longest step of the clock while windows are taken. A step ends at each multiple of it:
/// integers of a step are truncated, so other steps could give one seed other bytes.
const STEP_NS: u64 = 20_000_000;

/// Windows that are taken one by one before an instant. Earlier ones are one window: monitors read
/// only the last, and a long idle would else take a step for each.
const WINDOWS: u64 = 129;

/// The next instant at or before `t_ns` at which a step ends.
pub fn due_ns(state: &State, rules: &Rules, t_ns: u64) -> u64 {
    let window_ns = rules.utilisation_window_ns.max(1);
    let next_window_ns = state.window.start_ns.saturating_add(window_ns);
    let next_step_ns = (state.now_ns / STEP_NS + 1) * STEP_NS;
    let next_ns = next_window_ns.min(next_step_ns);
    match t_ns.checked_sub(WINDOWS * window_ns.max(STEP_NS)) {
        Some(far_ns) if next_ns < far_ns => far_ns,
        _ => next_ns.min(t_ns),
    }
}

/// Ends the window that is due at the present instant.
pub fn take(state: &mut State, rules: &Rules) {
    let now_ns = state.now_ns;
    let length_ns = now_ns - state.window.start_ns;
    if length_ns < rules.utilisation_window_ns {
        return;
    }
    let busy_ns = state.busy_ns - state.window.busy_at_start_ns;
    let dram = state.dram_busy - state.window.dram_at_start;
    let whole = u128::from(length_ns.max(1)) << FRACTION_BITS;
    let window = &mut state.window;
    window.last_percent = (busy_ns * 100 / length_ns.max(1)) as u32;
    window.last_dram_percent = (dram * 100 / whole) as u32;
    window.dram_at_start = state.dram_busy;
    window.start_ns = now_ns;
    window.busy_at_start_ns = state.busy_ns;
}

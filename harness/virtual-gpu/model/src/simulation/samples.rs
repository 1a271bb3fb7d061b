//! Samples that the driver keeps for monitors: utilisation over consecutive windows, and meter
//! readings at a higher rate.
//!
//! The instants follow from the clock alone, so samples do not depend on when a monitor reads them.

use crate::state::{FRACTION_BITS, Filled, Reading, SAMPLES, State};

use super::Rules;

/// Time between two meter readings. No document states one; at this value the ring holds more than
/// the second after which monitors drain it.
pub const READING_NS: u64 = 20_000_000;

/// The next instant at or before `t_ns` at which a sample is due.
pub fn due_ns(state: &State, rules: &Rules, t_ns: u64) -> u64 {
    let window_ns = rules.utilisation_window_ns.max(1);
    // Samples that the rings would drop by `t_ns` are skipped. One more window is taken than the
    // ring holds, since the first one is longer by the skipped time.
    let reach_ns = (SAMPLES as u64 + 1) * window_ns.max(READING_NS);
    let next_window_ns = state.window.start_ns.saturating_add(window_ns);
    let next_reading_ns = (state.now_ns / READING_NS + 1) * READING_NS;
    let next_ns = next_window_ns.min(next_reading_ns);
    match t_ns.checked_sub(reach_ns) {
        Some(far_ns) if next_ns < far_ns => far_ns,
        _ => next_ns.min(t_ns),
    }
}

/// Takes the samples that are due at the present instant.
pub fn take(state: &mut State, rules: &Rules) {
    let now_ns = state.now_ns;
    let length_ns = now_ns - state.window.start_ns;
    if length_ns >= rules.utilisation_window_ns {
        let busy_ns = state.busy_ns - state.window.busy_at_start_ns;
        let dram = state.dram_busy - state.window.dram_at_start;
        let whole = u128::from(length_ns.max(1)) << FRACTION_BITS;
        let window = &mut state.window;
        window.last_percent = (busy_ns * 100 / length_ns.max(1)) as u32;
        window.last_dram_percent = (dram * 100 / whole) as u32;
        window.dram_at_start = state.dram_busy;
        window.start_ns = now_ns;
        window.busy_at_start_ns = state.busy_ns;
        state.windows.push(Filled {
            at_ns: now_ns,
            percent: state.window.last_percent,
            dram_percent: state.window.last_dram_percent,
        });
    }
    if now_ns > 0 && now_ns.is_multiple_of(READING_NS) {
        state.readings.push(Reading {
            at_ns: now_ns,
            power_mw: state.power_mw,
            clock: state.clock,
        });
    }
}

//! Usage of each compute engine, for its performance counters.
//!
//! Use of a pipe or of memory is proportional to the speed of its kernels. A resident kernel holds
//! its slots and SMs at any speed.

use crate::state::{FRACTION_BITS, Resource, State, Usage};

use super::running::Running;

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

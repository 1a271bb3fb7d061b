//! The compute engine: groups of contexts take turns on it, and the kernels of the group that has
//! it share the device.
//!
//! Work of different groups never overlaps. A group keeps the engine until its slice ends while
//! another group has work, or until it has no more work itself; every change of group costs the
//! switch gap, during which nothing runs. Preemption is at instruction level: a preempted kernel
//! goes on later where it was.

use crate::state::{
    Context, FRACTION_BITS, Head, Interval, NEVER, NONE, ONE, OpKind, Resource, State, Stream,
};

use super::share::{Demand, fair_speeds};
use super::{Queues, Rules};

/// Whether the context's group is on the engine and running.
fn has_engine(state: &State, context: u32) -> bool {
    state.compute.running && state.contexts.rows[context as usize].group == state.compute.group
}

/// Whether kernels of the context make progress now.
pub fn may_run(state: &State, rules: &Rules, context: u32) -> bool {
    rules.isolated || has_engine(state, context)
}

/// When the engine itself will have something to do: the end of a switch or of a contested slice.
pub fn next_switch_ns(state: &State) -> u64 {
    let engine = &state.compute;
    if engine.switch_end_ns != 0 {
        engine.switch_end_ns
    } else if engine.running && engine.contested {
        engine.slice_end_ns
    } else {
        NEVER
    }
}

/// Decides who has the engine now.
pub fn schedule(state: &mut State, queues: &dyn Queues, rules: &Rules) {
    let now = state.now_ns;
    if state.compute.switch_end_ns != 0 {
        if now < state.compute.switch_end_ns {
            return;
        }
        state.compute.switch_end_ns = 0;
        begin_slice(state, queues, rules);
    }
    let own = has_work(state, queues, state.compute.group);
    let next = next_group(state, queues);
    match (own, next) {
        (true, None) => {
            state.compute.contested = false;
            if !state.compute.running {
                begin_slice(state, queues, rules);
            }
        }
        (true, Some(next)) => {
            if !state.compute.running {
                begin_slice(state, queues, rules);
            }
            if !state.compute.contested {
                // Slices follow one another from the start of the turn, watched or not.
                let late = now.saturating_sub(state.compute.slice_end_ns);
                if late > 0 {
                    let slice = rules.slice_ns.max(1);
                    state.compute.slice_end_ns += late.div_ceil(slice) * slice;
                }
                state.compute.contested = true;
            }
            if now >= state.compute.slice_end_ns {
                switch_to(state, queues, rules, next);
            }
        }
        (false, Some(next)) => switch_to(state, queues, rules, next),
        (false, None) => {
            state.compute.contested = false;
            end_slice(state, queues);
        }
    }
}

/// Gives every kernel of the running group its speed, and sets the power that results.
pub fn set_speeds(state: &mut State, queues: &dyn Queues, rules: &Rules) {
    let now = state.now_ns;
    let mut running: Vec<(usize, u32)> = Vec::new();
    let mut demands: Vec<Demand> = Vec::new();
    for index in 0..state.streams.live().len() {
        let stream = state.streams.rows[index];
        let Some(op) = kernel_head(&stream, index, queues) else {
            continue;
        };
        if may_run(state, rules, stream.context) {
            running.push((index, op.power_mw));
            demands.push(op.demand);
        } else {
            state.streams.rows[index].speed = 0;
        }
    }
    let mut speeds = Vec::new();
    if rules.isolated {
        speeds.resize(demands.len(), ONE);
    } else {
        fair_speeds(&demands, &mut speeds);
    }
    let mut power_mw = rules.idle_power_mw;
    let mut dram = 0;
    for ((&(index, kernel_mw), &speed), demand) in running.iter().zip(&speeds).zip(&demands) {
        dram += (u64::from(demand[Resource::Dram as usize]) * speed) >> FRACTION_BITS;
        let stream = &mut state.streams.rows[index];
        if stream.head == Head::Ready {
            stream.head = Head::Started;
            stream.started_ns = now;
        }
        stream.speed = speed;
        power_mw += (u64::from(kernel_mw) * speed) >> FRACTION_BITS;
    }
    state.power_mw = power_mw;
    state.dram_share = dram.min(ONE);
}

/// Counts time that passes with kernels running.
pub fn account(state: &mut State, queues: &dyn Queues, dt_ns: u64) {
    if !state.compute.running {
        return;
    }
    state.compute.busy_ns += dt_ns;
    let group = state.compute.group;
    let mut counted = [false; crate::state::PROCESSES];
    for index in 0..state.streams.live().len() {
        let stream = state.streams.rows[index];
        let context: Context = state.contexts.rows[stream.context as usize];
        if context.group != group || kernel_head(&stream, index, queues).is_none() {
            continue;
        }
        let process = context.process as usize;
        if process < counted.len() && !counted[process] {
            counted[process] = true;
            state.processes.rows[process].busy_ns += dt_ns;
        }
    }
}

/// The head of a stream if it is a kernel that has begun or could.
fn kernel_head(stream: &Stream, index: usize, queues: &dyn Queues) -> Option<crate::state::Op> {
    if !stream.live || stream.head == Head::Idle {
        return None;
    }
    let op = queues.op(index, stream.completed);
    (op.kind == OpKind::Kernel).then_some(op)
}

fn has_work(state: &State, queues: &dyn Queues, group: u32) -> bool {
    group != NONE
        && state
            .streams
            .live()
            .iter()
            .enumerate()
            .any(|(index, stream)| {
                stream.live
                    && state.contexts.rows[stream.context as usize].group == group
                    && kernel_head(stream, index, queues).is_some()
            })
}

/// The group with work that comes next after the present one, in turn.
fn next_group(state: &State, queues: &dyn Queues) -> Option<u32> {
    let present = state.compute.group;
    let turn = |group: u32| {
        if present == NONE {
            group
        } else {
            group.wrapping_sub(present + 1)
        }
    };
    state
        .streams
        .live()
        .iter()
        .enumerate()
        .filter(|(index, stream)| kernel_head(stream, *index, queues).is_some())
        .map(|(_, stream)| state.contexts.rows[stream.context as usize].group)
        .filter(|&group| group != present)
        .min_by_key(|&group| turn(group))
}

fn switch_to(state: &mut State, queues: &dyn Queues, rules: &Rules, group: u32) {
    end_slice(state, queues);
    let first = state.compute.group == NONE;
    state.compute.group = group;
    state.compute.contested = false;
    state.compute.switches += 1;
    if first || rules.switch_gap_ns == 0 {
        begin_slice(state, queues, rules);
    } else {
        state.compute.switch_end_ns = state.now_ns + rules.switch_gap_ns;
    }
}

fn begin_slice(state: &mut State, queues: &dyn Queues, rules: &Rules) {
    let now = state.now_ns;
    state.compute.running = true;
    state.compute.slice_end_ns = now + rules.slice_ns;
    let group = state.compute.group;
    let count = &mut state.contexts.rows[group as usize].intervals;
    *count += 1;
    queues.put_interval(
        group,
        *count - 1,
        Interval {
            start_ns: now,
            end_ns: NEVER,
        },
    );
    state.compute.interval_start_ns = now;
}

fn end_slice(state: &mut State, queues: &dyn Queues) {
    if !state.compute.running {
        return;
    }
    state.compute.running = false;
    let group = state.compute.group;
    let count = state.contexts.rows[group as usize].intervals;
    if count > 0 {
        let interval = Interval {
            start_ns: state.compute.interval_start_ns,
            end_ns: state.now_ns,
        };
        queues.put_interval(group, count - 1, interval);
    }
}

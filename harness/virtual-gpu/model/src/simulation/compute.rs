//! The compute engines: on each, groups of contexts are time-sliced, and the kernels of the running
//! groups share the device.
//!
//! Work of different groups never overlaps. A group keeps the engine until it has no more work, or
//! until its slice ends while another group has work. Every switch of groups costs the switch gap,
//! during which nothing runs. Preemption is at instruction level: a preempted kernel resumes where
//! it stopped.

use crate::noise::{self, Kind};
use crate::state::{
    ComputeEngine, FRACTION_BITS, Head, Interval, NEVER, NONE, ONE, OpKind, PROCESSES, Resource,
    State, Stream,
};

use super::limits::limits;
use super::placement::Running;
use super::share::fair_speeds;
use super::{Bound, Queues, Rules, usage};

fn has_engine(state: &State, context: u32) -> bool {
    let context = &state.contexts.rows[context as usize];
    let engine = &state.engines.rows[context.engine as usize];
    engine.running && engine.group == context.group && !context.halted
}

/// Whether kernels of the context make progress now.
pub fn may_run(state: &State, rules: &Rules, context: u32) -> bool {
    !state.contexts.rows[context as usize].halted && (rules.isolated || has_engine(state, context))
}

/// The next event of the engines: the end of a switch or of a contested slice.
pub fn next_switch_ns(state: &State) -> u64 {
    let due = |engine: &ComputeEngine| {
        if engine.switch_end_ns != 0 {
            engine.switch_end_ns
        } else if engine.running && engine.contested {
            engine.slice_end_ns
        } else {
            NEVER
        }
    };
    let engines = state.engines.live().iter();
    engines.map(due).min().unwrap_or(NEVER)
}

/// Selects the group that runs on each engine.
pub fn schedule(state: &mut State, queues: &dyn Queues, rules: &Rules) {
    for engine in 0..state.engines.live().len() {
        if state.engines.rows[engine].live {
            schedule_one(state, queues, rules, engine);
        }
    }
}

fn schedule_one(state: &mut State, queues: &dyn Queues, rules: &Rules, at: usize) {
    let now = state.now_ns;
    if state.engines.rows[at].switch_end_ns != 0 {
        if now < state.engines.rows[at].switch_end_ns {
            return;
        }
        state.engines.rows[at].switch_end_ns = 0;
        begin_slice(state, queues, rules, at);
    }
    let own = has_work(state, queues, at);
    let next = next_group(state, queues, at);
    if own && !state.engines.rows[at].running {
        begin_slice(state, queues, rules, at);
    }
    let slice = slice_ns(state, rules, at).max(1);
    let engine = &mut state.engines.rows[at];
    match (own, next) {
        (true, None) => engine.contested = false,
        (true, Some(next)) => {
            if !engine.contested {
                // Slices follow one another from the start of the group's span, contested or not.
                let late = now.saturating_sub(engine.slice_end_ns);
                if late > 0 {
                    engine.slice_end_ns += late.div_ceil(slice) * slice;
                }
                engine.contested = true;
            }
            if now >= engine.slice_end_ns {
                switch_to(state, queues, rules, at, next);
            }
        }
        (false, Some(next)) => switch_to(state, queues, rules, at, next),
        (false, None) => {
            engine.contested = false;
            end_slice(state, queues, at);
        }
    }
}

/// Sets the speed of every kernel of the running groups, and the power that results.
pub fn set_speeds(state: &mut State, queues: &dyn Queues, rules: &Rules) {
    let now = state.now_ns;
    let running = running(state, queues, rules);
    let mut speeds = if rules.isolated {
        vec![ONE; running.len()]
    } else {
        fair_speeds(running.len(), &limits(state, rules, &running))
    };
    for (kernel, speed) in running.iter().zip(&mut speeds) {
        *speed = Bound::of(&kernel.demand).beside(state, rules, kernel.context, *speed);
    }
    let drawn = |speeds: &[u64]| -> u64 {
        let each = running.iter().zip(speeds);
        each.map(|(kernel, &speed)| (u64::from(kernel.power_mw) * speed) >> FRACTION_BITS).sum()
    };
    // Perfect isolation has no shared power cap.
    state.clock = if rules.isolated { ONE } else { capped_clock(rules, drawn(&speeds)) };
    if state.clock < ONE {
        for speed in &mut speeds {
            *speed = (*speed * state.clock) >> FRACTION_BITS;
        }
    }
    state.power_mw = rules.idle_power_mw + drawn(&speeds);
    let mut dram = 0;
    for (kernel, &speed) in running.iter().zip(&speeds) {
        let demand = u64::from(kernel.demand[Resource::Dram as usize]);
        dram += (demand * speed) >> FRACTION_BITS;
        let stream = &mut state.streams.rows[kernel.stream];
        if stream.head == Head::Ready {
            stream.head = Head::Started;
            stream.started_ns = now;
            if rules.run_time_limit_ns > 0 {
                stream.last_ns = now.saturating_add(rules.run_time_limit_ns);
            }
        }
        stream.speed = speed;
    }
    state.dram_share = dram.min(ONE);
    usage::note(state, &running, &speeds);
}

/// Every kernel that runs now.
fn running(state: &mut State, queues: &dyn Queues, rules: &Rules) -> Vec<Running> {
    let mut running = Vec::new();
    for index in 0..state.streams.live().len() {
        let stream = state.streams.rows[index];
        let Some(op) = kernel_head(&stream, index, queues) else { continue };
        if may_run(state, rules, stream.context) {
            let context = &state.contexts.rows[stream.context as usize];
            running.push(Running {
                stream: index,
                context: stream.context,
                power_mw: op.power_mw,
                sms: op.sms,
                demand: op.demand,
                in_flight: op.in_flight,
                blocks_wait: op.blocks_wait,
                priority: context.priority.saturating_add(stream.priority),
            });
        } else {
            state.streams.rows[index].speed = 0;
        }
    }
    running
}

/// The clock at which the device draws no more than its cap, given its power above idle at the full
/// clock. A modelled relation: power and work are proportional to the clock.
fn capped_clock(rules: &Rules, dynamic_mw: u64) -> u64 {
    let room_mw = rules.power_cap_mw.saturating_sub(rules.idle_power_mw);
    if dynamic_mw <= room_mw {
        return ONE;
    }
    ((room_mw << FRACTION_BITS) / dynamic_mw).max(1)
}

/// Accounts for time that passes with kernels running.
pub fn account(state: &mut State, queues: &dyn Queues, dt_ns: u64) {
    usage::account(state, dt_ns);
    let mut any = false;
    for engine in state.engines.live_mut() {
        if engine.running {
            engine.busy_ns += dt_ns;
            any = true;
        }
    }
    if !any {
        return;
    }
    state.busy_ns += dt_ns;
    if state.clock < ONE {
        state.capped_ns += dt_ns;
    }
    let mut counted = [false; PROCESSES];
    for index in 0..state.streams.live().len() {
        let stream = state.streams.rows[index];
        let Some(op) = kernel_head(&stream, index, queues) else { continue };
        let slot = state.contexts.rows[stream.context as usize].process as usize;
        if slot >= counted.len() || !has_engine(state, stream.context) {
            continue;
        }
        let process = &mut state.processes.rows[slot];
        let dram = u64::from(op.demand[Resource::Dram as usize]) * stream.speed;
        process.dram_busy += u128::from(dram >> FRACTION_BITS) * u128::from(dt_ns);
        if !counted[slot] {
            counted[slot] = true;
            process.busy_ns += dt_ns;
        }
    }
}

/// The head of a stream if it is a kernel that runs or could start.
fn kernel_head(stream: &Stream, index: usize, queues: &dyn Queues) -> Option<crate::state::Op> {
    if !stream.live || stream.head == Head::Idle {
        return None;
    }
    let op = queues.op(index, stream.completed);
    (op.kind == OpKind::Kernel).then_some(op)
}

/// The group of a stream's head, if the head is a kernel for this engine.
fn group_on(
    state: &State,
    queues: &dyn Queues,
    at: usize,
    index: usize,
    stream: &Stream,
) -> Option<u32> {
    let context = &state.contexts.rows[stream.context as usize];
    let here = context.engine as usize == at && !context.halted;
    (here && kernel_head(stream, index, queues).is_some()).then_some(context.group)
}

fn has_work(state: &State, queues: &dyn Queues, at: usize) -> bool {
    let group = state.engines.rows[at].group;
    let streams = state.streams.live().iter().enumerate();
    group != NONE
        && streams
            .into_iter()
            .any(|(index, stream)| group_on(state, queues, at, index, stream) == Some(group))
}

/// The next group with work after the present one, round robin.
fn next_group(state: &State, queues: &dyn Queues, at: usize) -> Option<u32> {
    let present = state.engines.rows[at].group;
    let position = |group: u32| {
        if present == NONE { group } else { group.wrapping_sub(present + 1) }
    };
    let streams = state.streams.live().iter().enumerate();
    streams
        .filter_map(|(index, stream)| group_on(state, queues, at, index, stream))
        .filter(|&group| group != present)
        .min_by_key(|&group| position(group))
}

fn switch_to(state: &mut State, queues: &dyn Queues, rules: &Rules, at: usize, group: u32) {
    end_slice(state, queues, at);
    let now = state.now_ns;
    let engine = &mut state.engines.rows[at];
    let first = engine.group == NONE;
    engine.group = group;
    engine.contested = false;
    engine.switches += 1;
    let gap_ns = spread(state, rules, at, rules.switch_gap_ns, Kind::Gap);
    if first || gap_ns == 0 {
        begin_slice(state, queues, rules, at);
    } else {
        state.engines.rows[at].switch_end_ns = now + gap_ns;
    }
}

/// Length of the next time slice of an engine.
fn slice_ns(state: &State, rules: &Rules, at: usize) -> u64 {
    let mean_ns = match state.slice_ns {
        0 => rules.slice_ns,
        set_ns => set_ns,
    };
    spread(state, rules, at, mean_ns, Kind::Slice)
}

/// A time of an engine's present slice: each slice has its own draws.
fn spread(state: &State, rules: &Rules, at: usize, mean_ns: u64, kind: Kind) -> u64 {
    let slice = state.engines.rows[at].switches ^ ((at as u64) << 48);
    let sd = f64::from(rules.slice_noise_ppm) / 1e6;
    noise::spread_ns(mean_ns, sd, state.seed, kind, slice)
}

fn begin_slice(state: &mut State, queues: &dyn Queues, rules: &Rules, at: usize) {
    let now = state.now_ns;
    let slice = slice_ns(state, rules, at);
    let engine = &mut state.engines.rows[at];
    engine.running = true;
    engine.slice_end_ns = now + slice;
    engine.interval_start_ns = now;
    let group = engine.group;
    let count = &mut state.contexts.rows[group as usize].intervals;
    *count += 1;
    queues.put_interval(group, *count - 1, Interval { start_ns: now, end_ns: NEVER });
}

fn end_slice(state: &mut State, queues: &dyn Queues, at: usize) {
    let engine = &mut state.engines.rows[at];
    if !engine.running {
        return;
    }
    engine.running = false;
    let (group, start_ns) = (engine.group, engine.interval_start_ns);
    let count = state.contexts.rows[group as usize].intervals;
    if count > 0 {
        let interval = Interval { start_ns, end_ns: state.now_ns };
        queues.put_interval(group, count - 1, interval);
    }
}

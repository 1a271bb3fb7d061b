//! How time changes the device: a pure function of the state and of the queued operations.
//!
//! The model changes at events only. [`settle`] does everything that is due at the present instant,
//! [`next_event_ns`] returns the instant of the next event, [`advance_to`] advances to it.

pub mod answer;
mod compute;
mod copy;
pub mod fault;
mod limits;
mod placement;
mod share;
mod usage;

use crate::state::{
    Cause, FRACTION_BITS, Head, Interval, NEVER, ONE, Op, OpKind, RESOURCES, Resource, State,
    Stream,
};
use answer::FaultRules;

/// The device's constants, from the machine file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Time slice of a group of contexts on the compute engine while another group waits.
    pub slice_ns: u64,
    /// Duration of a switch between groups; nothing runs meanwhile.
    pub switch_gap_ns: u64,
    /// Relative standard deviation of both, in parts per million.
    pub slice_noise_ppm: u32,
    /// Every kernel runs as if it had the device to itself.
    pub isolated: bool,
    /// Time after its start at which a kernel is ended; 0 for no limit.
    pub run_time_limit_ns: u64,
    /// Share of its DRAM bandwidth that a MIG instance loses to a neighbour that saturates its own,
    /// in fixed point.
    pub mig_dram_leak: u64,
    /// The same for L2 bandwidth.
    pub mig_l2_leak: u64,
    /// Share of its speed that work of each [`Bound`] loses while another context has work, in
    /// fixed point.
    pub neighbour_slows: [u64; 4],
    /// How faults are answered, and which contexts they reach.
    pub faults: FaultRules,
    pub idle_power_mw: u64,
    pub power_cap_mw: u64,
    /// Length of the window over which utilisation is averaged.
    pub utilisation_window_ns: u64,
}

/// What bounds the speed of work.
#[derive(Clone, Copy)]
enum Bound {
    Compute,
    Dram,
    L2,
    Copies,
}

impl Bound {
    /// Of a kernel, by what it uses most of.
    fn of(demand: &[u32; RESOURCES]) -> Self {
        let used = |resource: &Resource| demand[*resource as usize];
        let shared = Resource::ALL.into_iter().filter(|one| *one != Resource::SmSlots);
        match shared.max_by_key(used) {
            Some(Resource::Dram) => Self::Dram,
            Some(Resource::L2) => Self::L2,
            _ => Self::Compute,
        }
    }

    /// The speed of work of a context after its planted loss.
    fn beside(self, state: &State, rules: &Rules, context: u32, speed: u64) -> u64 {
        let loss = rules.neighbour_slows[self as usize];
        let is_neighbour = |stream: &Stream| {
            stream.live && stream.context != context && stream.completed < stream.submitted
        };
        if loss == 0 || !state.streams.live().iter().any(is_neighbour) {
            return speed;
        }
        (speed * (ONE - loss)) >> FRACTION_BITS
    }
}

/// What the model reads and writes beside the state. Writes must be idempotent: after a crash the
/// same step runs again and writes the same values.
pub trait Queues {
    /// The operation with this sequence number.
    fn op(&self, stream: usize, seq: u64) -> Op;
    fn set_event_time(&self, event: u32, time_ns: u64);
    /// Stores when an operation started and ended.
    fn put_span(&self, stream: usize, seq: u64, span: Interval);
    /// Stores a span during which a group had the compute engine.
    fn put_interval(&self, group: u32, index: u64, interval: Interval);
}

/// Does everything that is due now.
pub fn settle(state: &mut State, queues: &dyn Queues, rules: &Rules) {
    loop {
        fault::notice(state, rules);
        let mut changed = begin_heads(state, queues);
        changed |= copy::start(state, queues);
        compute::schedule(state, queues, rules);
        changed |= complete_finished(state, queues, rules);
        if !changed {
            break;
        }
    }
    copy::set_speeds(state, rules);
    compute::set_speeds(state, queues, rules);
}

/// The instant of the next event; [`NEVER`] if nothing is under way.
pub fn next_event_ns(state: &State, queues: &dyn Queues) -> u64 {
    let now = state.now_ns;
    let mut next = compute::next_switch_ns(state).min(fault::next_ns(state));
    for (index, stream) in state.streams.live().iter().enumerate() {
        if !stream.live || stream.completed == stream.submitted {
            continue;
        }
        let due = match stream.head {
            Head::Idle => {
                let stamp = queues.op(index, stream.completed).stamp_ns;
                // A head that is due and still idle waits for another stream.
                if stamp > now { stamp } else { NEVER }
            }
            Head::Ready => NEVER,
            Head::Started => finish_ns(stream, now).min(stream.last_ns),
        };
        next = next.min(due);
    }
    next
}

/// Advances to `t_ns`, which must not lie beyond the next event.
pub fn advance_to(state: &mut State, queues: &dyn Queues, rules: &Rules, t_ns: u64) {
    while state.now_ns < t_ns {
        let due_ns = usage::due_ns(state, rules, t_ns);
        pass(state, queues, due_ns - state.now_ns);
        usage::take(state, rules);
    }
}

/// Accounts for a time during which no event happens.
fn pass(state: &mut State, queues: &dyn Queues, dt: u64) {
    compute::account(state, queues, dt);
    copy::account(state, dt);
    for (index, stream) in state.streams.live_mut().iter_mut().enumerate() {
        if stream.live && stream.head == Head::Started {
            let clocked = stream.speed == 0 && queues.op(index, stream.completed).by_clock;
            let speed = if clocked { ONE } else { stream.speed };
            stream.work_left = stream.work_left.saturating_sub(speed.saturating_mul(dt));
        }
    }
    // Milliwatts times nanoseconds are picojoules.
    state.energy_pj = state.energy_pj.saturating_add(state.power_mw.saturating_mul(dt));
    state.dram_busy += u128::from(state.dram_share) * u128::from(dt);
    state.now_ns += dt;
}

/// Runs the device up to `t_ns` without clock participants: how wall time passes.
pub fn run_until(state: &mut State, queues: &dyn Queues, rules: &Rules, t_ns: u64) {
    loop {
        settle(state, queues, rules);
        let next = next_event_ns(state, queues);
        if next > t_ns {
            break;
        }
        advance_to(state, queues, rules, next);
    }
    if t_ns > state.now_ns {
        advance_to(state, queues, rules, t_ns);
    }
}

/// Drops everything queued in a stream, after a fault or when its owner is gone.
pub fn drop_queue(stream: &mut Stream) {
    stream.completed = stream.submitted;
    stream.head = Head::Idle;
    stream.work_left = 0;
    stream.speed = 0;
}

/// Time that the head of a stream still takes at its present speed; [`NEVER`] if it stands still.
pub(crate) fn left_ns(stream: &Stream) -> u64 {
    finish_ns(stream, 0)
}

fn finish_ns(stream: &Stream, now: u64) -> u64 {
    if stream.speed == 0 {
        return NEVER;
    }
    now.saturating_add(stream.work_left.div_ceil(stream.speed))
}

/// Makes due heads ready and completes those without duration.
fn begin_heads(state: &mut State, queues: &dyn Queues) -> bool {
    let now = state.now_ns;
    let mut changed = false;
    for index in 0..state.streams.live().len() {
        loop {
            let stream = state.streams.rows[index];
            let idle = stream.live && stream.head == Head::Idle;
            let halted = state.contexts.rows[stream.context as usize].halted;
            if !idle || halted || stream.completed == stream.submitted {
                break;
            }
            let op = queues.op(index, stream.completed);
            if op.stamp_ns > now {
                break;
            }
            match op.kind {
                OpKind::Marker => {}
                OpKind::Record => queues.set_event_time(op.target, now),
                OpKind::Wait => {
                    let other = &state.streams.rows[op.target as usize];
                    if other.live && other.completed < op.target_seq {
                        break;
                    }
                }
                OpKind::Kernel | OpKind::ToDevice | OpKind::ToHost => {
                    let stream = &mut state.streams.rows[index];
                    stream.head = Head::Ready;
                    stream.work_left = op.alone_ns.saturating_mul(ONE);
                    stream.last_ns = NEVER;
                    changed = true;
                    break;
                }
            }
            state.streams.rows[index].completed += 1;
            changed = true;
        }
    }
    changed
}

/// Completes heads that have no work left.
fn complete_finished(state: &mut State, queues: &dyn Queues, rules: &Rules) -> bool {
    let mut changed = false;
    for index in 0..state.streams.live().len() {
        let stream = state.streams.rows[index];
        if !stream.live || stream.head != Head::Started {
            continue;
        }
        let mut op = queues.op(index, stream.completed);
        if stream.work_left > 0 {
            if state.now_ns < stream.last_ns {
                continue;
            }
            op.cause = Some(Cause::RunTimeLimit);
        } else if op.kind == OpKind::Kernel && !compute::may_run(state, rules, stream.context) {
            continue;
        }
        copy::finish(state, index, op.bytes);
        let span = Interval { start_ns: stream.started_ns, end_ns: state.now_ns };
        queues.put_span(index, stream.completed, span);
        changed = true;
        if let Some(cause) = op.cause {
            fault::raise(state, rules, index, cause);
            let context = &state.contexts.rows[stream.context as usize];
            // Whoever waits for the operation waits until the fault is noticed.
            if context.halted || context.sticky != 0 {
                continue;
            }
        }
        let stream = &mut state.streams.rows[index];
        stream.completed += 1;
        stream.head = Head::Idle;
        stream.speed = 0;
    }
    changed
}

#[cfg(test)]
mod tests;

//! The simulation against arithmetic: every expected figure is derived beside the test.

mod contention;
mod faults;
mod sharing;
mod usage;

use std::cell::RefCell;
use std::collections::HashMap;

use super::answer::FaultRules;
use super::{Queues, Rules, advance_to, next_event_ns, run_until, settle};
use crate::state::{Context, Interval, NEVER, ONE, Op, OpKind, Resource, State, Stream};

const RULES: Rules = Rules {
    slice_ns: 2_000_000,
    switch_gap_ns: 50_000,
    slice_noise_ppm: 0,
    isolated: false,
    run_time_limit_ns: 0,
    mig_dram_leak: 0,
    mig_l2_leak: 0,
    neighbour_slows: [0; 4],
    faults: FAULTS,
    idle_power_mw: 10_000,
    power_cap_mw: 1_000_000,
    utilisation_window_ns: 100_000_000,
};

/// Nothing planted.
const FAULTS: FaultRules = FaultRules {
    answers: faults::ANSWERS,
    mps_contained: false,
    cross_compute_instances: false,
    cross_contexts: false,
    mps_kill_reaches_peers: false,
    next_xid: 0,
    mps_recovery_ns: 5_000_000,
    escape_ppm: 0,
    recovery_noise_ppm: 0,
};

#[derive(Default)]
struct Memory {
    ops: HashMap<(usize, u64), Op>,
    events: RefCell<HashMap<u32, u64>>,
    intervals: RefCell<HashMap<(u32, u64), Interval>>,
}

impl Queues for Memory {
    fn op(&self, stream: usize, seq: u64) -> Op {
        self.ops[&(stream, seq)]
    }
    fn set_event_time(&self, event: u32, time_ns: u64) {
        self.events.borrow_mut().insert(event, time_ns);
    }
    fn put_span(&self, _stream: usize, _seq: u64, _span: Interval) {}
    fn put_interval(&self, group: u32, index: u64, interval: Interval) {
        self.intervals.borrow_mut().insert((group, index), interval);
    }
}

/// A device with one stream for each entry of `groups`, in a context of that group.
fn device(groups: &[u32]) -> (Box<State>, Memory) {
    let mut state = State::new(1, RULES.idle_power_mw);
    for (index, &group) in groups.iter().enumerate() {
        state.contexts.rows[index] =
            Context { live: true, group, space: index as u32, ..Context::default() };
        state.streams.rows[index] =
            Stream { live: true, context: index as u32, ..Stream::default() };
    }
    state.processes.used = 1;
    state.contexts.used = groups.len() as u32;
    state.streams.used = groups.len() as u32;
    (state, Memory::default())
}

fn submit(state: &mut State, memory: &mut Memory, stream: usize, op: Op) {
    let seq = state.streams.rows[stream].submitted;
    memory.ops.insert((stream, seq), op);
    state.streams.rows[stream].submitted += 1;
}

fn kernel(stamp_ns: u64, alone_ns: u64, dram: f64) -> Op {
    let mut op = Op { kind: OpKind::Kernel, stamp_ns, alone_ns, ..Op::default() };
    op.demand[Resource::Dram as usize] = (dram * ONE as f64) as u32;
    op.in_flight.dram = op.demand[Resource::Dram as usize];
    op
}

fn record(stamp_ns: u64, event: u32) -> Op {
    Op { kind: OpKind::Record, stamp_ns, target: event, ..Op::default() }
}

/// Runs until nothing is under way and returns the instant of the last event.
fn drain(state: &mut State, memory: &Memory) -> u64 {
    loop {
        settle(state, memory, &RULES);
        let next = next_event_ns(state, memory);
        if next == NEVER {
            return state.now_ns;
        }
        advance_to(state, memory, &RULES, next);
    }
}

#[test]
fn kernels_of_one_group_share_what_they_both_use() {
    // Both want 80 % of DRAM: each runs at 1/1.6 while both run, so the first ends at 1.6 ms, when
    // the second has done 1 ms of its 2 and finishes without a neighbour at 2.6 ms.
    let (mut state, mut memory) = device(&[0, 0]);
    submit(&mut state, &mut memory, 0, kernel(0, 1_000_000, 0.8));
    submit(&mut state, &mut memory, 0, record(0, 0));
    submit(&mut state, &mut memory, 1, kernel(0, 2_000_000, 0.8));
    submit(&mut state, &mut memory, 1, record(0, 1));
    drain(&mut state, &memory);
    let events = memory.events.borrow();
    assert!(events[&0].abs_diff(1_600_000) < 20, "{}", events[&0]);
    assert!(events[&1].abs_diff(2_600_000) < 20, "{}", events[&1]);
}

#[test]
fn groups_are_time_sliced_with_a_gap() {
    // Slices: A 0..2.0, gap, B 2.05..4.05, gap, A 4.1..6.1 (ends at 5.1: 1 ms was left), gap, B
    // 5.15 on, 1 ms left: ends at 6.15 ms.
    let (mut state, mut memory) = device(&[0, 1]);
    for stream in 0..2 {
        submit(&mut state, &mut memory, stream, kernel(0, 3_000_000, 0.1));
        submit(&mut state, &mut memory, stream, record(0, stream as u32));
    }
    drain(&mut state, &memory);
    let events = memory.events.borrow();
    assert_eq!((events[&0], events[&1]), (5_100_000, 6_150_000));
    let spans = memory.intervals.borrow();
    let second = spans[&(0, 1)];
    assert_eq!((second.start_ns, second.end_ns), (4_100_000, 5_100_000));
}

#[test]
fn an_uncontested_slice_does_not_end() {
    // B arrives at 5 ms; A's slices would have ended at 2, 4, 6 ms: B waits for 6 ms and the gap.
    let (mut state, mut memory) = device(&[0, 1]);
    submit(&mut state, &mut memory, 0, kernel(0, 20_000_000, 0.1));
    submit(&mut state, &mut memory, 1, kernel(5_000_000, 100_000, 0.1));
    submit(&mut state, &mut memory, 1, record(5_000_000, 1));
    drain(&mut state, &memory);
    assert_eq!(memory.events.borrow()[&1], 6_150_000);
}

#[test]
fn a_kernel_that_spins_on_the_clock_progresses_while_preempted() {
    // Spins for 3 ms from 0; it loses the engine at 2 ms, gets it back at 4.1 ms, and ends there.
    let (mut state, mut memory) = device(&[0, 1]);
    let spin = Op { by_clock: true, ..kernel(0, 3_000_000, 0.1) };
    submit(&mut state, &mut memory, 0, spin);
    submit(&mut state, &mut memory, 0, record(0, 0));
    submit(&mut state, &mut memory, 1, kernel(0, 2_000_000, 0.1));
    drain(&mut state, &memory);
    assert_eq!(memory.events.borrow()[&0], 4_100_000);
}

#[test]
fn copies_overlap_kernels_and_queue_for_their_engine() {
    let (mut state, mut memory) = device(&[0, 1, 1]);
    submit(&mut state, &mut memory, 0, kernel(0, 1_000_000, 0.1));
    submit(&mut state, &mut memory, 0, record(0, 0));
    for stream in 1..3 {
        let copy = Op { kind: OpKind::ToDevice, alone_ns: 400_000, stamp_ns: 10, ..Op::default() };
        submit(&mut state, &mut memory, stream, copy);
        submit(&mut state, &mut memory, stream, record(10, stream as u32));
    }
    drain(&mut state, &memory);
    let events = memory.events.borrow();
    assert_eq!((events[&0], events[&1], events[&2]), (1_000_000, 400_010, 800_010));
}

#[test]
fn power_follows_speed_and_energy_is_its_integral() {
    let (mut state, mut memory) = device(&[0]);
    submit(&mut state, &mut memory, 0, Op { power_mw: 90_000, ..kernel(0, 1_000_000, 1.0) });
    run_until(&mut state, &memory, &RULES, 2_000_000);
    // 1 ms at 100 W and 1 ms at 10 W: 0.11 J.
    assert_eq!(state.energy_pj, 110_000_000_000);
    assert_eq!(state.power_mw, 10_000);
}

#[test]
fn a_stream_waits_for_another_stream() {
    let (mut state, mut memory) = device(&[0, 0]);
    submit(&mut state, &mut memory, 0, kernel(0, 700_000, 0.1));
    let wait = Op { kind: OpKind::Wait, target: 0, target_seq: 1, ..Op::default() };
    submit(&mut state, &mut memory, 1, wait);
    submit(&mut state, &mut memory, 1, kernel(0, 100_000, 0.1));
    submit(&mut state, &mut memory, 1, record(0, 1));
    drain(&mut state, &memory);
    assert_eq!(memory.events.borrow()[&1], 800_000);
}

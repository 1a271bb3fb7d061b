//! Kernels on the same and on other SMs, requests in flight, priorities, copies of one context.

use super::{Memory, device, drain, kernel, record, submit};
use crate::state::{ONE, Op, OpKind, Resource, State, WHOLE};

const SMS: u32 = 100;

/// Streams of one group on a device of 100 SMs.
fn shared(streams: usize) -> (Box<State>, Memory) {
    let (mut state, memory) = device(&vec![0; streams]);
    state.engines.rows[WHOLE as usize].sm_count = SMS;
    (state, memory)
}

/// A kernel that keeps this share of each of its SMs busy.
fn on_sms(alone_ns: u64, sms: u32, busy: f64) -> Op {
    let mut op = Op { sms, ..kernel(0, alone_ns, 0.0) };
    let part = f64::from(sms) / f64::from(SMS) * ONE as f64;
    op.demand[Resource::Issue as usize] = (busy * part) as u32;
    op.demand[Resource::SmSlots as usize] = (0.125 * part) as u32;
    op
}

/// When each of these kernels ends, all submitted at 0.
fn ends(state: &mut State, memory: &mut Memory, ops: &[Op]) -> Vec<u64> {
    for (stream, op) in ops.iter().enumerate() {
        submit(state, memory, stream, *op);
        submit(state, memory, stream, record(0, stream as u32));
    }
    drain(state, memory);
    let events = memory.events.borrow();
    (0..ops.len() as u32).map(|event| events[&event]).collect()
}

fn near(found: &[u64], want_ns: &[u64]) {
    let close = |(found, want): (&u64, &u64)| found.abs_diff(*want) <= want / 10_000;
    let all = found.len() == want_ns.len() && found.iter().zip(want_ns).all(close);
    assert!(all, "{found:?} is not {want_ns:?}");
}

#[test]
fn a_small_kernel_beside_one_on_every_sm_gets_half_of_its_own_sms() {
    // The small one uses 40 % of the device, so all of the device would give it its full speed. It
    // has the issue slots of its 40 SMs and divides them with the other: both run at half speed.
    // The large one has done half when it ends.
    let (mut state, mut memory) = shared(2);
    let both = [on_sms(1_000_000, 40, 1.0), on_sms(2_000_000, 100, 1.0)];
    near(&ends(&mut state, &mut memory, &both), &[2_000_000, 3_000_000]);
    // Beside two large ones it gets a third.
    let (mut state, mut memory) = shared(3);
    let large = on_sms(9_000_000, 100, 1.0);
    let three = [on_sms(1_000_000, 40, 1.0), large, large];
    near(&ends(&mut state, &mut memory, &three)[..1], &[3_000_000]);
}

#[test]
fn only_the_sms_that_both_use_are_divided() {
    // 70 of 100 SMs each: they meet on 40, and the slowest SM decides.
    let (mut state, mut memory) = shared(2);
    let both = [on_sms(1_000_000, 70, 0.8), on_sms(1_000_000, 70, 0.8)];
    near(&ends(&mut state, &mut memory, &both), &[1_600_000; 2]);
}

#[test]
fn a_percentage_and_fixed_sms_keep_clients_apart() {
    for is_green in [false, true] {
        let (mut state, mut memory) = shared(2);
        for (context, first) in [(0, 0), (1, 50)] {
            let row = &mut state.contexts.rows[context];
            row.sm_count = 50;
            row.sm_share = ONE / 2;
            if is_green {
                row.sm_first = first;
            } else {
                row.server = 0;
            }
        }
        let both = [on_sms(1_000_000, 50, 1.0), on_sms(1_000_000, 50, 1.0)];
        near(&ends(&mut state, &mut memory, &both), &[1_000_000; 2]);
    }
}

#[test]
fn clients_with_more_sms_together_than_there_are_meet_on_the_rest() {
    // 60 SMs each. 40 of them are free of the other client, so a kernel on 40 avoids it and one on
    // 41 does not.
    for (sms, end_ns) in [(40, 1_000_000), (41, 2_000_000)] {
        let (mut state, mut memory) = shared(2);
        for context in 0..2 {
            let row = &mut state.contexts.rows[context];
            (row.sm_count, row.sm_share, row.server) = (60, ONE * 60 / 100, 0);
        }
        let both = [on_sms(1_000_000, sms, 1.0), on_sms(9_000_000, 60, 1.0)];
        near(&ends(&mut state, &mut memory, &both)[..1], &[end_ns]);
    }
}

/// A kernel that wants this share of DRAM, and keeps so much in flight.
fn in_flight(alone_ns: u64, dram: f64, bytes: u32) -> Op {
    let mut op = kernel(0, alone_ns, dram);
    op.in_flight.dram = bytes;
    op
}

#[test]
fn dram_is_divided_by_what_is_in_flight() {
    // A sixth of the requests: a sixth of the bandwidth, which is half of what the first wants.
    let (mut state, mut memory) = shared(2);
    let (wants, hog) = (1.0 / 3.0, in_flight(90_000_000, 1.0, 5_000));
    let both = [in_flight(1_000_000, wants, 1_000), hog];
    near(&ends(&mut state, &mut memory, &both)[..1], &[2_000_000]);
    // The same beside two that keep as much in flight together.
    let (mut state, mut memory) = shared(3);
    let half = in_flight(90_000_000, 1.0, 2_500);
    let three = [in_flight(1_000_000, wants, 1_000), half, half];
    near(&ends(&mut state, &mut memory, &three)[..1], &[2_000_000]);
}

#[test]
fn a_priority_moves_no_block_and_no_request() {
    // The first stream has the highest priority and yet half of the SMs that both use, and a sixth
    // of DRAM.
    let issue = [on_sms(1_000_000, 40, 1.0), on_sms(9_000_000, 100, 1.0)];
    let hog = in_flight(90_000_000, 1.0, 5_000);
    let dram = [in_flight(1_000_000, 1.0 / 3.0, 1_000), hog];
    for both in [issue, dram] {
        let (mut state, mut memory) = shared(2);
        state.streams.rows[0].priority = -5;
        near(&ends(&mut state, &mut memory, &both)[..1], &[2_000_000]);
    }
}

#[test]
fn a_priority_is_for_blocks_that_wait_for_a_slot() {
    // Both fill every slot. Where the second has all of its blocks on the device, the first gets
    // half of the slots in the mean; where blocks of the second wait, those of the first go before.
    for (blocks_wait, priority, end_ns) in
        [(false, -5, 2_000_000), (true, 0, 2_000_000), (true, -5, 1_000_000)]
    {
        let (mut state, mut memory) = shared(2);
        state.streams.rows[0].priority = priority;
        let full = |alone_ns, blocks_wait| {
            let mut op = kernel(0, alone_ns, 0.0);
            op.demand[Resource::SmSlots as usize] = ONE as u32;
            op.blocks_wait = blocks_wait;
            op
        };
        let both = [full(1_000_000, false), full(9_000_000, blocks_wait)];
        near(&ends(&mut state, &mut memory, &both)[..1], &[end_ns]);
    }
}

#[test]
fn a_stream_keeps_the_copy_engine_from_its_own_context_only() {
    // The second stream has four copies queued from the start, the first one copy at 10 us. In one
    // context the first waits for all of them; in two it is second in the queue.
    let copy =
        |stamp_ns| Op { kind: OpKind::ToDevice, alone_ns: 100_000, stamp_ns, ..Op::default() };
    for (space, end_ns) in [(0, 500_000), (1, 200_000)] {
        let (mut state, mut memory) = shared(2);
        state.contexts.rows[1].space = space;
        submit(&mut state, &mut memory, 0, copy(10_000));
        submit(&mut state, &mut memory, 0, record(10_000, 0));
        for stamp_us in [0, 20, 30, 40] {
            submit(&mut state, &mut memory, 1, copy(stamp_us * 1_000));
        }
        drain(&mut state, &memory);
        assert_eq!(memory.events.borrow()[&0], end_ns);
    }
}

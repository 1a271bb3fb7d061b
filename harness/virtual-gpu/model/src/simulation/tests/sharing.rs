//! Instances, MPS clients and the power cap against arithmetic.

use super::super::{Rules, run_until};
use super::{Memory, RULES, device, drain, kernel, record, submit};
use crate::state::{ComputeEngine, GpuInstance, ONE, Op, OpKind, Resource, State};

/// Two halves of a device, each a GPU instance with one compute instance; context 0 is in the
/// first, context 1 in the second.
fn halves() -> (Box<State>, Memory) {
    let (mut state, memory) = device(&[0, 1]);
    for half in 1..3usize {
        state.instances.rows[half] =
            GpuInstance { live: true, bandwidth: ONE / 2, ..GpuInstance::default() };
        state.engines.rows[half] = ComputeEngine {
            live: true,
            instance: half as u32,
            sm_share: ONE / 2,
            ..ComputeEngine::default()
        };
        state.contexts.rows[half - 1].engine = half as u32;
    }
    state.instances.used = 3;
    state.engines.used = 3;
    (state, memory)
}

#[test]
fn instances_run_at_the_same_time_and_keep_their_own_bandwidth() {
    let (mut state, mut memory) = halves();
    for stream in 0..2 {
        submit(&mut state, &mut memory, stream, kernel(0, 1_000_000, 0.5));
        submit(&mut state, &mut memory, stream, record(0, stream as u32));
    }
    drain(&mut state, &memory);
    let events = memory.events.borrow();
    assert_eq!((events[&0], events[&1]), (1_000_000, 1_000_000));
}

#[test]
fn a_planted_leak_costs_its_share_while_the_neighbour_runs() {
    // A tenth leaks: while both run, each runs at 0.9.
    let rules = Rules { mig_dram_leak: ONE / 10, ..RULES };
    let (mut state, mut memory) = halves();
    for stream in 0..2 {
        submit(&mut state, &mut memory, stream, kernel(0, 900_000, 0.5));
        submit(&mut state, &mut memory, stream, record(0, stream as u32));
    }
    run_until(&mut state, &memory, &rules, 5_000_000);
    let at = memory.events.borrow()[&0];
    assert!(at.abs_diff(1_000_000) < 20, "{at}");
}

#[test]
fn a_planted_neighbour_slows_work_of_its_bound_alone() {
    // By a tenth, and a kernel of DRAM keeps its speed.
    let rules = Rules { neighbour_slows: [ONE / 10, 0, 0, ONE / 10], ..RULES };
    for (neighbours, expected) in [(true, [1_000_000, 900_000, 1_000_000]), (false, [900_000; 3])] {
        let mut compute = kernel(0, 900_000, 0.0);
        compute.demand[Resource::Fp32 as usize] = ONE as u32 / 4;
        let copy = Op { kind: OpKind::ToHost, alone_ns: 900_000, ..Op::default() };
        for (op, expected) in [compute, kernel(0, 900_000, 0.25), copy].into_iter().zip(expected) {
            let (mut state, mut memory) = device(&[0, 0]);
            if neighbours {
                submit(&mut state, &mut memory, 1, kernel(0, 4_000_000, 0.1));
            }
            submit(&mut state, &mut memory, 0, op);
            submit(&mut state, &mut memory, 0, record(0, 0));
            run_until(&mut state, &memory, &rules, 5_000_000);
            let at = memory.events.borrow()[&0];
            assert!(at.abs_diff(expected) < 20, "{at}, not {expected}");
        }
    }
}

#[test]
fn copies_of_two_instances_share_the_link() {
    let (mut state, mut memory) = halves();
    for stream in 0..2 {
        let copy = Op { kind: OpKind::ToHost, alone_ns: 400_000, ..Op::default() };
        submit(&mut state, &mut memory, stream, copy);
        submit(&mut state, &mut memory, stream, record(0, stream as u32));
    }
    drain(&mut state, &memory);
    let events = memory.events.borrow();
    assert_eq!((events[&0], events[&1]), (800_000, 800_000));
}

#[test]
fn a_client_stays_within_its_cap() {
    // Two kernels of a client with a quarter of the slots, each of which fills it, and one of
    // another client that fills the rest: the two run at half speed, the third at full speed.
    let (mut state, mut memory) = device(&[0, 0, 0]);
    state.contexts.rows[0].sm_share = ONE / 4;
    state.streams.rows[1].context = 0;
    for (stream, slots) in [(0, ONE / 4), (1, ONE / 4), (2, ONE * 3 / 4)] {
        let mut op = kernel(0, 300_000, 0.0);
        op.demand[Resource::SmSlots as usize] = slots as u32;
        submit(&mut state, &mut memory, stream, op);
        submit(&mut state, &mut memory, stream, record(0, stream as u32));
    }
    drain(&mut state, &memory);
    let events = memory.events.borrow();
    for (stream, end_ns) in [(0, 600_000_u64), (1, 600_000), (2, 300_000)] {
        assert!(events[&stream].abs_diff(end_ns) < 20, "{}", events[&stream]);
    }
}

#[test]
fn power_over_the_cap_slows_everything_and_stays_at_the_cap() {
    // 10 W idle and 180 W of work under a cap of 100 W: half the clock.
    let rules = Rules { power_cap_mw: 100_000, ..RULES };
    let (mut state, mut memory) = device(&[0]);
    let op = Op { power_mw: 180_000, ..kernel(0, 1_000_000, 0.1) };
    submit(&mut state, &mut memory, 0, op);
    submit(&mut state, &mut memory, 0, record(0, 0));
    run_until(&mut state, &memory, &rules, 1_000_000);
    assert_eq!((state.power_mw, state.clock), (100_000, ONE / 2));
    run_until(&mut state, &memory, &rules, 3_000_000);
    assert_eq!(memory.events.borrow()[&0], 2_000_000);
    assert_eq!(state.capped_ns, 2_000_000);
}

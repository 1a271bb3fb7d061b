//! Instances, MPS clients and the power cap against arithmetic.

use super::super::fault::FaultRules;
use super::super::{Rules, run_until};
use super::{FAULTS, Memory, RULES, device, drain, kernel, record, submit};
use crate::state::{ComputeEngine, GpuInstance, ONE, Op, OpKind, Resource, ServerState, State};

/// Two halves of a device, each a GPU instance with one compute instance; context 0 is in the
/// first, context 1 in the second.
fn halves() -> (Box<State>, Memory) {
    let (mut state, memory) = device(&[0, 1]);
    for half in 1..3usize {
        state.instances.rows[half] = GpuInstance {
            live: true,
            bandwidth: ONE / 2,
            ..GpuInstance::default()
        };
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
    let rules = Rules {
        mig_dram_leak: ONE / 10,
        ..RULES
    };
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
fn copies_of_two_instances_share_the_link() {
    let (mut state, mut memory) = halves();
    for stream in 0..2 {
        let copy = Op {
            kind: OpKind::ToHost,
            alone_ns: 400_000,
            ..Op::default()
        };
        submit(&mut state, &mut memory, stream, copy);
        submit(&mut state, &mut memory, stream, record(0, stream as u32));
    }
    drain(&mut state, &memory);
    let events = memory.events.borrow();
    assert_eq!((events[&0], events[&1]), (800_000, 800_000));
}

#[test]
fn a_client_stays_within_its_cap() {
    // Both want all SMs; the first may use a quarter: it runs at a quarter of its speed, the second
    // at three quarters.
    let (mut state, mut memory) = device(&[0, 0]);
    state.contexts.rows[0].sm_share = ONE / 4;
    for stream in 0..2 {
        let mut op = kernel(0, 300_000, 0.0);
        op.demand[Resource::SmSlots as usize] = ONE as u32;
        submit(&mut state, &mut memory, stream, op);
        submit(&mut state, &mut memory, stream, record(0, stream as u32));
    }
    drain(&mut state, &memory);
    let events = memory.events.borrow();
    assert!(events[&1].abs_diff(400_000) < 20, "{}", events[&1]);
    assert!(events[&0].abs_diff(1_200_000) < 20, "{}", events[&0]);
}

#[test]
fn power_over_the_cap_slows_everything_and_stays_at_the_cap() {
    // 10 W idle and 180 W of work under a cap of 100 W: half the clock.
    let rules = Rules {
        power_cap_mw: 100_000,
        ..RULES
    };
    let (mut state, mut memory) = device(&[0]);
    let op = Op {
        power_mw: 180_000,
        ..kernel(0, 1_000_000, 0.1)
    };
    submit(&mut state, &mut memory, 0, op);
    submit(&mut state, &mut memory, 0, record(0, 0));
    run_until(&mut state, &memory, &rules, 1_000_000);
    assert_eq!((state.power_mw, state.clock), (100_000, ONE / 2));
    run_until(&mut state, &memory, &rules, 3_000_000);
    assert_eq!(memory.events.borrow()[&0], 2_000_000);
    assert_eq!(state.capped_ns, 2_000_000);
}

/// Three clients of one MPS server, the first two in a partition each, and an outsider.
fn clients() -> (Box<State>, Memory) {
    let (mut state, memory) = device(&[0, 0, 0, 3]);
    state.servers.rows[0].live = true;
    state.servers.used = 1;
    for (context, partition) in [(0, 0), (1, 1), (2, 1)] {
        state.contexts.rows[context].server = 0;
        state.contexts.rows[context].partition = partition;
    }
    (state, memory)
}

fn stickies(state: &State) -> Vec<i32> {
    state.contexts.live().iter().map(|c| c.sticky).collect()
}

#[test]
fn a_fault_of_a_client_reaches_clients_of_its_server_only() {
    let memory_fault = |rules: &FaultRules| {
        let (mut state, mut memory) = clients();
        let rules = Rules {
            faults: *rules,
            ..RULES
        };
        let broken = Op {
            fault: 700,
            xid: 31,
            ..kernel(0, 1_000, 0.1)
        };
        submit(&mut state, &mut memory, 0, broken);
        run_until(&mut state, &memory, &rules, 1_000_000);
        (stickies(&state), state.servers.rows[0].state)
    };
    let documented = memory_fault(&FAULTS);
    assert_eq!(documented, (vec![700, 700, 700, 0], ServerState::Fault));
    let contained = memory_fault(&FaultRules {
        mps_contained: true,
        ..FAULTS
    });
    assert_eq!(contained, (vec![700, 0, 0, 0], ServerState::Active));
    let everywhere = memory_fault(&FaultRules {
        cross_contexts: true,
        ..FAULTS
    });
    assert_eq!(everywhere.0, [700, 700, 700, 700]);
}

#[test]
fn an_sm_fault_is_contained_in_its_partition_where_the_driver_contains_it() {
    for (kept, want) in [(true, [0, 719, 719, 0]), (false, [719, 719, 719, 0])] {
        let (mut state, mut memory) = clients();
        let faults = FaultRules {
            partitions_contain_sm_faults: kept,
            ..FAULTS
        };
        let broken = Op {
            fault: 719,
            xid: 13,
            ..kernel(0, 1_000, 0.1)
        };
        submit(&mut state, &mut memory, 1, broken);
        let rules = Rules { faults, ..RULES };
        run_until(&mut state, &memory, &rules, 1_000_000);
        assert_eq!(stickies(&state), want);
    }
}

#[test]
fn a_server_recovers_when_the_last_client_of_the_fault_has_left() {
    let (mut state, mut memory) = clients();
    let broken = Op {
        fault: 700,
        xid: 31,
        ..kernel(0, 1_000, 0.1)
    };
    submit(&mut state, &mut memory, 0, broken);
    run_until(&mut state, &memory, &RULES, 1_000_000);
    for context in 0..3 {
        assert_eq!(state.servers.rows[0].state, ServerState::Fault);
        crate::lifecycle::close_context(&mut state, &RULES, context);
    }
    let server = state.servers.rows[0];
    assert_eq!(
        (server.state, server.ready_ns),
        (ServerState::Active, 6_000_000)
    );
}

//! What counters add up to, how levels of turns bind, and what Xids and accounts tell.

use super::super::fault::log;
use super::{Op, device, drain, kernel, record, submit};
use crate::memory::note_peak;
use crate::state::{ComputeEngine, GpuInstance, ONE, Resource, State, WHOLE, leave_account};

#[test]
fn what_is_used_adds_up_and_nobody_uses_more_than_there_is() {
    // Both want 80 % of DRAM: DRAM is full for 1.6 ms, then one of them uses 80 % for 1 ms. Both
    // hold 70 % of the slots on 30 of the 40 SMs, and so all there are while both are there.
    let (mut state, mut memory) = device(&[0, 0]);
    state.engines.rows[WHOLE as usize].sm_count = 40;
    for (stream, alone_ns) in [(0, 1_000_000), (1, 2_000_000)] {
        let mut op = Op {
            sms: 30,
            ..kernel(0, alone_ns, 0.8)
        };
        op.demand[Resource::SmSlots as usize] = (ONE * 7 / 10) as u32;
        submit(&mut state, &mut memory, stream, op);
    }
    drain(&mut state, &memory);
    let used = state.engines.rows[WHOLE as usize].used;
    let share = |resource: Resource| used.shares[resource as usize] as f64 / ONE as f64;
    let close =
        |found: f64, want: f64| assert!((found / want - 1.0).abs() < 1e-4, "{found} {want}");
    close(share(Resource::Dram), 1.6e6 + 0.8e6);
    close(share(Resource::SmSlots), 1.6e6 + 0.7e6);
    close(used.sms as f64, 1.6e6 * 40.0 + 1.0e6 * 30.0);
    assert_eq!(used.shares[Resource::Fp64 as usize], 0);
    close(state.processes.rows[0].dram_busy as f64 / ONE as f64, 2.4e6);
}

#[test]
fn turns_are_as_long_as_their_level_says() {
    // Turns of half a millisecond: A 0..0.5, gap, B 0.55..1.05, gap, A 1.1..1.5, gap, B 1.55..1.95.
    let (mut state, mut memory) = device(&[0, 1]);
    state.slice_ns = 500_000;
    for stream in 0..2 {
        submit(&mut state, &mut memory, stream, kernel(0, 900_000, 0.1));
        submit(&mut state, &mut memory, stream, record(0, stream as u32));
    }
    drain(&mut state, &memory);
    let events = memory.events.borrow();
    assert_eq!((events[&0], events[&1]), (1_500_000, 1_950_000));
}

#[test]
fn an_xid_names_the_instance_that_it_happened_in() {
    let (mut state, _) = device(&[0, 1]);
    log(&mut state, 0, 13, 719);
    state.instances.rows[1] = GpuInstance {
        live: true,
        id: 5,
        ..GpuInstance::default()
    };
    state.engines.rows[1] = ComputeEngine {
        live: true,
        id: 2,
        instance: 1,
        ..Default::default()
    };
    state.contexts.rows[1].engine = 1;
    log(&mut state, 1, 31, 700);
    let named = |at: usize| (state.xids.rows[at].number, state.xids.rows[at].instance);
    assert_eq!((named(0), named(1)), ((13, None), (31, Some((5, 2)))));
}

#[test]
fn an_account_is_left_by_who_had_memory_while_accounting_is_on() {
    let (mut state, _) = device(&[0]);
    let left = |state: &State| (state.accounts_left, state.accounts.rows[0]);
    state.processes.rows[0].pid = 7;
    state.accounting = true;
    leave_account(&mut state, 0);
    assert_eq!(left(&state).0, 0, "it never had memory");
    state.contexts.rows[0].bytes = 1 << 20;
    note_peak(&mut state, 0);
    state.contexts.rows[0].bytes = 0;
    note_peak(&mut state, 0);
    state.accounting = false;
    leave_account(&mut state, 0);
    assert_eq!(left(&state).0, 0, "accounting is off");
    state.accounting = true;
    state.now_ns = 9;
    leave_account(&mut state, 0);
    let (count, account) = left(&state);
    assert_eq!((count, account.pid, account.running), (1, 7, false));
    assert_eq!((account.end_ns, account.peak_bytes), (9, 1 << 20));
}

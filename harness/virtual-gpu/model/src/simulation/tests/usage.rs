//! Counters, levels of time slices, the contents of Xids, and windows of utilisation.

use super::{Op, RULES, device, drain, kernel, record, run_until, submit};
use crate::state::{ComputeEngine, GpuInstance, ONE, Resource, State, WHOLE, Xid};

#[test]
fn usage_adds_up_and_never_exceeds_the_capacity() {
    // Both want 80 % of DRAM: DRAM is full for 1.6 ms, then one of them uses 80 % for 1 ms. Each
    // holds 70 % of the slots and 30 of the 40 SMs, so together they fill both.
    let (mut state, mut memory) = device(&[0, 0]);
    state.engines.rows[WHOLE as usize].sm_count = 40;
    for (stream, alone_ns) in [(0, 1_000_000), (1, 2_000_000)] {
        let mut op = Op { sms: 30, ..kernel(0, alone_ns, 0.8) };
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
fn time_slices_have_the_length_of_their_level() {
    // Slices of half a millisecond: A 0..0.5, gap, B 0.55..1.05, gap, A 1.1..1.5, gap, B
    // 1.55..1.95.
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
fn an_xid_names_its_instance() {
    let (mut state, _) = device(&[0, 1]);
    let log = |state: &mut State, context, number| {
        let xid = Xid::of_context(state, context, 719);
        state.log_xid(Xid { number, ..xid });
    };
    log(&mut state, 0, 13);
    state.instances.rows[1] = GpuInstance { live: true, id: 5, ..GpuInstance::default() };
    state.engines.rows[1] = ComputeEngine { live: true, id: 2, instance: 1, ..Default::default() };
    state.contexts.rows[1].engine = 1;
    log(&mut state, 1, 31);
    let named = |at: usize| (state.xids.rows[at].number, state.xids.rows[at].instance);
    assert_eq!((named(0), named(1)), ((13, None), (31, Some((5, 2)))));
}

#[test]
fn windows_do_not_depend_on_the_steps_of_the_clock() {
    // At work until 150 ms, half of DRAM in use: a full window, half of one, then nothing.
    let last = |stops_ms: &[u64]| {
        let (mut state, mut memory) = device(&[0]);
        submit(&mut state, &mut memory, 0, kernel(0, 150_000_000, 0.5));
        for stop_ms in stops_ms {
            run_until(&mut state, &memory, &RULES, stop_ms * 1_000_000);
        }
        let window = state.window;
        let start_ms = window.start_ns / 1_000_000;
        (start_ms, window.last_percent, window.last_dram_percent)
    };
    // A share of the half that is not a whole number of bits is truncated.
    let dram = last(&[110]).2;
    assert!((49..=50).contains(&dram), "{dram}");
    for (stop_ms, want) in [(110, (100, 100, dram)), (210, (200, 50, dram / 2)), (310, (300, 0, 0))]
    {
        assert_eq!(last(&[stop_ms]), want, "at {stop_ms} ms");
        let often: Vec<u64> = (1..=stop_ms).collect();
        assert_eq!(last(&often), want, "at {stop_ms} ms, in steps of a millisecond");
    }
}

#[test]
fn a_long_step_ends_with_a_window_of_the_usual_length() {
    // At work for the first half of an hour, which the last window does not contain.
    let (mut state, mut memory) = device(&[0]);
    let hour_ns = 3_600_000_000_000;
    submit(&mut state, &mut memory, 0, kernel(0, hour_ns / 2, 0.5));
    run_until(&mut state, &memory, &RULES, hour_ns);
    let window = state.window;
    assert_eq!((window.start_ns, window.last_percent), (hour_ns, 0));
}

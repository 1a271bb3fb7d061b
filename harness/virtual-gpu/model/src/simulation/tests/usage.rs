//! Counters, levels of time slices, and the contents of Xids and accounts.

use super::super::samples::READING_NS;
use super::{Op, RULES, device, drain, kernel, record, run_until, submit};
use crate::memory::note_peak;
use crate::state::{
    ComputeEngine, Filled, GpuInstance, ONE, Resource, SAMPLES, State, WHOLE, Xid, leave_account,
};

#[test]
fn usage_adds_up_and_never_exceeds_the_capacity() {
    // Both want 80 % of DRAM: DRAM is full for 1.6 ms, then one of them uses 80 % for 1 ms. Each
    // holds 70 % of the slots and 30 of the 40 SMs, so together they fill both.
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
    log(&mut state, 1, 31);
    let named = |at: usize| (state.xids.rows[at].number, state.xids.rows[at].instance);
    assert_eq!((named(0), named(1)), ((13, None), (31, Some((5, 2)))));
}

#[test]
fn accounting_keeps_processes_that_had_memory() {
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

#[test]
fn sample_instants_do_not_depend_on_the_steps_of_the_clock() {
    // At work until 150 ms, half of DRAM in use: a full window, half of one, then nothing.
    let watch = |stops_ns: &[u64]| {
        let (mut state, mut memory) = device(&[0]);
        let mut op = kernel(0, 150_000_000, 0.5);
        op.power_mw = 4_000;
        submit(&mut state, &mut memory, 0, op);
        for stop_ns in stops_ns {
            run_until(&mut state, &memory, &RULES, *stop_ns);
        }
        let windows: Vec<_> = state.windows.iter().copied().collect();
        let readings: Vec<_> = state.readings.iter().copied().collect();
        (windows, readings)
    };
    let (windows, readings) = watch(&[310_000_000]);
    let filled = |at_ms: u64, percent, dram_percent| Filled {
        at_ns: at_ms * 1_000_000,
        percent,
        dram_percent,
    };
    // A share of the half that is not a whole number of bits is truncated.
    let dram = windows[0].dram_percent;
    assert!((49..=50).contains(&dram), "{dram}");
    assert_eq!(
        windows,
        [
            filled(100, 100, dram),
            filled(200, 50, windows[1].dram_percent),
            filled(300, 0, 0)
        ]
    );
    assert_eq!(windows[1].dram_percent, dram / 2);
    let power: Vec<_> = readings
        .iter()
        .map(|r| (r.at_ns / 1_000_000, r.power_mw))
        .collect();
    let want = (1..=15).map(|n| (n * 20, if n * 20 <= 150 { 14_000 } else { 10_000 }));
    assert_eq!(power, want.collect::<Vec<_>>());
    let often: Vec<u64> = (1..=310).map(|ms| ms * 1_000_000).collect();
    assert_eq!(
        watch(&often),
        (windows, readings),
        "in steps of a millisecond"
    );
}

#[test]
fn after_a_long_step_only_samples_that_the_rings_hold_are_taken() {
    let (mut state, memory) = device(&[0]);
    let hour_ns = 3_600_000_000_000;
    run_until(&mut state, &memory, &RULES, hour_ns);
    let ends = |period_ns: u64| {
        let count = SAMPLES as u64;
        (0..count).map(move |back| hour_ns - (count - 1 - back) * period_ns)
    };
    assert!(state.readings.iter().map(|r| r.at_ns).eq(ends(READING_NS)));
    assert!(
        state
            .windows
            .iter()
            .map(|w| w.at_ns)
            .eq(ends(RULES.utilisation_window_ns))
    );
}

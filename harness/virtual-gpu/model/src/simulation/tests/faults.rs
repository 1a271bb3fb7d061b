//! What faults reach, when they are noticed, and what is logged.

use super::super::answer::{Answer, Answers, FaultRules};
use super::super::{Rules, fault, run_until};
use super::{FAULTS, Memory, RULES, device, drain, kernel, record, submit};
use crate::lifecycle;
use crate::state::{CAUSES, Cause, NONE, Op, Process, ServerState, State};

/// Every fault reaches all clients with 700; a trap stays in its partition.
pub(super) const ANSWERS: Answers = {
    let mut answers = [[REACHING; 2]; CAUSES];
    let trap =
        Answer { own: 719, peer: 719, xids: [13, 0, 0, 0], partitions_contain: true, ..REACHING };
    answers[Cause::Trap as usize] = [trap; 2];
    answers
};

const REACHING: Answer = Answer {
    own: 700,
    peer: 700,
    log_before: [0; 4],
    xids: [31, 0, 0, 0],
    names_server: false,
    noticed_ns: [0; 3],
    refuses_new_clients: true,
    partitions_contain: false,
};

/// A kernel of 1 us that ends in a fault.
fn failing(cause: Cause) -> Op {
    Op { cause: Some(cause), ..kernel(0, 1_000, 0.1) }
}

#[test]
fn a_fault_is_sticky_in_its_context_only() {
    let (mut state, mut memory) = device(&[0, 1]);
    let broken = failing(Cause::IllegalAddress);
    submit(&mut state, &mut memory, 0, broken);
    submit(&mut state, &mut memory, 0, kernel(0, 9_000_000, 0.1));
    submit(&mut state, &mut memory, 1, kernel(0, 1_000_000, 0.1));
    submit(&mut state, &mut memory, 1, record(0, 1));
    drain(&mut state, &memory);
    assert_eq!(state.contexts.rows[0].sticky, 700);
    assert_eq!(state.contexts.rows[1].sticky, 0);
    assert_eq!(state.xids.live().iter().map(|x| x.number).collect::<Vec<_>>(), [31]);
    assert_eq!(memory.events.borrow()[&1], 1_000 + 50_000 + 1_000_000);
}

/// Three clients of one MPS server, the first two in a partition each, and an outsider.
fn clients() -> (Box<State>, Memory) {
    let (mut state, memory) = device(&[0, 0, 0, 3]);
    state.servers.rows[0].live = true;
    state.servers.rows[0].process = 9;
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
        let rules = Rules { faults: *rules, ..RULES };
        let broken = failing(Cause::IllegalAddress);
        submit(&mut state, &mut memory, 0, broken);
        run_until(&mut state, &memory, &rules, 1_000_000);
        (stickies(&state), state.servers.rows[0].state)
    };
    let documented = memory_fault(&FAULTS);
    assert_eq!(documented, (vec![700, 700, 700, 0], ServerState::Fault));
    let contained = memory_fault(&FaultRules { mps_contained: true, ..FAULTS });
    assert_eq!(contained, (vec![700, 0, 0, 0], ServerState::Active));
    let everywhere = memory_fault(&FaultRules { cross_contexts: true, ..FAULTS });
    assert_eq!(everywhere.0, [700, 700, 700, 700]);
}

#[test]
fn an_sm_fault_is_contained_in_its_partition_where_the_driver_contains_it() {
    for (kept, want) in [(true, [0, 719, 719, 0]), (false, [719, 719, 719, 0])] {
        let (mut state, mut memory) = clients();
        let mut faults = FAULTS;
        faults.answers[Cause::Trap as usize][1].partitions_contain = kept;
        submit(&mut state, &mut memory, 1, failing(Cause::Trap));
        let rules = Rules { faults, ..RULES };
        run_until(&mut state, &memory, &rules, 1_000_000);
        assert_eq!(stickies(&state), want);
    }
}

#[test]
fn a_server_recovers_when_the_last_client_of_the_fault_has_left() {
    let (mut state, mut memory) = clients();
    submit(&mut state, &mut memory, 0, failing(Cause::IllegalAddress));
    run_until(&mut state, &memory, &RULES, 1_000_000);
    for context in 0..3 {
        assert_eq!(state.servers.rows[0].state, ServerState::Fault);
        crate::lifecycle::close_context(&mut state, &RULES, context);
    }
    let server = state.servers.rows[0];
    assert_eq!((server.state, server.ready_ns), (ServerState::Active, 6_000_000));
}

fn answering(answer: Answer) -> Rules {
    Rules { faults: FaultRules { answers: [[answer; 2]; CAUSES], ..FAULTS }, ..RULES }
}

fn xids(state: &State) -> Vec<(u32, u32, bool)> {
    let xids = state.xids.live().iter();
    xids.map(|xid| (xid.number, xid.pid, xid.log_only)).collect()
}

/// Peers that get another code, an Xid that names the server, and 3 ms until it is noticed.
const LATE: Answer = Answer {
    own: 719,
    peer: 716,
    log_before: [13, 13, 0, 0],
    xids: [43, 0, 0, 0],
    names_server: true,
    noticed_ns: [3_000_000; 3],
    refuses_new_clients: false,
    ..REACHING
};

#[test]
fn a_fault_halts_whom_it_reaches_until_it_is_noticed() {
    let rules = answering(LATE);
    let (mut state, mut memory) = clients();
    for (process, pid) in [(0, 70), (1, 71)] {
        state.processes.rows[process] = Process { pid, ..Process::default() };
    }
    state.servers.rows[0].process = 1;
    submit(&mut state, &mut memory, 0, failing(Cause::Trap));
    submit(&mut state, &mut memory, 1, kernel(0, 2_000_000, 0.1));
    submit(&mut state, &mut memory, 1, record(0, 1));
    submit(&mut state, &mut memory, 3, kernel(0, 1_000_000, 0.1));
    submit(&mut state, &mut memory, 3, record(0, 3));
    let noticed_ns = 3_001_000;
    run_until(&mut state, &memory, &rules, noticed_ns - 1);
    assert_eq!(stickies(&state), [0; 4]);
    let waits = |stream: usize| state.streams.rows[stream].completed == 0;
    assert!(waits(0) && waits(1), "nobody has an answer yet");
    assert!(xids(&state).is_empty());
    run_until(&mut state, &memory, &rules, noticed_ns);
    assert_eq!(stickies(&state), [719, 716, 716, 0]);
    let server = [(13, 0, true), (13, 0, true), (43, 71, false)];
    assert_eq!(xids(&state), server);
    assert_eq!(state.servers.rows[0].state, ServerState::Active);
    let events = memory.events.borrow();
    assert_eq!(events.get(&1), None, "the peer's kernel never ended");
    // The outsider gets the device at once.
    assert_eq!(events[&3], 1_000 + RULES.switch_gap_ns + 1_000_000);
}

#[test]
fn a_fault_that_the_table_does_not_answer_harms_nobody() {
    let rules = answering(Answer { own: 0, peer: 0, xids: [0; 4], ..LATE });
    let (mut state, mut memory) = clients();
    submit(&mut state, &mut memory, 0, failing(Cause::Trap));
    submit(&mut state, &mut memory, 0, record(0, 0));
    run_until(&mut state, &memory, &rules, 5_000_000);
    assert_eq!(stickies(&state), [0; 4]);
    assert_eq!(memory.events.borrow()[&0], 1_000, "the kernel ended well");
    assert_eq!(state.fatal_faults, 0);
}

#[test]
fn the_end_of_a_process_harms_peers_only_through_work_that_outlives_it() {
    let rules = answering(Answer { own: 0, ..LATE });
    for (left_ns, codes) in [(2_000_000, [0, 0, 0, 0]), (9_000_000, [0, 716, 716, 0])] {
        let (mut state, mut memory) = clients();
        for context in 0..4 {
            state.contexts.rows[context].process = context as u32;
        }
        submit(&mut state, &mut memory, 0, kernel(0, left_ns, 0.1));
        submit(&mut state, &mut memory, 1, kernel(0, 2_500_000, 0.1));
        submit(&mut state, &mut memory, 1, record(0, 1));
        run_until(&mut state, &memory, &rules, 1);
        lifecycle::reap(&mut state, &rules, 0);
        run_until(&mut state, &memory, &rules, 8_000_000);
        assert_eq!(stickies(&state), codes, "{left_ns} ns left");
        let harmed = codes[1] != 0;
        assert_eq!(xids(&state).is_empty(), !harmed);
        assert_eq!(memory.events.borrow()[&1], 2_500_000, "peers run until then");
    }
    // Outside MPS it harms nobody.
    let (mut state, mut memory) = clients();
    state.contexts.rows[3].process = 3;
    assert_eq!(state.contexts.rows[3].server, NONE);
    submit(&mut state, &mut memory, 3, kernel(0, 9_000_000, 0.1));
    run_until(&mut state, &memory, &rules, 1);
    lifecycle::reap(&mut state, &rules, 3);
    run_until(&mut state, &memory, &rules, 8_000_000);
    assert_eq!(stickies(&state)[..3], [0; 3]);
}

#[test]
fn a_planted_death_reaches_peers_that_the_table_spares() {
    let mut rules = answering(Answer { peer: 0, noticed_ns: [0; 3], ..LATE });
    for (planted, code) in [(false, 0), (true, 719)] {
        rules.faults.mps_kill_reaches_peers = planted;
        let (mut state, mut memory) = clients();
        state.contexts.rows[0].process = 9;
        submit(&mut state, &mut memory, 0, kernel(0, 9_000_000, 0.1));
        run_until(&mut state, &memory, &rules, 1);
        lifecycle::reap(&mut state, &rules, 9);
        assert_eq!(stickies(&state)[1..], [code, code, 0]);
    }
}

#[test]
fn a_terminated_client_fails_when_it_is_noticed_and_no_other() {
    let rules = answering(LATE);
    let (mut state, mut memory) = clients();
    submit(&mut state, &mut memory, 1, kernel(0, 1_000_000, 0.1));
    submit(&mut state, &mut memory, 1, record(0, 1));
    fault::terminate(&mut state, &rules, 0);
    run_until(&mut state, &memory, &rules, 2_999_999);
    assert_eq!(stickies(&state), [0; 4]);
    run_until(&mut state, &memory, &rules, 3_000_000);
    assert_eq!(stickies(&state), [719, 0, 0, 0]);
    assert_eq!(memory.events.borrow()[&1], 1_000_000);
}

#[test]
fn a_fault_beyond_the_run_time_limit_is_noticed_once() {
    let rules = Rules { run_time_limit_ns: 500_000, ..answering(LATE) };
    let (mut state, mut memory) = clients();
    submit(&mut state, &mut memory, 3, kernel(0, 9_000_000, 0.1));
    run_until(&mut state, &memory, &rules, 8_000_000);
    assert_eq!(stickies(&state), [0, 0, 0, 719]);
    assert_eq!((xids(&state).len(), state.fatal_faults), (3, 1));
}

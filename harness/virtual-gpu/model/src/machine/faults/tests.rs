//! Fault tables: what is inherited, what wins, and what is refused.

use super::{Other, Reply, Under, fault_names};
use crate::machine::{BUILT_IN, Machine, MachineError};
use crate::simulation::answer::Answer;
use crate::state::{Cause, NONE};

fn with(rows: &str) -> Result<Machine, MachineError> {
    let text = gpubench_profiles::HOPPER;
    Machine::parse("m.toml", &format!("{text}\n{rows}"))
}

#[test]
fn every_cause_has_a_row_on_every_machine_and_a_machine_reads_back_as_it_is()
-> Result<(), Box<dyn std::error::Error>> {
    for (name, _) in BUILT_IN {
        let machine = Machine::load(name)?;
        for cause in Cause::ALL {
            // Only a client has a server.
            let clients = [Cause::TerminateClient, Cause::ServerEnd].contains(&cause);
            for under in Under::ALL.into_iter().skip(usize::from(clients)) {
                let row = machine.fault_row(cause.fault(), under);
                assert!(row.is_some(), "{name}: {cause:?} under {under:?}");
            }
        }
        for row in &machine.faults.rows {
            assert_eq!(row.evidence.is_some(), row.source.is_some(), "{row:?}");
            assert!(
                row.evidence.is_some() || machine.faults.measured.is_some(),
                "{name}: {row:?} rests on nothing"
            );
        }
        let again = Machine::parse("m.toml", &toml::to_string(&machine)?)?;
        assert_eq!(again, machine, "{name}");
    }
    Ok(())
}

#[test]
fn what_the_model_cannot_tell_apart_has_one_answer() -> Result<(), MachineError> {
    for (name, _) in BUILT_IN {
        let machine = Machine::load(name)?;
        for (used, other) in [("sigkill", "exit-pending"), ("mps-server-kill", "mps-daemon-kill")] {
            for under in Under::ALL {
                let row = |fault| machine.fault_row(fault, under);
                assert_eq!(row(used), row(other), "{name}: {other} under {under:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_row_of_the_machine_wins_over_a_documented_one_and_leaves_the_others()
-> Result<(), MachineError> {
    let machine = with(
        "[[faults.rows]]\nfaults = [\"trap\"]\nunder = \"mps\"\nown = 715\nxids = [43]\n\
         noticed_ms = [1, 2, 3.5]\n[[faults.rows]]\nfaults = [\"sigkill\"]\nown = \"ended\"\n",
    )?;
    let rules = machine.fault_rules();
    let trap = |server| *rules.answer(Cause::Trap, server);
    let own = Answer {
        own: 715,
        xids: [43, 0, 0, 0],
        noticed_ns: [1_000_000, 2_000_000, 3_500_000],
        ..Answer::default()
    };
    assert_eq!(trap(0), own);
    let documented = *Machine::load("hopper")?.fault_rules().answer(Cause::Trap, NONE);
    assert_eq!((trap(NONE), documented.own), (documented, 719));
    // A row for every mechanism wins over documented rows for one.
    assert_eq!(*rules.answer(Cause::ProcessEnd, 0), Answer::default());
    let exit = machine.fault_row("exit-pending", Under::Mps);
    assert_eq!(exit.map(|row| row.peer), Some(Reply::Code(700)));
    let silent = Machine::load("h100-80")?;
    let row = silent.fault_row("mps-server-kill", Under::Mps);
    assert_eq!(row.map(|row| row.own), Some(Reply::Other(Other::Silent)));
    Ok(())
}

#[test]
fn static_partitions_contain_faults_of_the_sms_from_a_driver_on() -> Result<(), MachineError> {
    let mut machine = Machine::load("hopper")?;
    for (driver, contains) in [("615.00.virtual", true), ("609.9.virtual", false)] {
        machine.gpu.driver = driver.to_owned();
        let rules = machine.fault_rules();
        let contained = |cause| rules.answer(cause, 0).partitions_contain;
        assert_eq!(contained(Cause::Trap), contains, "{driver}");
        assert!(!contained(Cause::IllegalAddress), "a memory fault");
    }
    Ok(())
}

#[test]
fn a_wrong_row_is_refused_with_what_is_accepted() {
    assert_eq!(fault_names().count(), Cause::ALL.len() + 13);
    for (row, expected) in [
        ("faults = [\"tarp\"]", "faults.rows.faults is tarp, accepted is a name of"),
        ("faults = []\nown = 0", "faults.rows.own is 0, accepted is 1 to 999"),
        ("faults = []\npeer = \"dead\"", "accepted is a CUresult, \"well\""),
        ("faults = []\nxids = [13, 0]", "faults.rows.xids is [13, 0], accepted is at most 4"),
        ("faults = []\nlog_before = [1, 2, 3, 4, 5]", "faults.rows.log_before is [1, 2,"),
        ("faults = []\nnoticed_ms = [3, 2, 4]", "accepted is three times of 0 to 60000"),
        ("faults = []\nunder = \"mig\"", "expected `time-slicing` or `mps`"),
        ("faults = []\nnoticed = 3", "unknown field `noticed`"),
    ] {
        let message = with(&format!("[[faults.rows]]\n{row}\n")).err();
        let message = message.map(|error| error.to_string());
        assert!(
            message.as_ref().is_some_and(|m| m.contains(expected) && !m.contains('\n')),
            "{message:?} should contain {expected:?}"
        );
    }
}

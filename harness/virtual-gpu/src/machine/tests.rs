//! Machine files: every built-in one loads, wrong ones are answered with the line.

use super::{BUILT_IN, DEFAULT, Machine};

#[test]
fn every_built_in_machine_loads_under_its_own_name() {
    for (name, _) in BUILT_IN {
        let machine = Machine::load(name).map_err(|e| e.to_string());
        assert_eq!(machine.as_ref().map(|m| m.name.as_str()), Ok(*name));
    }
    assert!(BUILT_IN.iter().any(|(name, _)| *name == DEFAULT));
}

#[test]
fn wrong_files_are_answered_with_the_line() {
    let text = include_str!("../../../../profiles/machines/turing.toml");
    let cases = [
        (
            text.replace("sm_count = 40", "sm_cuont = 40"),
            "line 18: unknown field `sm_cuont`",
        ),
        (
            text.replace("sm_count = 40", "sm_count = 0"),
            "gpu.sm_count is 0",
        ),
        (
            text.replace("Virtual Turing", "Tesla T4"),
            "begins with Virtual",
        ),
        (
            text.replace("request = 0.004", "request = 3"),
            "noise.request is 3",
        ),
    ];
    for (text, expected) in cases {
        let message = Machine::parse("m.toml", &text).err().map(|e| e.to_string());
        assert!(
            message
                .as_ref()
                .is_some_and(|m| m.contains(expected) && !m.contains('\n')),
            "{message:?} should contain {expected:?}"
        );
    }
}

#[test]
fn an_unknown_machine_names_the_known_ones() {
    let message = Machine::load("toring").err().map(|e| e.to_string());
    assert!(message.is_some_and(|m| m.contains("known: hopper, turing")));
}

#[test]
fn what_a_machine_plants_is_told_line_by_line() -> Result<(), super::MachineError> {
    let mut machine = Machine::load("hopper")?;
    assert_eq!(machine.planted(), Vec::<String>::new());
    machine.defects.mig_dram_leak = 0.1;
    machine.defects.mps_contains_faults = true;
    machine.scheduler.isolated = true;
    let told = machine.planted();
    let want = [
        "scheduler.isolated = true",
        "defects.mig_dram_leak = 0.1",
        "defects.mps_contains_faults = true",
    ];
    assert_eq!(told, want);
    Ok(())
}

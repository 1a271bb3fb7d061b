//! Machine files: every built-in one loads, and errors name the line.

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
fn errors_of_a_file_name_the_line() {
    let text = gpubench_profiles::TURING;
    let cases = [
        (text.replace("sm_count = 40", "sm_cuont = 40"), "line 25: unknown field `sm_cuont`"),
        (text.replace("sm_count = 40", "sm_count = 0"), "gpu.sm_count is 0"),
        (text.replace("Virtual Turing", "Tesla T4"), "begins with Virtual"),
        (text.replace("request = 0.004", "request = 3"), "noise.request is 3"),
    ];
    for (text, expected) in cases {
        let message = Machine::parse("m.toml", &text).err().map(|e| e.to_string());
        assert!(
            message.as_ref().is_some_and(|m| m.contains(expected) && !m.contains('\n')),
            "{message:?} should contain {expected:?}"
        );
    }
}

#[test]
fn an_unknown_machine_lists_the_known_ones() {
    let message = Machine::load("toring").err().map(|e| e.to_string());
    assert!(message.is_some_and(|m| m.contains("known: hopper, turing")));
}

#[test]
fn planted_defects_are_listed_one_per_line() -> Result<(), super::MachineError> {
    let mut machine = Machine::load("hopper")?;
    assert_eq!(machine.planted(), Vec::<String>::new());
    machine.defects.mig_dram_leak = 0.1;
    machine.defects.mps_contains_faults = true;
    machine.defects.fault_escape = 0.25;
    machine.scheduler.isolated = true;
    let planted = machine.planted();
    let want = [
        "scheduler.isolated = true",
        "defects.mig_dram_leak = 0.1",
        "defects.fault_escape = 0.25",
        "defects.mps_contains_faults = true",
    ];
    assert_eq!(planted, want);
    Ok(())
}

#[test]
fn noise_is_listed_and_refused_out_of_range() -> Result<(), super::MachineError> {
    let mut machine = Machine::load("hopper")?;
    machine.noise = super::Noise {
        request: 0.01,
        epoch: 0.02,
        epoch_ms: 50,
        session: 0.0,
        call: 0.03,
        turn: 0.04,
        recovery: 0.05,
        warm_up: 0.06,
        warm_up_s: 60,
    };
    let want = [
        "noise.request = 0.01",
        "noise.epoch = 0.02 (every 50 ms)",
        "noise.call = 0.03",
        "noise.turn = 0.04",
        "noise.recovery = 0.05",
        "noise.warm_up = 0.06 (over 60 s)",
    ];
    assert_eq!(machine.noise_lines(), want);
    let text = gpubench_profiles::HOPPER;
    for (key, wrong) in [("call", "0.3"), ("turn", "-0.1"), ("recovery", "2.0")] {
        let text = text.replace(&format!("\n{key} = 0.0"), &format!("\n{key} = {wrong}"));
        let message = Machine::parse("m.toml", &text).err().map(|e| e.to_string());
        let expected = format!("noise.{key} is ");
        assert!(
            message.as_ref().is_some_and(|m| m.contains(&expected)),
            "{message:?} should contain {expected:?}"
        );
    }
    let text = format!("{text}\n[defects]\nfault_escape = 1.5\n");
    let message = Machine::parse("m.toml", &text).err().map(|e| e.to_string());
    assert!(message.is_some_and(|m| m.contains("defects.fault_escape is 1.5, accepted is 0 to 1")));
    Ok(())
}

/// The lines of a machine file that set a number, each with its key.
fn numbers(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once(" = ")?;
        value.parse::<f64>().ok().map(|_| (line, key))
    })
}

#[test]
fn every_number_has_a_range() {
    for (name, text) in BUILT_IN {
        let accepted = |text: &str| match Machine::parse("m.toml", text) {
            Ok(_) => true,
            Err(error) => {
                let line = error.to_string();
                assert!(line.len() < 400 && !line.contains('\n'), "{name}: {line}");
                false
            }
        };
        for (line, key) in numbers(text) {
            for value in ["9223372036854775807", "-1", "nan", "-inf", "1e300"] {
                let changed = text.replacen(line, &format!("{key} = {value}"), 1);
                assert!(!accepted(&changed), "{name}: {key} = {value}");
            }
        }
    }
}

#[test]
fn a_clock_that_stands_still_and_a_name_that_leads_elsewhere_are_refused() {
    let text = gpubench_profiles::HOPPER;
    for (from, to, expected) in [
        (
            "sm_clock_mhz = 1980",
            "sm_clock_mhz = 0",
            "gpu.sm_clock_mhz is 0, accepted is 1 to 100000",
        ),
        (
            "sm_count = 132",
            "sm_count = -1",
            "gpu.sm_count: invalid value: integer `-1`, accepted is a whole number from 0 to \
             4294967295",
        ),
        (
            "sm_clock_mhz = 1980",
            "sm_clock_mhz = 1.5",
            "gpu.sm_clock_mhz: invalid type: floating point `1.5`, accepted is a whole number",
        ),
        ("idle_w = 70.0", "idle_w = \"x\"", "power.idle_w: invalid type: string"),
        ("idle_w = 70.0", "idle_w = nan", "power.idle_w is NaN, accepted is 0 to 100000"),
        (
            "recovery_ms = 80",
            "recovery_ms = 3600001",
            "mps.recovery_ms is 3600001, accepted is 0 to 3600000",
        ),
        (
            "name = \"hopper\"",
            "name = \"../hopper\"",
            "name is ../hopper, accepted is 1 to 64 letters",
        ),
        ("name = \"1g.10gb\"", "name = \"1g/10gb\"", "mig.profile.name is 1g/10gb, accepted is"),
        (
            "starts = [0, 1, 2, 3, 4, 5, 6]",
            "starts = [4294967295]",
            "mig.profile.starts is 4294967295, accepted is 0 to 7",
        ),
        (
            "cuda = \"13.4\"",
            "cuda = \"2147483647.1\"",
            "gpu.cuda is 2147483647.1, accepted is two numbers",
        ),
    ] {
        let message = Machine::parse("m.toml", &text.replacen(from, to, 1));
        let message = message.err().map(|error| error.to_string());
        assert!(
            message.as_ref().is_some_and(|text| text.contains(expected)),
            "{message:?} should contain {expected:?}"
        );
    }
}

#[test]
fn a_message_holds_little_of_a_long_file() {
    let text = gpubench_profiles::HOPPER;
    let long = "many words, expected ".repeat(1000);
    for (from, to) in [
        ("sm_count = 132", format!("\"{long}\" = 1")),
        ("summary = \"", format!("summary = \"{long}")),
        ("sm_count = 132", format!("sm_count = \"{long}\"")),
    ] {
        let message = Machine::parse("m.toml", &text.replacen(from, &to, 1));
        let message = message.err().map(|error| error.to_string());
        let length = message.as_ref().map(String::len);
        // The list of the accepted keys is our own.
        assert!(length.is_some_and(|length| length < 900), "{message:?}");
    }
}

#[test]
fn a_guess_names_a_table_or_a_key_of_its_file() {
    for (name, text) in super::BUILT_IN {
        let keys: toml::Table = text.parse().expect("a machine");
        for guess in Machine::load(name).expect("built in").guesses {
            let (table, key) = guess.split_once('.').unwrap_or((&guess, ""));
            let table = keys.get(table).and_then(toml::Value::as_table);
            let known = table.is_some_and(|table| key.is_empty() || table.contains_key(key));
            assert!(known, "{name}: {guess}");
        }
    }
}

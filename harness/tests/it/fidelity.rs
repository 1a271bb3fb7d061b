//! `virtual-gpu fidelity`: a part of a record of hardware is repeated on a machine, and each row
//! has its verdict.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Error, Finished, Lab, TestResult, finish, machine_text, with_changes};

/// The record of an H100, cut to the cells of one mechanism and one pair.
fn cut(mechanism: &str, sub_axis: &str) -> Result<Value, Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../reports/examples/h100_580.159.04_matrix/record.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let kept = |one: &Value, key: &str| one[key] == mechanism || one[key] == "exclusive";
    let retain = |list: &mut Value, keep: &dyn Fn(&Value) -> bool| {
        if let Some(list) = list.as_array_mut() {
            list.retain(keep);
        }
    };
    let of_cell = |cell: &Value| kept(cell, "mechanism") && cell["sub_axis"] == sub_axis;
    retain(&mut record["mechanisms"], &|one| kept(one, "name"));
    retain(&mut record["cells"], &of_cell);
    let plan = &mut record["plan"];
    retain(&mut plan["mechanisms"], &|one| kept(one, "name"));
    retain(&mut plan["cells"], &of_cell);
    retain(&mut plan["pairs"], &|one| one["sub_axis"] == sub_axis);
    record["matrix"] = json!([]);
    Ok(record)
}

/// Runs the verb on this record.
fn fidelity(lab: &Lab, record: &Value, more: &[&str]) -> Result<Finished, Error> {
    std::fs::create_dir_all(lab.path("h100"))?;
    lab.write("h100/record.json", &record.to_string())?;
    let mut command = lab.gpubench(["virtual-gpu", "fidelity", "h100"]);
    command.args(more);
    finish(command)
}

/// The verdicts of the checks of one row, by figure.
fn verdicts(table: &Value, name: &str) -> Result<Value, Error> {
    let rows = table["records"][0]["rows"].as_array().ok_or("no rows")?;
    let row = rows.iter().find(|row| row["name"] == name).ok_or("no such row")?;
    let checks = row["checks"].as_array().ok_or("no checks")?;
    let pair = |check: &Value| {
        let figure = check["figure"].as_str().unwrap_or_default().to_owned();
        (figure, check["verdict"].clone())
    };
    Ok(checks.iter().map(pair).collect::<serde_json::Map<_, _>>().into())
}

#[test]
fn time_slicing_agrees_on_the_default_machine_and_planted_isolation_is_optimistic() -> TestResult {
    let lab = Lab::on("h100-80")?;
    let record = cut("time-slicing", "sm")?;
    let run = fidelity(&lab, &record, &["--format", "json"])?;
    let table: Value = serde_json::from_str(&run.stdout)?;
    assert_eq!(table["records"][0]["machine"], "h100-80", "{}", run.stderr);
    let within = verdicts(&table, "compute/sm")?;
    assert_eq!(within["retention"], "within", "{}", run.stdout);
    assert_eq!(within["level"], "within", "{}", run.stdout);

    let isolated = [("isolated = false", "isolated = true")];
    lab.write("isolated.toml", &with_changes(machine_text("h100-80")?, &isolated)?)?;
    let reasons = "[[difference]]\nrecord = \"h100\"\nreason = \"planted\"\nrows = \
                   [\"time-slicing[slice=default] compute/sm\"]\n";
    lab.write("known.toml", reasons)?;
    // Nothing lists that the jitter is better than on hardware.
    let more = ["--machine", "isolated.toml", "--reasons", "known.toml"];
    let run = fidelity(&lab, &record, &more)?.ended_with(30)?;
    assert!(run.stdout.contains("! time-slicing[slice=default] jitter"), "{}", run.stdout);
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    assert!(run.stdout.ends_with("the model is more optimistic than the hardware\n"));
    Ok(())
}

#[test]
fn what_cannot_be_compared_is_one_line_before_anything_runs() -> TestResult {
    let lab = Lab::on("h100-80")?;
    let real = cut("time-slicing", "sm")?;
    let with = |pointer: &str, value: Value| {
        let mut record = real.clone();
        if let Some(found) = record.pointer_mut(pointer) {
            *found = value;
        }
        record
    };
    lab.write("wrong.toml", "[[difference]]\nrecord = \"h100\"\nrow = \"mps\"\n")?;
    for (record, more, part) in [
        (with("/device/kind", json!("virtual")), &[][..], "it is of a virtual GPU"),
        (with("/device/name", json!("NVIDIA L4")), &[], "no machine file models NVIDIA L4"),
        (real.clone(), &["--machine", "l4"], "unknown virtual machine \"l4\""),
        (real.clone(), &["--reasons", "none.toml"], "none.toml"),
        (real.clone(), &["--reasons", "wrong.toml"], "wrong.toml: line 3: unknown field `row`"),
        (real.clone(), &["--blocks", "2"], "a whole number from 3 to 1000"),
    ] {
        let refused = fidelity(&lab, &record, more)?.ended_with(2)?;
        assert_eq!(refused.stdout, "", "{part}");
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    Ok(())
}

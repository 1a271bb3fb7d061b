//! Records that nothing but a person can have written: each is named by what reads it, and passed
//! on by nothing.

use std::path::Path;

use serde_json::Value;

use crate::support::{Error, Finished, Lab, TestResult, finish};

fn run(lab: &Lab, args: &[&str]) -> Result<Finished, Error> {
    finish(lab.gpubench(args))
}

fn example(name: &str) -> Result<Value, Error> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples").join(name);
    Ok(serde_json::from_slice(&std::fs::read(dir.join("record.json"))?)?)
}

fn write(lab: &Lab, name: &str, record: &Value) -> TestResult {
    std::fs::create_dir_all(lab.path(name))?;
    std::fs::write(lab.path(name).join("record.json"), serde_json::to_vec(record)?)?;
    Ok(())
}

fn list<'a>(record: &'a mut Value, pointer: &str) -> Result<&'a mut Vec<Value>, Error> {
    let list = record.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.ok_or_else(|| format!("no list {pointer}").into())
}

/// Changes of a record, and what is said of each.
type Forgery = (&'static str, fn(&mut Value) -> TestResult, &'static str);

const FORGERIES: [Forgery; 4] = [
    (
        "role",
        |record| {
            record["cells"][40]["victim"] = "gemm".into();
            Ok(())
        },
        "is not the cell of that name in the plan",
    ),
    (
        "twice",
        |record| {
            let one = record["plan"]["cells"][7].clone();
            list(record, "/plan/cells")?.push(one);
            Ok(())
        },
        "is planned twice",
    ),
    (
        "gone",
        |record| {
            list(record, "/cells")?.truncate(600);
            Ok(())
        },
        "it is complete, and 104 planned cells have no result",
    ),
    (
        "below-zero",
        |record| {
            record["cells"][40]["rates"]["closed_rate_per_s"] = (-1.0).into();
            Ok(())
        },
        "closed_rate_per_s is -1 (possible: at least 0)",
    ),
];

#[test]
fn what_no_run_writes_is_named_and_goes_into_no_dataset_and_no_copy() -> TestResult {
    let lab = Lab::on("turing")?;
    write(&lab, "whole", &example("h100_580.159.04_matrix")?)?;
    run(&lab, &["report", "whole"])?.ended_with(0)?;
    for (name, forge, said) in FORGERIES {
        let mut record = example("h100_580.159.04_matrix")?;
        forge(&mut record)?;
        write(&lab, name, &record)?;
        let report = run(&lab, &["report", name])?.ended_with(4)?;
        assert!(report.stderr.contains(said), "{name}: {}", report.stderr);
        let pooled = run(&lab, &["report", name, "whole"])?.ended_with(4)?;
        assert!(pooled.stderr.contains(said), "{name}: {}", pooled.stderr);
        let copied = run(&lab, &["report", name, "--anonymize", "copy"])?.ended_with(2)?;
        assert!(copied.stderr.contains("a copy would have checksums of its own"), "{name}");
        assert!(!lab.path("copy").exists(), "{name}");
        let kept = run(&lab, &["export", "--dataset", "dataset", name])?;
        assert!(kept.stderr.contains("it is damaged: "), "{name}: {}", kept.stderr);
        assert!(!kept.stdout.contains("1 record with"), "{name}: {}", kept.stdout);
    }
    run(&lab, &["export", "--dataset", "dataset", "whole"])?.ended_with(0)?;
    Ok(())
}

#[test]
fn a_run_of_the_virtual_gpu_cannot_take_the_name_of_another() -> TestResult {
    let lab = Lab::on("turing")?;
    let more = ["--mechanism=exclusive,time-slicing", "--axis=compute/sm"];
    finish(lab.matrix("run", &more))?.ended_with(0)?;
    let path = lab.path("run/record.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    let real = example("h100_580.159.04_matrix")?;
    record["device"] = real["device"].clone();
    record["provenance"] = real["provenance"].clone();
    record["calibration"]["binding"] = real["calibration"]["binding"].clone();
    // Gates of virtual time, and the first event, each say it alone.
    write(&lab, "by-gates", &record)?;
    for cell in list(&mut record, "/cells")? {
        for gate in list(cell, "/gates")? {
            gate["detail"] = "ok".into();
        }
    }
    write(&lab, "by-event", &record)?;
    std::fs::copy(lab.path("run/events.jsonl"), lab.path("by-event/events.jsonl"))?;
    for name in ["by-gates", "by-event"] {
        let report = run(&lab, &["report", name])?.ended_with(4)?;
        assert!(report.stderr.contains("it is of the virtual GPU: "), "{name}: {}", report.stderr);
        assert!(report.stdout.starts_with("VIRTUAL GPU"), "{name}: {}", report.stdout);
    }
    Ok(())
}

#[test]
fn changed_bounds_of_levels_recommend_nothing() -> TestResult {
    let lab = Lab::on("turing")?;
    let mut record = example("h100_580.159.04_matrix")?;
    record["plan"]["thresholds"]["retention_l3"] = 0.25.into();
    record["plan"]["thresholds"]["retention_l2"] = 0.2.into();
    write(&lab, "easy", &record)?;
    for verb in [&["choose", "easy", "--need", "dram>=L3"][..], &["claims", "easy"]] {
        let done = run(&lab, verb)?;
        let said = "scored by the built-in thresholds: its profile sets retention_l3";
        assert!(done.stderr.contains(said), "{verb:?}: {}", done.stderr);
        assert!(!done.stdout.contains("mps-quota 50% meets"), "{verb:?}: {}", done.stdout);
    }
    Ok(())
}

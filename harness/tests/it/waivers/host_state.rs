//! Mechanisms that the state of the host waives: its modes, its processes, a full server.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use gpubench_record::OutcomeKind;
use serde_json::Value;

use super::{Waived, holds, read_skips};
use crate::support::mechanism::{done, outcome, row};
use crate::support::{Error, Lab, TestResult, program, text};

/// The output of a shell script on a virtual GPU; `plan` in it is `gpubench plan`.
fn shell(place: &Lab, machine: &str, script: &str) -> Result<String, Error> {
    let program = program().display();
    let mut command = place.gpubench(&["virtual-gpu", "exec", "--machine", machine]);
    let plan = format!(
        "plan() {{ {program} plan --profile {} --format json \"$@\"; }}\n",
        place.path("short.toml").display()
    );
    let output = command
        .args(["--", "sh", "-c", &(plan + script)])
        .output()?;
    done(&output)?;
    Ok(text(&output.stdout))
}

#[test]
fn the_remedy_for_a_compute_mode_helps() -> TestResult {
    let place = Lab::on("hopper")?;
    let script = r#"
        nvidia-smi -c EXCLUSIVE_PROCESS > /dev/null
        plan > "$OUT/exclusive.json"
        nvidia-smi -c PROHIBITED > /dev/null
        plan > /dev/null 2> "$OUT/prohibited"
        echo "prohibited $?"
        nvidia-smi -c DEFAULT > /dev/null
        plan > "$OUT/default.json"
    "#;
    let script = script.replace("$OUT", &place.path("").display().to_string());
    let said = shell(&place, "hopper", &script)?;
    assert!(said.contains("prohibited 3"), "{said}");
    let read = |name: &str| std::fs::read(place.path(name));
    let keeps = "EXCLUSIVE_PROCESS keeps a second process out";
    let remedy = "nvidia-smi -c DEFAULT";
    let found = read_skips(&read("exclusive.json")?)?;
    holds(
        &found,
        &[("time-slicing", keeps, remedy), ("hami", keeps, remedy)],
    );
    for able in ["mps", "exclusive-process", "green-context"] {
        assert!(
            found.iter().all(|(name, _, _)| name != able),
            "{able}: {found:?}"
        );
    }
    let prohibited = text(&read("prohibited")?);
    assert!(
        prohibited.contains("PROHIBITED keeps every process out"),
        "{prohibited}"
    );
    let found = read_skips(&read("default.json")?)?;
    assert!(
        found.iter().all(|(name, _, _)| name != "time-slicing"),
        "{found:?}"
    );
    Ok(())
}

#[test]
fn a_pending_mig_mode_names_the_reset_that_it_needs() -> TestResult {
    let place = Lab::on("a100-80")?;
    let script = r#"
        plan --allow-reconfigure --mechanism mig,exclusive --rehearse > "$OUT/refused.json"
        plan --allow-reconfigure > "$OUT/before.json"
        nvidia-smi -mig 1 > /dev/null
        plan --allow-reconfigure > "$OUT/pending.json"
        nvidia-smi --gpu-reset > /dev/null
        plan --allow-reconfigure > "$OUT/on.json"
    "#;
    let script = script.replace("$OUT", &place.path("").display().to_string());
    shell(&place, "a100-80", &script)?;
    let refused: Value = serde_json::from_slice(&std::fs::read(place.path("refused.json"))?)?;
    let mig = refused.as_array().and_then(|rows| {
        let mut rows = rows.iter();
        rows.find(|row| {
            row["variant"]
                .as_str()
                .is_some_and(|v| v.starts_with("mig"))
        })
    });
    let mig = mig.ok_or("mig was not rehearsed")?;
    assert_eq!(mig["outcome"], "waived", "{mig}");
    assert!(mig["remedy"].to_string().contains("--gpu-reset"), "{mig}");
    let of = |name: &str| read_skips(&std::fs::read(place.path(name))?);
    let lacks_mig = |found: &Waived| found.iter().any(|(name, _, _)| name == "mig");
    assert!(
        !lacks_mig(&of("before.json")?),
        "a refused change is undone"
    );
    let pending = "on is pending: the GPU must be reset";
    holds(
        &of("pending.json")?,
        &[("mig", pending, "nvidia-smi --gpu-reset")],
    );
    let found = of("on.json")?;
    assert!(!lacks_mig(&found), "{found:?}");
    let cut = "MIG mode is on";
    holds(
        &found,
        &[
            ("mps", cut, "nvidia-smi -mig 0"),
            ("hami", cut, "nvidia-smi -mig 0"),
        ],
    );
    Ok(())
}

#[test]
fn a_process_on_the_device_waives_mechanisms_that_need_it_alone() -> TestResult {
    let place = Lab::on("hopper")?;
    let client = std::env::current_exe()?;
    let client = client.parent().and_then(Path::parent).ok_or("no target")?;
    let client = client.join("examples/driver_client");
    assert!(
        client.is_file(),
        "the examples of this package are not built"
    );
    let client = client.display().to_string();
    let mut command = place.gpubench(&["virtual-gpu", "exec", "--machine", "hopper", "--"]);
    let script = format!(
        "{client} hold < \"$0/held\" > \"$0/said\" & \
         for i in $(seq 500); do grep -q holding \"$0/said\" && break; sleep 0.02; done; \
         {} plan --profile \"$0/short.toml\" --allow-reconfigure --format json; \
         read go",
        program().display()
    );
    let made = Command::new("mkfifo").arg(place.path("held")).status()?;
    assert!(made.success());
    std::fs::write(place.path("said"), "")?;
    let mut run = command
        .args(["sh", "-c", &script])
        .arg(place.path(""))
        .stdin(Stdio::piped())
        .spawn()?;
    let held = std::fs::OpenOptions::new()
        .write(true)
        .open(place.path("held"))?;
    let mut lines = BufReader::new(run.stdout.take().ok_or("no output")?);
    let (mut json, mut line) = (String::new(), String::new());
    while lines.read_line(&mut line)? > 0 {
        json.push_str(&line);
        if line == "}\n" {
            break;
        }
        line.clear();
    }
    drop((held, run.stdin.take()));
    run.wait()?;
    let way = "end them, or choose another --device";
    holds(
        &read_skips(json.as_bytes())?,
        &[
            ("exclusive-process", "no single process can have it", way),
            ("mig", "MIG mode cannot be switched", way),
            ("mig-mps", "MIG mode cannot be switched", way),
        ],
    );
    Ok(())
}

/// Every mechanism whose tenants are clients of a server.
const SERVED: [&str; 5] = ["mps", "mps-quota", "mps-static", "mps-memory", "mig-mps"];

#[test]
fn a_full_mps_server_waives_its_mechanisms_and_fails_no_cell() -> TestResult {
    let place = Lab::changed("hopper", &[("clients = 60", "clients = 1")], "")?;
    let names = SERVED.join(",") + ",time-slicing";
    let output = place.reconfigure(&names, "out").output()?;
    // The named mechanisms are waived; the other one is measured.
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("requested by --mechanism and waived: mps: "),
        "{said}"
    );
    let record = place.record("out")?;
    for name in SERVED {
        let (kind, reason, scored) = outcome(&record, name)?;
        assert_eq!(
            (kind, scored),
            (OutcomeKind::Waived, false),
            "{name}: {reason}"
        );
        assert!(
            reason.contains("takes no more clients (808"),
            "{name}: {reason}"
        );
        let remedy = row(&record, name)?.remedy.as_deref();
        assert_eq!(remedy, Some("fewer tenants"), "{name}");
    }
    let (kind, _, scored) = outcome(&record, "time-slicing")?;
    assert_eq!((kind, scored), (OutcomeKind::Measured, true));
    let failed = |cell: &gpubench_record::CellResult| cell.outcome.outcome == OutcomeKind::Failed;
    assert!(!record.cells.iter().any(failed), "a cell failed");
    Ok(())
}

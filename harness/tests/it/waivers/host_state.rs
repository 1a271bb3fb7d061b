//! Mechanisms that are waived because of the state of the host: device modes, processes, a full MPS
//! server.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use gpubench_record::OutcomeKind;
use serde_json::Value;

use super::{Waived, check_waived, read_skips};
use crate::support::mechanism::{done, outcome, row};
use crate::support::{Error, Lab, TestResult, driver_client, finish, program, text};

/// The output of a shell script on a virtual GPU; `plan` in it is `gpubench plan`.
fn shell(lab: &Lab, machine: &str, script: &str) -> Result<String, Error> {
    let program = program().display();
    let mut command = lab.gpubench(["virtual-gpu", "exec", "--machine", machine]);
    let plan = format!(
        "plan() {{ {program} plan --profile {} --format json \"$@\"; }}\n",
        lab.path("short.toml").display()
    );
    let output = command.args(["--", "sh", "-c", &(plan + script)]).output()?;
    done(&output)?;
    Ok(text(&output.stdout))
}

#[test]
fn the_remedy_for_a_compute_mode_works() -> TestResult {
    let lab = Lab::on("hopper")?;
    let script = r#"
        nvidia-smi -c EXCLUSIVE_PROCESS > /dev/null
        plan > "$OUT/exclusive.json"
        nvidia-smi -c PROHIBITED > /dev/null
        plan --no-reconfigure > /dev/null 2> "$OUT/prohibited"
        echo "prohibited $?"
        nvidia-smi -c DEFAULT > /dev/null
        plan > "$OUT/default.json"
    "#;
    let script = script.replace("$OUT", &lab.path("").display().to_string());
    let printed = shell(&lab, "hopper", &script)?;
    assert!(printed.contains("prohibited 3"), "{printed}");
    let read = |name: &str| std::fs::read(lab.path(name));
    let keeps = "EXCLUSIVE_PROCESS keeps a second process out";
    let remedy = "nvidia-smi -c DEFAULT";
    let found = read_skips(&read("exclusive.json")?)?;
    check_waived(&found, &[("time-slicing", keeps, remedy), ("hami", keeps, remedy)]);
    for available in ["mps", "exclusive-process", "green-context"] {
        assert!(found.iter().all(|(name, _, _)| name != available), "{available}: {found:?}");
    }
    let prohibited = text(&read("prohibited")?);
    assert!(prohibited.contains("PROHIBITED keeps every process out"), "{prohibited}");
    let found = read_skips(&read("default.json")?)?;
    assert!(found.iter().all(|(name, _, _)| name != "time-slicing"), "{found:?}");
    Ok(())
}

#[test]
fn a_pending_mig_mode_names_the_reset_that_it_needs() -> TestResult {
    let lab = Lab::on("a100-80")?;
    let script = r#"
        plan --allow-reconfigure --mechanism mig,exclusive --rehearse > "$OUT/refused.json"
        plan --allow-reconfigure > "$OUT/before.json"
        nvidia-smi -mig 1 > /dev/null
        plan --allow-reconfigure > "$OUT/pending.json"
        nvidia-smi --gpu-reset > /dev/null
        plan --allow-reconfigure > "$OUT/on.json"
    "#;
    let script = script.replace("$OUT", &lab.path("").display().to_string());
    shell(&lab, "a100-80", &script)?;
    let refused: Value = serde_json::from_slice(&std::fs::read(lab.path("refused.json"))?)?;
    let mig = refused.as_array().and_then(|rows| {
        let mut rows = rows.iter();
        rows.find(|row| row["variant"].as_str().is_some_and(|v| v.starts_with("mig")))
    });
    let mig = mig.ok_or("mig was not rehearsed")?;
    assert_eq!(mig["outcome"], "waived", "{mig}");
    assert!(mig["remedy"].to_string().contains("--gpu-reset"), "{mig}");
    let skips = |name: &str| read_skips(&std::fs::read(lab.path(name))?);
    let lacks_mig = |found: &Waived| found.iter().any(|(name, _, _)| name == "mig");
    assert!(!lacks_mig(&skips("before.json")?), "a refused change is not undone");
    let pending = "on is pending: the GPU must be reset";
    check_waived(&skips("pending.json")?, &[("mig", pending, "nvidia-smi --gpu-reset")]);
    let found = skips("on.json")?;
    assert!(!lacks_mig(&found), "{found:?}");
    let mig_on = "MIG mode is on";
    check_waived(
        &found,
        &[("mps", mig_on, "nvidia-smi -mig 0"), ("hami", mig_on, "nvidia-smi -mig 0")],
    );
    Ok(())
}

#[test]
fn a_process_on_the_device_waives_mechanisms_that_need_an_idle_device() -> TestResult {
    let lab = Lab::on("hopper")?;
    let client = driver_client()?.display().to_string();
    let mut command = lab.gpubench(["virtual-gpu", "exec", "--machine", "hopper", "--"]);
    let script = format!(
        "{client} hold < \"$0/held\" > \"$0/client\" & \
         for i in $(seq 500); do grep -q holding \"$0/client\" && break; sleep 0.02; done; \
         {} plan --profile \"$0/short.toml\" --allow-reconfigure --format json; \
         read go",
        program().display()
    );
    let made = Command::new("mkfifo").arg(lab.path("held")).status()?;
    assert!(made.success());
    lab.write("client", "")?;
    let mut run =
        command.args(["sh", "-c", &script]).arg(lab.path("")).stdin(Stdio::piped()).spawn()?;
    let held = std::fs::OpenOptions::new().write(true).open(lab.path("held"))?;
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
    let remedy = "end them, or choose another --device";
    check_waived(
        &read_skips(json.as_bytes())?,
        &[
            ("exclusive-process", "no single process can have it", remedy),
            ("mig", "MIG mode cannot be switched", remedy),
            ("mig-mps", "MIG mode cannot be switched", remedy),
        ],
    );
    Ok(())
}

/// Every mechanism with an MPS server.
const SERVED: [&str; 5] = ["mps", "mps-quota", "mps-static", "mps-memory", "mig-mps"];

#[test]
fn a_full_mps_server_waives_its_mechanisms_and_fails_no_cell() -> TestResult {
    let lab = Lab::changed("hopper", &[("clients = 60", "clients = 1")], "")?;
    let names = SERVED.join(",") + ",time-slicing";
    // The mechanisms with a server are waived (3); the other one is measured.
    let stderr = finish(lab.reconfigure(&names, "out"))?.ended_with(3)?.stderr;
    let waived = "requested by --mechanism and waived: mps: ";
    assert!(stderr.contains(waived), "{stderr}");
    let record = lab.record("out")?;
    for name in SERVED {
        let (kind, reason, scored) = outcome(&record, name)?;
        assert_eq!((kind, scored), (OutcomeKind::Waived, false), "{name}: {reason}");
        assert!(reason.contains("takes no more clients (808"), "{name}: {reason}");
        let remedy = row(&record, name)?.remedy.as_deref();
        assert_eq!(remedy, Some("fewer tenants"), "{name}");
    }
    let (kind, _, scored) = outcome(&record, "time-slicing")?;
    assert_eq!((kind, scored), (OutcomeKind::Measured, true));
    let failed = |cell: &gpubench_record::CellResult| cell.outcome.outcome == OutcomeKind::Failed;
    assert!(!record.cells.iter().any(failed), "a cell failed");
    Ok(())
}

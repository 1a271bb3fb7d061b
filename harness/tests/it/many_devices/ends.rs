//! How runs of several devices end: by signals, and when a process of them dies.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::*;

fn start(lab: &Lab, more: &[&str]) -> Result<Child, Error> {
    let mut command =
        lab.gpubench(["matrix", "--device", TWO, "--profile=short.toml", "--out=all"]);
    Ok(command.args(LONG).args(more).spawn()?)
}

fn has_begun(events: &Path) -> bool {
    let text = std::fs::read_to_string(events).unwrap_or_default();
    text.contains("fault-trial-ended")
}

fn send(signal: &str, pid: u32) -> TestResult {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status()?;
    assert!(sent.success());
    Ok(())
}

/// Waits until no process of the lab is left.
fn nothing_is_left(lab: &Lab, within: Duration) {
    let begin = Instant::now();
    let state = lab.arg("state");
    while !processes_with(&state).is_empty() && begin.elapsed() < within {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(processes_with(&state), Vec::<String>::new());
}

#[test]
fn a_signal_reaches_every_run_and_each_keeps_its_record() -> TestResult {
    for (signal, more, begun) in [
        ("-INT", &["--parallel"][..], &["virtual-turing", "virtual-hopper"][..]),
        ("-TERM", &[], &["virtual-turing"]),
    ] {
        let lab = Lab::on("turing")?;
        let mut run = start(&lab, more)?;
        for name in begun {
            let events = lab.path("all").join(name).join("events.jsonl");
            wait_during(&mut run, "fault trials", || has_begun(&events))?;
        }
        send(signal, run.id())?;
        wait_for("the end", || run.try_wait().is_ok_and(|status| status.is_some()))?;
        let run = Finished::from(run.wait_with_output()?).ended_with(130)?;
        nothing_is_left(&lab, Duration::from_secs(3));
        for name in begun {
            let record = lab.record(&format!("all/{name}"))?;
            assert!(!record.complete && !record.fault_trials.is_empty(), "{name}");
        }
        let is_beside = begun.len() == 2;
        assert_eq!(
            has_line(&run, &["virtual:hopper", "not started"]),
            !is_beside,
            "{}",
            run.stdout
        );
        assert!(has_line(&run, &["interrupted (130)", "virtual-turing"]), "{}", run.stdout);
        assert!(run.stderr.contains("interrupted; all that was measured is in all"));
    }
    Ok(())
}

#[test]
fn a_killed_parent_ends_its_runs_and_a_killed_run_leaves_the_other() -> TestResult {
    let lab = Lab::on("turing")?;
    let mut run = start(&lab, &["--parallel"])?;
    let events = |name: &str| lab.path("all").join(name).join("events.jsonl");
    for name in ["virtual-turing", "virtual-hopper"] {
        wait_during(&mut run, "fault trials", || has_begun(&events(name)))?;
    }
    send("-KILL", run.id())?;
    run.wait()?;
    // Each ends as by a signal of the user, so that its record is scored.
    nothing_is_left(&lab, LIVENESS);
    for name in ["virtual-turing", "virtual-hopper"] {
        assert!(!lab.record(&format!("all/{name}"))?.complete, "{name}");
    }

    let lab = Lab::on("turing")?;
    let mut command = matrix(&lab, TWO, &["--parallel"]);
    let mut run = command.spawn()?;
    let folder = lab.path("all/virtual-hopper");
    wait_during(&mut run, "a run", || folder.join("events.jsonl").exists())?;
    let wanted = lab.arg("state");
    let pid = coordinator(&wanted, "virtual:hopper").ok_or("no process of virtual:hopper")?;
    send("-KILL", pid)?;
    let run = Finished::from(run.wait_with_output()?).ended_with(1)?;
    assert!(has_line(&run, &["killed by signal 9", "virtual-hopper"]), "{}", run.stdout);
    assert!(is_complete(&lab.record("all/virtual-turing")?));
    nothing_is_left(&lab, Duration::from_secs(3));
    Ok(())
}

/// The process of one device of a lab.
fn coordinator(state: &str, device: &str) -> Option<u32> {
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let read =
            |file: &str| text(&std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default());
        let words = read("cmdline");
        let is_it = words.split('\0').any(|word| word == device);
        is_it && words.contains("matrix") && read("environ").contains(state)
    })
}

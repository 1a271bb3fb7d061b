//! `matrix` on several devices: a process, a lock and a record for each; one that fails, is killed
//! or interrupted takes no other one with it.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use gpubench_record::RunRecord;
use gpubench_workloads::clock::thread::Cores;

use crate::support::{
    Error, Finished, LIVENESS, Lab, TestResult, finish, processes_with, text, wait_during, wait_for,
};

/// Two machines of one generation, so that the runs are equally short.
const TWO: &str = "virtual:turing,virtual:hopper";

fn matrix(lab: &Lab, devices: &str, more: &[&str]) -> Command {
    let mut command = lab.gpubench(["matrix", "--device", devices, "--profile", "short.toml"]);
    command.args(["--mechanism=exclusive,time-slicing", "--no-faults", "--out=all"]).args(more);
    command
}

/// The lines of the table at the end: name and status of each device.
fn has_line(finished: &Finished, words: &[&str]) -> bool {
    let has_all = |line: &str| words.iter().all(|word| line.contains(word));
    finished.stdout.lines().any(has_all)
}

fn is_complete(run: &RunRecord) -> bool {
    run.complete && run.matrix.iter().any(|row| row.retention.is_some())
}

#[test]
fn devices_in_turn_have_records_of_their_own_that_other_verbs_read() -> TestResult {
    let lab = Lab::on("turing")?;
    let run = finish(matrix(&lab, TWO, &["--seed=7"]))?.ended_with(0)?;
    for (at, name) in [("[1 of 2]", "virtual-turing"), ("[2 of 2]", "virtual-hopper")] {
        let record = lab.record(&format!("all/{name}"))?;
        assert!(is_complete(&record), "{name}");
        assert_eq!(record.seed, 7);
        assert_eq!(record.provenance.host.get("other_gpus"), None);
        assert!(has_line(&run, &[at, name]), "{}", run.stdout);
        assert!(has_line(&run, &["done", "L", name]), "{}", run.stdout);
    }
    assert!(run.stdout.contains("2 of 2 GPUs done; records in all\n"));
    let table = run.stdout.lines().rev().take(3);
    assert!(table.into_iter().all(|line| line.chars().count() <= 80));
    // The record of one GPU can be had again alone.
    let alone = finish(
        lab.matrix("alone", &["--mechanism=exclusive,time-slicing", "--no-faults", "--seed=7"]),
    )?;
    alone.ended_with(0)?;
    let (alone, listed) = (lab.record("alone")?, lab.record("all/virtual-turing")?);
    assert_eq!(alone.matrix, listed.matrix);
    // A folder of records is what these verbs read.
    let nights = finish(lab.gpubench(["history", "all"]))?.ended_with(0)?;
    let uuids = ["virtual-turing", "virtual-hopper"].map(|name| lab.record(&format!("all/{name}")));
    for record in uuids {
        assert!(nights.stdout.contains(&record?.device.uuid[..12]), "{}", nights.stdout);
    }
    // Two devices are no fleet.
    let few = finish(lab.gpubench(["outliers", "all"]))?.ended_with(10)?;
    assert!(few.stdout.contains("VIRTUAL GPU"), "{}", few.stdout);
    let again = finish(matrix(&lab, TWO, &[]))?.ended_with(2)?;
    let is_refused = again.stderr.contains("already holds a record");
    // No heading: the list is refused as a whole, before anything runs.
    assert!(is_refused && again.stdout.is_empty(), "{}", again.text());
    Ok(())
}

#[test]
fn devices_side_by_side_divide_the_cores_and_name_each_other() -> TestResult {
    let lab = Lab::on("turing")?;
    let own = Cores::of_this_thread()?.list();
    let run = finish(matrix(&lab, TWO, &["--parallel"]))?;
    if own.len() < 2 {
        let run = run.ended_with(2)?;
        assert!(run.stderr.contains("fewer cores than GPUs"), "{}", run.stderr);
        return Ok(());
    }
    let run = run.ended_with(0)?;
    let mut divided = Vec::new();
    for (name, other) in
        [("virtual-turing", "virtual:hopper"), ("virtual-hopper", "virtual:turing")]
    {
        let record = lab.record(&format!("all/{name}"))?;
        assert!(is_complete(&record), "{name}");
        let host = &record.provenance.host;
        assert_eq!(host.get("other_gpus").map(String::as_str), Some(other));
        let prefix = format!("[{name}] ");
        let has_prefix = |line: &str| line.starts_with(&prefix);
        assert!(run.stderr.lines().any(has_prefix), "{}", run.stderr);
        let (_, cores) = run.stderr.split_once(&format!("{name}: cores ")).ok_or("no cores")?;
        let cores = cores.split([';', '\n']).next().unwrap_or_default();
        for core in cores.split(',') {
            divided.push(core.parse::<u32>()?);
        }
        // A quota of CPU time can leave fewer.
        let used = host.get("cores").ok_or("no cores")?.parse::<usize>()?;
        assert!(used < own.len(), "{used} of {}", own.len());
    }
    divided.sort_unstable();
    assert_eq!(divided, own, "{}", run.stderr);
    let report = lab.gpubench(["report", "all/virtual-turing", "--full"]);
    let report = finish(report)?.ended_with(0)?.stdout;
    assert!(report.contains("virtual:hopper, measured at the same time"), "{report}");
    // The same work with and without another GPU beside it does not compare silently.
    let alone =
        finish(lab.matrix("alone", &["--mechanism=exclusive,time-slicing", "--no-faults"]))?;
    alone.ended_with(0)?;
    let diff = lab.gpubench(["diff", "--format=json", "alone", "--", "all/virtual-turing"]);
    let diff: serde_json::Value = serde_json::from_str(&finish(diff)?.stdout)?;
    let differs = diff["differences"].as_array().ok_or("no differences")?;
    let beside = differs.iter().find(|one| one["fact"] == "other-gpus");
    let beside = beside.ok_or_else(|| diff.to_string())?;
    assert_eq!((&beside["before"][0], &beside["after"][0]), (&"none".into(), &"1".into()));
    Ok(())
}

#[test]
fn a_device_that_fails_takes_no_other_one_with_it() -> TestResult {
    let lab = Lab::on("turing")?;
    lab.write("bad.toml", "version = 1\nname = 7\n")?;
    for (folder, more) in [("in-turn", &[][..]), ("beside", &["--parallel"])] {
        let devices = "virtual:bad.toml,virtual:turing";
        let mut command = matrix(&lab, devices, &[]);
        command.current_dir({
            let inside = lab.path(folder);
            std::fs::create_dir(&inside)?;
            for file in ["short.toml", "bad.toml"] {
                std::fs::copy(lab.path(file), inside.join(file))?;
            }
            inside
        });
        command.args(more);
        let run = finish(command)?.ended_with(2)?;
        assert!(is_complete(&lab.record(&format!("{folder}/all/virtual-turing"))?));
        assert!(has_line(&run, &["virtual:bad.toml", "refused (2)"]), "{}", run.stdout);
        assert!(run.stderr.contains("machine file bad.toml"), "{}", run.stderr);
    }
    Ok(())
}

/// Fault trials that take longer than a test waits.
const LONG: [&str; 3] = ["--mechanism=time-slicing", "--faults", "--fault-trials=500"];

#[test]
fn a_list_that_cannot_be_measured_is_refused_in_one_line() -> TestResult {
    let lab = Lab::on("turing")?;
    let refused = |args: &[&str], code: i32, problem: &str| -> TestResult {
        let run = finish(lab.gpubench(args))?.ended_with(code)?;
        let line = run.stderr.lines().next().unwrap_or_default();
        assert!(line.contains(problem), "{args:?}: {}", run.stderr);
        assert!(!lab.path("gpubench-out").exists() && run.stdout.is_empty());
        Ok(())
    };
    for (devices, problem) in [
        ("virtual,virtual:h100-80", "names virtual:h100-80 twice"),
        ("virtual,0", "virtual:h100-80 and 0 are no list"),
        ("virtual,MIG-7d1e9a58-5d5c-5b3a", "cannot have the MIG instance MIG-7d1e9a58"),
        ("all,0", "all includes every GPU"),
        ("virtual,", "\"\" is not a device"),
    ] {
        refused(&["matrix", "--device", devices], 2, problem)?;
    }
    refused(&["matrix", "--device=virtual", "--parallel"], 2, "needs several GPUs")?;
    for verb in ["plan", "doctor", "cleanup"] {
        refused(&[verb, "--device=all"], 2, "names several devices")?;
    }
    // A virtual GPU in the environment is the one GPU of its host.
    let inside = |devices| {
        [
            "virtual-gpu",
            "exec",
            "--",
            crate::support::program().to_str().unwrap_or_default(),
            "matrix",
            "--device",
            devices,
        ]
        .map(str::to_owned)
    };
    for (devices, problem) in [("0,1", "no GPU \"1\" (found: 0 GPU-"), ("0,0", "twice")] {
        let args = inside(devices);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        refused(&args, 2, problem)?;
    }
    let mut none = lab.gpubench(["matrix", "--device=all"]);
    none.env("CUDA_VISIBLE_DEVICES", "");
    let none = finish(none)?.ended_with(3)?;
    assert!(none.stderr.contains("leaves none"), "{}", none.stderr);
    Ok(())
}

// How runs of several devices end: by signals, and when a process of them dies.

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

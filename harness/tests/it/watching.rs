//! `watch` on the virtual GPU: neighbours that come and go, a quiet hour, a program of the user.

use serde_json::Value;

use crate::support::{Error, Lab, TestResult, finish, wait_during};

/// The lines of the event log, those of one kind.
fn lines(lab: &Lab, event: &str) -> Result<Vec<Value>, Error> {
    let text = std::fs::read_to_string(lab.path("events.jsonl"))?;
    let all: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    Ok(all.into_iter().filter(|line| line["event"] == event).collect())
}

fn number(of: &Value) -> Result<f64, Error> {
    of.as_f64().ok_or_else(|| format!("{of} is no number").into())
}

#[test]
fn each_neighbour_is_named_with_when_it_came_and_went() -> TestResult {
    const WINDOW_S: f64 = 5.0;
    let lab = Lab::on("h100-80")?;
    let neighbours = ["compute", "dram", "l2", "pcie", "launch", "turns"];
    let from_s = |at: usize| 62.0 + 60.0 * at as f64;
    // Simulating a flood of launches takes long.
    let length_s = |name: &str| if name == "launch" { 9.0 } else { 33.0 };
    let mut command = lab.gpubench(["watch", "--device", "virtual", "--for", "6min"]);
    command.args(["--learn", "1min", "--duty", "0.5", "--window", "5s"]);
    command.args(["--events", "events.jsonl", "--metrics", "watch.prom"]);
    for (at, name) in neighbours.into_iter().enumerate() {
        // One thread does not fill the launch path.
        for _ in 0..if name == "launch" { 3 } else { 1 } {
            command.arg("--plant").arg(format!("{name}@{}s+{}s", from_s(at), length_s(name)));
        }
    }
    let done = finish(command)?.ended_with(0)?;
    let over = lines(&lab, "over")?;
    let named: Vec<&str> = over.iter().filter_map(|line| line["resource"].as_str()).collect();
    assert_eq!(named, neighbours, "{}", done.text());
    for (at, line) in over.iter().enumerate() {
        let (from, to) = (number(&line["from_s"])?, number(&line["to_s"])?);
        assert!((from - from_s(at)).abs() <= WINDOW_S, "{line}");
        let gone_s = from_s(at) + length_s(neighbours[at]);
        assert!((to - gone_s).abs() <= WINDOW_S, "{line}");
    }
    assert_eq!(lines(&lab, "contended")?.len(), neighbours.len());
    let effect = lines(&lab, "effect")?;
    let duty = number(&effect[0]["duty"])?;
    assert!((0.003..=0.006).contains(&duty) && effect[0]["program"].is_null(), "{effect:?}");
    let metrics = std::fs::read_to_string(lab.path("watch.prom"))?;
    for name in ["gpubench_watch_contended{UUID=\"GPU-", "resource=\"turns\"} 0", "# EOF"] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
    Ok(())
}

#[test]
fn a_quiet_hour_has_no_event_and_its_memory_stays() -> TestResult {
    let lab = Lab::on("h100-80")?;
    let mut command = lab.gpubench(["watch", "--device", "virtual", "--for", "1h"]);
    command.args(["--duty", "0.1", "--window", "20s", "--events", "events.jsonl"]);
    let done = finish(command)?.ended_with(0)?;
    assert!(done.stdout.contains("0 events in "), "{}", done.text());
    let ended = lines(&lab, "ended")?;
    let resident = |at: usize| number(&ended[0]["resident_bytes"][at]);
    let grown = resident(1)? - resident(0)?;
    assert!(resident(0)? > 1e6 && grown < 4e6, "{ended:?}");
    Ok(())
}

#[test]
fn a_program_is_compared_with_itself_and_a_signal_ends_the_watch() -> TestResult {
    let lab = Lab::on("h100-80")?;
    let mut command = lab.gpubench(["watch", "--device", "virtual", "--events", "events.jsonl"]);
    command.args(["--victim-reports", "lines", "--window", "1s", "--learn", "6s"]);
    command.args(["--victim-cmd", "while :; do echo step; sleep 0.01; done"]);
    let mut run = command.spawn()?;
    let has_effect = || lines(&lab, "effect").is_ok_and(|found| !found.is_empty());
    wait_during(&mut run, "the effect is measured", has_effect)?;
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
    let done = crate::support::Finished::from(run.wait_with_output()?).ended_with(130)?;
    let effect = lines(&lab, "effect")?;
    let program = &effect[0]["program"];
    // It makes no call of the driver, so the canary cannot slow it; the host can.
    let bounds = [number(&program["lo"])?, number(&program["hi"])?];
    assert!(bounds[0] < bounds[1] && number(&program["without_per_s"])? > 1.0, "{program}");
    assert!(done.stdout.contains("ended by a signal"), "{}", done.text());
    assert_eq!(lines(&lab, "ended")?[0]["by_signal"], true);
    Ok(())
}

#[test]
fn what_cannot_be_watched_is_refused() -> TestResult {
    let lab = Lab::on("h100-80")?;
    for (flags, problem) in [
        (&["--window", "1ms"][..], "--window 1ms is not accepted (accepted: 1s to 600s)"),
        (&["--learn", "5s"], "--learn 5s is too short for a baseline (accepted: 6 windows"),
        (&["--duty", "9"], "accepted: a number from 0.05 to 5"),
        (&["--plant", "sm@1s+1s"], "accepted: RESOURCE@START+LENGTH"),
        (&["--window", "1s", "--duty", "0.05"], "accepted: --window "),
        (&["--victim-reports", "lines"], "--victim-cmd"),
    ] {
        let mut command = lab.gpubench(["watch", "--device", "virtual", "--for", "1s"]);
        command.args(flags);
        let refused = finish(command)?.ended_with(2)?;
        assert!(refused.stderr.contains(problem), "{}", refused.text());
    }
    Ok(())
}

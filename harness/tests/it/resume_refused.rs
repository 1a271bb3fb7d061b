//! What `matrix --resume` refuses: at once, in one line, and without a change of any file.

use crate::ordinary_user::{OTHER, is_root};
use crate::refused_runs::{files, is_one_line};
use crate::support::mechanism::signal;
use crate::support::{
    Finished, Lab, SHORT, TestResult, finish, processes_with, wait_during, wait_for,
};

/// A run that was killed in its cells.
fn killed() -> Result<Lab, crate::support::Error> {
    let lab = Lab::on("turing")?;
    let mut run =
        lab.matrix("out", &["--mechanism", "time-slicing", "--label", "pool=a"]).spawn()?;
    let events = lab.path("out/events.jsonl");
    wait_during(&mut run, "a cell", || {
        std::fs::read_to_string(&events).is_ok_and(|text| text.contains("cell-ended"))
    })?;
    signal(run.id(), "KILL")?;
    run.wait()?;
    let state = lab.arg("state");
    wait_for("the run is gone", || processes_with(&state).is_empty())?;
    Ok(lab)
}

#[test]
fn a_flag_with_another_value_than_the_run_is_refused_with_both_values() -> TestResult {
    let lab = killed()?;
    std::fs::create_dir(lab.path("other"))?;
    lab.write("other/short.toml", &SHORT.replace("max = 6", "max = 7"))?;
    let before = files(&lab.path("out"))?;
    for (flag, has) in [
        (&["--out", "other"][..], "has --out"),
        (&["--profile", "smoke"], "has --profile short"),
        (&["--profile", "other/short.toml"], "has --profile short with another value of blocks"),
        (&["--profile", "default"], "has --profile short"),
        (&["--seed", "987"], "has --seed"),
        (&["--rotation", "1"], "has --rotation 0"),
        (&["--mechanism", "mps"], "has --mechanism time-slicing"),
        (&["--axis", "compute"], "has --axis"),
        (&["--victim-cmd", "true"], "was started without --victim-cmd"),
        (&["--allow-reconfigure"], "was started without --allow-reconfigure"),
        (&["--no-reconfigure"], "was started without --no-reconfigure"),
        (&["--hami-lib", "x"], "was started without --hami-lib"),
        (&["--calibration", "x"], "was started without --calibration"),
        (&["--recalibrate"], "was started without --recalibrate"),
        (&["--label", "pool=b"], "has --label pool=a"),
        (&["--label", "a=b"], "was started without --label"),
        (&["--probes"], "was started without --probes"),
        (&["--escape"], "was started without --escape"),
        (&["--faults"], "was started without --faults"),
        (&["--no-faults"], "was started without --no-faults"),
        (&["--fault-trials", "3"], "was started without --fault-trials"),
        // Equal values before it are accepted.
        (
            &["--profile", "short.toml", "--mechanism", "time-slicing", "--seed", "987"],
            "has --seed",
        ),
        (&["--out", "out", "--label", "pool=a", "--rotation", "0", "--probes"], "without --probes"),
    ] {
        let mut command = lab.gpubench(["matrix", "--resume", "out"]);
        command.args(flag).env("XDG_CACHE_HOME", lab.path("cache"));
        let refused = finish(command)?.ended_with(2)?;
        is_one_line(&refused, has);
        assert!(
            refused.stderr.contains("differs from the run in out, which "),
            "{}",
            refused.stderr
        );
    }
    assert!(files(&lab.path("out"))? == before, "the record was changed");
    assert!(!lab.path("cache").exists(), "a device was started");
    Ok(())
}

#[test]
fn a_folder_without_an_interrupted_run_is_refused() -> TestResult {
    let lab = killed()?;
    std::fs::create_dir(lab.path("empty"))?;
    std::fs::create_dir(lab.path("alone"))?;
    std::fs::write(lab.path("alone/record.json"), "{}")?;
    for (folder, problem) in [
        ("empty", "holds no record"),
        ("absent", "holds no record"),
        ("short.toml", "holds no record"),
        ("alone", "it has no events.jsonl, which a run is resumed from"),
    ] {
        let refused = finish(lab.gpubench(["matrix", "--resume", folder]))?;
        is_one_line(&refused.ended_with(2)?, problem);
    }
    let events = lab.path("out/events.jsonl");
    let text = std::fs::read_to_string(&events)?;
    let without = text.replacen("\"settings\":", "\"unknown\":", 1);
    let key = text.replacen("\\\"share\\\":", "\\\"shared\\\":", 1);
    let hash = text.replacen("\"profile_hash\":\"", "\"profile_hash\":\"0", 1);
    for (changed, problem) in [
        (without, "without its settings, which this version resumes from"),
        (key, "its profile is damaged"),
        (hash, "its profile is damaged"),
        (String::new(), "line 1"),
    ] {
        assert_ne!(changed, text);
        std::fs::write(&events, changed)?;
        let refused = finish(lab.gpubench(["matrix", "--resume", "out"]))?;
        is_one_line(&refused.ended_with(2)?, problem);
    }
    Ok(())
}

#[test]
fn another_build_device_or_driver_is_named_and_refused() -> TestResult {
    let lab = killed()?;
    let events = lab.path("out/events.jsonl");
    let text = std::fs::read_to_string(&events)?;
    let driver = text.find("\"driver\":\"").map(|at| at + 10).ok_or("no driver")?;
    let end = driver + text[driver..].find('"').ok_or("no end")?;
    let value = &text[driver..end];
    let version = format!("\"gpubench\":\"{}\"", env!("CARGO_PKG_VERSION"));
    for (changed, problem) in [
        (text.replacen(&version, "\"gpubench\":\"0.0.1\"", 1), "gpubench: \"0.0.1\" before, "),
        (text.replacen("\"scoring\":\"", "\"scoring\":\"un", 1), "scoring rules: \"un"),
        (
            text.replacen("\"ptx_hash\":\"", "\"ptx_hash\":\"0", 1),
            "kernels (hash of their PTX): \"0",
        ),
        (
            text.replacen(&format!("\"driver\":\"{value}\""), "\"driver\":\"1.2\"", 1),
            "driver: \"1.2\" before, ",
        ),
        (
            text.replacen("\"schedule_seed\":", "\"schedule_seed\":1", 1),
            "this host plans other cells than those of the record",
        ),
        (
            text.replacen("\"binding\":{\"uuid\":\"", "\"binding\":{\"uuid\":\"X", 1),
            "calibration: it belongs to ",
        ),
    ] {
        assert_ne!(changed, text, "{problem}");
        std::fs::write(&events, changed)?;
        let before = files(&lab.path("out"))?;
        let refused = finish(lab.gpubench(["matrix", "--resume", "out"]))?;
        is_one_line(&refused.ended_with(20)?, problem);
        assert!(files(&lab.path("out"))? == before, "{problem}: a file was changed");
    }
    std::fs::write(&events, &text)?;
    let other = ["matrix", "--resume", "out", "--device", "virtual:hopper"];
    let refused = finish(lab.gpubench(other))?.ended_with(20)?;
    is_one_line(&refused, "machine file (hash): ");
    // Nothing was lost: the run can still go on.
    finish(lab.gpubench(["matrix", "--resume", "out"]))?.ended_with(0)?;
    assert!(lab.record("out")?.complete);
    Ok(())
}

#[test]
fn the_run_of_another_user_is_resumed_by_nobody_else() -> TestResult {
    let lab = killed()?;
    // Only root can give a file away; others see that a run of their own goes on.
    if is_root() {
        let events = lab.path("out/events.jsonl");
        std::os::unix::fs::chown(&events, Some(OTHER), None)?;
        let before = files(&lab.path("out"))?;
        let refused = finish(lab.gpubench(["matrix", "--resume", "out"]))?;
        let problem = format!("it belongs to user id {OTHER}, ");
        is_one_line(&refused.ended_with(2)?, &problem);
        assert!(files(&lab.path("out"))? == before, "a file was changed");
        std::os::unix::fs::chown(&events, Some(0), None)?;
    }
    finish(lab.gpubench(["matrix", "--resume", "out"]))?.ended_with(0)?;
    Ok(())
}

#[test]
fn the_folder_of_a_live_run_is_refused_at_once() -> TestResult {
    let lab = Lab::on("turing")?;
    let mut run =
        lab.matrix("out", &["--mechanism", "time-slicing", "--label", "pool=a"]).spawn()?;
    let events = lab.path("out/events.jsonl");
    wait_during(&mut run, "the events", || events.exists())?;
    signal(run.id(), "STOP")?;
    let before = files(&lab.path("out"))?;
    let refused = finish(lab.gpubench(["matrix", "--resume", "out"]))?;
    let after = files(&lab.path("out"))?;
    signal(run.id(), "CONT")?;
    is_one_line(&refused.ended_with(2)?, "a run is still writing");
    assert!(after == before, "the folder was changed");
    signal(run.id(), "TERM")?;
    Finished::from(run.wait_with_output()?).ended_with(130)?;
    Ok(())
}

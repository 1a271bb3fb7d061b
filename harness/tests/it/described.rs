//! Mechanisms that a TOML file describes: entered, proved, left and restored like built-in ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpubench_host::device::VirtualGpu;
use gpubench_record::OutcomeKind;
use gpubench_virtual_gpu::session::TimeMode;

use super::support::fault::{mechanism_row, outcome};
use crate::support::guarded::kill_both;
use crate::support::{Error, Lab, TestResult, finish, text, wait_for};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../profiles/mechanisms").join(name)
}

/// A run of the mechanism that a file of the lab describes.
fn run(lab: &Lab, file: &str, name: &str, out: &str) -> Command {
    let mut run = lab.reconfigure(name, out);
    run.arg("--mechanism-file").arg(lab.path(file));
    run
}

#[test]
fn the_examples_are_in_force() -> TestResult {
    let lab = Lab::on("hopper")?;
    std::fs::copy(example("time-quota.toml"), lab.path("time-quota.toml"))?;
    let gpu = VirtualGpu::start("hopper", TimeMode::Wall, 1)?;
    let library = gpu.hami_library().ok_or("hopper has no stand-in")?;
    std::fs::copy(library, lab.path("libvgpu.so"))?;
    let limiter = std::fs::read_to_string(example("limiter-library.toml"))?;
    let here = lab.arg("libvgpu.so");
    lab.write("limiter-library.toml", &limiter.replace("/usr/local/vgpu/libvgpu.so", &here))?;
    for (name, evidence) in [("time-quota", "ong"), ("limiter-library", "mapped into ")] {
        finish(run(&lab, &format!("{name}.toml"), name, name))?.ended_with(0)?;
        let record = lab.record(name)?;
        let row = mechanism_row(&record, name)?;
        assert_eq!(row.outcome.outcome, OutcomeKind::Measured, "{row:?}");
        assert!(row.variant.starts_with(&format!("{name}[file=")), "{}", row.variant);
        let proved = row.proof.iter().find(|proof| proof.check.contains("`prove`"));
        let proved = proved.ok_or("no proof")?;
        assert!(proved.holds && proved.evidence.contains(evidence), "{proved:?}");
        assert_eq!(lab.journal(), "");
    }
    Ok(())
}

/// A description with a mark in the lab that is there while the mechanism is entered.
fn describe(lab: &Lab, enter: &str, prove: &str, more: &str) -> Result<PathBuf, Error> {
    let mark = lab.path("mark");
    let at = mark.display();
    let text = format!(
        "name = \"mine\"\nsummary = \"a mechanism of the test\"\nunprotected = \"mps\"\n{more}\n\
         [enter]\nrun = 'touch {at} && {enter}'\nlimit-s = 5\n\
         [leave]\nrun = 'rm -f {at}'\nlimit-s = 5\n\
         [prove]\nrun = 'test -e {at} && {prove}'\nlimit-s = 1\n"
    );
    lab.write("mine.toml", &text)?;
    Ok(mark)
}

#[test]
fn a_described_mechanism_that_is_not_in_force_fails_and_is_left() -> TestResult {
    for (enter, prove, more, reason) in [
        ("true", "true", "", None),
        ("true", "false", "", Some("not in force: the command `prove`")),
        ("true", "sleep 5", "", Some("no answer within 1 s")),
        ("false", "true", "", Some("it could not be set up")),
        ("true", "true", "memory-pct = 50", Some("granted")),
    ] {
        let lab = Lab::on("hopper")?;
        let mark = describe(&lab, enter, prove, more)?;
        let status = if reason.is_some() { 4 } else { 0 };
        finish(run(&lab, "mine.toml", "mine", "out"))?.ended_with(status)?;
        let record = lab.record("out")?;
        let (kind, found, scored) = outcome(&record, "mine")?;
        let expected = if reason.is_some() { OutcomeKind::Failed } else { OutcomeKind::Measured };
        assert_eq!((kind, scored), (expected, reason.is_none()), "{enter} {prove}: {found}");
        assert!(found.contains(reason.unwrap_or_default()), "{enter} {prove}: {found}");
        assert!(!mark.exists() && lab.journal().is_empty(), "{enter} {prove}: it was not left");
    }
    Ok(())
}

#[test]
fn cleanup_leaves_a_described_mechanism_of_a_dead_run() -> TestResult {
    let lab = Lab::on("hopper")?;
    let mark = describe(&lab, "true", "true", "")?;
    let mut killed = run(&lab, "mine.toml", "mine", "killed").spawn()?;
    lab.wait_for_journal(&mut killed, "\"mechanism\":\"mine\"")?;
    wait_for("the mark", || mark.exists())?;
    kill_both(&mut killed)?;
    let cleaned = lab.gpubench(["cleanup"]).output()?;
    assert!(text(&cleaned.stdout).contains("mine by "), "{}", text(&cleaned.stdout));
    assert!(!mark.exists() && lab.journal().is_empty());
    Ok(())
}

#[test]
fn a_wrong_description_is_refused_with_its_file_and_key() -> TestResult {
    let lab = Lab::on("hopper")?;
    describe(&lab, "true", "true", "memory-pct = 0")?;
    let stderr = finish(run(&lab, "mine.toml", "mine", "out"))?.ended_with(2)?.stderr;
    assert!(stderr.contains("mine.toml: memory-pct (accepted: 1 to 100)"), "{stderr}");
    let stderr = finish(run(&lab, "none.toml", "mine", "out"))?.ended_with(2)?.stderr;
    assert!(stderr.contains("none.toml: No such file"), "{stderr}");
    Ok(())
}

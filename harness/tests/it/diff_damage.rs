//! `gpubench diff` on damaged records.

use std::path::Path;

use crate::support::{Lab, TestResult, finish};

/// A record cut at any byte is refused with its name, or its loss is named.
#[test]
fn a_cut_record_is_refused_or_its_loss_is_named() -> TestResult {
    let lab = Lab::on("turing")?;
    for seed in ["1", "2"] {
        let out = format!("nights/{seed}");
        let more = ["--mechanism=exclusive,time-slicing", "--seed", seed];
        finish(lab.matrix(&out, &more))?.ended_with(0)?;
    }
    let whole = std::fs::read(lab.path("nights/2/record.json"))?;
    let diff = |args: &[&str]| finish(lab.gpubench(["diff", "--vary=profile"].iter().chain(args)));
    for share in [0, 1, 50, 99] {
        let cut = &whole[..whole.len() * share / 100];
        std::fs::write(lab.path("nights/2/record.json"), cut)?;
        // Named by itself it is an error; in a folder it is left out by name.
        let done = diff(&["nights/1", "--", "nights/2"])?.ended_with(2)?;
        assert!(done.stderr.contains("nights/2"), "{}", done.stderr);
        let done = diff(&["nights/1", "--", "nights"])?;
        assert!(done.stderr.contains("left out") && done.stderr.contains("nights/2"));
    }
    // Without record.json the events are scored, and the file is not written.
    std::fs::remove_file(lab.path("nights/2/record.json"))?;
    let done = diff(&["--vary=calibration", "nights/1", "--", "nights/2"])?.ended_with(10)?;
    assert!(!done.stdout.is_empty());
    assert!(!Path::new(&lab.path("nights/2/record.json")).exists());
    // Of torn samples the rest is judged, and every verb names the loss.
    let samples = lab.path("nights/2/samples.parquet");
    let bytes = std::fs::read(&samples)?;
    std::fs::write(&samples, &bytes[..bytes.len() / 2])?;
    let loss = "samples.parquet is torn: its first ";
    let done = diff(&["--format=json", "nights/1", "--", "nights/2"])?;
    assert!(done.stdout.contains(loss), "{}", done.stdout);
    let done = finish(lab.gpubench(["compare", "nights/1", "nights/2"]))?.ended_with(0)?;
    assert!(done.stderr.contains(loss), "{}", done.stderr);
    let done = finish(lab.gpubench(["report", "nights/2"]))?.ended_with(0)?;
    assert!(done.stdout.contains(loss), "{}", done.stdout);
    Ok(())
}

#[test]
fn two_sides_that_cannot_be_read_are_both_named() -> TestResult {
    let args = ["diff", "no-before", "--", "no-after"];
    let refused = finish(Lab::on("hopper")?.gpubench(args))?.ended_with(2)?;
    assert_eq!(refused.stdout, "");
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    for side in ["no-before", "no-after"] {
        assert!(refused.stderr.contains(side), "{}", refused.stderr);
    }
    Ok(())
}

//! Ctrl-C at any moment: whatever a run is doing, it ends soon and with the status that stands for
//! it, its tenants and daemons are gone, the host is as it was found, and what was written can be
//! read.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use crate::support::mechanism::daemons;
use crate::support::{Error, LIVENESS, Lab, TestResult, text};
use gpubench_record::RunRecord;

/// `SIGINT`.
const INTERRUPT: i32 = 2;
/// Moments of a run, in a geometric row: argument parsing, the start of the device, calibration,
/// daemons and instances, cells, the writing of the record.
const MOMENTS: u32 = 24;
const FIRST_US: f64 = 1_000.0;
const RATIO: f64 = 1.45;

fn interrupted(mut run: Child) -> Result<Output, Error> {
    let sent = Command::new("kill")
        .args(["-INT", &run.id().to_string()])
        .status()?;
    assert!(
        sent.success() || run.try_wait()?.is_some(),
        "no signal sent"
    );
    let begin = Instant::now();
    while run.try_wait()?.is_none() {
        assert!(begin.elapsed() < LIVENESS, "it does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(run.wait_with_output()?)
}

/// Processes that live with the folders of this place in their environment.
fn left(place: &Lab) -> Vec<String> {
    let state = place.path("state").display().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let alive = |entry: &std::fs::DirEntry| {
        let read = |file: &str| text(&std::fs::read(entry.path().join(file)).unwrap_or_default());
        read("environ").contains(&state).then(|| read("cmdline"))
    };
    entries.filter_map(|entry| alive(&entry)).collect()
}

/// When the signal comes.
#[derive(Debug, Clone, Copy)]
enum Moment {
    After(Duration),
    /// As soon as the record's first file is there.
    FirstFile,
}

impl Moment {
    fn wait(self, out: &Path) {
        match self {
            Self::After(time) => std::thread::sleep(time),
            Self::FirstFile => {
                let begin = Instant::now();
                while !out.join("events.jsonl").is_file() && begin.elapsed() < LIVENESS {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

/// Interrupts a run at a moment; whether it had begun to write, and whether it had ended.
fn at(after: Moment) -> Result<(bool, bool), Error> {
    let place = Lab::on("hopper")?;
    let run = place.reconfigure("mps,mig,time-slicing", "out").spawn()?;
    after.wait(&place.path("out"));
    let journal = place.journal();
    let ended = interrupted(run)?;
    let said = text(&ended.stderr);
    let out = place.path("out");
    let begun = out.join("events.jsonl").is_file();
    match (ended.status.code(), ended.status.signal()) {
        (Some(130), _) => assert!(!said.contains("panic"), "{after:?}: {said}"),
        (Some(0), _) => assert!(out.join("record.json").is_file(), "{after:?}: {said}"),
        // Before it can catch a signal there is nothing that it could leave behind.
        (None, Some(INTERRUPT)) => assert!(!begun, "{after:?}: {said}"),
        other => panic!("{after:?}: {other:?}: {said}"),
    }
    // Processes whose parent died are gone a moment later.
    let begin = Instant::now();
    while !left(&place).is_empty() && begin.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(left(&place), Vec::<String>::new(), "{after:?}");
    assert_eq!(daemons(&journal), Vec::<u32>::new(), "{after:?}");
    assert_eq!(place.journal(), "", "{after:?}: {said}");
    if begun {
        let folder = out.display().to_string();
        let read = place
            .gpubench(&["report", &folder, "--format", "json"])
            .output()?;
        let told = text(&read.stderr);
        assert_eq!(read.status.code(), Some(0), "{after:?}: {told}");
        let record: RunRecord = serde_json::from_slice(&read.stdout)?;
        assert_eq!(record.complete, ended.status.code() == Some(0), "{after:?}");
    }
    Ok((begun, ended.status.code() == Some(0)))
}

#[test]
fn ctrl_c_at_any_moment_stops_everything_and_leaves_a_record() -> TestResult {
    let (mut before, mut among, mut after) = (0, 0, 0);
    for moment in 0..MOMENTS {
        let us = FIRST_US * RATIO.powi(moment.cast_signed());
        match at(Moment::After(Duration::from_micros(us as u64)))? {
            (_, true) => after += 1,
            (false, false) => before += 1,
            (true, false) => among += 1,
        }
        if after > 1 {
            break;
        }
    }
    // All of a run was met, and not one part of it alone.
    assert!(before >= 2 && among >= 5, "{before}, {among}, {after}");
    Ok(())
}

#[test]
fn a_run_whose_record_has_begun_is_interrupted_and_never_killed_by_the_signal() -> TestResult {
    for _ in 0..10 {
        assert_eq!(at(Moment::FirstFile)?, (true, false));
    }
    Ok(())
}

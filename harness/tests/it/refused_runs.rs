//! What is refused changes nothing: a run into the folder of a record or of another run, and a
//! report without `--repair`.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::support::mechanism::signal;
use crate::support::{Error, Finished, Lab, TestResult, finish, wait_during};

/// The files of a folder with their content and the time of their last change.
pub fn files(folder: &Path) -> Result<BTreeMap<PathBuf, (Vec<u8>, SystemTime)>, Error> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let changed = std::fs::metadata(&folder)?.modified()?;
        found.insert(folder.clone(), (Vec::new(), changed));
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let changed = path.metadata()?.modified()?;
                found.insert(path.clone(), (std::fs::read(&path)?, changed));
            }
        }
    }
    Ok(found)
}

/// One line on standard error, and nothing else.
pub fn is_one_line(refused: &Finished, part: &str) {
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    assert!(refused.stderr.contains(part), "{}", refused.stderr);
    assert_eq!(refused.stdout, "");
}

#[test]
fn a_run_into_the_folder_of_a_record_is_refused_at_once() -> TestResult {
    let lab = Lab::on("turing")?;
    finish(lab.matrix("out", &["--mechanism", "time-slicing"]))?.ended_with(0)?;
    let before = files(&lab.path("out"))?;
    let mut again = lab.matrix("out", &[]);
    again.env("XDG_CACHE_HOME", lab.path("cache"));
    is_one_line(&finish(again)?.ended_with(2)?, "already holds a record");
    assert!(files(&lab.path("out"))? == before, "the record was changed");
    assert!(!lab.path("cache").exists(), "a device was started");
    Ok(())
}

/// Whether a process holds a lock of this folder (proc_locks(5)). Trying the lock would take it.
fn is_locked(folder: &Path) -> bool {
    let inode = folder.metadata().map(|meta| format!(":{} ", meta.ino()));
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    inode.is_ok_and(|inode| locks.contains(&inode))
}

#[test]
fn a_second_run_into_one_folder_is_refused() -> TestResult {
    let lab = Lab::on("turing")?;
    // It is refused once the folder is locked, whether its record has begun or not.
    for sign in ["out", "out/events.jsonl"] {
        let mut first = lab.matrix("out", &["--mechanism", "time-slicing"]).spawn()?;
        wait_during(&mut first, sign, || lab.path(sign).exists() && is_locked(&lab.path("out")))?;
        signal(first.id(), "STOP")?;
        let before = files(&lab.path("out"))?;
        let second = finish(lab.matrix("out", &[]))?;
        let after = files(&lab.path("out"))?;
        signal(first.id(), "CONT")?;
        is_one_line(&second.ended_with(2)?, "a run is still writing");
        assert!(after == before, "{sign}: the folder was changed");
        signal(first.id(), "TERM")?;
        Finished::from(first.wait_with_output()?).ended_with(130)?;
        std::fs::remove_dir_all(lab.path("out"))?;
    }
    Ok(())
}

#[test]
fn a_report_writes_into_a_record_only_to_repair_it() -> TestResult {
    let lab = Lab::on("turing")?;
    let mut run = lab.matrix("out", &["--mechanism", "time-slicing"]).spawn()?;
    let events = lab.path("out/events.jsonl");
    wait_during(&mut run, "two cells", || {
        let text = std::fs::read_to_string(&events).unwrap_or_default();
        text.matches("\"cell-ended\"").count() >= 2
    })?;
    run.kill()?;
    run.wait()?;
    let before = files(&lab.path("out"))?;
    let report = |more: &[&str]| {
        let args = [&["report", "out", "--format", "csv"], more].concat();
        finish(lab.gpubench(args))?.ended_with(0)
    };
    let shown = report(&[])?;
    assert!(files(&lab.path("out"))? == before, "the record was changed");
    let repaired = report(&["--repair"])?;
    assert_eq!(repaired.stdout, shown.stdout);
    assert!(lab.path("out/record.json").is_file() && !lab.path("out/cells").exists());
    assert_eq!(report(&[])?.stdout, shown.stdout);
    Ok(())
}

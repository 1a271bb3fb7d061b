//! Damaged records: every verb that reads one names the damage, in seconds and without a crash.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::damage::damage;
use super::draw::Draw;
use super::verdict::{self, Expected};

/// Command lines on the record `r`; `whole` is an undamaged one.
const VERBS: [&[&str]; 16] = [
    &["report", "r"],
    &["report", "r", "--full"],
    &["report", "r", "--verify"],
    &["report", "r", "--repair"],
    &["report", "r", "--format", "json"],
    &["report", "r", "--format", "html"],
    &["report", "r", "--format", "csv"],
    &["report", "r", "--format", "openmetrics"],
    &["report", "r", "--anonymize", "copy"],
    &["claims", "r"],
    &["compare", "r", "whole"],
    &["diff", "whole", "--", "r"],
    &["history", "r", "whole"],
    &["outliers", "r", "whole"],
    &["simulate", "--calibrate", "r"],
    &["pack", "--memory-gb", "80", "--from", "r", "--tenant-memory-gb", "2"],
];
/// The file whose absence means that nothing is checked.
const CHECKSUMS: &str = "checksums.b3";
/// The most files of a record that are damaged.
const FILES_MAX: u64 = 3;

/// Undamaged records, and the folder in which copies are damaged.
pub struct Records {
    binary: PathBuf,
    folder: PathBuf,
    sources: Vec<PathBuf>,
}

impl Records {
    /// Makes the records: one of a finished run, and one of a run that was killed.
    pub fn make(binary: &Path, folder: &Path, profile: &Path) -> Result<Self, String> {
        let whole = folder.join("whole");
        let matrix = |out: &Path| {
            let mut command = Command::new(binary);
            let args = ["matrix", "--device", "virtual:turing", "--axis=compute/sm"];
            command.args(args).arg("--mechanism=exclusive,time-slicing");
            command.arg("--profile").arg(profile).arg("--out").arg(out);
            command.env("XDG_STATE_HOME", folder.join("state"));
            command
        };
        let done = matrix(&whole).output().map_err(|error| error.to_string())?;
        if !done.status.success() {
            let errors = String::from_utf8_lossy(&done.stderr).into_owned();
            return Err(format!("no record to damage: {}: {errors}", done.status));
        }
        let killed = folder.join("killed");
        let mut run = matrix(&killed);
        run.stdout(std::process::Stdio::null());
        run.stderr(std::process::Stdio::null());
        let mut run = run.spawn().map_err(|error| error.to_string())?;
        let events = killed.join("events.jsonl");
        let has_cell =
            || std::fs::read_to_string(&events).is_ok_and(|text| text.contains("cell-ended"));
        while run.try_wait().map_err(|error| error.to_string())?.is_none() && !has_cell() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // A run that has already ended leaves a finished record, which is damaged as well.
        let _ = run.kill();
        let _ = run.wait();
        Ok(Self {
            binary: binary.to_path_buf(),
            folder: folder.to_path_buf(),
            sources: vec![whole.clone(), whole.clone(), whole, killed],
        })
    }

    /// Damages a copy and reads it with a verb. Returns what was done, and what was wrong.
    pub fn case(&self, seed: u64) -> (String, Result<Option<i32>, String>) {
        let mut draw = Draw::new(seed);
        let at = draw.below(self.sources.len() as u64) as usize;
        let verb = draw.one_of(&VERBS);
        let (source, copy) = (&self.sources[at], self.folder.join("r"));
        let mut done = format!("`{}`", verb.join(" "));
        let result = self.damaged(source, &copy, &mut draw, &mut done);
        let ended = result.and_then(|expected| {
            let mut command = Command::new(&self.binary);
            command.args(verb).current_dir(&self.folder);
            command.env("XDG_STATE_HOME", self.folder.join("state"));
            let ended = verdict::run(command)?;
            match ended.problem(expected) {
                Some(problem) => Err(problem),
                None => Ok(ended.code()),
            }
        });
        // The next case begins without them, and a folder that stays makes it fail.
        for folder in [copy, self.folder.join("copy")] {
            let _ = std::fs::remove_dir_all(folder);
        }
        (done, ended)
    }

    fn damaged(
        &self,
        source: &Path,
        copy: &Path,
        draw: &mut Draw,
        done: &mut String,
    ) -> Result<Expected, String> {
        let files = copied(source, copy)?;
        // A decoder also has to cope with what no checksum covers.
        let unchecked = draw.below(3) == 0;
        if unchecked {
            let _ = std::fs::remove_file(copy.join(CHECKSUMS));
            done.push_str(", without checksums");
        }
        let mut expected = Expected::Named;
        for _ in 0..=draw.below(FILES_MAX) {
            let file = &files[draw.below(files.len() as u64) as usize];
            let path = copy.join(file);
            if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
                continue;
            }
            let what = damage(&path, draw)?;
            done.push_str(&format!(", {}: {what}", file.display()));
            // Without checksums a changed figure is a figure.
            if file.ends_with(CHECKSUMS) && !path.exists() {
                expected = Expected::Result;
            }
        }
        if unchecked || !source.join(CHECKSUMS).exists() {
            expected = Expected::Result;
        }
        Ok(expected)
    }
}

/// Copies a record. Returns its files, relative to it.
fn copied(source: &Path, copy: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", source.display());
    let _ = std::fs::remove_dir_all(copy);
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        std::fs::create_dir_all(copy.join(&folder)).map_err(failed)?;
        for entry in std::fs::read_dir(source.join(&folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(name);
            } else {
                std::fs::copy(entry.path(), copy.join(&name)).map_err(failed)?;
                files.push(name);
            }
        }
    }
    files.sort();
    Ok(files)
}

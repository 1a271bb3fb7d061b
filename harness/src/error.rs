//! Every error with a cause outside gpubench, in one enum.
//!
//! A message is one lowercase line without a full stop: the thing, the place, and what is accepted.
//! [`ExpectedError::exit_code`] and [`ExpectedError::hint`] match exhaustively, so a new variant
//! needs both. The rooms convert their own typed errors to this one.

pub mod nearest;
pub mod output;
#[cfg(test)]
mod tests;

use std::io::{Error, Read};
use std::path::{Path, PathBuf};

use gpubench_host::device::limits::LimitError;
use gpubench_host::mechanism::host::state_dir;
use gpubench_plan::PlanError;
use gpubench_plan::profile::ProfileError;
use gpubench_record::{ExitCode, counted, regular_file};

/// An error with a cause outside gpubench; the one exception is [`ExpectedError::Internal`].
#[derive(Debug, thiserror::Error)]
pub enum ExpectedError {
    /// A profile has a value that is not accepted.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A file that the user named cannot be read.
    #[error("cannot read {what} {path}: {source}", path = path.display())]
    Unreadable {
        /// Kind of file: `profile`, `record`...
        what: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// A name that is in no catalogue.
    #[error("unknown {kind} \"{name}\" (known: {})", none_if_empty(known))]
    UnknownName {
        /// Kind of name: `mechanism`, `axis`, `format`...
        kind: &'static str,
        name: String,
        known: Vec<String>,
    },
    /// Flags or profile contradict each other, or cannot be planned.
    #[error("{problem}")]
    Usage { problem: String, remedy: Option<String> },
    /// There is no GPU to run on.
    #[error("no NVIDIA driver found ({reason}); use --device virtual to run without a GPU")]
    NoDriver {
        /// Why no driver was loaded.
        reason: String,
    },
    /// The driver works, but does not have the requested device.
    #[error("no device \"{wanted}\" (found: {})", none_if_empty(found))]
    NoDevice {
        /// Value of `--device`.
        wanted: String,
        found: Vec<String>,
    },
    /// `CUDA_VISIBLE_DEVICES` leaves no device.
    #[error("no device: {problem}")]
    DevicesHidden { problem: String },
    /// A limit of the host is too low for the command.
    #[error(transparent)]
    HostLimit(#[from] LimitError),
    /// Every mechanism was waived, or every cell skipped.
    #[error("nothing could run: {reason}")]
    NothingRan { reason: String },
    /// The program of `virtual-gpu exec` does not start.
    #[error("program {program} does not start: {error}")]
    ProgramNotStarted { program: String, error: std::io::Error },
    /// The program of `--victim-cmd` cannot be measured.
    #[error("victim program cannot be measured: {problem}")]
    VictimProgram { problem: String },
    /// Another run holds the GPU.
    #[error("GPU {gpu} is in use by {holder}")]
    Busy {
        gpu: String,
        /// Holder of the lock: process id, user, since when.
        holder: String,
    },
    #[error("cannot write {path}: {source}", path = path.display())]
    NotWritable { path: PathBuf, source: std::io::Error },
    #[error("no space left for {path}", path = path.display())]
    DiskFull { path: PathBuf },
    /// A folder holds no record, or a damaged one.
    #[error("cannot read the record in {path}: {problem}", path = path.display())]
    RecordUnreadable { path: PathBuf, problem: String },
    /// The record was written in a format that this version does not read.
    #[error("the record in {path} has an incompatible format: {problem}", path = path.display())]
    IncompatibleVersion {
        path: PathBuf,
        /// Version of the record and versions that this gpubench reads.
        problem: String,
    },
    /// An interrupted run would go on under other circumstances.
    #[error("cannot resume the run in {path}: {differs}", path = path.display())]
    CannotResume {
        path: PathBuf,
        /// What differs, with both values.
        differs: String,
    },
    /// A folder of nights has nothing that new records can be compared with.
    #[error("nothing to compare with in {path}: {problem}", path = path.display())]
    NoBaseline { path: PathBuf, problem: String },
    #[error("{failed} of {cells} cells failed; the first is {first}: {reason}")]
    TrialFailed { failed: usize, cells: usize, first: String, reason: String },
    /// What ended a run after its tenants had started.
    #[error("the run failed: {problem}")]
    RunFailed { problem: String },
    /// What ended a watch after its tenants had started.
    #[error("the watch ended early: {problem}")]
    WatchFailed { problem: String },
    /// Fault trials stopped early because the device needs a reset.
    #[error("fault trials stopped early: {reason}; {not_run} of {planned} trials did not run")]
    FaultTrialsStopped {
        /// The reset that NVML or an Xid requests, and the trial before it.
        reason: String,
        /// Planned trials that did not run.
        not_run: usize,
        planned: usize,
    },
    /// A mechanism could not be set up, or was not in force.
    #[error("mechanism {variant} failed: {reason}")]
    MechanismFailed { variant: String, reason: String },
    /// Mechanisms that the command line names cannot run here; others were measured.
    #[error("requested by --mechanism and waived: {mechanisms}")]
    NamedAndWaived {
        /// `variant: reason`, in one line.
        mechanisms: String,
    },
    /// A host change of a mechanism is not undone.
    #[error("host state not restored: {what}")]
    NotRestored { what: String },
    #[error("interrupted; all that was measured is in {record}", record = record.display())]
    Interrupted { record: PathBuf },
    #[error("internal error: {what}; please report this")]
    Internal { what: String },
}

/// The flags that name another place for what cannot be written.
const OTHER_PLACE: &str = "choose a place that this user may write";

/// The records in a folder, by name; none where it is a record itself.
fn records_in(folder: &Path) -> Vec<PathBuf> {
    let is_record = |path: &PathBuf| path.join("record.json").is_file();
    let inner = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut records: Vec<PathBuf> = inner.map(|one| one.path()).filter(is_record).collect();
    if is_record(&folder.to_owned()) {
        records.clear();
    }
    records.sort();
    records
}

/// Where else a file could be written: the folder of what is kept between runs has a variable.
fn other_place(path: &Path) -> &'static str {
    let is_kept = state_dir().is_ok_and(|folder| path.starts_with(folder));
    if is_kept { "set XDG_STATE_HOME to a folder that this user may write" } else { OTHER_PLACE }
}

impl ExpectedError {
    pub const fn exit_code(&self) -> ExitCode {
        match self {
            Self::Profile(_)
            | Self::Unreadable { .. }
            | Self::UnknownName { .. }
            | Self::Usage { .. }
            | Self::RecordUnreadable { .. }
            | Self::IncompatibleVersion { .. } => ExitCode::Usage,
            Self::NoDriver { .. }
            | Self::NoDevice { .. }
            | Self::DevicesHidden { .. }
            | Self::NothingRan { .. }
            | Self::ProgramNotStarted { .. }
            | Self::VictimProgram { .. }
            | Self::NamedAndWaived { .. }
            | Self::Busy { .. } => ExitCode::NothingRan,
            Self::HostLimit(_) => ExitCode::HostLimit,
            Self::NotWritable { .. } | Self::DiskFull { .. } => ExitCode::OutputFailed,
            Self::TrialFailed { .. }
            | Self::RunFailed { .. }
            | Self::WatchFailed { .. }
            | Self::MechanismFailed { .. }
            | Self::FaultTrialsStopped { .. } => ExitCode::TrialFailed,
            Self::NoBaseline { .. } | Self::CannotResume { .. } => ExitCode::NotComparable,
            Self::NotRestored { .. } => ExitCode::NotRestored,
            Self::Interrupted { .. } => ExitCode::Interrupted,
            Self::Internal { .. } => ExitCode::Internal,
        }
    }

    /// Something that the user can correct, and how.
    pub fn usage(problem: impl Into<String>, remedy: Option<&str>) -> Self {
        Self::Usage { problem: problem.into(), remedy: remedy.map(str::to_owned) }
    }

    /// The same after cells ran, when it is no longer an error of the command line, and something
    /// did run.
    pub fn after_cells(self) -> Self {
        match self.exit_code() {
            ExitCode::Usage | ExitCode::NothingRan => Self::RunFailed { problem: self.to_string() },
            _ => self,
        }
    }

    pub fn internal(what: impl std::fmt::Display) -> Self {
        Self::Internal { what: what.to_string() }
    }

    /// A record that cannot be read.
    pub fn unreadable_record(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        Self::RecordUnreadable { path: path.into(), problem: problem.into() }
    }

    /// The error of a failed write: a full disk, or anything else.
    pub fn from_write(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let path = path.into();
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::DiskFull { path }
            }
            _ => Self::NotWritable { path, source },
        }
    }
}

impl From<PlanError> for ExpectedError {
    fn from(error: PlanError) -> Self {
        let text = error.to_string();
        match error {
            PlanError::NothingToRun { .. } => Self::NothingRan { reason: text },
            PlanError::Ledger { .. } => Self::Internal { what: text },
            PlanError::NoPair { .. } => Self::Usage {
                problem: text,
                remedy: Some(
                    "name a sub-axis to run its first pair, or add to victims and aggressors \
                     (gpubench list axes)"
                        .to_owned(),
                ),
            },
            PlanError::TooLittleTime { needed, .. } => Self::Usage {
                problem: text,
                remedy: Some(format!(
                    "set device_time = \"{needed}\", or request fewer mechanisms or axes"
                )),
            },
        }
    }
}

fn none_if_empty(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

// What the user can do about each error.

fn hint_of_records(folder: &Path) -> Option<String> {
    let records = records_in(folder);
    let first = records.first()?.display();
    let count = counted(records.len(), "record");
    Some(format!("the folder holds {count}, such as {first}"))
}

impl ExpectedError {
    /// What the user can do, where the message does not say it.
    pub fn hint(&self) -> Option<String> {
        self.remedy().or_else(|| {
            let text = self.to_string();
            nearest::of_text(&text).map(|meant| format!("a similar name exists: {meant}"))
        })
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Profile(_) => Some(
                "`gpubench list profiles` lists the built-in profiles; the page Profiles of the \
                 book explains every key"
                    .to_owned(),
            ),
            Self::Usage { remedy, .. } => remedy.clone(),
            Self::NoDevice { .. } => Some(
                "accepted: virtual, virtual:MACHINE, an index, GPU-UUID or MIG-UUID".to_owned(),
            ),
            Self::DevicesHidden { .. } => Some(
                "unset the variable, or list a GPU in it; --device virtual needs none".to_owned(),
            ),
            Self::NothingRan { .. } => Some(
                "`gpubench doctor` checks the device, and `gpubench plan` shows what each \
                 mechanism needs"
                    .to_owned(),
            ),
            Self::NamedAndWaived { .. } => {
                let says = "`gpubench plan` without --mechanism shows what can run here, and why \
                            the rest cannot";
                Some(says.to_owned())
            }
            Self::ProgramNotStarted { .. } => {
                Some("accepted: a program on PATH, or the path of an executable file".to_owned())
            }
            Self::VictimProgram { .. } => Some(
                "its standard error is printed above; the page Your own program of the book \
                 explains what a victim program reports"
                    .to_owned(),
            ),
            Self::Busy { .. } => Some("wait for it, or choose another --device".to_owned()),
            Self::NotWritable { path, source } => {
                let is_missing = source.kind() == std::io::ErrorKind::NotFound;
                let here = "make its folder, or choose another place";
                Some(if is_missing { here } else { other_place(path) }.to_owned())
            }
            Self::DiskFull { path } => {
                let elsewhere = other_place(path);
                Some(format!("what was measured is kept; free space, or {elsewhere}"))
            }
            Self::IncompatibleVersion { .. } => {
                Some("render it with the gpubench version that wrote it".to_owned())
            }
            Self::NoBaseline { .. } => {
                Some("measure more nights, or name the records to compare with".to_owned())
            }
            Self::TrialFailed { .. } => {
                Some("`gpubench report` shows the reason of every failed cell".to_owned())
            }
            Self::RunFailed { .. } => Some(
                "what was measured is kept: `gpubench report` shows it, and `gpubench matrix \
                 --resume` goes on"
                    .to_owned(),
            ),
            Self::FaultTrialsStopped { .. } => Some(
                "reset the GPU as NVML or the Xid requests before you use it again; the report \
                 lists the missing trials"
                    .to_owned(),
            ),
            Self::MechanismFailed { .. } => {
                Some("the record has its proofs; the mechanism is not scored".to_owned())
            }
            Self::RecordUnreadable { path, .. } => hint_of_records(path),
            Self::NotRestored { .. } => {
                Some("run `gpubench cleanup`: it undoes the changes in the journal".to_owned())
            }
            Self::Unreadable { .. }
            | Self::CannotResume { .. }
            | Self::HostLimit(_)
            | Self::WatchFailed { .. }
            | Self::UnknownName { .. }
            | Self::NoDriver { .. }
            | Self::Internal { .. } => None,
            Self::Interrupted { record } => {
                Some(format!("`gpubench matrix --resume {}` measures the rest", record.display()))
            }
        }
    }
}

// Files that the user named, read up to a limit: a device or a pipe has no end.

/// Longest profile, scenario, list or other file that people write.
pub const WRITTEN_BYTES_MAX: u64 = 1 << 20;
/// Longest file that gpubench writes and reads as a whole.
pub const RECORD_BYTES_MAX: u64 = 1 << 29;

/// The text of a file of at most this many bytes.
pub fn read_text(what: &'static str, path: &Path, bytes_max: u64) -> Result<String, ExpectedError> {
    read_limited(path, bytes_max).map_err(|source| unreadable(what, path, source))
}

/// The error of a file that the user named.
pub fn unreadable(what: &'static str, path: &Path, source: Error) -> ExpectedError {
    ExpectedError::Unreadable { what, path: path.to_owned(), source }
}

/// The same of a file or of an open descriptor, such as `/dev/fd/3`: a pipe that the user hands
/// over ends with its writer.
pub fn read_handed(what: &'static str, path: &Path) -> Result<String, ExpectedError> {
    let descriptors = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];
    if !descriptors.iter().any(|known| path.starts_with(known)) {
        return read_text(what, path, WRITTEN_BYTES_MAX);
    }
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(WRITTEN_BYTES_MAX).read_to_string(&mut text));
    read.map(|_| text).map_err(|source| unreadable(what, path, source))
}

fn read_limited(path: &Path, bytes_max: u64) -> std::io::Result<String> {
    let bytes = regular_file::read(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::other(format!("it is no text: byte {at} is not UTF-8"))
    })
}

#[cfg(test)]
mod input_tests {
    use std::path::Path;

    use super::read_text;

    #[test]
    fn a_file_is_read_up_to_its_limit() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("file");
        std::fs::write(&path, "12345")?;
        let read =
            |path: &Path, most| read_text("list", path, most).map_err(|error| error.to_string());
        assert_eq!(read(&path, 5).as_deref(), Ok("12345"));
        for (path, most, problem) in [
            (path.as_path(), 4, "it has 5 bytes (accepted: at most 4)"),
            (Path::new("/dev/zero"), 1 << 16, "it is a pipe or a device"),
            (dir.path(), 4, "it is a folder"),
        ] {
            let refused = read(path, most).err().unwrap_or_default();
            assert!(refused.starts_with("cannot read list "), "{refused}");
            assert!(refused.contains(problem), "{refused}");
        }
        std::fs::write(&path, b"ab\xff")?;
        let refused = read(&path, 9).err().unwrap_or_default();
        assert!(refused.ends_with("byte 2 is not UTF-8"), "{refused}");
        Ok(())
    }
}

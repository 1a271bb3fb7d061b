//! Everything that the outside world can do wrong to gpubench, in one enum.
//!
//! A message is one lowercase line without a full stop: what was wrong, where, and what is
//! accepted. [`ExpectedError::exit_code`] and [`ExpectedError::hint`] match exhaustively, so a new
//! variant cannot forget either. Rooms turn their own typed errors into a variant of this one.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use gpubench_record::ExitCode;

/// An error whose cause lies outside gpubench, with one exception: [`ExpectedError::Internal`].
#[derive(Debug, thiserror::Error)]
pub enum ExpectedError {
    /// A profile says something that is not accepted.
    #[error("{}", profile_line(file, *line, key, problem, accepted))]
    Profile {
        /// Path of the file, or the name of a built-in profile.
        file: String,
        /// Line in it, from 1; absent when the key was set elsewhere (on the command line).
        line: Option<usize>,
        /// Dotted key; empty when the file is no TOML.
        key: String,
        /// What is wrong.
        problem: String,
        /// What would be right; empty when the problem says it already.
        accepted: String,
    },
    /// A file that the user named cannot be read.
    #[error("cannot read {what} {path}: {source}", path = path.display())]
    Unreadable {
        /// What it was meant to be: `profile`, `record`...
        what: &'static str,
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A name that no catalogue knows.
    #[error("unknown {kind} \"{name}\" (known: {})", known.join(", "))]
    UnknownName {
        /// What was named: `mechanism`, `axis`, `format`...
        kind: &'static str,
        /// The name.
        name: String,
        /// Every name that would do.
        known: Vec<String>,
    },
    /// What was asked for contradicts itself or cannot be planned.
    #[error("{problem}")]
    Usage {
        /// One line.
        problem: String,
        /// What to do instead.
        remedy: Option<String>,
    },
    /// There is no GPU to run on.
    #[error("no NVIDIA driver found ({reason}); use --device virtual to run without a GPU")]
    NoDriver {
        /// What was looked for and not found.
        reason: String,
    },
    /// There is a driver, but not the device that was asked for.
    #[error("no device \"{wanted}\" (found: {})", none_if_empty(found))]
    NoDevice {
        /// What `--device` said.
        wanted: String,
        /// The devices that are there.
        found: Vec<String>,
    },
    /// Every mechanism was waived, or every cell skipped.
    #[error("nothing could run: {reason}")]
    NothingRan {
        /// The reasons in one line.
        reason: String,
    },
    /// A program that was to be run on a virtual GPU does not start.
    #[error("{program} does not start: {error}")]
    ProgramNotStarted {
        /// Its name, as it was given.
        program: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The user's own program is no victim: it does not start, or cannot be understood.
    #[error("the victim's program cannot be measured: {problem}")]
    VictimProgram {
        /// What it did, or did not do.
        problem: String,
    },
    /// Another run holds the GPU.
    #[error("GPU {gpu} is in use by {holder}")]
    Busy {
        /// UUID of the GPU.
        gpu: String,
        /// Who holds the lock: process id, user, since when.
        holder: String,
    },
    /// Output cannot be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    NotWritable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The disk or a quota is full.
    #[error("no space left for {path}", path = path.display())]
    DiskFull {
        /// What was being written.
        path: PathBuf,
    },
    /// A folder that should hold a record does not, or holds a damaged one.
    #[error("cannot read the record in {path}: {problem}", path = path.display())]
    RecordUnreadable {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The record was written in a format that this version does not read.
    #[error("the record in {path} has an incompatible format: {problem}", path = path.display())]
    IncompatibleVersion {
        /// The folder.
        path: PathBuf,
        /// Which version it has and which one is read.
        problem: String,
    },
    /// A trial failed.
    #[error("{failed} of {cells} cells failed, first {first}: {reason}")]
    TrialFailed {
        /// Cells that failed.
        failed: usize,
        /// Cells that were planned.
        cells: usize,
        /// Id of the first one that failed.
        first: String,
        /// Why it failed.
        reason: String,
    },
    /// Fault trials ended early, since the device was in no state for more.
    #[error("fault trials ended early: {reason}; {not_held} of {planned} were not held")]
    FaultTrialsStopped {
        /// What NVML or an Xid asked for, and in which trial that was seen.
        reason: String,
        /// Trials that were planned and not held.
        not_held: usize,
        /// Trials that were planned.
        planned: usize,
    },
    /// A mechanism could not be set up, or was not in force.
    #[error("{variant} failed: {reason}")]
    MechanismFailed {
        /// Which one.
        variant: String,
        /// Why.
        reason: String,
    },
    /// Mechanisms that the command line names cannot run here; others were measured.
    #[error("asked for by name and waived: {mechanisms}")]
    NamedAndWaived {
        /// `variant: reason`, in one line.
        mechanisms: String,
    },
    /// What a mechanism changed on the host is not as it was found.
    #[error("host state not restored: {what}")]
    NotRestored {
        /// What differs, in one line.
        what: String,
    },
    /// The user ended the run.
    #[error("interrupted; what was measured until then is in {record}", record = record.display())]
    Interrupted {
        /// The record's folder.
        record: PathBuf,
    },
    /// A bug.
    #[error("internal error: {what}; please report this")]
    Internal {
        /// What should not have happened.
        what: String,
    },
}

impl ExpectedError {
    /// The status with which the process ends.
    #[must_use]
    pub const fn exit_code(&self) -> ExitCode {
        match self {
            Self::Profile { .. }
            | Self::Unreadable { .. }
            | Self::UnknownName { .. }
            | Self::Usage { .. }
            | Self::RecordUnreadable { .. }
            | Self::IncompatibleVersion { .. } => ExitCode::Usage,
            Self::NoDriver { .. }
            | Self::NoDevice { .. }
            | Self::NothingRan { .. }
            | Self::ProgramNotStarted { .. }
            | Self::VictimProgram { .. }
            | Self::NamedAndWaived { .. }
            | Self::Busy { .. } => ExitCode::NothingRan,
            Self::NotWritable { .. } | Self::DiskFull { .. } => ExitCode::OutputFailed,
            Self::TrialFailed { .. }
            | Self::MechanismFailed { .. }
            | Self::FaultTrialsStopped { .. } => ExitCode::TrialFailed,
            Self::NotRestored { .. } => ExitCode::NotRestored,
            Self::Interrupted { .. } => ExitCode::Interrupted,
            Self::Internal { .. } => ExitCode::Internal,
        }
    }

    /// What the user can do about it, where that is not obvious from the message.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Profile { .. } => Some(
                "`gpubench list profiles` names the built-in profiles; \
                      profiles/README.md explains every key"
                    .to_owned(),
            ),
            Self::Usage { remedy, .. } => remedy.clone(),
            Self::NoDevice { .. } => Some(
                "accepted: virtual, virtual:MACHINE, an index, GPU-UUID or MIG-UUID".to_owned(),
            ),
            Self::NothingRan { .. } | Self::NamedAndWaived { .. } => {
                Some("`gpubench plan` says what would run here, and what keeps the rest".to_owned())
            }
            Self::ProgramNotStarted { .. } => Some(
                "accepted: a program that PATH leads to, or the path of a file that may be executed"
                    .to_owned(),
            ),
            Self::VictimProgram { .. } => Some(
                "what it printed on its standard error stands above; workloads/README.md \
                 says what a program has to report"
                    .to_owned(),
            ),
            Self::Busy { .. } => Some("wait for it to end, or choose another --device".to_owned()),
            Self::NotWritable { .. } => Some("choose another folder with --out".to_owned()),
            Self::DiskFull { .. } => {
                Some("what was measured is kept; free space or choose another --out".to_owned())
            }
            Self::IncompatibleVersion { .. } => {
                Some("render it with the gpubench that wrote it".to_owned())
            }
            Self::TrialFailed { .. } => {
                Some("the record holds the reason of every failed cell".to_owned())
            }
            Self::FaultTrialsStopped { .. } => Some(
                "do what NVML or the Xid asks for before anybody relies on this GPU; the report \
                 lists the trials that are missing"
                    .to_owned(),
            ),
            Self::MechanismFailed { .. } => {
                Some("its proofs stand in the record, and nothing of it is scored".to_owned())
            }
            Self::NotRestored { .. } => {
                Some("`gpubench cleanup` undoes what the journal holds".to_owned())
            }
            Self::Unreadable { .. }
            | Self::UnknownName { .. }
            | Self::NoDriver { .. }
            | Self::RecordUnreadable { .. }
            | Self::Interrupted { .. }
            | Self::Internal { .. } => None,
        }
    }

    /// A failed write, told apart into a full disk and everything else.
    #[must_use]
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

fn profile_line(
    file: &str,
    line: Option<usize>,
    key: &str,
    problem: &str,
    accepted: &str,
) -> String {
    let place = line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"));
    let key = if key.is_empty() {
        String::new()
    } else {
        format!("key `{key}`: ")
    };
    let accepted = if accepted.is_empty() {
        String::new()
    } else {
        format!(" (accepted: {accepted})")
    };
    format!("profile {place}: {key}{problem}{accepted}")
}

fn none_if_empty(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

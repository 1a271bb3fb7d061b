//! What the user can do about each error.

use super::ExpectedError;

impl ExpectedError {
    /// What the user can do, where the message does not say it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Profile { .. } => Some(
                "`gpubench list profiles` lists the built-in profiles; profiles/README.md explains \
                 every key"
                    .to_owned(),
            ),
            Self::Usage { remedy, .. } => remedy.clone(),
            Self::NoDevice { .. } => Some(
                "accepted: virtual, virtual:MACHINE, an index, GPU-UUID or MIG-UUID".to_owned(),
            ),
            Self::DevicesHidden { .. } => Some(
                "unset the variable, or list a GPU in it; --device virtual needs none".to_owned(),
            ),
            Self::NothingRan { .. } | Self::NamedAndWaived { .. } => {
                Some("`gpubench plan` shows what can run here and why the rest cannot".to_owned())
            }
            Self::ProgramNotStarted { .. } => Some(
                "accepted: a program on PATH, or the path of an executable file"
                    .to_owned(),
            ),
            Self::VictimProgram { .. } => Some(
                "its standard error is printed above; workloads/README.md explains what a \
                 victim program reports"
                    .to_owned(),
            ),
            Self::Busy { .. } => Some("wait for it, or choose another --device".to_owned()),
            Self::NotWritable { .. } => Some("make its folder, or choose another place: --out of a run, --output of other results".to_owned()),
            Self::DiskFull { .. } => {
                Some("what was measured is kept; free space, or choose another place: --out of a run, --output of other results".to_owned())
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
            Self::FaultTrialsStopped { .. } => Some(
                "reset the GPU as NVML or the Xid requests before you use it again; the report \
                 lists the missing trials"
                    .to_owned(),
            ),
            Self::MechanismFailed { .. } => {
                Some("the record has its proofs; the mechanism is not scored".to_owned())
            }
            Self::NotRestored { .. } => {
                Some("run `gpubench cleanup`: it undoes the changes in the journal".to_owned())
            }
            Self::Unreadable { .. }
            | Self::CannotResume { .. }
            | Self::UnknownName { .. }
            | Self::NoDriver { .. }
            | Self::RecordUnreadable { .. }
            | Self::Interrupted { .. }
            | Self::Internal { .. } => None,
        }
    }
}

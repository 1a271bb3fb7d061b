//! A run that was interrupted and started again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fault::FaultTrial;
use crate::plan::{Cell, Plan};
use crate::provenance::Provenance;

/// The failure of a cell that an interruption ended.
pub const INTERRUPTED: &str = "interrupted";

/// What a later start of a run needs beside its plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSettings {
    /// The profile with the values of the command line, as JSON.
    pub profile: String,
    /// The run of the profile's rotation.
    pub rotation_run: u32,
    /// Version of the scoring rules of this build.
    pub scoring: String,
    /// Hash over the PTX of every kernel.
    pub ptx_hash: String,
    /// The value of `--device`; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The value of `--hami-lib`; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hami_lib: Option<String>,
    /// Whether the user allowed changes of device settings; absent without a flag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_reconfigure: Option<bool>,
    /// The boot of the host; absent where it is not readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

/// An interruption of a run, and the start that went on after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interruption {
    /// RFC 3339 time of the last event before it.
    pub last_event_at: String,
    /// Why the run ended; absent where it was killed or the host stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Blocks that were complete before it. They are kept.
    pub blocks_before: u32,
    /// Blocks that were left to measure after it, those that it had cut included.
    pub blocks_after: u32,
    /// Cells that had been measured in blocks that were cut. These blocks are measured again, and
    /// the cells do not count.
    pub superseded: u32,
    /// The boot of the host before and after it, where it was readable.
    pub boot_ids: [Option<String>; 2],
    /// Facts of host, build and time of the start after it.
    pub provenance: Provenance,
}

impl Interruption {
    /// Whether the host was started again meanwhile; `None` where this is not known.
    pub fn is_reboot(&self) -> Option<bool> {
        let [before, after] = &self.boot_ids;
        Some(before.as_ref()? != after.as_ref()?)
    }
}

impl std::fmt::Display for Interruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cause = match (&self.reason, self.is_reboot()) {
            (Some(reason), _) => reason.as_str(),
            (None, Some(true)) => "the host was started again",
            (None, _) => "the run was killed",
        };
        write!(
            f,
            "{cause} after {}, and the run went on at {}: {} blocks before, {} after",
            self.last_event_at, self.provenance.started_at, self.blocks_before, self.blocks_after
        )?;
        match self.superseded {
            0 => Ok(()),
            1 => f.write_str("; 1 cell of a cut block was measured again"),
            cells => write!(f, "; {cells} cells of cut blocks were measured again"),
        }
    }
}

/// What is left of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Left {
    /// The cells that are left, in run order: whole blocks.
    pub cells: Vec<Cell>,
    /// Ids of cells that began in these blocks before; they do not count.
    pub superseded: Vec<String>,
    /// Ids of fault trials that began and did not end. Each gets another id.
    pub trials_again: Vec<String>,
}

impl Plan {
    /// Replaces the blocks of `left` by its cells, and moves what began in them aside.
    pub fn resume(&mut self, left: &Left) {
        let again = |cell: &Cell| left.cells.iter().any(|one| one.block == cell.block);
        let (replaced, kept) = std::mem::take(&mut self.cells).into_iter().partition(again);
        let began = |cell: &Cell| left.superseded.contains(&cell.id);
        let replaced: Vec<Cell> = replaced;
        self.superseded.extend(replaced.into_iter().filter(began));
        self.cells = kept;
        self.cells.extend(left.cells.iter().cloned());
        for trial in &mut self.fault_trials {
            if left.trials_again.contains(&trial.id) {
                self.superseded_trials.push(trial.clone());
                trial.id += AGAIN;
            }
        }
    }

    /// Every cell that ran or will run, with those that do not count.
    pub fn all_cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().chain(&self.superseded)
    }

    /// Every fault trial, with those that do not count.
    pub fn all_fault_trials(&self) -> impl Iterator<Item = &FaultTrial> {
        self.fault_trials.iter().chain(&self.superseded_trials)
    }
}

/// What the id of a fault trial gets when it runs again.
const AGAIN: &str = "-again";

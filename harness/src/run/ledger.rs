//! Variants of mechanisms that failed or cannot run, each written once.

use std::collections::BTreeMap;

use gpubench_record::{MechanismRow, Outcome, OutcomeKind, RunEvent};

use super::RunError;
use super::recorder::Recorder;

/// The outcomes of variants that have ended, by variant.
pub struct MechanismLedger {
    ended: BTreeMap<String, Outcome>,
    recorder: Recorder,
}

impl MechanismLedger {
    /// A ledger with the variants that ended before an interruption.
    pub const fn new(recorder: Recorder, ended: BTreeMap<String, Outcome>) -> Self {
        Self { ended, recorder }
    }

    pub fn has_ended(&self, variant: &str) -> bool {
        self.ended.contains_key(variant)
    }

    /// Why no cell of this variant can run, if it is waived.
    pub fn waived(&self, variant: &str) -> Option<String> {
        let outcome = self.ended.get(variant)?;
        let is_waived = outcome.outcome == OutcomeKind::Waived;
        is_waived.then(|| outcome.reason.clone().unwrap_or_default())
    }

    /// Writes that a mechanism failed.
    pub fn failed(&mut self, name: &str, variant: &str, reason: &str) -> Result<(), RunError> {
        self.end(name, variant, &Outcome::failed(reason), None)
    }

    /// Writes that a mechanism failed or cannot run. The first outcome of a variant stays.
    pub fn end(
        &mut self,
        name: &str,
        variant: &str,
        outcome: &Outcome,
        remedy: Option<&str>,
    ) -> Result<(), RunError> {
        if self.has_ended(variant) {
            return Ok(());
        }
        self.ended.insert(variant.to_owned(), outcome.clone());
        self.write(name, variant, outcome.clone(), remedy)
    }

    /// Writes that a variant runs, unless it has ended.
    pub fn runs(&self, name: &str, variant: &str) -> Result<(), RunError> {
        if self.has_ended(variant) {
            return Ok(());
        }
        self.write(name, variant, Outcome::measured(), None)
    }

    fn write(
        &self,
        name: &str,
        variant: &str,
        outcome: Outcome,
        remedy: Option<&str>,
    ) -> Result<(), RunError> {
        let row = MechanismRow {
            name: name.to_owned(),
            variant: variant.to_owned(),
            outcome,
            remedy: remedy.map(str::to_owned),
            proof: Vec::new(),
        };
        Ok(self.recorder.event(&RunEvent::Mechanism { row })?)
    }
}

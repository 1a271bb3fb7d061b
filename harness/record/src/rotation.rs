//! What one run of a profile leaves to the other runs of its cycle.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::planned::PlannedPair;

/// What one run of a rotation leaves to the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rotation {
    /// The run, as the command line gave it; it counts modulo `runs`.
    pub run: u32,
    /// Length of a cycle.
    pub runs: u32,
    /// Doses that this run does not plan, under every mechanism.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_planned: Vec<NotPlanned>,
    /// Service times that other runs of the cycle have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services_not_planned_ns: Vec<u64>,
}

/// Doses of a pair that another run of the rotation measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotPlanned {
    /// The pair.
    #[serde(flatten)]
    pub pair: PlannedPair,
    /// The doses that are not planned.
    pub doses: Vec<f64>,
}

impl fmt::Display for Rotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} of cycles of {}", self.run, self.runs)?;
        let doses = self.not_planned.iter().map(NotPlanned::to_string);
        let services = self.services_not_planned_ns.iter();
        let services = services.map(|&ns| format!("a service time of {} ms", ns as f64 / 1e6));
        let not_planned: Vec<String> = doses.chain(services).collect();
        if not_planned.is_empty() {
            return Ok(());
        }
        write!(f, "; not planned: {}", not_planned.join("; "))
    }
}

impl fmt::Display for NotPlanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let doses: Vec<String> = self.doses.iter().map(f64::to_string).collect();
        let PlannedPair { victim, aggressor, .. } = &self.pair;
        write!(f, "dose {} of {victim} beside {aggressor}", doses.join(", "))
    }
}

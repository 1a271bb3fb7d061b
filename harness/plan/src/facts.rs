//! Facts of the catalogues that gates and scores need. They are written into the plan, so that a
//! record is scored without the catalogues of a later version.

use std::collections::BTreeMap;

use gpubench_catalogue::fault::{Answer, CANARY, Fault, HostAct, PLACEBO};
use gpubench_catalogue::workload;
use gpubench_record::plan::{PlannedPair, WorkloadFacts};
use gpubench_record::{Control, ExpectedAnswer, FaultFacts, MechanismProperties, RequiredProof};
use serde::{Deserialize, Serialize};

use gpubench_catalogue::axis::Pair;

/// The facts of every workload that can take part in a cell.
pub(super) fn of_workloads(
    pairs: &[&Pair],
    neighbours: &[String],
    whole_matrix: bool,
) -> BTreeMap<String, WorkloadFacts> {
    let of_pairs = pairs.iter().flat_map(|pair| [pair.victim, pair.aggressor]);
    let names = of_pairs.chain(neighbours.iter().map(String::as_str));
    let facts = |name: &str| {
        let workload = workload::find(name)?;
        let facts = WorkloadFacts {
            answering_codes: workload.answers.to_vec(),
            sub_axis: whole_matrix.then_some(workload.sub_axis),
        };
        Some((name.to_owned(), facts)).filter(|(_, facts)| *facts != WorkloadFacts::default())
    };
    names.filter_map(facts).collect()
}

/// The pairs of a plan, in report order.
pub(super) fn of_pairs(pairs: &[&Pair]) -> Vec<PlannedPair> {
    let planned = |pair: &&Pair| PlannedPair {
        sub_axis: pair.sub_axis,
        victim: pair.victim.to_owned(),
        aggressor: pair.aggressor.to_owned(),
    };
    pairs.iter().map(planned).collect()
}

/// The facts by which trials of a fault are judged.
pub(super) fn of_fault(fault: &Fault) -> FaultFacts {
    FaultFacts {
        control: match fault.name {
            PLACEBO => Some(Control::Placebo),
            CANARY => Some(Control::SelfTest),
            _ => None,
        },
        answer: match fault.answer {
            Answer::Well => ExpectedAnswer::Success,
            Answer::Codes(_) => ExpectedAnswer::Error,
            Answer::Open(_) => ExpectedAnswer::Either,
            Answer::Ends => ExpectedAnswer::ProcessEnds,
        },
        by_coordinator: matches!(
            fault.act,
            HostAct::TerminateClient | HostAct::KillServer | HostAct::KillDaemon
        ),
        leaves_waiting: fault.act.leaves_waiting(),
    }
}

// The abilities of the host, as far as a plan needs them. The room `judge` collects them from the
// mechanisms.

/// Every mechanism in the variant of the profile's options, in report order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// One entry for each variant.
    pub mechanisms: Vec<Capability>,
    /// The proofs that each cell of a variant needs, also of unprotected forms.
    #[serde(default)]
    pub required_proofs: BTreeMap<String, Vec<RequiredProof>>,
}

/// One variant of one mechanism on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    pub variant: VariantRef,
    /// Variants that need no switch of the host between them share a group.
    pub group: String,
    /// Whether it can run.
    pub availability: Availability,
    /// What it would change on the host, one line each.
    pub host_changes: Vec<String>,
    /// Whether native cells run in its group. They cannot where MIG mode is on and must stay on.
    pub needs_native: bool,
    /// Whether the host must be switched between its cells and those of tenants without any
    /// mechanism. Within a block its cells then follow one another.
    #[serde(default)]
    pub separate: bool,
    /// The properties of the mechanism on every host.
    pub properties: MechanismProperties,
    /// The form that shows the aggressor's effect without protection, in the same group. Where the
    /// form is under test itself, its contended cells serve; it can be this variant itself.
    pub unprotected: Option<VariantRef>,
}

/// A mechanism with its options.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VariantRef {
    /// Name in the catalogue of mechanisms.
    pub mechanism: String,
    /// Canonical variant, for example `time-slicing[slice=default]`.
    pub variant: String,
}

/// Whether a variant can run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "availability")]
pub enum Availability {
    /// It can.
    Available,
    /// It cannot.
    Waived {
        /// Why not.
        reason: String,
        /// What would make it available; absent if nothing can.
        remedy: Option<String>,
    },
}

impl VariantRef {
    /// A mechanism with the text of its variant.
    pub fn new(mechanism: impl Into<String>, variant: impl Into<String>) -> Self {
        Self { mechanism: mechanism.into(), variant: variant.into() }
    }
}

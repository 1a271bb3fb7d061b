//! Facts of the catalogues that gates and scores need. They are written into the plan, so that a
//! record is scored without the catalogues of a later version.

use std::collections::BTreeMap;

use gpubench_record::plan::{PlannedPair, WorkloadFacts};
use gpubench_record::{Control, ExpectedAnswer, FaultFacts};
use gpubench_workloads::fault::{Answer, CANARY, Fault, HostAct, PLACEBO};
use gpubench_workloads::load;

use crate::axis::Pair;

/// The facts of every workload that can take part in a cell.
pub(super) fn of_workloads(
    pairs: &[&Pair],
    neighbours: &[String],
) -> BTreeMap<String, WorkloadFacts> {
    let of_pairs = pairs.iter().flat_map(|pair| [pair.victim, pair.aggressor]);
    let names = of_pairs.chain(neighbours.iter().map(String::as_str));
    let facts = |name: &str| {
        let workload = load::find(name).ok()?;
        let facts = WorkloadFacts { answering_codes: workload.answers().to_vec() };
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

//! What the profile requests of the scores: its axes, of those that the plan has cells of.

use gpubench_record::Plan;

use super::Context;
use crate::figures::Pair;

/// The pairs that the profile requests and the plan has cells of.
pub(super) struct Requested {
    pub(super) pairs: Vec<Pair>,
    /// The pair that gives the jitter: the first of its sub-axis.
    pub(super) jitter: Option<Pair>,
}

impl Requested {
    pub(super) fn of(context: &Context<'_>) -> Self {
        let planned = context.cells.pairs();
        let plan = context.input.plan;
        let jitter = planned
            .iter()
            .find(|pair| pair.sub_axis == plan.jitter_from)
            .filter(|_| requests(plan, "jitter"))
            .cloned();
        let is_requested = |pair: &Pair| {
            let axis = pair.sub_axis.axis().as_str();
            requests(plan, axis) || requests(plan, &format!("{axis}/{}", pair.sub_axis.as_str()))
        };
        Self { pairs: planned.into_iter().filter(is_requested).collect(), jitter }
    }
}

/// Whether scores have rows of jitter.
#[must_use]
pub fn plans_jitter(plan: &Plan) -> bool {
    let mut pairs = plan.pairs.iter();
    requests(plan, "jitter") && pairs.any(|pair| pair.sub_axis == plan.jitter_from)
}

/// Whether the profile requests this axis or sub-axis. A record without a list requests all.
pub(super) fn requests(plan: &Plan, name: &str) -> bool {
    plan.axes.is_empty() || plan.axes.iter().any(|axis| axis == "all" || axis == name)
}

//! What the retention of each pair is expected to be, from native and solo cells alone. A
//! prediction stands beside the measured figure and is never one itself.
//!
//! Where tenants take turns, a victim with one request outstanding gives its turn back after each
//! request and waits for a whole turn of its neighbour: `R = s / (s + T ceil(s / T))`, with `s` its
//! native service time and `T` the turn. Where tenants run at the same time and a resource is not
//! divided, demands that exceed the resource get equal parts of it: `R = min(1, 1 / (d + 1))`, with
//! `d` the victim's share of the resource and 1 that of an aggressor that fills it. Other resources
//! are taken as untouched.

use gpubench_record::{Axis, Condition, Ends, MatrixRow, RunRecord, Sharing, SubAxis};

/// The default turn of NVIDIA's driver on data-centre GPUs.
const TURN_NS: f64 = 2e6;

/// A prediction beside its measured figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected<'a> {
    pub row: &'a MatrixRow,
    /// The predicted retention.
    pub retention: f64,
    /// Predicted less measured; `None` where the row has no value.
    pub error: Option<f64>,
}

/// One for each row with a retention whose victim has a known resource, in the order of the matrix.
pub fn expected(run: &RunRecord) -> Vec<Expected<'_>> {
    let rows = run.matrix.iter().filter_map(|row| {
        let retention = of_row(run, row)?;
        // A row without a level has a retention all the same: a weak aggressor shows no isolation.
        let measured = row.retention.as_ref().filter(|one| one.ends == Ends::Interval);
        Some(Expected { row, retention, error: measured.map(|one| retention - one.value) })
    });
    rows.collect()
}

/// The predicted retention; `None` where native cells, or the resource of the victim, are unknown.
fn of_row(run: &RunRecord, row: &MatrixRow) -> Option<f64> {
    let (victim, plan) = (row.victim.as_ref()?, &run.plan);
    let (_, sub_axis) = (row.aggressor.as_ref()?, row.sub_axis.as_deref()?);
    row.retention.as_ref()?;
    let own = plan.workloads.get(victim)?.sub_axis?;
    let planned = plan.mechanisms.iter().find(|one| one.variant == row.variant)?;
    let others = f64::from(plan.tenants.saturating_sub(1));
    let meets = own.as_str() == sub_axis;
    // Copies of the neighbour run beside kernels, also where these take turns.
    let is_copied = sub_axis == SubAxis::Pcie.as_str() && !meets;
    if planned.properties.sharing == Sharing::InTime && !is_copied {
        let service_ns = native_service_ns(run, victim)?;
        let turn_ns = TURN_NS * (service_ns / TURN_NS).ceil();
        return Some(service_ns / (service_ns + others * turn_ns));
    }
    let mechanism = run.mechanisms.iter().find(|one| one.variant == row.variant)?;
    let proofs = || mechanism.proof.iter().filter(|proof| proof.holds);
    let is_limited = own.axis() == Axis::Compute && proofs().any(|proof| proof.limiter);
    let is_divided = is_limited || proofs().any(|proof| proof.hardware);
    Some(if is_divided || !meets { 1.0 } else { (1.0 / (plan.share + others)).min(1.0) })
}

/// The mean over native cells of the median time of a request.
fn native_service_ns(run: &RunRecord, victim: &str) -> Option<f64> {
    let native = run.cells.iter().filter(|one| one.cell.condition == Condition::N);
    let own = native.filter(|one| one.cell.victim == victim && one.outcome.is_measured());
    let times: Vec<f64> = own.filter_map(|one| one.figures.closed_service_p50_ns).collect();
    (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
}

#[cfg(test)]
mod tests {
    use gpubench_record::{Condition, SubAxis, WorkloadFacts};

    use super::expected;
    use crate::gate::fixture::example;

    /// Contended cells may be gone or wrong: the predictions are the same, and each pair has one.
    #[test]
    fn predictions_rest_on_native_and_solo_cells_alone() -> Result<(), Box<dyn std::error::Error>> {
        let mut run = example("h100_580.159.04_matrix")?;
        assert!(expected(&run).is_empty(), "the resources of its victims are not in the plan");
        for (name, sub_axis) in [("compute", SubAxis::Sm), ("stream", SubAxis::Dram)] {
            let facts = WorkloadFacts { answering_codes: Vec::new(), sub_axis: Some(sub_axis) };
            run.plan.workloads.insert(name.to_owned(), facts);
        }
        let of = |run: &gpubench_record::RunRecord| -> Vec<(String, f64)> {
            let found = expected(run).into_iter();
            found.map(|one| (one.row.variant.clone(), one.retention)).collect()
        };
        let before = of(&run);
        assert!(before.len() >= 10, "{before:?}");
        for (variant, retention) in &before {
            let closed = match variant.split('[').next() {
                Some("time-slicing") => 1.0 / 3.0,
                _ => continue,
            };
            assert!((retention - closed).abs() < 0.01, "{variant}: {retention}");
        }
        for one in run.cells.iter_mut().filter(|one| one.cell.condition == Condition::C) {
            one.figures.closed_rate_per_s = Some(1.0);
            one.figures.closed_service_p50_ns = Some(1.0);
        }
        assert_eq!(of(&run), before);
        run.cells.retain(|one| one.cell.condition != Condition::C);
        assert_eq!(of(&run), before);
        Ok(())
    }
}

//! Gates on tenants and their rows: whether every tenant lived, logged every request, and computed
//! correctly.

use std::borrow::Cow;

use gpubench_record::{Gate, Phase, Role, SampleRow, SampleStatus, counted};

use super::{CellObservation, Findings, Tenant, answers};

/// Error codes that a reason names.
const NAMED_MAX: usize = 3;

pub(super) fn judge(observation: &CellObservation<'_>, found: &mut Findings) {
    alive(observation, found);
    complete(observation.tenants, found);
    results(observation.tenants, found);
    idle_neighbours(observation.tenants, found);
}

/// The death of the victim makes the cell failed: the cell has no speed to report. The death of a
/// neighbour makes the cell inconclusive.
fn alive(observation: &CellObservation<'_>, found: &mut Findings) {
    const GATE: Gate = Gate::TenantsAlive;
    let dead = observation.tenants.iter().filter_map(|tenant| {
        tenant.death().map(|death| format!("{} ended early: {death}", tenant.name()))
    });
    let dead: Vec<String> = dead.collect();
    let victim_died = observation.tenants.iter().find_map(|tenant| match tenant.role() {
        Role::Victim => tenant.death(),
        _ => None,
    });
    if let Some(death) = victim_died {
        found.break_cell(format!("the victim ended early: {death}"));
    }
    if let Some(failure) = observation.failure {
        if victim_died.is_none() && dead.is_empty() {
            found.break_cell(failure);
        }
        found.holds(Gate::Completed, false, failure);
    }
    if dead.is_empty() {
        found.holds(GATE, true, format!("all {} lived to the end", observation.tenants.len()));
    } else {
        found.holds(GATE, false, dead.join("; "));
    }
}

/// The log holds every issued request exactly once.
fn complete(tenants: &[Tenant<'_>], found: &mut Findings) {
    let mut missing: Vec<String> = Vec::new();
    for tenant in tenants {
        if tenant.result.unlogged > 0 {
            missing.push(format!(
                "{}: no room for {} requests",
                tenant.name(),
                tenant.result.unlogged
            ));
        }
        if let Some(seq) = first_gap(tenant.rows) {
            missing.push(format!("{}: request {seq} is missing or there twice", tenant.name()));
        }
    }
    let rows: usize = tenants.iter().map(|tenant| tenant.rows.len()).sum();
    let detail =
        if missing.is_empty() { format!("{rows} rows, none missing") } else { missing.join("; ") };
    found.holds(Gate::LogComplete, missing.is_empty(), detail);
}

/// The first gap or repetition in the sequence numbers, which start at 0.
fn first_gap(rows: &[SampleRow]) -> Option<u64> {
    let gap = |numbers: &mut dyn Iterator<Item = u64>| {
        let mut numbered = (0u64..).zip(numbers);
        numbered.find_map(|(want, seq)| (want != seq).then_some(want))
    };
    // Nearly always the rows are in order.
    gap(&mut rows.iter().map(|row| row.seq))?;
    let mut numbers: Vec<u64> = rows.iter().map(|row| row.seq).collect();
    numbers.sort_unstable();
    gap(&mut numbers.into_iter())
}

/// No request of any tenant failed or computed a wrong result. A refusal with an answering code is
/// no failure.
fn results(tenants: &[Tenant<'_>], found: &mut Findings) {
    let mut bad: Vec<String> = Vec::new();
    for tenant in tenants {
        let answers = tenant.answering_codes;
        let failed = tenant
            .rows
            .iter()
            .filter(|row| row.status == SampleStatus::Error && !answers::is_refusal(answers, row));
        let codes: Vec<i32> = failed.map(|row| row.error).collect();
        if !codes.is_empty() {
            let (errors, codes) = (counted(codes.len(), "request"), in_words(codes));
            bad.push(format!("{}: {errors} failed ({codes})", tenant.name()));
        }
        let rows = tenant.rows.iter();
        let wrong = rows.filter(|row| row.status == SampleStatus::WrongResult).count();
        if wrong > 0 {
            bad.push(format!("{}: {wrong} wrong results", tenant.name()));
        }
    }
    if bad.is_empty() {
        found.holds(Gate::Results, true, "no error");
    } else {
        found.holds(Gate::Results, false, bad.join("; "));
    }
}

fn in_words(mut codes: Vec<i32>) -> String {
    codes.sort_unstable();
    codes.dedup();
    let named = codes.iter().take(NAMED_MAX).map(|code| format!("CUresult {code}"));
    named.collect::<Vec<_>>().join(", ")
}

/// A neighbour that was planned idle issued no request.
fn idle_neighbours(tenants: &[Tenant<'_>], found: &mut Findings) {
    let mut idle = tenants.iter().filter(|tenant| tenant.role() == Role::Idle).peekable();
    if idle.peek().is_none() {
        return;
    }
    let busy: Vec<&str> = idle.filter(|tenant| !tenant.rows.is_empty()).map(Tenant::name).collect();
    let detail = match busy.len() {
        0 => "no neighbour issued anything".to_owned(),
        _ => format!("should have been idle and issued requests: {}", busy.join(", ")),
    };
    found.holds(Gate::NeighboursIdle, busy.is_empty(), detail);
}

/// The rows of one phase in the order of issue. A log mostly has them so, and is not copied.
pub(super) fn of_phase(rows: &[SampleRow], phase: Phase) -> Cow<'_, [SampleRow]> {
    let is_phase = |row: &SampleRow| row.phase == phase;
    let start = rows.iter().position(is_phase).unwrap_or(rows.len());
    let count = rows[start..].iter().take_while(|row| is_phase(row)).count();
    let (together, rest) = rows[start..].split_at(count);
    if together.is_sorted_by_key(|row| row.seq) && !rest.iter().any(is_phase) {
        return Cow::Borrowed(together);
    }
    let mut rows: Vec<SampleRow> = rows.iter().filter(|row| is_phase(row)).copied().collect();
    rows.sort_unstable_by_key(|row| row.seq);
    Cow::Owned(rows)
}

//! Gates on the rows themselves: did every tenant live, log everything, and compute correctly?

use gpubench_record::{Phase, Role, SampleRow, SampleStatus};

use super::{CellObservation, Findings, Tenant, answers};

/// Names at most so many offenders of one kind.
const NAMED_MAX: usize = 3;

pub(super) fn judge(observation: &CellObservation<'_>, found: &mut Findings) {
    alive(observation, found);
    complete(observation.tenants, found);
    results(observation.tenants, found);
    idle_neighbours(observation.tenants, found);
}

/// A victim that died was killed by something, and that is a finding about it, not about its
/// speed: the cell failed. Any other death leaves the cell in doubt.
fn alive(observation: &CellObservation<'_>, found: &mut Findings) {
    const GATE: &str = "tenants-alive";
    let dead = observation.tenants.iter().filter_map(|tenant| {
        tenant
            .death()
            .map(|death| format!("{} ended early: {death}", tenant.name()))
    });
    let dead: Vec<String> = dead.collect();
    let victim_died = observation
        .tenants
        .iter()
        .find_map(|tenant| match tenant.role() {
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
        found.holds("completed", false, failure);
    }
    if dead.is_empty() {
        found.holds(
            GATE,
            true,
            format!("all {} lived to the end", observation.tenants.len()),
        );
    } else {
        found.holds(GATE, false, dead.join("; "));
    }
}

/// Every request issued stands in the log exactly once.
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
            missing.push(format!(
                "{}: request {seq} is missing or there twice",
                tenant.name()
            ));
        }
    }
    let rows: usize = tenants.iter().map(|tenant| tenant.rows.len()).sum();
    let detail = if missing.is_empty() {
        format!("{rows} rows, none missing")
    } else {
        missing.join("; ")
    };
    found.holds("log-complete", missing.is_empty(), detail);
}

/// The first number at which the requests stop counting up from 0.
fn first_gap(rows: &[SampleRow]) -> Option<u64> {
    let mut numbers: Vec<u64> = rows.iter().map(|row| row.seq).collect();
    numbers.sort_unstable();
    (0u64..)
        .zip(numbers)
        .find(|(want, seq)| want != seq)
        .map(|(want, _)| want)
}

/// No request of any tenant came out wrong, or was refused where that is no answer.
fn results(tenants: &[Tenant<'_>], found: &mut Findings) {
    let mut bad: Vec<String> = Vec::new();
    for tenant in tenants {
        let answers = tenant.answering_codes;
        let wrongly = |row: &&SampleRow| !answers::is_refusal(answers, row);
        let rows: Vec<SampleRow> = tenant.rows.iter().filter(wrongly).copied().collect();
        let count = |status| rows.iter().filter(|row| row.status == status).count();
        let (errors, wrong) = (count(SampleStatus::Error), count(SampleStatus::WrongResult));
        if errors > 0 {
            let codes = error_codes(&rows);
            bad.push(format!(
                "{}: {errors} requests failed ({codes})",
                tenant.name()
            ));
        }
        if wrong > 0 {
            bad.push(format!("{}: {wrong} wrong results", tenant.name()));
        }
    }
    let holds = bad.is_empty();
    found.holds(
        "results",
        holds,
        if holds {
            "no error".to_owned()
        } else {
            bad.join("; ")
        },
    );
}

fn error_codes(rows: &[SampleRow]) -> String {
    let failed = rows.iter().filter(|row| row.status == SampleStatus::Error);
    let mut codes: Vec<i32> = failed.map(|row| row.error).collect();
    codes.sort_unstable();
    codes.dedup();
    let named = codes
        .iter()
        .take(NAMED_MAX)
        .map(|code| format!("CUresult {code}"));
    named.collect::<Vec<_>>().join(", ")
}

/// A neighbour that should sit still and did not makes a control that is none.
fn idle_neighbours(tenants: &[Tenant<'_>], found: &mut Findings) {
    let mut idle = tenants
        .iter()
        .filter(|tenant| tenant.role() == Role::Idle)
        .peekable();
    if idle.peek().is_none() {
        return;
    }
    let busy: Vec<&str> = idle
        .filter(|tenant| !tenant.rows.is_empty())
        .map(Tenant::name)
        .collect();
    let detail = match busy.len() {
        0 => "no neighbour issued anything".to_owned(),
        _ => format!(
            "should have been idle and issued requests: {}",
            busy.join(", ")
        ),
    };
    found.holds("neighbours-idle", busy.is_empty(), detail);
}

/// The rows of one phase in the order of issue.
pub(super) fn of_phase(rows: &[SampleRow], phase: Phase) -> Vec<SampleRow> {
    let mut rows: Vec<SampleRow> = rows
        .iter()
        .filter(|row| row.phase == phase)
        .copied()
        .collect();
    rows.sort_unstable_by_key(|row| row.seq);
    rows
}

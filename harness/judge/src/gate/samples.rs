//! Gates on tenants and their rows: whether every tenant lived, logged every request, and computed
//! correctly.

use std::borrow::Cow;

use gpubench_record::sample::MISSING;
use gpubench_record::{Gate, OutputCheck, Phase, Role, SampleRow, SampleStatus, counted};

use super::{ANSWERED_REQUESTS, CellObservation, Findings, HONOURED_REQUESTS, Tenant};
use crate::gate::samples;

/// Error codes that a reason names.
const NAMED_MAX: usize = 3;

pub(super) fn judge(observation: &CellObservation<'_>, found: &mut Findings) {
    alive(observation, found);
    complete(observation.tenants, found);
    results(observation.tenants, found);
    idle_neighbours(observation.tenants, found);
}

/// The same of the victim alone, beside neighbours that an event ends. Its failed requests are what
/// the event did.
pub(super) fn judge_victim(
    observation: &CellObservation<'_>,
    victim: &Tenant<'_>,
    found: &mut Findings,
) {
    alive(&CellObservation { tenants: &observation.tenants[..1], ..*observation }, found);
    complete(&observation.tenants[..1], found);
    let good = victim.rows.iter().filter(|row| row.status != SampleStatus::Error);
    let rows: Vec<SampleRow> = good.copied().collect();
    results(&[Tenant { rows: &rows, ..*victim }], found);
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
    let (mut bad, mut wrong_results): (Vec<String>, Vec<String>) = Default::default();
    for tenant in tenants {
        let answers = tenant.answering_codes;
        let failed = tenant
            .rows
            .iter()
            .filter(|row| row.status == SampleStatus::Error && !is_refusal(answers, row));
        let codes: Vec<i32> = failed.map(|row| row.error).collect();
        if !codes.is_empty() {
            let (errors, codes) = (counted(codes.len(), "request"), in_words(codes));
            bad.push(format!("{}: {errors} failed ({codes})", tenant.name()));
        }
        let rows = tenant.rows.iter();
        let wrong = rows.filter(|row| row.status == SampleStatus::WrongResult);
        let wrong: Vec<String> = wrong.map(|row| row.seq.to_string()).collect();
        if !wrong.is_empty() {
            let first = wrong[..wrong.len().min(NAMED_MAX)].join(", ");
            wrong_results.push(format!(
                "{}: wrong result: {} read inside the window differed from the output after the \
                 cell, first after request {first}",
                tenant.name(),
                counted(wrong.len(), "part")
            ));
        }
    }
    bad.extend(tenants.iter().filter_map(unread_output));
    wrong_results.extend(tenants.iter().filter_map(wrong_output));
    // Silent corruption fails the run, where an error only leaves the cell out.
    if !wrong_results.is_empty() {
        found.break_cell(wrong_results.join("; "));
    }
    bad.extend(wrong_results);
    if bad.is_empty() {
        found.holds(Gate::Results, true, format!("no error; {}", compared(tenants)));
    } else {
        found.holds(Gate::Results, false, bad.join("; "));
    }
}

/// Why the output of a tenant could not be read, if it could not.
fn unread_output(tenant: &Tenant<'_>) -> Option<String> {
    let error = tenant.result.output.as_ref()?.unread.as_ref()?;
    Some(format!("{}: its output could not be read: {error}", tenant.name()))
}

/// What is wrong with the output of a tenant after its last request, if anything.
fn wrong_output(tenant: &Tenant<'_>) -> Option<String> {
    let output = tenant.result.output.as_ref()?;
    let (Some(false), Some(digest), Some(alone)) = (output.agrees(), &output.digest, &output.alone)
    else {
        return None;
    };
    Some(format!(
        "{}: wrong result: its output of {} bytes has the digest {digest}, the same work alone has \
         {alone}",
        tenant.name(),
        output.bytes
    ))
}

/// How much output was compared, and what the comparison can have missed.
fn compared(tenants: &[Tenant<'_>]) -> String {
    let mut parts = Vec::new();
    for tenant in tenants {
        let name = tenant.name();
        let Some(output) = &tenant.result.output else {
            continue;
        };
        if let Some(reason) = &output.none {
            parts.push(format!("{name} has no output to check ({reason})"));
        } else if output.agrees().is_some() {
            let chance = output.chance_of_one_request(tenant.rows.len() as u64);
            parts.push(format!(
                "all {} bytes of {name} as alone{}: a wrong bit that stays is seen, one of a \
                 single request with probability {}",
                output.bytes,
                read_inside(output),
                probability(chance)
            ));
        } else {
            parts.push(format!("the output of {name} has no reference"));
        }
    }
    if parts.is_empty() { "no output was compared".to_owned() } else { parts.join("; ") }
}

fn read_inside(output: &OutputCheck) -> String {
    match output.reads {
        0 => String::new(),
        reads => format!(", {} read inside the window in {reads} parts", output.read_bytes),
    }
}

/// Three significant digits.
fn probability(chance: f64) -> String {
    if chance >= 1.0 || chance <= 0.0 {
        return format!("{chance:.0}");
    }
    let digits = (2.0 - chance.log10().floor()) as usize;
    format!("{chance:.digits$}")
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

// Refusals that answer a request: the workload measures how many of its requests are refused.

/// Whether the driver refused this request at once with an answering code.
pub(super) fn is_refusal(answers: &[i32], row: &SampleRow) -> bool {
    row.status == SampleStatus::Error && row.t_done_ns == MISSING && answers.contains(&row.error)
}

/// Counts answered and honoured requests of a victim with answering codes: in the open loop, or in
/// the closed loop where the cell has no open loop. A request that neither completed nor was
/// refused with an answering code counts as neither.
pub(super) fn count(victim: &Tenant<'_>, found: &mut Findings) {
    let answers = victim.answering_codes;
    if answers.is_empty() {
        return;
    }
    let mut rows = samples::of_phase(victim.rows, Phase::Open);
    if rows.is_empty() {
        rows = samples::of_phase(victim.rows, Phase::Closed);
    }
    let honoured = super::closed::completed(&rows).count();
    let refused = rows.iter().filter(|row| is_refusal(answers, row)).count();
    found.count_requests(ANSWERED_REQUESTS, honoured + refused);
    found.count_requests(HONOURED_REQUESTS, honoured);
}

#[cfg(test)]
mod tests {
    use gpubench_record::GateState::{self, Failed, NotEvaluated, Passed};
    use gpubench_record::{CellResult, Condition, Gate, OutputCheck, Role};

    use super::*;
    use crate::gate::CLOSED_REQUESTS;
    use crate::gate::fixture::{ANSWERED, MS, NO_MEMORY, World, row};
    use crate::gate::fixture::{few_closed, stop_aggressor};

    /// Every request of the victim so far is refused with this code.
    fn refuse_all(world: &mut World, error: i32) {
        let refuse = |row: &mut SampleRow| {
            (row.status, row.error) = (SampleStatus::Error, error);
            (row.t_done_ns, row.gpu_ns) = (MISSING, MISSING);
        };
        world.rows[0].iter_mut().for_each(refuse);
    }

    /// A contended cell of this victim, after a change.
    fn judged(victim: &str, change: impl Fn(&mut World)) -> CellResult {
        let mut world = World::new(Condition::C, MS);
        world.cell.tenants[0].workload = Some(victim.to_owned());
        change(&mut world);
        world.judge()
    }

    /// Only the first and the last request of the closed loop were issued.
    fn two_requests(world: &mut World) {
        refuse_all(world, NO_MEMORY);
        let last = world.victim(Phase::Closed).last().map(|row| row.seq);
        let mut first = true;
        world.rows[0].retain(|row| {
            let closed = row.phase == Phase::Closed;
            !closed || Some(row.seq) == last || std::mem::take(&mut first)
        });
        (0..).zip(&mut world.rows[0]).for_each(|(seq, row)| row.seq = seq);
    }

    /// One request was accepted, and failed long afterwards.
    fn late_failure(world: &mut World) {
        refuse_all(world, NO_MEMORY);
        world.rows[0][900].t_done_ns = world.rows[0][900].t_ret_ns + MS;
    }

    fn refused_peer(world: &mut World) {
        refuse_all(world, NO_MEMORY);
        let mut peer = world.cell.tenants[0].clone();
        (peer.tenant, peer.role) = ("neighbour-2".to_owned(), Role::Peer);
        world.cell.tenants.push(peer);
        let mut refused = row(0, Phase::Open, 1_500 * MS, MISSING);
        (refused.status, refused.error) = (SampleStatus::Error, NO_MEMORY);
        world.rows.push(vec![refused]);
        world.deaths.push(None);
    }

    type Case = (&'static str, fn(&mut World), Gate, GateState);

    const CASES: &[Case] = &[
        (ANSWERED, |w| refuse_all(w, NO_MEMORY), Gate::Results, Passed),
        (ANSWERED, |w| refuse_all(w, 1), Gate::Results, Failed),
        ("compute", |w| refuse_all(w, NO_MEMORY), Gate::Results, Failed),
        (ANSWERED, late_failure, Gate::Results, Failed),
        (ANSWERED, refused_peer, Gate::Results, Passed),
        (ANSWERED, |w| refuse_all(w, NO_MEMORY), Gate::ClosedRate, NotEvaluated),
        ("compute", |w| refuse_all(w, NO_MEMORY), Gate::ClosedRate, Failed),
        (ANSWERED, |w| (refuse_all(w, NO_MEMORY), few_closed(w, 9)).1, Gate::ClosedRate, Failed),
        (ANSWERED, |w| refuse_all(w, NO_MEMORY), Gate::CoResidencyClosed, Passed),
        ("compute", |w| refuse_all(w, NO_MEMORY), Gate::CoResidencyClosed, Failed),
        (ANSWERED, two_requests, Gate::CoResidencyClosed, Failed),
        (
            ANSWERED,
            |w| (refuse_all(w, NO_MEMORY), stop_aggressor(w, 900)).1,
            Gate::CoResidencyClosed,
            Failed,
        ),
        (ANSWERED, |w| refuse_all(w, NO_MEMORY), Gate::Overload, Passed),
        ("compute", |w| refuse_all(w, NO_MEMORY), Gate::Overload, NotEvaluated),
    ];

    #[test]
    fn only_a_refusal_with_an_answering_code_is_no_failure() {
        for (number, (victim, change, gate, state)) in CASES.iter().enumerate() {
            let result = judged(victim, change);
            let case = format!("case {number}: {gate}: {:#?}", result.gates);
            assert_eq!(result.gate_state(gate), Some(*state), "{case}");
            let failed = result.gates.iter().any(|gate| gate.state == Failed);
            assert_eq!(result.outcome.is_measured(), !failed, "{case}");
        }
    }

    #[test]
    fn the_gate_says_how_much_was_compared_and_what_it_can_have_missed() {
        let compared = OutputCheck {
            digest: Some("1".to_owned()),
            alone: Some("1".to_owned()),
            bytes: 4096,
            cycle: 16,
            ..OutputCheck::default()
        };
        let none =
            OutputCheck { none: Some("its blocks sleep".to_owned()), ..OutputCheck::default() };
        let detail = |outputs: &[&OutputCheck]| {
            let mut world = World::new(Condition::C, MS);
            world.outputs = outputs.iter().copied().cloned().collect();
            world.judge().gate(&Gate::Results).map(|gate| gate.detail.clone())
        };
        let read = OutputCheck { reads: 8, read_bytes: 320, ..compared.clone() };
        let text = detail(&[&read]).unwrap_or_default();
        assert!(text.contains("as alone, 320 read inside the window in 8 parts: "), "{text}");
        let requests = World::new(Condition::C, MS).rows[0].len() as f64;
        let chance = probability(16.0 / requests);
        assert_eq!(
            detail(&[&compared, &none]),
            Some(format!(
                "no error; all 4096 bytes of victim as alone: a wrong bit that stays is seen, one \
                 of a single request with probability {chance}; neighbour-1 has no output to check \
                 (its blocks sleep)"
            ))
        );
        assert_eq!(detail(&[]).as_deref(), Some("no error; no output was compared"));
        let unknown = OutputCheck { alone: None, ..compared.clone() };
        let text = "no error; the output of victim has no reference";
        assert_eq!(detail(&[&unknown]).as_deref(), Some(text));
        let wrong = OutputCheck { digest: Some("2".to_owned()), ..compared };
        let text = "victim: wrong result: its output of 4096 bytes has the digest 2, the same work \
                    alone has 1";
        assert_eq!(detail(&[&wrong]).as_deref(), Some(text));
    }

    #[test]
    fn a_probability_has_three_digits() {
        for (chance, text) in [(1.0, "1"), (0.25, "0.250"), (0.012_34, "0.0123"), (0.0, "0")] {
            assert_eq!(probability(chance), text);
        }
    }

    #[test]
    fn answered_and_honoured_requests_are_counted_for_victims_with_answering_codes() {
        let counts = |result: &CellResult| {
            let count = |name| result.requests.get(name).copied();
            (count(ANSWERED_REQUESTS), count(HONOURED_REQUESTS))
        };
        let every_third = |world: &mut World| {
            let mut kept = world.rows[0].clone();
            refuse_all(world, NO_MEMORY);
            let refused = kept.iter_mut().zip(&world.rows[0]);
            refused
                .filter(|(row, _)| row.phase == Phase::Open && row.seq % 3 == 0)
                .for_each(|(row, refused)| *row = *refused);
            world.rows[0] = kept;
        };
        let some = judged(ANSWERED, every_third);
        let (answered, honoured) = counts(&some);
        assert_eq!(answered, Some(497), "arrivals of this seed");
        assert!(honoured == Some(331) || honoured == Some(332), "{honoured:?}");
        assert!(some.figures.closed_rate_per_s.is_some());
        let none = judged(ANSWERED, |world| refuse_all(world, NO_MEMORY));
        assert_eq!(counts(&none), (Some(497), Some(0)));
        assert!(none.figures.closed_rate_per_s.is_none());
        let others = judged(ANSWERED, |world| refuse_all(world, 1));
        assert_eq!(counts(&others), (Some(0), Some(0)));
        assert_eq!(counts(&judged("compute", |_| {})), (None, None));
        // Without an open loop the requests of the closed loop count.
        let closed = judged(ANSWERED, |world| {
            world.durations.open_ns = 0;
            world.rows[0].retain(|row| row.phase != Phase::Open);
        });
        let all = closed.requests.get(CLOSED_REQUESTS).copied();
        assert_eq!(counts(&closed), (all, all));
    }
}

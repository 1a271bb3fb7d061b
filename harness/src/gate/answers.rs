//! Requests whose refusal is an answer: the workload measures whether it is refused.

use gpubench_record::sample::MISSING;
use gpubench_record::{Phase, SampleRow, SampleStatus};

use super::{ASKED_REQUESTS, Findings, HONOURED_REQUESTS, Tenant, samples};

/// Whether the driver refused this request at once, and so answered it.
pub(super) fn is_refusal(answers: &[i32], row: &SampleRow) -> bool {
    row.status == SampleStatus::Error && row.t_done_ns == MISSING && answers.contains(&row.error)
}

/// Counts what was asked and what was honoured: in the open loop, whose requests come when the
/// schedule says, or in the closed loop where there is no other. What neither ended well nor was
/// refused in this way is neither.
pub(super) fn count(victim: &Tenant<'_>, found: &mut Findings) {
    let answers = victim.answering_codes;
    if answers.is_empty() {
        return;
    }
    let mut rows = samples::of_phase(victim.rows, Phase::Open);
    if rows.is_empty() {
        rows = samples::of_phase(victim.rows, Phase::Closed);
    }
    let honoured = super::closed::completed(&rows).len();
    let refused = rows.iter().filter(|row| is_refusal(answers, row)).count();
    for (name, count) in [
        (ASKED_REQUESTS, honoured + refused),
        (HONOURED_REQUESTS, honoured),
    ] {
        found.requests.insert(name.to_owned(), count as u64);
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::GateState::{self, Failed, NotEvaluated, Passed};
    use gpubench_record::{CellResult, Condition, Role};

    use super::super::changes::{few_closed, stop_aggressor};
    use super::super::fixture::{ANSWERED, MS, NO_MEMORY, World, row};
    use super::super::tests::gate;
    use super::super::{CLOSED_REQUESTS, figure};
    use super::*;

    /// A contended cell of a victim whose every request so far is refused with that number.
    fn refused(world: &mut World, error: i32) {
        let refuse = |row: &mut SampleRow| {
            (row.status, row.error) = (SampleStatus::Error, error);
            (row.t_done_ns, row.gpu_ns) = (MISSING, MISSING);
        };
        world.rows[0].iter_mut().for_each(refuse);
    }

    fn judged(victim: &str, change: impl Fn(&mut World)) -> CellResult {
        let mut world = World::new(Condition::C, MS);
        world.cell.tenants[0].workload = Some(victim.to_owned());
        change(&mut world);
        world.judge()
    }

    /// Only the first and the last request of the closed loop were made.
    fn hardly_asks(world: &mut World) {
        refused(world, NO_MEMORY);
        let last = world.victim(Phase::Closed).last().map(|row| row.seq);
        let mut first = true;
        world.rows[0].retain(|row| {
            let closed = row.phase == Phase::Closed;
            !closed || Some(row.seq) == last || std::mem::take(&mut first)
        });
        (0..)
            .zip(&mut world.rows[0])
            .for_each(|(seq, row)| row.seq = seq);
    }

    /// The device was broken when the request ended, long after it had been taken.
    fn ended_badly(world: &mut World) {
        refused(world, NO_MEMORY);
        world.rows[0][900].t_done_ns = world.rows[0][900].t_ret_ns + MS;
    }

    /// A neighbour that does what the victim does is refused as well.
    fn refused_peer(world: &mut World) {
        refused(world, NO_MEMORY);
        let mut peer = world.cell.tenants[0].clone();
        (peer.tenant, peer.role) = ("neighbour-2".to_owned(), Role::Peer);
        world.cell.tenants.push(peer);
        let mut asked = row(0, Phase::Open, 1_500 * MS, MISSING);
        (asked.status, asked.error) = (SampleStatus::Error, NO_MEMORY);
        world.rows.push(vec![asked]);
        world.deaths.push(None);
    }

    /// Who, what was done to a cell that was well, and what each gate has to say of it.
    type Case = (&'static str, fn(&mut World), &'static str, GateState);

    const CASES: &[Case] = &[
        (ANSWERED, |w| refused(w, NO_MEMORY), "results", Passed),
        (ANSWERED, |w| refused(w, 1), "results", Failed),
        ("compute", |w| refused(w, NO_MEMORY), "results", Failed),
        (ANSWERED, ended_badly, "results", Failed),
        (ANSWERED, refused_peer, "results", Passed),
        (
            ANSWERED,
            |w| refused(w, NO_MEMORY),
            "closed-rate",
            NotEvaluated,
        ),
        ("compute", |w| refused(w, NO_MEMORY), "closed-rate", Failed),
        (
            ANSWERED,
            |w| (refused(w, NO_MEMORY), few_closed(w, 9)).1,
            "closed-rate",
            Failed,
        ),
        (
            ANSWERED,
            |w| refused(w, NO_MEMORY),
            "co-residency-closed",
            Passed,
        ),
        (
            "compute",
            |w| refused(w, NO_MEMORY),
            "co-residency-closed",
            Failed,
        ),
        (ANSWERED, hardly_asks, "co-residency-closed", Failed),
        (
            ANSWERED,
            |w| (refused(w, NO_MEMORY), stop_aggressor(w, 900)).1,
            "co-residency-closed",
            Failed,
        ),
        (ANSWERED, |w| refused(w, NO_MEMORY), "overload", Passed),
        (
            "compute",
            |w| refused(w, NO_MEMORY),
            "overload",
            NotEvaluated,
        ),
    ];

    #[test]
    fn a_refusal_that_answers_is_no_failure_and_every_other_is() {
        for (number, (victim, change, name, state)) in CASES.iter().enumerate() {
            let result = judged(victim, change);
            let told = format!("case {number}: {name}: {:#?}", result.gates);
            assert_eq!(gate(&result, name), *state, "{told}");
            let failed = result.gates.iter().any(|gate| gate.state == Failed);
            assert_eq!(result.outcome.is_measured(), !failed, "{told}");
        }
    }

    #[test]
    fn what_was_asked_and_honoured_is_counted_where_refusals_answer() {
        let counts = |result: &CellResult| {
            let count = |name| result.requests.get(name).copied();
            (count(ASKED_REQUESTS), count(HONOURED_REQUESTS))
        };
        let every_third = |world: &mut World| {
            let mut kept = world.rows[0].clone();
            refused(world, NO_MEMORY);
            let refused = kept.iter_mut().zip(&world.rows[0]);
            refused
                .filter(|(row, _)| row.phase == Phase::Open && row.seq % 3 == 0)
                .for_each(|(row, refused)| *row = *refused);
            world.rows[0] = kept;
        };
        let some = judged(ANSWERED, every_third);
        let (asked, honoured) = counts(&some);
        assert_eq!(asked, Some(497), "what the seed gives");
        assert!(
            honoured == Some(331) || honoured == Some(332),
            "{honoured:?}"
        );
        assert!(some.rates.contains_key(figure::CLOSED_RATE_PER_S));
        let none = judged(ANSWERED, |world| refused(world, NO_MEMORY));
        assert_eq!(counts(&none), (Some(497), Some(0)));
        assert!(!none.rates.contains_key(figure::CLOSED_RATE_PER_S));
        let others = judged(ANSWERED, |world| refused(world, 1));
        assert_eq!(counts(&others), (Some(0), Some(0)));
        assert_eq!(counts(&judged("compute", |_| {})), (None, None));
        // Without an open loop it is the closed loop that tells.
        let closed = judged(ANSWERED, |world| {
            world.durations.open_ns = 0;
            world.rows[0].retain(|row| row.phase != Phase::Open);
        });
        let all = closed.requests.get(CLOSED_REQUESTS).copied();
        assert_eq!(counts(&closed), (all, all));
    }
}

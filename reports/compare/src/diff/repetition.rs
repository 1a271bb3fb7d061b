//! A/A: how often a repeated cell differs from itself. A comparison that raises false alarms there
//! has no business raising any.

use gpubench_stats::{Confidence, Effect, proportion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::Session;

/// The sessions that count: the last so many.
const NIGHTS_MAX: usize = 30;
/// Nominal rate of false alarms.
const NOMINAL: f64 = 0.05;
/// Smallest difference that counts: a device without noise has smaller ones, and no spread.
const LOG_MIN: f64 = 0.001;
/// Smallest difference of one pair that makes a session doubtful by itself.
const DOUBTFUL_LOG_MIN: f64 = 0.01;
/// Fewest blocks of a pair.
const BLOCKS_MIN: usize = 3;

/// A/A pairs of the sessions: each tested at 5 %, a pair being one variant and victim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repetition {
    /// Sessions with such pairs, the last 30.
    pub sessions: u32,
    /// Pairs.
    pub pairs: u32,
    /// Pairs that differ at 5 %.
    pub alarms: u32,
    /// Lower end of the 95 % interval of the rate of alarms, by session as a cluster; absent
    /// without pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_lo: Option<f64>,
    /// Why regressions are not trusted, if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncalibrated: Option<String>,
}

struct Pair<'a> {
    name: &'a str,
    value: f64,
    p: f64,
}

impl Repetition {
    /// The pairs of both sides and of earlier nights. A pair of a side that differs at the
    /// confidence of all pairs together makes the comparison doubtful by itself.
    #[must_use]
    pub fn of(before: &[Session], after: &[Session], nights: &[Session]) -> Self {
        let all = in_order(before.iter().chain(after));
        let nights: Vec<Vec<Pair<'_>>> = in_order(all.iter().copied().chain(nights))
            .iter()
            .rev()
            .map(|session| pairs(session))
            .filter(|pairs| !pairs.is_empty())
            .take(NIGHTS_MAX)
            .collect();
        let counts: Vec<[u32; 2]> = nights
            .iter()
            .map(|pairs| {
                let alarms = pairs.iter().filter(|pair| is_alarm(pair));
                [alarms.count(), pairs.len()].map(|n| u32::try_from(n).unwrap_or(u32::MAX))
            })
            .collect();
        let (alarms, pairs) = counts.iter().fold((0, 0), |all, [k, n]| (all.0 + k, all.1 + n));
        let rate_lo = rate_lo(&counts, alarms, pairs);
        let too_often = rate_lo.filter(|lo| *lo > NOMINAL).map(|_| {
            format!("{alarms} of {pairs} repeated cells differ from themselves, 5 % are nominal")
        });
        Self {
            sessions: u32::try_from(nights.len()).unwrap_or(u32::MAX),
            pairs,
            alarms,
            rate_lo,
            uncalibrated: too_often.or_else(|| doubtful(&all)),
        }
    }
}

/// Each session once, in the order of their start.
fn in_order<'a>(sessions: impl Iterator<Item = &'a Session>) -> Vec<&'a Session> {
    let mut all: Vec<&Session> = sessions.collect();
    all.sort_by_key(|session| (&session.started_at, &session.name));
    all.dedup_by_key(|session| &session.name);
    all
}

fn pairs(session: &Session) -> Vec<Pair<'_>> {
    let long = session.repeats.iter().filter(|(_, logs)| logs.len() >= BLOCKS_MIN);
    let tested = long.filter_map(|(name, logs)| {
        let effect = Effect::of_mean(logs).ok()?;
        Some(Pair { name, value: effect.value, p: effect.two_sided_p().ok()? })
    });
    tested.collect()
}

fn is_alarm(pair: &Pair<'_>) -> bool {
    pair.p < NOMINAL && pair.value.abs() >= LOG_MIN
}

/// Clopper-Pearson on the counts divided by the design effect: pairs of one session are alike.
fn rate_lo(counts: &[[u32; 2]], alarms: u32, pairs: u32) -> Option<f64> {
    let rate = f64::from(alarms) / f64::from(pairs);
    let binomial = f64::from(pairs) * rate * (1.0 - rate);
    let clustered: f64 =
        counts.iter().map(|[k, n]| (f64::from(*k) - f64::from(*n) * rate).powi(2)).sum();
    let effect = if binomial > 0.0 { (clustered / binomial).max(1.0) } else { 1.0 };
    let scaled = |count: u32| (f64::from(count) / effect).round() as u32;
    let bounds = proportion::clopper_pearson(scaled(alarms), scaled(pairs), Confidence::P95);
    bounds.ok().map(|bounds| bounds.lo)
}

/// A pair that differs although all pairs are taken together.
fn doubtful(sessions: &[&Session]) -> Option<String> {
    let all: Vec<(&str, Pair<'_>)> = sessions
        .iter()
        .flat_map(|session| pairs(session).into_iter().map(|p| (session.name.as_str(), p)))
        .collect();
    let family = NOMINAL / all.len().max(1) as f64;
    let (session, pair) =
        all.iter().find(|(_, pair)| pair.p < family && pair.value.abs() >= DOUBTFUL_LOG_MIN)?;
    Some(format!(
        "in {session} the repeated cell of {} differs from itself by {:+.1} %",
        pair.name,
        100.0 * pair.value.exp_m1()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str, offsets: &[f64]) -> Session {
        let logs = |offset: &f64| [-0.004, 0.003, 0.001, 0.0].map(|x| x + offset).to_vec();
        Session {
            repeats: offsets
                .iter()
                .enumerate()
                .map(|(at, offset)| (format!("mps{at}"), logs(offset)))
                .collect(),
            ..Session::empty(name)
        }
    }

    #[test]
    fn few_alarms_are_calibrated_and_many_are_not() {
        let quiet: Vec<Session> = (0..4).map(|n| session(&format!("{n}"), &[0.0; 5])).collect();
        let found = Repetition::of(&quiet[..2], &quiet[2..], &[]);
        assert_eq!((found.sessions, found.pairs, found.alarms), (4, 20, 0));
        assert_eq!(found.uncalibrated, None);
        let loud: Vec<Session> =
            (0..4).map(|n| session(&format!("{n}"), &[0.008, 0.0, -0.008, 0.0, 0.008])).collect();
        let found = Repetition::of(&loud[..2], &loud[2..], &[]);
        assert_eq!((found.pairs, found.alarms), (20, 12));
        assert!(found.uncalibrated.unwrap().starts_with("12 of 20"));
    }

    #[test]
    fn one_pair_that_differs_by_far_is_enough_on_either_side() {
        let quiet = session("a", &[0.0; 5]);
        let odd = session("b", &[0.0, 0.0, 0.05, 0.0, 0.0]);
        let found = Repetition::of(std::slice::from_ref(&quiet), std::slice::from_ref(&odd), &[]);
        assert!(found.uncalibrated.as_ref().unwrap().contains("mps2"));
        let swapped = Repetition::of(&[odd], &[quiet], &[]);
        assert_eq!(swapped, found);
    }

    #[test]
    fn a_session_on_both_sides_counts_once() {
        let one = session("a", &[0.0; 5]);
        let found = Repetition::of(std::slice::from_ref(&one), std::slice::from_ref(&one), &[]);
        assert_eq!((found.sessions, found.pairs), (1, 5));
    }

    #[test]
    fn the_last_thirty_nights_count_and_do_not_spoil_tonight() {
        let nights: Vec<Session> =
            (100..140).map(|n| session(&format!("{n}"), &[0.05, 0.0])).collect();
        let tonight = [session("200", &[0.0; 2])];
        let found = Repetition::of(&nights[39..], &tonight, &nights[..39]);
        assert_eq!((found.sessions, found.pairs, found.alarms), (30, 60, 29));
        assert!(found.uncalibrated.is_some());
        // Earlier nights alone make no pair of a side doubtful.
        let quiet: Vec<Session> = (140..180).map(|n| session(&format!("{n}"), &[0.0; 2])).collect();
        let found = Repetition::of(&quiet[39..], &tonight, &nights[..1]);
        assert_eq!((found.alarms, found.uncalibrated), (1, None));
    }
}

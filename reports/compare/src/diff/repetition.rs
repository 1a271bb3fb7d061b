//! A/A: how often a repeated cell differs from itself, and by how much.
//!
//! The repeated cells of one variant and victim widen the rows of that variant and victim, and no
//! others. They hide no change: a row whose widened interval lies beyond its margin has a verdict.

use std::collections::BTreeMap;

use gpubench_stats::{Confidence, Effect, Sorted, proportion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::SESSIONS_MIN;
use crate::session::{RowKey, Session};

/// The sessions that count: the last so many.
const NIGHTS_MAX: usize = 30;
/// Nominal rate of false alarms.
const NOMINAL: f64 = 0.05;
/// Smallest difference that counts: a device without noise has smaller ones, and no spread.
const LOG_MIN: f64 = 0.001;
/// Fewest blocks of a pair.
const BLOCKS_MIN: usize = 3;
/// A session may be left out whose repeated cell is farther from those of the others than this
/// many median absolute deviations: 5.4 standard deviations of a normal distribution.
const ODD_DEVIATIONS: f64 = 8.0;
/// And differs from itself by more than this share of the margin.
const ODD_MARGINS: f64 = 0.5;

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
    /// What repeated cells add to the spread of rows, where one of both sides differs from itself
    /// at 5 %.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub widened: Vec<Widened>,
}

/// A variant and victim whose repeated cells differ from themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Widened {
    /// The variant and the victim.
    pub cell: String,
    /// Sessions whose repeated cell differs at 5 %.
    pub sessions: Vec<String>,
    /// Standard deviation within a session, as a share, beyond what the blocks of a cell spread by.
    pub sd: f64,
}

struct Pair<'a> {
    name: &'a str,
    value: f64,
    se: f64,
    p: f64,
}

impl Repetition {
    /// The pairs of both sides and of earlier nights.
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
        Self {
            sessions: u32::try_from(nights.len()).unwrap_or(u32::MAX),
            pairs,
            alarms,
            rate_lo,
            widened: Evidence::of([before, after]).widened(),
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
        let p = effect.two_sided_p().ok()?;
        Some(Pair { name, value: effect.value, se: effect.se, p })
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

/// One repeated cell of a session of a side.
#[derive(Debug, Clone, Copy)]
struct Repeat<'a> {
    session: &'a str,
    side: usize,
    /// Logarithm of the repeated rate over the first one, and the standard error of this mean.
    value: f64,
    se: f64,
    is_alarm: bool,
}

/// The repeated cells of both sides, by variant and victim.
pub(super) struct Evidence<'a>(BTreeMap<&'a str, Vec<Repeat<'a>>>);

/// What repeated cells say about the rows of their variant and victim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Excess {
    /// Variance within a session beyond that of the blocks.
    pub variance: f64,
    /// Repeated cells that it was estimated from.
    pub repeats: u32,
}

impl<'a> Evidence<'a> {
    /// The repeated cells of both sides. A session on both sides counts once, where it comes first.
    pub fn of(sides: [&'a [Session]; 2]) -> Self {
        let mut found: BTreeMap<&str, Vec<Repeat<'_>>> = BTreeMap::new();
        for (side, sessions) in sides.into_iter().enumerate() {
            for session in sessions {
                for pair in pairs(session) {
                    let repeats = found.entry(pair.name).or_default();
                    if !repeats.iter().any(|one| one.session == session.name) {
                        let (value, se, is_alarm) = (pair.value, pair.se, is_alarm(&pair));
                        repeats.push(Repeat { session: &session.name, side, value, se, is_alarm });
                    }
                }
            }
        }
        Self(found)
    }

    fn repeats(&self, key: &RowKey) -> &[Repeat<'a>] {
        let name = format!("{} {}", key.variant, key.victim);
        self.0.get(name.as_str()).map_or(&[], Vec::as_slice)
    }

    /// The excess for a row, without the sessions to leave out; `None` where no cell is repeated.
    pub fn excess(&self, key: &RowKey, without: &[&str]) -> Option<Excess> {
        let repeats = self.repeats(key).iter();
        excess(repeats.filter(|one| !without.contains(&one.session)))
    }

    /// The session of each side whose repeated cell lies far from those of all others, and by how
    /// much this cell differs from itself as a share: at most one a side, and none of a side that
    /// would keep fewer sessions than a verdict takes.
    pub fn odd(&self, key: &RowKey, margin: f64) -> [Option<(&'a str, f64)>; 2] {
        let repeats = self.repeats(key);
        let median = |values: Vec<f64>| Sorted::new(values).and_then(|all| all.median());
        let Ok(centre) = median(repeats.iter().map(|one| one.value).collect()) else {
            return [None, None];
        };
        let far = |one: &Repeat<'_>| (one.value - centre).abs();
        let Ok(deviation) = median(repeats.iter().map(far).collect()) else { return [None, None] };
        [0, 1].map(|side| {
            let own: Vec<&Repeat<'_>> = repeats.iter().filter(|one| one.side == side).collect();
            let is_odd = |one: &Repeat<'_>| {
                one.value.abs() > ODD_MARGINS * margin && far(one) > ODD_DEVIATIONS * deviation
            };
            let farthest = own.iter().max_by(|one, two| far(one).total_cmp(&far(two)))?;
            let is_left_out = own.len() > SESSIONS_MIN && is_odd(farthest);
            is_left_out.then(|| (farthest.session, farthest.value.exp_m1()))
        })
    }

    fn widened(&self) -> Vec<Widened> {
        let cells = self.0.iter().filter_map(|(cell, repeats)| {
            let alarms = repeats.iter().filter(|one| one.is_alarm);
            let sessions: Vec<String> = alarms.map(|one| one.session.to_owned()).collect();
            let sd = excess(repeats.iter())?.variance.sqrt();
            let is_wider = !sessions.is_empty() && sd >= LOG_MIN;
            is_wider.then(|| Widened { cell: (*cell).to_owned(), sessions, sd })
        });
        cells.collect()
    }
}

/// The mean square of the differences less that of their standard errors: what two cells of one
/// session differ by although nothing changed between them. It is the variance of a ratio of two
/// cells too, because both are two cells apart.
fn excess<'a>(repeats: impl Iterator<Item = &'a Repeat<'a>>) -> Option<Excess> {
    let (mut sum, mut n) = (0.0, 0_u32);
    for one in repeats {
        sum += one.value.powi(2) - one.se.powi(2);
        n += 1;
    }
    (n > 0).then(|| Excess { variance: (sum / f64::from(n)).max(0.0), repeats: n })
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
                .map(|(at, offset)| (format!("mps{at} stream"), logs(offset)))
                .collect(),
            ..Session::empty(name)
        }
    }

    fn side(name: &str, offsets: &[f64]) -> Vec<Session> {
        offsets.iter().zip(0..).map(|(x, n)| session(&format!("{name}{n}"), &[*x])).collect()
    }

    fn key(variant: &str) -> RowKey {
        RowKey {
            variant: variant.to_owned(),
            axis: "bandwidth/dram".to_owned(),
            victim: "stream".to_owned(),
            aggressor: None,
            dose: None,
            metric: crate::session::Metric::Retention,
        }
    }

    #[test]
    fn alarms_are_counted_and_the_cells_that_differ_are_named() {
        let quiet: Vec<Session> = (0..4).map(|n| session(&format!("{n}"), &[0.0; 5])).collect();
        let found = Repetition::of(&quiet[..2], &quiet[2..], &[]);
        assert_eq!((found.sessions, found.pairs, found.alarms), (4, 20, 0));
        assert_eq!(found.widened, []);
        let loud: Vec<Session> =
            (0..4).map(|n| session(&format!("{n}"), &[0.008, 0.0, -0.008, 0.0, 0.008])).collect();
        let found = Repetition::of(&loud[..2], &loud[2..], &[]);
        assert_eq!((found.pairs, found.alarms), (20, 12));
        let cells: Vec<&str> = found.widened.iter().map(|one| one.cell.as_str()).collect();
        assert_eq!(cells, ["mps0 stream", "mps2 stream", "mps4 stream"]);
        assert!(found.widened.iter().all(|one| one.sessions.len() == 4 && one.sd > 0.007));
    }

    #[test]
    fn a_repeated_cell_widens_the_rows_of_its_variant_and_victim_alone() {
        let [before, after] = [side("a", &[0.0, 0.0, 0.012]), side("b", &[0.0; 3])];
        let evidence = Evidence::of([&before, &after]);
        let found = evidence.excess(&key("mps0"), &[]).unwrap();
        // 0.012 in one of six sessions, less the standard error of four blocks.
        let noise = (0.004_f64.powi(2) + 0.003_f64.powi(2) + 0.001_f64.powi(2)) / 3.0 / 4.0;
        assert!((found.variance - (0.012_f64.powi(2) / 6.0 - noise)).abs() < 1e-12, "{found:?}");
        assert_eq!(found.repeats, 6);
        assert_eq!(evidence.excess(&key("mps0"), &["a2"]).unwrap().variance, 0.0);
        assert_eq!(evidence.excess(&key("mig"), &[]), None);
    }

    #[test]
    fn the_odd_session_of_each_side_is_named_and_a_clean_one_is_not() {
        let [before, after] = [
            side("a", &[0.0002, -0.0003, 0.03, 0.0, 0.0001, 0.02]),
            side("b", &[0.0001, 0.0, -0.0002, 0.0003, -0.04, 0.0]),
        ];
        let evidence = Evidence::of([&before, &after]);
        let [one, two] = evidence.odd(&key("mps0"), 0.03).map(Option::unwrap);
        assert_eq!((one.0, two.0), ("a2", "b4"));
        assert!((one.1 - 0.03_f64.exp_m1()).abs() < 1e-9);
        // Three sessions are what a verdict takes.
        let of_three = Evidence::of([&before[..3], &after[..3]]);
        assert!(of_three.odd(&key("mps0"), 0.03).into_iter().all(|one| one.is_none()));
        // Half of a wide margin is more than these cells differ by.
        assert!(evidence.odd(&key("mps0"), 0.1).into_iter().all(|one| one.is_none()));
        assert!(evidence.odd(&key("mig"), 0.03).into_iter().all(|one| one.is_none()));
    }

    /// 5.4 standard deviations, and the median of six absolute deviations varies.
    #[test]
    fn clean_sets_of_six_lose_a_session_in_at_most_2_percent() {
        let mut rng = gpubench_stats::ScheduleRng::new(1);
        let mut normal = move || {
            (2.0 * rng.exponential()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
        };
        for sd in [0.002, 0.005, 0.01] {
            let mut lost = 0;
            for _ in 0..1000 {
                let mut six = || (0..6).map(|_| sd * normal()).collect::<Vec<f64>>();
                let [before, after] = [side("a", &six()), side("b", &six())];
                let odd = Evidence::of([&before, &after]).odd(&key("mps0"), 0.03_f64.ln_1p());
                lost += u32::from(odd.iter().any(Option::is_some));
            }
            assert!(lost <= 20, "{lost} of 1000 at {sd}");
        }
    }

    #[test]
    fn a_session_on_both_sides_counts_once() {
        let one = session("a", &[0.0; 5]);
        let found = Repetition::of(std::slice::from_ref(&one), std::slice::from_ref(&one), &[]);
        assert_eq!((found.sessions, found.pairs), (1, 5));
    }

    #[test]
    fn the_last_thirty_nights_count_and_widen_nothing_of_tonight() {
        let nights: Vec<Session> =
            (100..140).map(|n| session(&format!("{n}"), &[0.05, 0.0])).collect();
        let tonight = [session("200", &[0.0; 2])];
        let found = Repetition::of(&nights[39..], &tonight, &nights[..39]);
        assert_eq!((found.sessions, found.pairs, found.alarms), (30, 60, 29));
        assert_eq!(found.widened.len(), 1);
        let quiet: Vec<Session> = (140..180).map(|n| session(&format!("{n}"), &[0.0; 2])).collect();
        let found = Repetition::of(&quiet[39..], &tonight, &nights[..1]);
        assert_eq!((found.alarms, found.widened.len()), (1, 0));
    }
}

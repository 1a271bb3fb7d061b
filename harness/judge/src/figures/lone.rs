//! Service jitter: how much a neighbour spreads the latency of one request that finds its own queue
//! empty.
//!
//! `J = [(q99 - q50)_C - s (q99 - q50)_N] / q50_N` with `s = q50_C / q50_N`, over lone requests:
//! the spread beyond what a uniform slowdown makes of the native spread. A neighbour that slows
//! every request by the same factor has J = 0.
//!
//! A group of [`LONE_MIN`] or more successive lone requests, from neighbouring blocks, gives one
//! value from median-unbiased quantiles, and the interval is a t interval over groups. Quantiles
//! pooled over a whole session would turn the drift between blocks into spread.

use std::collections::BTreeMap;

use gpubench_record::{CellResult, Estimate, Gaps, Sparse};
use gpubench_stats::queue::queue;
use gpubench_stats::{Confidence, Effect, NoEstimate, Sorted};

use super::cells::{Cells, Key};
use super::latency::UNIT;
use super::rates::{Pairs, printed};
use super::systematic::Systematic;

/// Lone requests of a group, under each condition: the 99th percentile of 200 has two above it.
pub const LONE_MIN: usize = 200;
/// Fewest groups for an interval.
pub const GROUPS_MIN: usize = 6;
/// Requests longer than this many native medians count as stalls.
const STALL_MEDIANS: f64 = 3.0;
/// A lone request this many times as long as the median beside the neighbour is a stall of its own
/// kind, which a time slice does not make.
const LONG_MEDIANS: f64 = 10.0;
/// Share of such requests from which the 99th percentile is one of them.
const LONG_SHARE: f64 = 0.01;

/// The lone requests of a contended pair, by group of blocks.
#[derive(Debug, Default)]
pub struct Lone {
    /// The block in which each group begins.
    pub blocks: Vec<u32>,
    pub values: Vec<f64>,
    /// By how much each may be lower and higher, because ends can be stamped late.
    late: Vec<[f64; 2]>,
    /// The mean native median.
    pub native_median_ns: f64,
    /// All lone requests beside the aggressor, rising.
    pub contended_ns: Vec<f64>,
    /// Lone requests of the smaller condition in a block, on average.
    pub per_block: f64,
    /// Time of all sparse phases beside the aggressor; 0 where open loops gave the requests.
    pub sparse_ns: u64,
    /// Blocks of both conditions.
    pub planned: usize,
    /// Of the interval.
    pub confidence: Confidence,
}

/// The cells of the pair, C and N; `None` where either was not planned. Where the requests are
/// those of open loops, these must be punctual.
pub fn pairs<'a>(cells: &Cells<'a>, contended: &Key) -> Option<Pairs<'a>> {
    let mut pairs = cells.pair(contended, &cells.native_of(contended))?;
    if pairs.measured.iter().any(|(_, top, native)| !(is_sparse(top) && is_sparse(native))) {
        pairs.only_punctual();
    }
    Some(pairs)
}

fn is_sparse(cell: &CellResult) -> bool {
    cell.cell.sparse.is_some()
}

impl Lone {
    /// Of these blocks, numerator C and denominator N.
    pub fn of(pairs: &Pairs<'_>) -> Self {
        let mut found =
            Self { planned: pairs.measured.len(), confidence: pairs.confidence, ..Self::default() };
        let (mut contended, mut native) = (Stream::default(), Stream::default());
        for (block, top, bottom) in &pairs.measured {
            found.sparse_ns += top.cell.sparse.map_or(0, |sparse: Sparse| sparse.length_ns);
            contended.add(*block, top);
            native.add(*block, bottom);
        }
        let groups = contended.ns.len().min(native.ns.len()) / LONE_MIN;
        let mut medians_ns = Vec::new();
        for group in 0..groups {
            let parts = [contended.part(group, groups), native.part(group, groups)];
            if let Some((value, late, median_ns)) = jitter(&parts) {
                found.blocks.push(parts[0].block);
                found.values.push(value);
                found.late.push(late);
                medians_ns.push(median_ns);
            }
        }
        let fewest = contended.ns.len().min(native.ns.len());
        found.contended_ns = contended.ns.iter().map(|ns| *ns as f64).collect();
        found.native_median_ns = gpubench_stats::summary::mean(&medians_ns).unwrap_or(0.0);
        found.contended_ns.sort_unstable_by(f64::total_cmp);
        found.per_block = fewest as f64 / found.planned.max(1) as f64;
        found
    }

    /// The mean over groups with its interval.
    /// Fails below two groups.
    pub fn estimate(&self) -> Result<Estimate, NoEstimate> {
        let found = printed(Effect::of_mean(&self.values)?.interval(self.confidence)?, UNIT);
        let mean = |end: usize| {
            let all = self.late.iter().map(|late| late[end]);
            all.sum::<f64>() / self.late.len().max(1) as f64
        };
        let (lo, hi) = (found.lo - mean(0), found.hi + mean(1));
        let is_late = lo < found.lo || hi > found.hi;
        Ok(if is_late { Systematic::default().with_ends(found, lo, hi) } else { found })
    }

    /// Blocks that an interval takes at the requests of these; `None` without any request.
    pub fn blocks_needed(&self) -> Option<usize> {
        let blocks = ((GROUPS_MIN * LONE_MIN) as f64 / self.per_block).ceil();
        blocks.is_finite().then_some(blocks as usize)
    }

    /// Share of the sparse phases that is spent inside requests longer than three native medians;
    /// `None` where open loops gave the requests.
    pub fn stalled_share(&self) -> Option<f64> {
        let least_ns = STALL_MEDIANS * self.native_median_ns;
        let long_ns = self.contended_ns.iter().filter(|ns| **ns > least_ns);
        let long_ns = long_ns.fold(0.0, |sum, ns| sum + ns);
        (self.sparse_ns > 0).then(|| long_ns / self.sparse_ns as f64)
    }

    /// Whether the 99th percentile is that of stalls rather than of slices.
    pub fn holds_stalls(&self) -> bool {
        let Some(median_ns) = self.contended_ns.get(self.contended_ns.len() / 2) else {
            return false;
        };
        let long = self.contended_ns.iter().filter(|ns| **ns > LONG_MEDIANS * median_ns).count();
        long as f64 > LONG_SHARE * self.contended_ns.len() as f64
    }
}

/// The lone requests of one condition in the order of blocks, and within one in that of issue.
#[derive(Default)]
struct Stream {
    ns: Vec<u64>,
    /// Of each request.
    blocks: Vec<u32>,
    /// Of each block, the ends that can be stamped late.
    late: BTreeMap<u32, Gaps>,
}

/// One of equal parts of a stream.
struct Part<'a> {
    /// The block in which it begins.
    block: u32,
    ns: &'a [u64],
    /// Ends of its blocks that can be stamped late: how many, and by how much at most.
    late: u64,
    late_ns: u64,
}

impl Stream {
    fn add(&mut self, block: u32, cell: &CellResult) {
        self.ns.extend(&cell.lone_ns);
        self.blocks.resize(self.ns.len(), block);
        let gaps = cell.tenant_results.first().and_then(|victim| victim.cpu_gaps.as_ref());
        let phase =
            gaps.and_then(|gaps| if is_sparse(cell) { gaps.sparse } else { Some(gaps.open) });
        self.late.extend(phase.and_then(|phase| phase.late_ends).map(|late| (block, late)));
    }

    /// One of so many equal parts, each at least one request long.
    fn part(&self, number: usize, parts: usize) -> Part<'_> {
        let at = |number: usize| number * self.ns.len() / parts;
        let range = at(number)..at(number + 1);
        let (block, last) = (self.blocks[range.start], self.blocks[range.end - 1]);
        let late = || self.late.range(block..=last).map(|(_, gaps)| gaps);
        Part {
            block,
            ns: &self.ns[range],
            late: late().map(|gaps| gaps.gaps).sum(),
            late_ns: late().map(|gaps| gaps.gap_ns_max).max().unwrap_or(0),
        }
    }
}

/// The jitter of a group, by how much it may be lower and higher, and its native median.
///
/// Late stamps lengthen latencies, so each quantile lies between its lower figure and the one as
/// measured. Either end takes the lower figure of the tail that is subtracted or of the other.
fn jitter([contended, native]: &[Part<'_>; 2]) -> Option<(f64, [f64; 2], f64)> {
    let [(c50, c99, c99_lo), (n50, n99, n99_lo)] = [contended, native].map(|part| {
        let sorted = Sorted::from_ns(part.ns).ok();
        let of = |p| sorted.as_ref().and_then(|one| one.median_unbiased(p).ok());
        let p99 = of(0.99).unwrap_or(f64::NAN);
        // The late ones are longer by the longest at most, and the others are right.
        let by_rank = of((0.99 - part.late as f64 / part.ns.len() as f64).max(0.5));
        let lower = by_rank.unwrap_or(f64::NAN).max(p99 - part.late_ns as f64).min(p99);
        (of(0.5).unwrap_or(f64::NAN), p99, lower)
    });
    let value = ((c99 - c50) - c50 / n50 * (n99 - n50)) / n50;
    let late = [(c99 - c99_lo) / n50, c50 / n50 * (n99 - n99_lo) / n50];
    value.is_finite().then_some((value, late, n50))
}

// What the queue of the load alone makes of these latencies.

/// Seed of the simulated queue.
const SEED: u64 = 1;

/// Mean wait in ms, and growth of the tail in native medians, that the queue makes of the lone
/// requests at the offered load; `None` without them, or where the queue grows without end.
pub fn queue_alone(pairs: &Pairs<'_>) -> Option<[f64; 2]> {
    let all = |of: fn(&(u32, &CellResult, &CellResult)) -> Vec<u64>| -> Vec<f64> {
        pairs.measured.iter().flat_map(of).map(|ns| ns as f64).collect()
    };
    let offered = pairs.measured.iter();
    let offered: Vec<f64> = offered.filter_map(|(_, top, _)| top.figures.offered_per_s).collect();
    let rate_per_ns = gpubench_stats::summary::mean(&offered).ok()? / 1e9;
    let of = |services: &[f64]| queue(services, rate_per_ns, SEED).ok().flatten();
    let contended = of(&all(|(_, top, _)| top.lone_ns.clone()))?;
    let native = of(&all(|(_, _, native)| native.lone_ns.clone()))?;
    let spread = |one: gpubench_stats::queue::Queue| one.p99 - one.p50;
    Some([contended.mean_wait / 1e6, (spread(contended) - spread(native)) / native.p50])
}

#[cfg(test)]
mod tests {
    use gpubench_record::{CpuGaps, PhaseGaps};
    use gpubench_stats::{ScheduleRng, student_t};

    use super::*;
    use crate::figures::rates::Pairs;
    use crate::gate::fixture::{MS, World};

    fn cell(condition: gpubench_record::Condition, lone_ns: Vec<u64>) -> CellResult {
        let mut cell = World::new(condition, MS).judge();
        cell.lone_ns = lone_ns;
        cell
    }

    /// Jitter of blocks of so many requests each, drawn from both distributions.
    fn session(
        blocks: u32,
        each: usize,
        seed: u64,
        native: impl Fn(&mut ScheduleRng) -> f64,
        contended: impl Fn(&mut ScheduleRng) -> f64,
    ) -> Lone {
        let mut rng = ScheduleRng::new(seed);
        let template = [
            cell(gpubench_record::Condition::C, Vec::new()),
            cell(gpubench_record::Condition::N, Vec::new()),
        ];
        let cells: Vec<[CellResult; 2]> = (0..blocks)
            .map(|_| {
                // The device drifts by half a percent between blocks.
                let drift = (1.0 + 0.005 * normal(&mut rng)) * 1e6;
                let mut draw = |of: &dyn Fn(&mut ScheduleRng) -> f64| {
                    (0..each).map(|_| (drift * of(&mut rng)) as u64).collect::<Vec<u64>>()
                };
                let mut both = template.clone();
                both[0].lone_ns = draw(&contended);
                both[1].lone_ns = draw(&native);
                both
            })
            .collect();
        let measured = (0..).zip(&cells).map(|(block, [top, native])| (block, top, native));
        Lone::of(&Pairs { measured: measured.collect(), ..Pairs::default() })
    }

    /// One request in fifty of the native cells, or of the contended ones, is seen 5 ms late.
    #[test]
    fn ends_that_are_seen_late_widen_the_interval_and_move_nothing() {
        let planted = |late: [f64; 2], is_counted: bool| {
            let mut rng = ScheduleRng::new(3);
            let mut cells = [gpubench_record::Condition::C, gpubench_record::Condition::N]
                .map(|condition| vec![cell(condition, Vec::new()); 8]);
            for (cells, share) in cells.iter_mut().zip(late) {
                for cell in cells {
                    let mut gaps = Gaps::default();
                    for _ in 0..200 {
                        let is_late = rng.uniform() < share;
                        let own_ns = MS as f64 * (1.0 + 0.1 * rng.uniform());
                        cell.lone_ns.push(own_ns as u64 + u64::from(is_late) * 5 * MS);
                        if is_late {
                            gaps.add(5 * MS);
                        }
                    }
                    let phase = PhaseGaps { late_ends: Some(gaps), ..PhaseGaps::default() };
                    let counted = CpuGaps { open: phase, ..CpuGaps::default() };
                    cell.tenant_results[0].cpu_gaps = is_counted.then_some(counted);
                }
            }
            let [contended, native] = &cells;
            let measured = (0..).zip(contended).zip(native);
            let measured = measured.map(|((block, top), bottom)| (block, top, bottom));
            Lone::of(&Pairs { measured: measured.collect(), ..Pairs::default() })
                .estimate()
                .expect("an interval")
        };
        for late in [[0.02, 0.0], [0.0, 0.02]] {
            let (with, without) = (planted(late, true), planted(late, false));
            assert_eq!(with.value, without.value);
            assert!(with.lo < 0.0 && 0.0 < with.hi, "{late:?}: {with:?}");
            assert!(without.lo > 1.0 || without.hi < -1.0, "{late:?}: {without:?}");
        }
        let (with, without) = (planted([0.0; 2], true), planted([0.0; 2], false));
        assert_eq!((with.lo, with.hi), (without.lo, without.hi));
    }

    fn normal(rng: &mut ScheduleRng) -> f64 {
        (-2.0 * (1.0 - rng.uniform()).ln()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
    }

    /// A wait for what is left of a slice, at arrivals without memory of it.
    fn slice(rng: &mut ScheduleRng, length: f64) -> f64 {
        1.0 + length * rng.uniform()
    }

    #[test]
    fn a_uniform_slowdown_has_no_jitter() {
        for slowdown in [1.0, 2.0, 6.25] {
            for noise in [0.0, 0.01, 0.03] {
                let sessions = 20_u32;
                let sum: f64 = (0..sessions)
                    .map(|seed| {
                        let request = move |rng: &mut ScheduleRng| (noise * normal(rng)).exp();
                        let slowed =
                            move |rng: &mut ScheduleRng| slowdown * (noise * normal(rng)).exp();
                        let found = session(8, 200, seed.into(), request, slowed);
                        found.estimate().expect("groups").value
                    })
                    .sum();
                let mean = sum / f64::from(sessions);
                assert!(mean.abs() <= 0.02, "x{slowdown} with {noise}: {mean}");
            }
        }
    }

    /// Of a uniform wait over a slice of T, q99 - q50 is 0.49 T.
    #[test]
    fn slices_have_their_closed_form_in_their_order() {
        let mut last = 0.0;
        for length in [1.0, 2.0, 4.0] {
            let sum: f64 = (0..20)
                .map(|seed| {
                    let beside = move |rng: &mut ScheduleRng| slice(rng, length);
                    session(8, 200, seed, |_| 1.0, beside).estimate().expect("groups").value
                })
                .sum();
            let mean = sum / 20.0;
            assert!((mean / (0.49 * length) - 1.0).abs() <= 0.05, "T = {length}: {mean}");
            assert!(mean > last);
            last = mean;
        }
    }

    /// True values from 40 million draws, or in closed form.
    #[test]
    fn intervals_cover_the_truth() {
        type Draw = fn(&mut ScheduleRng) -> f64;
        let log_normal: Draw = |rng| (0.1 * normal(rng)).exp();
        let rare: Draw =
            |rng| if rng.uniform() < 0.002 { 200.0 } else { 1.0 + 0.01 * rng.uniform() };
        let cases: [(&str, Draw, f64, f64, f64); 3] = [
            ("slices", |rng| slice(rng, 2.0), 0.98, 0.92, 0.97),
            // exp(0.1 z99) - 1.
            ("log-normal", log_normal, 0.261_93, 0.92, 0.97),
            ("rare stalls", rare, 0.0049, 0.90, 1.0),
        ];
        for (name, beside, truth, least, most) in cases {
            let sessions = 1_000;
            let covered = (0..sessions).filter(|seed| {
                let found = session(8, 150, 77_000 + seed, |_| 1.0, beside);
                let of = found.estimate().expect("groups");
                of.lo <= truth && truth <= of.hi
            });
            let share = covered.count() as f64 / sessions as f64;
            assert!((least..=most).contains(&share), "{name}: {share}");
        }
    }

    #[test]
    fn an_interval_takes_six_groups_of_two_hundred() {
        let of = |blocks, each| session(blocks, each, 1, |_| 1.0, |rng| slice(rng, 2.0));
        for (blocks, each, groups, needed) in
            [(8, 200, 8, 6), (8, 150, 6, 8), (8, 149, 5, 9), (12, 100, 6, 12), (3, 60, 0, 20)]
        {
            let found = of(blocks, each);
            assert_eq!((found.values.len(), found.blocks_needed()), (groups, Some(needed)));
        }
        assert_eq!(of(4, 0).blocks_needed(), None);
        let t = student_t::two_sided_quantile(0.05, 7.0).expect("a quantile");
        let found = of(8, 200);
        let moments = gpubench_stats::summary::moments(&found.values).expect("moments");
        let estimate = found.estimate().expect("an interval");
        assert!((estimate.hi - estimate.value - t * moments.sd / 8_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn stalls_have_a_share_of_time_and_are_named_where_they_make_the_tail() {
        let with = |share: f64| {
            session(8, 200, 3, |_| 1.0, move |rng| if rng.uniform() < share { 200.0 } else { 1.0 })
        };
        assert!(!with(0.002).holds_stalls());
        assert!(with(0.03).holds_stalls());
        assert_eq!(with(0.03).stalled_share(), None, "open loops");
    }
}

//! Percentiles of open-loop latencies with their intervals over blocks.

use gpubench_stats::{Confidence, Effect, student_t};

use super::{Latencies, PERCENTILES};

/// One percentile with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentile {
    /// The latency.
    pub ns: u64,
    /// Lower and upper end; the upper is absent where the request at it did not complete. Absent
    /// with one block.
    pub interval_ns: Option<(u64, Option<u64>)>,
}

/// [`PERCENTILES`] of `requests` requests. Below ten requests a p90 is the maximum and says nothing
/// about a tail, so it is `None`; the others likewise.
pub(super) fn percentiles(
    requests: u64,
    sum: &Latencies,
    blocks: &[(u64, Latencies)],
) -> [Option<Percentile>; PERCENTILES.len()] {
    PERCENTILES.map(|(permille, _)| {
        let rank = (requests * permille).div_ceil(1_000);
        let enough = requests * (1_000 - permille) >= 1_000;
        let ns = sum.at_ranks([rank])[0].filter(|_| enough)?;
        let share = permille as f64 / 1e3;
        let interval_ns = half_width(ns, share, requests, blocks).and_then(|half| {
            let rank = |share: f64| (share * requests as f64).ceil().max(1.0) as u64;
            let found = sum.at_ranks([rank(share - half), rank(share + half)]);
            Some((found[0]?, found[1].filter(|_| share + half <= 1.0)))
        });
        Some(Percentile { ns, interval_ns })
    })
}

/// Half the width of the 95 % interval of the share of requests up to `ns`, from its spread over
/// blocks, and at least that of independent requests. The latencies at its ends are the interval of
/// the percentile: Woodruff, "Confidence intervals for medians and other position measures", JASA
/// 47(260), 1952, with blocks as clusters. `None` with one block.
fn half_width(ns: u64, share: f64, requests: u64, blocks: &[(u64, Latencies)]) -> Option<f64> {
    let n = blocks.len() as f64;
    let t = student_t::two_sided_quantile(Confidence::P95.alpha(), n - 1.0).ok()?;
    let total = requests as f64;
    let pooled = blocks.iter().map(|block| block.1.count_up_to(ns)).sum::<u64>() as f64 / total;
    let squares = blocks.iter().map(|(of_block, latencies)| {
        let of_block = (*of_block).max(latencies.count()) as f64;
        (latencies.count_up_to(ns) as f64 - of_block * pooled).powi(2)
    });
    let between = n / (n - 1.0) * squares.sum::<f64>() / (total * total);
    let independent = share * (1.0 - share) / total;
    Some(t * between.max(independent).sqrt())
}

/// The mean of logs with its interval. `None` without a positive figure.
pub(super) fn mean_over_blocks(figures: &[f64]) -> Option<Percentile> {
    let logs: Vec<f64> = figures.iter().filter(|ns| **ns > 0.0).map(|ns| ns.ln()).collect();
    let round = |ln: f64| ln.exp().round() as u64;
    let Ok(effect) = Effect::of_mean(&logs) else {
        let ns = round(*logs.first()?);
        return Some(Percentile { ns, interval_ns: None });
    };
    let interval = effect.interval(Confidence::P95).ok();
    let interval_ns = interval.map(|found| (round(found.lo), Some(round(found.hi))));
    Some(Percentile { ns: round(effect.value), interval_ns })
}

//! Bounds of levels: whether an interval straddles one, and the number of blocks at which it would
//! no longer.

use gpubench_record::Estimate;

/// The estimate with ends that contain both values.
pub(super) fn reaching(estimate: &Estimate, values: [f64; 2]) -> Estimate {
    let [one, two] = values;
    Estimate {
        lo: estimate.lo.min(one).min(two),
        hi: estimate.hi.max(one).max(two),
        ..estimate.clone()
    }
}

/// The scale on which the interval of a figure is symmetric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    /// That of ratios.
    Log,
}

/// A bound of levels that an interval straddles.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Straddled {
    pub text: String,
    /// The blocks at which it would no longer; `None` where no number of blocks is enough.
    pub blocks: Option<u32>,
}

impl From<String> for Straddled {
    fn from(text: String) -> Self {
        let blocks = None;
        Self { text, blocks }
    }
}

/// How many blocks would decide; `None` where the interval does not straddle the bound.
///
/// The half width of a t interval is `t s / sqrt(n)`, and it must shrink to the distance from the
/// value to the bound, less the systematic part, which stays: `n* = ceil(n (half width /
/// distance)^2)`, on the scale on which the interval is symmetric.
pub(super) fn blocks_needed(
    what: &str,
    estimate: &Estimate,
    bound: f64,
    scale: Scale,
) -> Option<Straddled> {
    if !(estimate.lo < bound && bound <= estimate.hi) {
        return None;
    }
    let scale = |x: f64| match scale {
        Scale::Linear => x,
        Scale::Log => x.ln(),
    };
    let stat =
        estimate.parts.map_or((estimate.lo, estimate.hi), |parts| (parts.stat_lo, parts.stat_hi));
    let (value, bound_at) = (scale(estimate.value), scale(bound));
    let (stat_end, end) = if value < bound_at {
        (scale(stat.1), scale(estimate.hi))
    } else {
        (scale(stat.0), scale(estimate.lo))
    };
    let distance = (bound_at - value).abs() - (end - stat_end).abs();
    let half = (stat_end - value).abs();
    let needed = (f64::from(estimate.n) * (half / distance).powi(2)).ceil();
    let enough = distance > 0.0 && needed < f64::from(u32::MAX);
    let blocks = enough.then(|| (needed as u32).max(estimate.n + 1));
    let wanted = match blocks {
        Some(blocks) => format!("about {blocks} blocks are needed"),
        None => "no number of blocks would decide".to_owned(),
    };
    let text = format!("{what} straddles {bound}: {wanted}, {} are there", estimate.n);
    Some(Straddled { text, blocks })
}

#[cfg(test)]
mod tests {
    use gpubench_record::Ends;

    use super::*;
    use crate::figures::Systematic;

    fn estimate(value: f64, lo: f64, hi: f64, unit: &str) -> Estimate {
        Estimate { value, lo, hi, ends: Ends::Interval, parts: None, n: 8, unit: unit.to_owned() }
    }

    #[test]
    fn blocks_needed_follow_the_formula() {
        // Half width 1/4, distance 1/8: four times the blocks.
        let index = estimate(0.5, 0.25, 0.75, "index");
        let found = blocks_needed("index", &index, 0.375, Scale::Linear).expect("it straddles");
        let want = "index straddles 0.375: about 32 blocks are needed, 8 are there";
        assert_eq!((found.text.as_str(), found.blocks), (want, Some(32)));
        // On the log scale: half width ln 1.21, distance ln 1.1, again twice as far.
        let ratio = estimate(1.1 * 0.8, 0.8 * 1.1 / 1.21, 0.8 * 1.1 * 1.21, "ratio");
        let found = blocks_needed("retention", &ratio, 0.8, Scale::Log);
        let blocks = found.and_then(|found| found.blocks);
        assert!(matches!(blocks, Some(32 | 33)), "{blocks:?}");
        let on_it = blocks_needed("index", &estimate(0.2, 0.1, 0.5, "index"), 0.2, Scale::Linear);
        assert!(on_it.is_some_and(|found| found.blocks.is_none()));
        assert_eq!(
            blocks_needed("index", &estimate(0.3, 0.2, 0.5, "index"), 0.2, Scale::Linear),
            None
        );
        assert_eq!(
            blocks_needed("index", &estimate(0.1, 0.0, 0.19, "index"), 0.2, Scale::Linear),
            None
        );
    }

    /// Distance 1/8, of which the systematic part takes a half: the rest takes sixteen times the
    /// blocks. A systematic part as wide as the distance leaves none.
    #[test]
    fn a_systematic_part_takes_more_blocks() {
        for (up, blocks) in [(0.0, Some(32)), (0.0625, Some(128)), (0.125, None)] {
            let index = estimate(0.5, 0.25, 0.75, "index");
            let wide = Systematic::default().with_ends(index, 0.25, 0.75 + up);
            let found = blocks_needed("index", &wide, 0.625, Scale::Linear);
            assert_eq!(found.and_then(|found| found.blocks), blocks, "{up}");
        }
    }
}

//! By how much a figure of the model may differ from the hardware's. Conventions, not findings.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Check, Compared, Verdict};

/// Retention, guarantee and native work: part of the hardware's figure.
const RATE: f64 = 0.10;
/// Below this rate ratio a tenant is starved: the level decides, and no relative error.
const STARVED: f64 = 0.05;
/// Jitter: part of the hardware's figure, or native medians, whichever is more.
const JITTER: f64 = 0.25;
const JITTER_MEDIANS: f64 = 0.10;
/// Proportions and ratios of probes.
const PROPORTION: f64 = 0.05;
/// Times and other figures of probes: part of the hardware's figure.
const PROBE: f64 = 0.25;
/// Times of refusals, which the model notices at once: factor beyond the range of its trials.
const DETECTION: f64 = 4.0;

/// The model's figure over the hardware's, less 1.
pub(super) fn error(real: f64, model: f64) -> Option<f64> {
    (real != 0.0).then(|| model / real - 1.0)
}

/// A rate ratio; `levels_agree` counts where the hardware starves the tenant.
pub(super) fn rate(name: &str, real: f64, model: f64, levels_agree: bool) -> Check {
    let is_close = (model - real).abs() <= RATE * real.abs();
    ratio(name, [real, model], is_close || real < STARVED && levels_agree)
}

/// A jitter or the growth of a tail, in native medians.
pub(super) fn jitter(name: &str, real: f64, model: f64) -> Check {
    let bound = (JITTER * real.abs()).max(JITTER_MEDIANS);
    let check = ratio(name, [real, model], (model - real).abs() <= bound);
    // A model that spreads latencies less isolates better.
    let is_better = model < real - bound;
    Check { verdict: if is_better { Verdict::Optimistic } else { check.verdict }, ..check }
}

/// A proportion of trials or requests.
pub(super) fn proportion(name: &str, real: f64, model: f64) -> Check {
    ratio(name, [real, model], (model - real).abs() <= PROPORTION)
}

fn ratio(name: &str, [real, model]: [f64; 2], within: bool) -> Check {
    Check {
        figure: name.to_owned(),
        real: format!("{real:.3}"),
        model: format!("{model:.3}"),
        error: error(real, model),
        verdict: verdict(within),
    }
}

/// Whether work a second is close enough.
pub(super) fn work(real: f64, model: f64) -> Verdict {
    verdict((model - real).abs() <= RATE * real.abs())
}

/// Whether a figure of a probe is close enough.
pub(super) fn probe(real: f64, model: f64) -> Verdict {
    verdict((model - real).abs() <= (PROBE * real.abs()).max(PROPORTION))
}

/// Whether the time of a refusal lies in the range of the model's trials, or near it.
pub(super) fn detection(real_ns: u64, [least_ns, most_ns]: [u64; 2]) -> Verdict {
    let (real, least, most) = (real_ns as f64, least_ns as f64, most_ns as f64);
    verdict((least / DETECTION..=most * DETECTION).contains(&real))
}

pub(super) const fn verdict(within: bool) -> Verdict {
    if within { Verdict::Within } else { Verdict::Outside }
}

/// The levels that a text such as `L1` or `L1..L3` leaves open: the lowest and the highest.
fn range(level: &str) -> Option<[u8; 2]> {
    let number = |text: &str| text.strip_prefix('L')?.parse().ok();
    let (low, high) = level.split_once("..").unwrap_or((level, level));
    Some([number(low)?, number(high)?])
}

/// Both levels: optimistic where even the lowest of the model is above the highest of the hardware.
pub(super) fn level(real: Option<&str>, model: Option<&str>) -> Check {
    let verdict = match (real.and_then(range), model.and_then(range)) {
        (Some([_, real_high]), Some([model_low, _])) if model_low > real_high => {
            Verdict::Optimistic
        }
        (Some([real_low, _]), Some([_, model_high])) => verdict(model_high >= real_low),
        (None, _) => Verdict::Open,
        (Some(_), None) => Verdict::Outside,
    };
    let text = |level: Option<&str>| level.unwrap_or("-").to_owned();
    Check { figure: "level".to_owned(), real: text(real), model: text(model), error: None, verdict }
}

// Known differences: what the model gets wrong, and why.

/// The list of known differences.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasons {
    /// One entry for each reason.
    #[serde(default, rename = "difference")]
    pub differences: Vec<KnownDifference>,
}

/// Rows that differ for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDifference {
    /// Folder of the record.
    pub record: String,
    /// The rows, as `VARIANT NAME`.
    pub rows: Vec<String>,
    /// Whether the model is optimistic in them. An entry without it does not cover such a row.
    #[serde(default)]
    pub optimistic: bool,
    /// Why they differ.
    pub reason: String,
}

impl Reasons {
    /// Gives the rows their reasons. Returns the listed rows that do not differ as listed.
    pub(super) fn apply(&self, records: &mut [Compared]) -> Vec<String> {
        let mut used = BTreeSet::new();
        for compared in records {
            for row in &mut compared.rows {
                let optimistic = match row.verdict() {
                    Verdict::Open | Verdict::Within => continue,
                    Verdict::Outside => false,
                    Verdict::Optimistic => true,
                };
                let key = row.key();
                let known = self.differences.iter().find(|one| {
                    one.record == compared.record
                        && one.optimistic == optimistic
                        && one.rows.contains(&key)
                });
                row.reason = known.map(|one| one.reason.clone());
                used.insert((compared.record.clone(), optimistic, key));
            }
        }
        let listed = self.differences.iter().flat_map(|one| {
            let key = |row: &String| (one.record.clone(), one.optimistic, row.clone());
            one.rows.iter().map(key)
        });
        let unneeded = listed.filter(|key| !used.contains(key));
        let text = |(record, optimistic, row): (String, bool, String)| {
            let kind = if optimistic { "optimistic" } else { "outside its bounds" };
            format!("{record}: {row} is not {kind}")
        };
        unneeded.map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, detection, jitter, level, probe, proportion, rate};

    #[test]
    fn levels_are_optimistic_only_where_no_level_is_common_and_the_models_is_higher() {
        use Verdict::{Open, Optimistic, Outside, Within};
        for (real, model, want) in [
            (Some("L0"), Some("L0"), Within),
            (Some("L0"), Some("L1"), Optimistic),
            (Some("L0"), Some("L1..L3"), Optimistic),
            (Some("L0..L1"), Some("L1..L2"), Within),
            (Some("L2..L3"), Some("L3"), Within),
            (Some("L3"), Some("L0"), Outside),
            (Some("L1"), None, Outside),
            (None, Some("L3"), Open),
            (None, None, Open),
        ] {
            assert_eq!(level(real, model).verdict, want, "{real:?} {model:?}");
        }
    }

    #[test]
    fn figures_are_within_their_bound_and_no_further() {
        use Verdict::{Outside, Within};
        let starved = |agree| rate("retention", 0.008, 0.297, agree).verdict;
        for (found, want) in [
            (rate("retention", 0.5, 0.549, false).verdict, Within),
            (rate("retention", 0.5, 0.551, true).verdict, Outside),
            (rate("retention", 0.5, 0.449, true).verdict, Outside),
            (starved(true), Within),
            (starved(false), Outside),
            (jitter("jitter", 4.0, 4.9).verdict, Within),
            (jitter("jitter", 4.0, 5.1).verdict, Outside),
            (jitter("jitter", 4.0, 2.9).verdict, Verdict::Optimistic),
            (jitter("jitter", 0.02, 0.11).verdict, Within),
            (jitter("jitter", 0.02, 0.13).verdict, Outside),
            (proportion("survival", 1.0, 0.96).verdict, Within),
            (proportion("survival", 1.0, 0.94).verdict, Outside),
            (probe(2091.0, 2500.0), Within),
            (probe(2091.0, 2700.0), Outside),
            (detection(39, [10, 20]), Within),
            (detection(100, [10, 20]), Outside),
            (detection(2, [10, 20]), Outside),
        ] {
            assert_eq!(found, want);
        }
    }
}

//! The smallest change of each row that a plan detects, from the spread between blocks.

use gpubench_record::{Plan, Spread, SubAxis, counted};
use gpubench_stats::Confidence;
use gpubench_stats::power::mde80;
use schemars::JsonSchema;
use serde::Serialize;

/// Spread of block logs of a retention that is assumed where none is known: 2 %, as on an H100
/// 80GB (between 0.5 and 3 % over its rows).
const LOG_SPREAD_ASSUMED: f64 = 0.02;
/// The same for jitter, in native medians.
const JITTER_SPREAD_ASSUMED: f64 = 0.1;

/// What one row of a plan detects, under every mechanism.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Detectable {
    /// Axis and sub-axis.
    pub axis: String,
    /// Workload of the victim.
    pub victim: String,
    /// Workload of the aggressor.
    pub aggressor: String,
    /// The figure: `retention` or `jitter`.
    pub figure: &'static str,
    /// Planned blocks.
    pub blocks: u32,
    /// The change that 80 % of runs detect at 95 % confidence: a part of the retention, or native
    /// medians of jitter. `None` below two blocks.
    pub smallest: Option<f64>,
    /// Spread between blocks that it rests on, in the same unit.
    pub spread: f64,
    /// Where the spread is from.
    pub source: String,
}

/// One entry for each pair, then one for jitter.
#[must_use]
pub fn detectable(plan: &Plan, known: Option<&Spread>) -> Vec<Detectable> {
    // Reservations are counted: their interval follows from the number of requests.
    let pairs = plan.pairs.iter();
    let mut rows: Vec<Detectable> = pairs
        .filter(|pair| pair.sub_axis != SubAxis::Capacity)
        .map(|pair| {
            let measured = known.and_then(|known| known.victims.get(&pair.victim));
            let measured = measured.map(|victim| victim.between_blocks);
            let axis = format!("{}/{}", pair.sub_axis.axis().as_str(), pair.sub_axis.as_str());
            let (spread, source) = spread(measured, known, LOG_SPREAD_ASSUMED);
            let smallest = mde80(spread, plan.blocks, Confidence::P95).ok();
            Detectable {
                axis,
                victim: pair.victim.clone(),
                aggressor: pair.aggressor.clone(),
                figure: "retention",
                blocks: plan.blocks,
                smallest: smallest.map(f64::exp_m1),
                spread,
                source,
            }
        })
        .collect();
    let gives_jitter = |row: &&Detectable| row.axis.ends_with(plan.jitter_from.as_str());
    let requested = |axis: &String| axis == "all" || axis == "jitter";
    if let Some(first) = rows.iter().find(gives_jitter).cloned()
        && plan.axes.iter().any(requested)
    {
        let (spread, source) = spread(None, None, JITTER_SPREAD_ASSUMED);
        rows.push(Detectable {
            axis: "jitter".to_owned(),
            figure: "jitter",
            smallest: mde80(spread, plan.blocks, Confidence::P95).ok(),
            spread,
            source,
            ..first
        });
    }
    rows
}

fn spread(measured: Option<f64>, known: Option<&Spread>, assumed: f64) -> (f64, String) {
    match (measured, known) {
        (Some(spread), Some(known)) => {
            let sessions = known.sessions.len();
            (spread, format!("measured in {}", counted(sessions, "session")))
        }
        _ => (assumed, "assumed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::VictimSpread;

    use super::*;
    use crate::plan::tests::{TestResult, built_in, host};

    #[test]
    fn a_known_spread_replaces_the_assumed_one() -> TestResult {
        let plan = crate::plan::plan(&built_in("default")?, &host(&[0]), "ptx")?;
        let assumed = detectable(&plan, None);
        assert_eq!(assumed.len(), plan.pairs.len() + 1);
        assert!(assumed.iter().all(|row| row.source == "assumed"));
        let compute = assumed.first().ok_or("no row")?;
        // (t(0.975, 9) + t(0.8, 9)) / sqrt(10) * 0.02 = 0.0199 on the log scale.
        let smallest = compute.smallest.ok_or("none")?;
        assert!((smallest - 0.0201).abs() < 2e-4, "{smallest}");
        let mut known = Spread { sessions: vec![String::new(); 3], ..Spread::default() };
        let victim = VictimSpread { between_blocks: 0.005, ..VictimSpread::default() };
        known.victims.insert("compute".to_owned(), victim);
        let rows = detectable(&plan, Some(&known));
        assert_eq!(rows[0].source, "measured in 3 sessions");
        assert!(rows[0].smallest < Some(smallest / 3.5), "{:?}", rows[0]);
        assert_eq!(rows[1], assumed[1]);
        assert_eq!(rows.last().map(|row| row.figure), Some("jitter"));
        Ok(())
    }
}

//! The spread of a device from A/A sessions: native cells N and their repetitions N', which nothing
//! distinguishes.

use gpubench_record::{CellResult, Condition, RunRecord, SessionLatencies, Spread, VictimSpread};
use gpubench_stats::Confidence;
use gpubench_stats::power::mde80_of;
use gpubench_stats::series::{Modes, modes};
use gpubench_stats::summary::{mean, moments};

use crate::figures::latency::{self, Quantile};
use crate::figures::lone::{self, Lone};
use crate::figures::{Cells, MODES_RATIO_MIN, Reading, ln_rate};

/// Version of the format of [`Spread`].
const VERSION: u32 = 1;

/// The quantile of the differences between equal sessions that a margin must exceed.
const DIFFERENCE_QUANTILE: f64 = 0.95;

/// Adds a session to a spread and computes its figures again. Sessions of another device, driver or
/// calibration measured other work, so a record that differs begins a new spread.
pub fn with_session(known: Option<Spread>, run: &RunRecord) -> Spread {
    let begun = Spread {
        version: VERSION,
        device: run.device.uuid.clone(),
        name: run.device.name.clone(),
        kind: run.device.kind.as_str().to_owned(),
        driver: run.device.driver.clone(),
        calibration: run.calibration.hash.clone(),
        ..Spread::default()
    };
    let same = |known: &Spread| {
        let of = |one: &Spread| {
            let texts = [&one.device, &one.driver, &one.kind, &one.calibration];
            (one.version, texts.map(String::clone))
        };
        of(known) == of(&begun)
    };
    let mut spread = known.filter(same).unwrap_or(begun);
    let before = spread.sessions.len();
    spread.sessions.push(run.provenance.started_at.clone());
    let is_native =
        |cell: &&CellResult| cell.outcome.is_measured() && cell.cell.condition == Condition::N;
    for cell in run.cells.iter().filter(is_native) {
        spread.victims.entry(cell.cell.victim.clone()).or_default();
    }
    for (victim, of_victim) in &mut spread.victims {
        // A victim of an earlier profile has no blocks in this session, and the other way round.
        of_victim.logs.resize(before, Vec::new());
        of_victim.logs.push(blocks(run, victim));
        let mut latencies = std::mem::take(&mut of_victim.latencies);
        latencies.resize(before, SessionLatencies::default());
        latencies.push(latencies_of(run, victim));
        *of_victim = VictimSpread { latencies, ..figures(std::mem::take(&mut of_victim.logs)) };
    }
    spread
}

/// The log rates of both native cells of each block in which both are measured.
fn blocks(run: &RunRecord, victim: &str) -> Vec<[f64; 2]> {
    // A record whose results are not those of its plan has no figures.
    let Ok(cells) = Cells::index(&run.plan, &run.cells, Reading::Printed) else {
        return Vec::new();
    };
    let native = cells.of(Condition::N).filter(|key| key.pair.victim == victim);
    let pairs = native.filter_map(|key| cells.pair(&key.with(Condition::NAgain), key));
    let blocks = pairs.flat_map(|pairs| pairs.measured);
    blocks.filter_map(|(_, again, one)| Some([ln_rate(one)?, ln_rate(again)?])).collect()
}

/// The latencies of the native cells, in the first pair of the victim that has each.
fn latencies_of(run: &RunRecord, victim: &str) -> SessionLatencies {
    let Ok(cells) = Cells::index(&run.plan, &run.cells, Reading::Printed) else {
        return SessionLatencies::default();
    };
    let native = || cells.of(Condition::N).filter(|key| key.pair.victim == victim);
    let quantile = |quantile| {
        let trusted = native().map(|key| latency::trusted(&cells, key));
        trusted.filter_map(|alone| mean(&latency::logs(&alone, quantile).logs).ok()).next()
    };
    let again = native().filter_map(|key| lone::pairs(&cells, &key.with(Condition::NAgain)));
    SessionLatencies {
        ln_p50: quantile(Quantile::Median),
        ln_p99: quantile(Quantile::P99),
        jitter: again.filter_map(|pairs| mean(&Lone::of(&pairs).values).ok()).next(),
    }
}

/// The figures of the sessions of one victim.
fn figures(logs: Vec<Vec<[f64; 2]>>) -> VictimSpread {
    let ratios = |session: &[[f64; 2]]| -> Vec<f64> {
        session.iter().map(|[one, again]| again - one).collect()
    };
    let (mut squares, mut df, mut bimodal) = (0.0, 0, 0);
    // The mean of each session, and the variance of that mean that its blocks explain.
    let (mut means, mut within) = (Vec::new(), Vec::new());
    for session in &logs {
        let ratios = ratios(session);
        if let Ok(found) = moments(&ratios) {
            squares += found.sd.powi(2) * f64::from(found.n - 1);
            df += found.n - 1;
        }
        bimodal += u32::from(matches!(modes(&ratios, MODES_RATIO_MIN), Ok(Modes::Two { .. })));
        let of_blocks: Vec<f64> = session.iter().map(|[one, again]| (one + again) / 2.0).collect();
        if let Ok(found) = moments(&of_blocks) {
            means.push(found.mean);
            within.push(found.sd.powi(2) / f64::from(found.n));
        }
    }
    let between_blocks = if df == 0 { 0.0 } else { (squares / f64::from(df)).sqrt() };
    let of_means = moments(&means).ok();
    let explained = within.iter().sum::<f64>() / within.len().max(1) as f64;
    let between = of_means.map(|found| (found.sd.powi(2) - explained).max(0.0).sqrt());
    let detectable = of_means.and_then(|found| {
        // One session against one: each has the whole spread of session means.
        let se = std::f64::consts::SQRT_2 * found.sd;
        mde80_of(se, f64::from(found.n - 1), Confidence::P95).ok()
    });
    VictimSpread {
        between_blocks,
        between_blocks_df: df,
        between_sessions: between,
        bimodal_sessions: bimodal,
        difference_p95: difference_p95(&means),
        smallest_detectable: detectable.map(f64::exp_m1),
        logs,
        latencies: Vec::new(),
    }
}

/// The quantile of the absolute differences of all pairs of sessions.
fn difference_p95(means: &[f64]) -> Option<f64> {
    let pairs = means.iter().enumerate();
    let mut differences: Vec<f64> = pairs
        .flat_map(|(index, one)| means[..index].iter().map(move |other| (one - other).abs()))
        .collect();
    differences.sort_by(f64::total_cmp);
    let rank = (DIFFERENCE_QUANTILE * differences.len() as f64).ceil() as usize;
    differences.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_follow_from_the_logs() {
        // Ratios of blocks +-0.01: sd 0.01155 with 3 degrees of freedom in each session.
        let session = |mean: f64| -> Vec<[f64; 2]> {
            let ratio = |sign: f64| [mean - sign * 0.005, mean + sign * 0.005];
            [1.0, -1.0, 1.0, -1.0].map(ratio).to_vec()
        };
        let found = figures(vec![session(1.00), session(1.02), session(1.04)]);
        assert!((found.between_blocks - 0.0115470).abs() < 1e-6, "{found:?}");
        assert_eq!((found.between_blocks_df, found.bimodal_sessions), (9, 0));
        // Block means do not differ, so the whole spread is between sessions.
        let sd = found.between_sessions.unwrap();
        assert!((sd - 0.02).abs() < 1e-12);
        assert!((found.difference_p95.unwrap() - 0.04).abs() < 1e-12);
        // (t(0.975, 2) + t(0.8, 2)) * sqrt(2) * 0.02 = (4.302653 + 1.060660) * 0.0282843 on the
        // log scale.
        let log = found.smallest_detectable.unwrap().ln_1p();
        assert!((log - 0.151697).abs() < 1e-5, "{log}");
    }

    #[test]
    fn noise_of_blocks_is_no_spread_between_sessions() {
        // Four block means with sd 0.0258: a session mean varies by 0.0129 for that alone.
        let session = |shift: f64| -> Vec<[f64; 2]> {
            [-0.03, -0.01, 0.01, 0.03].map(|block| [block + shift; 2]).to_vec()
        };
        let found = figures(vec![session(0.0), session(0.01), session(-0.01)]);
        assert_eq!(found.between_sessions, Some(0.0));
        assert_eq!(found.between_blocks, 0.0);
    }

    #[test]
    fn one_session_has_no_spread_between_sessions() {
        let found = figures(vec![vec![[1.0, 1.01], [1.0, 0.99]]]);
        assert!(found.between_blocks > 0.0);
        assert_eq!(found.between_sessions, None);
        assert_eq!(found.smallest_detectable, None);
        assert_eq!(found.difference_p95, None);
    }
}

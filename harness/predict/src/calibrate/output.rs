//! Output of `simulate --calibrate`: the parameters, and prediction beside measurement.

use super::{Basis, Calibrated, Miss};
use crate::text::draw;

/// The calibration as text.
pub fn table(calibrated: &Calibrated) -> String {
    let parameters = &calibrated.parameters;
    let rows = [
        ("service_ms", Some(&parameters.service_ms)),
        ("contention", parameters.contention.as_ref()),
        ("switch_ms", parameters.switch_ms.as_ref()),
        ("slice_speed", parameters.slice_speed.as_ref()),
    ];
    let rows = rows.into_iter().map(|(name, basis)| {
        let (value, from) = basis.map_or_else(
            || ("-".to_owned(), "the scenario; not in the record".to_owned()),
            |Basis { value, from }| (format!("{value:.4}"), from.clone()),
        );
        vec![name.to_owned(), value, from]
    });
    format!(
        "calibrated from {}, victim {}\n{}\n{}",
        calibrated.device,
        calibrated.victim,
        draw(&["parameter", "value", "from"], rows),
        comparisons(calibrated)
    )
}

fn comparisons(calibrated: &Calibrated) -> String {
    let header = [
        "mechanism",
        "beside",
        "load",
        "p50 predicted",
        "p50 measured ms",
        "miss %",
        "p99 predicted",
        "p99 measured ms",
        "miss %",
        "note",
    ];
    let rows = calibrated.comparisons.iter().map(|row| {
        vec![
            row.variant.clone(),
            row.aggressor.clone(),
            figure(row.load),
            figure(row.p50.predicted_ms),
            measured(&row.p50),
            percent(&row.p50),
            figure(row.p99.predicted_ms),
            measured(&row.p99),
            percent(&row.p99),
            row.note.clone().unwrap_or_default(),
        ]
    });
    let title = "open loop in ms: predicted from the closed loop, and measured";
    format!("{title}\n{}", draw(&header, rows))
}

fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

fn percent(miss: &Miss) -> String {
    miss.miss_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:+.1}"))
}

fn measured(miss: &Miss) -> String {
    let Some(mean_ms) = miss.measured_ms else {
        return "-".to_owned();
    };
    let interval = miss.measured_lo_ms.zip(miss.measured_hi_ms);
    let interval = interval.map_or_else(
        || "[no interval]".to_owned(),
        |(lo_ms, hi_ms)| format!("[{lo_ms:.3}, {hi_ms:.3}]"),
    );
    format!("{mean_ms:.3} {interval} n={}", miss.blocks)
}

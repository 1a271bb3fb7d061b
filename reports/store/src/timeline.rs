//! Telemetry over the time of a run, thinned for a chart.

use std::collections::BTreeMap;

use gpubench_record::TelemetryRow;

/// Upper bound on the points of a series; more do not show at the size of a chart.
const POINTS_MAX: u64 = 240;

/// A metric that reports show: its name in the telemetry, its factor, and its name in a report.
type Shown = (&'static str, f64, &'static str);

const SHOWN: [Shown; 4] = [
    ("sm_clock", 1.0, "SM clock, MHz"),
    ("power", 1e-3, "power, W"),
    ("temperature", 1.0, "temperature, C"),
    ("memory_clock", 1.0, "memory clock, MHz"),
];
const THROTTLE: &str = "throttle_reasons";
/// `nvmlClocksEventReasonGpuIdle` (nvml.h): nothing runs, so nothing is slowed.
const IDLE: u64 = 1;

/// The retention of one pair in each block: a level line is a steady result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RetentionChart {
    /// `sub-axis: victim beside aggressor`.
    pub title: String,
    /// By variant: block and retention.
    pub lines: BTreeMap<String, Vec<(f64, f64)>>,
}

/// What the device did over the time of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    pub series: Vec<Series>,
    /// Metrics that had one value in every reading, with it.
    pub constant: Vec<String>,
    /// Readings with a reason for a lower clock, and all readings of the reasons.
    pub throttled: (u64, u64),
}

/// One metric: means over equal parts of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: &'static str,
    /// Time in s since the first reading, and the mean around it.
    pub points: Vec<(f64, f64)>,
}

impl Timeline {
    /// Of these readings; `None` without any.
    pub fn of(rows: &[TelemetryRow]) -> Option<Self> {
        let start_ns = rows.iter().map(|row| row.t_ns).min()?;
        let end_ns = rows.iter().map(|row| row.t_ns).max()?;
        let step_ns = (end_ns - start_ns) / POINTS_MAX + 1;
        let mut timeline = Self::default();
        for (metric, factor, name) in SHOWN {
            let mut bins: BTreeMap<u64, (f64, u32)> = BTreeMap::new();
            let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
            for row in rows.iter().filter(|row| row.metric == metric) {
                let value = row.value * factor;
                (least, most) = (least.min(value), most.max(value));
                let bin = bins.entry((row.t_ns - start_ns) / step_ns).or_default();
                *bin = (bin.0 + value, bin.1 + 1);
            }
            if least < most {
                let at_s = |bin: u64| (bin as f64 + 0.5) * step_ns as f64 / 1e9;
                let points =
                    bins.into_iter().map(|(bin, (sum, n))| (at_s(bin), sum / f64::from(n)));
                let points = points.collect();
                timeline.series.push(Series { name, points });
            } else if least.is_finite() {
                timeline.constant.push(format!("{name}: {least}"));
            }
        }
        let throttle = || rows.iter().filter(|row| row.metric == THROTTLE);
        let lowered = throttle().filter(|row| row.value as u64 & !IDLE != 0).count();
        timeline.throttled = (lowered as u64, throttle().count() as u64);
        Some(timeline)
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::TelemetryRow;

    use super::{POINTS_MAX, Timeline};

    #[test]
    fn readings_become_few_points_in_usual_units() {
        let row = |metric: &str, index: u64, value: f64| TelemetryRow {
            t_ns: 5_000_000_000 + index * 1_000_000,
            cell: "c".to_owned(),
            source: "nvml".to_owned(),
            metric: metric.to_owned(),
            value,
            unit: String::new(),
        };
        let mut rows = Vec::new();
        for index in 0..2_000 {
            rows.push(row("power", index, 200_000.0 + index as f64));
            rows.push(row("sm_clock", index, 1_980.0));
            rows.push(row("throttle_reasons", index, if index < 7 { 4.0 } else { 1.0 }));
        }
        let timeline = Timeline::of(&rows).unwrap();
        let [power] = &timeline.series[..] else { panic!("{:?}", timeline.series) };
        assert!(power.points.len() <= POINTS_MAX as usize + 1);
        assert!(power.points.iter().all(|(_, watts)| (200.0..=202.0).contains(watts)));
        assert_eq!(timeline.constant, ["SM clock, MHz: 1980"]);
        assert_eq!(timeline.throttled, (7, 2_000));
        assert_eq!(Timeline::of(&[]), None);
    }
}

//! The retention of each block, for the page that draws it.

use std::collections::BTreeMap;

use gpubench_record::{Condition, RunRecord};
use gpubench_reports::RetentionChart;

use super::cells::{Cells, Reading};
use super::logs::rate_ratio;

/// For each pair, the retention of each variant by block; pairs with a single block everywhere have
/// no chart.
#[must_use]
pub fn retention_charts(run: &RunRecord) -> Vec<RetentionChart> {
    let Ok(cells) = Cells::index(&run.plan, &run.cells, Reading::Printed) else {
        return Vec::new();
    };
    let mut charts: BTreeMap<String, RetentionChart> = BTreeMap::new();
    for key in cells.of(Condition::C).filter(|key| key.is_scored()) {
        let (Some(aggressor), Some(pairs)) =
            (&key.pair.aggressor, cells.pair(key, &key.with(Condition::S)))
        else {
            continue;
        };
        let title =
            format!("{}: {} beside {aggressor}", key.pair.sub_axis.as_str(), key.pair.victim);
        let blocks = pairs.measured.iter();
        let points = blocks.filter_map(|(block, contended, solo)| {
            Some((f64::from(*block), rate_ratio(contended, solo)?))
        });
        let points: Vec<(f64, f64)> = points.collect();
        if !points.is_empty() {
            let chart = charts
                .entry(title.clone())
                .or_insert_with(|| RetentionChart { title, lines: BTreeMap::new() });
            chart.lines.entry(key.variant.clone()).or_default().extend(points);
        }
    }
    charts.retain(|_, chart| chart.lines.values().any(|points| points.len() > 1));
    charts.into_values().collect()
}

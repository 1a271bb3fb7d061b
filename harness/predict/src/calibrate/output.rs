//! Output of `simulate --calibrate`: the parameters, and prediction beside measurement.

use gpubench_show::{Block, Cell, Notes, Table};

use super::{Basis, Calibrated, Comparison, Miss};

/// The calibration for people, to stand above the prediction that it belongs to.
pub fn blocks(calibrated: &Calibrated) -> Vec<Block> {
    let mut notes = Notes::default();
    let comparisons = comparisons(&calibrated.comparisons, &mut notes);
    let mut blocks = vec![parameters(calibrated).into(), comparisons.into()];
    let notes = notes.into_texts();
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    blocks
}

fn parameters(calibrated: &Calibrated) -> Table {
    let parameters = &calibrated.parameters;
    let rows = [
        ("service_ms", Some(&parameters.service_ms)),
        ("contention", parameters.contention.as_ref()),
        ("switch_ms", parameters.switch_ms.as_ref()),
        ("slice_speed", parameters.slice_speed.as_ref()),
    ];
    let rows = rows.map(|(name, basis)| {
        let (value, from) = basis.map_or_else(
            || (String::new(), "the scenario; not in the record".to_owned()),
            |Basis { value, from }| (format!("{value:.4}"), from.clone()),
        );
        [name.to_owned(), value, from]
    });
    Table::plain(["parameter", "value", "from"], rows).numbers(&["value"]).with_heading(format!(
        "calibrated from {}, victim {}",
        calibrated.device, calibrated.victim
    ))
}

fn comparisons(all: &[Comparison], notes: &mut Notes) -> Table {
    let rows = all.iter().flat_map(|row| {
        let note = row.note.as_ref().map(|note| notes.number(note));
        let beside = Cell::text(&row.aggressor).with_notes(note.into_iter().collect());
        let figures =
            [(beside, "p50 ms", &row.p50), (row.aggressor.as_str().into(), "p99 ms", &row.p99)];
        figures.map(|(beside, name, miss)| {
            [
                Cell::text(&row.variant),
                beside,
                figure(row.load),
                name.into(),
                figure(miss.predicted_ms),
                measured(miss),
                Cell::text(miss.miss_percent.map_or_else(String::new, |one| format!("{one:+.1}"))),
            ]
        })
    });
    let header = ["mechanism", "beside", "load", "figure", "predicted", "measured", "miss %"];
    Table::plain(header, rows)
        .numbers(&["load", "predicted", "measured", "miss %"])
        .with_heading("open loop: predicted from the closed loop, and measured")
        .grouped()
}

fn figure(value: Option<f64>) -> Cell {
    Cell::text(value.map_or_else(String::new, |value| format!("{value:.3}")))
}

fn measured(miss: &Miss) -> Cell {
    let Some(mean_ms) = miss.measured_ms else { return Cell::text("") };
    let interval = miss.measured_lo_ms.zip(miss.measured_hi_ms);
    let interval = interval.map_or_else(
        || "[no interval]".to_owned(),
        |(lo_ms, hi_ms)| format!("[{lo_ms:.3}, {hi_ms:.3}]"),
    );
    Cell::lines([format!("{mean_ms:.3}"), format!("{interval} n={}", miss.blocks)])
}

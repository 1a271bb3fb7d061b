//! Latency against load as SVG: p50 dashed and p99 solid on a logarithmic axis, knees marked.
//!
//! The line of a mode ends at its overload. A cross at the top marks each overloaded load, because
//! it has no latency, only a growth rate.

use crate::simulate::reference::{Interval, ReplicatedMode};
use crate::simulate::summary::Mode;
use crate::simulate::sweep::{Point, Sweep};
use gpubench_show::Chart;
use std::fmt::Write;

// As large as a chart of a page, so that its text can be read there.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 84.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Most labels of the axis of loads.
const LABELS: usize = 8;

/// The plot of a sweep. Its SVG is also a document of its own.
pub fn chart(sweep: &Sweep) -> Chart {
    let scale = Scale::of(sweep);
    let mut body = String::new();
    axes(&mut body, &scale);
    let modes = sweep.points.first().map_or(0, |point| point.modes.len());
    for mode in 0..modes {
        mode_lines(&mut body, &scale, sweep, mode);
    }
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Predicted latency against load</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n{body}</svg>\n"
    );
    Chart { caption: "Predicted latency against load".to_owned(), svg }
}

struct Scale {
    max_load: f64,
    /// Decimal exponents of the lowest and highest line of the grid.
    low: i32,
    high: i32,
}

impl Scale {
    fn of(sweep: &Sweep) -> Self {
        let ends = |interval: Interval| [interval.value, interval.hi];
        let figures = sweep
            .points
            .iter()
            .flat_map(|point| &point.modes)
            .flat_map(|mode| [mode.p50_ms, mode.p99_ms].into_iter().flatten().flat_map(ends));
        let (min_ms, max_ms) = figures
            .filter(|figure_ms| *figure_ms > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(min_ms, max_ms), ms| {
                (min_ms.min(ms), max_ms.max(ms))
            });
        let (min_ms, max_ms) = if max_ms > 0.0 { (min_ms, max_ms) } else { (1.0, 1.0) };
        let low = min_ms.log10().floor() as i32;
        let high = (max_ms.log10().ceil() as i32).max(low + 1);
        let loads = sweep.points.iter().map(|point| point.device_load);
        Self { max_load: loads.fold(1.0, f64::max), low, high }
    }

    fn x(&self, load: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * load / self.max_load
    }

    fn y(&self, latency_ms: f64) -> f64 {
        let span = f64::from(self.high - self.low);
        let height = (latency_ms.log10() - f64::from(self.low)) / span;
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * height.clamp(0.0, 1.0)
    }
}

fn axes(body: &mut String, scale: &Scale) {
    for exponent in scale.low..=scale.high {
        let latency_ms = 10_f64.powi(exponent);
        let (y, right) = (scale.y(latency_ms), WIDTH - RIGHT);
        line(body, (LEFT, y), (right, y), "#ddd");
        text(body, LEFT - 8.0, y + 4.0, "end", &format!("{latency_ms}"));
    }
    let tenths = (scale.max_load * 10.0).floor() as usize;
    for tenth in (0..=tenths).step_by(tenths.div_ceil(LABELS).max(1)) {
        let load = tenth as f64 / 10.0;
        let x = scale.x(load);
        line(body, (x, HEIGHT - BOTTOM), (x, HEIGHT - BOTTOM + 4.0), "#888");
        text(body, x, HEIGHT - BOTTOM + 18.0, "middle", &format!("{load:.1}"));
    }
    line(body, (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), "#888");
    line(body, (LEFT, TOP), (LEFT, HEIGHT - BOTTOM), "#888");
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    text(body, middle, HEIGHT - 14.0, "middle", "load of the whole device (1 is all of it)");
    text(body, 4.0, TOP - 22.0, "start", "latency, ms");
    text(body, middle, TOP - 22.0, "middle", "prediction: p99 solid, p50 dashed, knee ringed");
}

fn colour(mode: Mode) -> &'static str {
    // Okabe and Ito's palette, distinguishable with any colour vision.
    match mode {
        Mode::Mig => "#0072b2",
        Mode::Mps => "#d55e00",
        Mode::TimeSlice => "#009e73",
        Mode::Hami => "#cc79a7",
    }
}

fn mode_lines(body: &mut String, scale: &Scale, sweep: &Sweep, index: usize) {
    let rows: Vec<(&Point, &ReplicatedMode)> =
        sweep.points.iter().map(|point| (point, &point.modes[index])).collect();
    let Some((_, first)) = rows.first() else { return };
    let (mode, paint) = (first.mode, colour(first.mode));
    let label_y = TOP + 16.0 + 22.0 * index as f64;
    text_in(body, WIDTH - RIGHT + 14.0, label_y, paint, mode.name());
    polyline(body, scale, &rows, |row| row.p50_ms, paint, "4 4");
    polyline(body, scale, &rows, |row| row.p99_ms, paint, "none");
    for (point, row) in &rows {
        let x = scale.x(point.device_load);
        if let Some(p99) = row.p99_ms {
            // The interval of the p99.
            let (low, high) = (scale.y(p99.lo.max(1e-9)), scale.y(p99.hi));
            line(body, (x, low), (x, high), paint);
        } else if row.overloaded > 0 {
            text_in(body, x - 4.0, TOP + 4.0 + 10.0 * index as f64, paint, "×");
        }
    }
    for knee in sweep.knees.iter().filter(|knee| knee.mode == mode) {
        let (x, y) = (scale.x(knee.device_load), scale.y(knee.p99_ms));
        let ring = "r=\"7\" fill=\"none\" stroke-width=\"2\"";
        // Writing to a String cannot fail.
        let _ = writeln!(
            body,
            "<circle class=\"knee\" cx=\"{x:.1}\" cy=\"{y:.1}\" {ring} stroke=\"{paint}\"><title>\
             knee of {} at load {:.2}</title></circle>",
            mode.name(),
            knee.device_load
        );
    }
}

fn polyline(
    body: &mut String,
    scale: &Scale,
    rows: &[(&Point, &ReplicatedMode)],
    figure: fn(&ReplicatedMode) -> Option<Interval>,
    paint: &str,
    dashes: &str,
) {
    let coordinates = |(point, row): &(&Point, &ReplicatedMode)| {
        let found = figure(row)?;
        Some(format!("{:.1},{:.1}", scale.x(point.device_load), scale.y(found.value)))
    };
    let points: Vec<String> = rows.iter().filter_map(coordinates).collect();
    let _ = writeln!(
        body,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{paint}\" stroke-width=\"2\" \
         stroke-dasharray=\"{dashes}\"/>",
        points.join(" ")
    );
}

fn line(body: &mut String, from: (f64, f64), to: (f64, f64), paint: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        body,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{paint}\"/>"
    );
}

fn text(body: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#444\">{words}</text>"
    );
}

fn text_in(body: &mut String, x: f64, y: f64, paint: &str, words: &str) {
    // A page has a colour for all text of charts, which an attribute could not change.
    let _ = writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\" style=\"fill:{paint}\">{words}</text>");
}

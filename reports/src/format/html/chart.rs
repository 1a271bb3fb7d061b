//! The frame of every chart: grid, ticks, and labels that do not overlap. Charts are SVG.

use maud::{Markup, html};

use super::axis::Axis;

/// Space between two labels, in pixels.
const LABEL_STEP: f64 = 13.0;
/// Space above the plot.
const TOP: f64 = 8.0;

/// A chart: a plot between its margins.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) width: f64,
    /// Height of the plot alone.
    pub(super) plot: f64,
    /// Space left of the plot.
    pub(super) left: f64,
    /// Space right of the plot, for direct labels.
    pub(super) right: f64,
    pub(super) x: Axis,
    /// Absent where rows have names instead of values.
    pub(super) y: Option<Axis>,
    /// What the chart shows, for readers who cannot see it.
    pub(super) label: String,
}

impl Chart {
    /// The x of a value.
    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.x.share(value) * (self.width - self.left - self.right)
    }

    /// The y of a value.
    pub(super) fn y(&self, value: f64) -> f64 {
        let share = self.y.as_ref().map_or(0.0, |axis| axis.share(value));
        TOP + (1.0 - share) * self.plot
    }

    /// The y of a row of `height`, at its middle.
    pub(super) fn row(index: usize, height: f64) -> f64 {
        TOP + (index as f64 + 0.5) * height
    }

    /// The chart around `body`.
    pub(super) fn draw(&self, body: &Markup) -> Markup {
        let title_height = if self.x.title.is_empty() { 0.0 } else { 15.0 };
        let height = TOP + self.plot + 18.0 + title_height;
        let (left, right) = (self.left, self.width - self.right);
        let bottom = TOP + self.plot;
        html! {
            svg viewBox={ "0 0 " (px(self.width)) " " (px(height)) } role="img"
                aria-label=(self.label) style={ "max-width:" (px(self.width * 1.25)) "px" } {
                @if let Some(axis) = &self.y {
                    @for (value, text) in &axis.ticks {
                        (line("grid", (left, self.y(*value)), (right, self.y(*value))))
                        (text_at("end", (left - 5.0, self.y(*value) + 4.0), text))
                    }
                }
                @for (value, text) in &self.x.ticks {
                    (line("grid", (self.x(*value), TOP), (self.x(*value), bottom)))
                    (text_at("middle", (self.x(*value), bottom + 14.0), text))
                }
                (line("axis", (left, bottom), (right, bottom)))
                @if !self.x.title.is_empty() {
                    (text_at("middle", (f64::midpoint(left, right), bottom + 29.0), &self.x.title))
                }
                (body)
            }
            "\n"
        }
    }

    /// A vertical line at a threshold, with its name above the axis.
    pub(super) fn threshold(&self, value: f64) -> Markup {
        let x = self.x(value);
        line("threshold", (x, TOP), (x, TOP + self.plot))
    }

    /// Names at the right of the plot, each beside the end of its curve and none over another.
    pub(super) fn direct_labels(&self, mut ends: Vec<(f64, String, String)>) -> Markup {
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let spread = spread(&ends.iter().map(|end| end.0).collect::<Vec<_>>(), TOP + self.plot);
        let x = self.width - self.right;
        html! {
            @for ((end, class, text), y) in ends.iter().zip(spread) {
                (line(&format!("leader {class}"), (x, *end), (x + 10.0, y)))
                text class={ "name " (class) } x=(px(x + 13.0)) y=(px(y + 4.0)) { (text) }
            }
        }
    }
}

/// Positions at least one label apart, near those wanted, and above `bottom` where they fit.
fn spread(wanted: &[f64], bottom: f64) -> Vec<f64> {
    let mut placed: Vec<f64> = Vec::with_capacity(wanted.len());
    for y in wanted {
        let least = placed.last().map_or(TOP, |last| last + LABEL_STEP);
        placed.push(y.max(least));
    }
    let mut most = bottom;
    for y in placed.iter_mut().rev() {
        *y = y.min(most);
        most = *y - LABEL_STEP;
    }
    placed
}

/// A straight line.
pub(super) fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Markup {
    html! {
        path class=(class) d={ "M" (px(from.0)) " " (px(from.1)) "L" (px(to.0)) " " (px(to.1)) } {}
    }
}

/// Text of an axis.
pub(super) fn text_at(anchor: &str, at: (f64, f64), text: &str) -> Markup {
    html! { text text-anchor=(anchor) x=(px(at.0)) y=(px(at.1)) { (text) } }
}

/// A position with one decimal at most.
pub(super) fn px(position: f64) -> String {
    let text = format!("{position:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn labels_never_overlap_and_stay_in_the_plot() {
        let placed = spread(&[10.0, 10.0, 11.0, 199.0, 200.0], 200.0);
        assert!(placed.windows(2).all(|pair| pair[1] - pair[0] >= 12.99), "{placed:?}");
        assert!(placed.iter().all(|y| (8.0..=200.0).contains(y)), "{placed:?}");
    }
}

//! All rows of a comparison as intervals around zero, in margins: a change of one margin is as wide
//! in every row. SVG, as wide as a phone, with the name of each row above its interval.

use gpubench_show::html::escape;
use gpubench_show::{Chart, Labels};

use super::figures::of_change;
use crate::diff::{DiffRow, Figures, Report, Verdict};

const WIDTH: f64 = 360.0;
/// Space for the changes of rows.
const RIGHT: f64 = 66.0;
const ROW: f64 = 28.0;
/// Of a row, the space for its name.
const NAME: f64 = 14.0;
/// Space for the words of the axis.
const TOP: f64 = 18.0;
/// Characters of a name.
const NAME_MAX: usize = 52;
/// Margins that the axis shows at least and at most, to each side.
const MARGINS: (f64, f64) = (2.0, 10.0);

/// A chart of the primary rows, and one of the others.
pub(super) fn charts(report: &Report) -> Vec<Chart> {
    let of = |primary: bool, what: &str| {
        let rows = report.rows.iter().filter(|row| row.primary == primary && !row.bounds);
        let mut rows: Vec<(&DiffRow, &Figures)> =
            rows.filter_map(|row| Some((row, row.figures.as_ref()?))).collect();
        let worse = |(row, figures): &(&DiffRow, &Figures)| in_margins(row, figures)[1];
        rows.sort_by(|a, b| worse(b).total_cmp(&worse(a)));
        let caption = format!(
            "{what}: change with its interval, in margins, what got worse on top. In the band a \
             change does not matter; what reaches the edge may go on."
        );
        (!rows.is_empty()).then(|| Chart { svg: chart(&rows, &caption), caption })
    };
    [of(true, "Primary rows"), of(false, "Other rows")].into_iter().flatten().collect()
}

/// The lower end, the change and the upper end, where more is worse.
fn in_margins(row: &DiffRow, figures: &Figures) -> [f64; 3] {
    let worse = row.key.metric.worse() / figures.margin;
    let [one, change, two] = [figures.lo, figures.change, figures.hi].map(|x| x * worse);
    [one.min(two), change, one.max(two)]
}

fn chart(rows: &[(&DiffRow, &Figures)], name: &str) -> String {
    let labels = Labels::of(rows.iter().map(|(row, _)| row.key.variant.as_str()));
    let ends = rows.iter().flat_map(|(row, figures)| in_margins(row, figures));
    let most = ends.fold(MARGINS.0, |most, end| most.max(end.abs())).min(MARGINS.1);
    let x = |margins: f64| {
        let share = (margins.clamp(-most, most) / most + 1.0) / 2.0;
        share * (WIDTH - RIGHT)
    };
    let height = TOP + ROW * rows.len() as f64 + 4.0;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" \
         aria-label=\"{}\">\n<path class=\"band\" \
         d=\"M{:.1} {TOP:.1}H{:.1}V{height:.1}H{:.1}z\"/>\n",
        escape(name),
        x(-1.0),
        x(1.0),
        x(-1.0)
    );
    let zero = x(0.0);
    svg += &format!("<path class=\"grid\" d=\"M{zero:.1} {TOP:.1}V{height:.1}\"/>\n");
    for (anchor, at, word) in
        [("start", -most, "better"), ("middle", 0.0, "0"), ("end", most, "worse")]
    {
        svg += &text(anchor, x(at), TOP - 6.0, word);
    }
    for (at, (row, figures)) in rows.iter().enumerate() {
        let top = TOP + ROW * at as f64;
        let y = top + f64::midpoint(NAME, ROW);
        let [lo, change, hi] = in_margins(row, figures);
        let class = match row.verdict {
            Verdict::Regressed => "worse",
            Verdict::Improved => "better",
            _ => "line",
        };
        svg += &format!("<path class=\"{class}\" d=\"M{:.1} {y:.1}H{:.1}", x(lo), x(hi));
        svg += &format!("\"/>\n<path class=\"dots\" d=\"M{:.1} {y:.1}h0\"/>\n", x(change));
        let key = &row.key;
        let label = labels.get(&key.variant);
        let name = format!("{label} {}, {}", key.metric.as_str(), key.axis);
        let name = key.beside().map_or(name.clone(), |beside| format!("{name} beside {beside}"));
        svg += &text("start", 0.0, top + NAME - 3.0, &super::history::fitting(&name, NAME_MAX));
        svg += &text("start", WIDTH - RIGHT + 6.0, y + 4.0, &of_change(key.metric, figures.change));
    }
    svg + "</svg>\n"
}

fn text(anchor: &str, x: f64, y: f64, text: &str) -> String {
    format!("<text text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", escape(text))
}

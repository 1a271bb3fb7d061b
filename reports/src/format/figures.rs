//! Figures as text: value, interval and unit, and `-` for a missing figure.

use gpubench_record::{Ends, Estimate, OutcomeKind, Plan};
pub(super) use gpubench_show::MISSING_TEXT;
use gpubench_show::{Cell, Paint};

pub(super) fn level_cell(level: Option<&str>, word: Option<&str>) -> Cell {
    let (paint, class) = match level {
        Some("L3") => (Paint::Good, "level L3"),
        Some("L2") => (Paint::Fair, "level L2"),
        Some("L1") => (Paint::Weak, "level L1"),
        Some("L0") => (Paint::Bad, "level L0"),
        _ => (Paint::Plain, "level open"),
    };
    // Words and levels share a term: `Partial` is a kind of proof, and partial is L1.
    let lines = match (level, word) {
        (Some(level), Some(word)) => vec![level.to_owned(), format!("word: {word}")],
        (one, other) => one.or(other).map(str::to_owned).into_iter().collect(),
    };
    Cell::lines(lines).painted(paint, class)
}

/// A figure, with its unit if the heading does not name it; `-` without a figure.
pub(super) fn figure(estimate: Option<&Estimate>, unit: Option<&str>) -> Cell {
    Cell::lines(estimate.map_or_else(Vec::new, |estimate| parts(estimate, unit)))
}

/// An outcome with the numbers of the notes that explain it.
pub(super) fn outcome(kind: OutcomeKind, notes: Vec<usize>) -> Cell {
    let paint = match kind {
        OutcomeKind::Measured => Paint::Plain,
        OutcomeKind::Waived => Paint::Faint,
        OutcomeKind::Failed => Paint::Bad,
        OutcomeKind::Inconclusive => Paint::Weak,
    };
    Cell::text(kind.as_str()).painted(paint, kind.as_str()).with_notes(notes)
}

/// The confidence of every interval over blocks. Two looks share the error of one.
pub(super) fn confidence(plan: &Plan) -> String {
    format!("{} %", 100.0 - 5.0 / f64::from(plan.looks.max(1)))
}

/// The value, to three decimals or three digits, whichever is more precise.
pub(super) fn value(figure: f64) -> String {
    if !figure.is_finite() {
        return figure.to_string();
    }
    without_minus_zero(format!("{figure:.*}", decimals(figure)))
}

/// The value with two decimals, for a glance.
pub(super) fn two_decimals(figure: f64) -> String {
    without_minus_zero(format!("{figure:.2}"))
}

/// The interval, rounded outwards: the printed interval contains the computed one, so a bound just
/// below a threshold never reads as the threshold.
pub(super) fn interval(estimate: &Estimate) -> String {
    let [lo, hi] = ends(estimate);
    format!("[{lo}, {hi}]")
}

/// The figure, then its ends and its unit, where it has them.
pub(super) fn parts(estimate: &Estimate, unit: Option<&str>) -> Vec<String> {
    let mut parts = match estimate.ends {
        Ends::Interval => vec![value(estimate.value), interval(estimate)],
        Ends::Range => {
            let [lo, hi] = ends(estimate);
            let range = format!("range {lo} to {hi}, n = {}", estimate.n);
            vec![value(estimate.value), range]
        }
        // Every figure of this kind is a count.
        Ends::AtLeast => vec![format!(">= {}", estimate.lo)],
        Ends::AtMost => vec![format!("< {}", outwards(estimate.hi, 1.0))],
    };
    parts.extend(unit.map(str::to_owned));
    parts
}

pub(super) fn one_line(estimate: &Estimate, unit: Option<&str>) -> String {
    parts(estimate, unit).join(" ")
}

/// A time in s, ms, us or ns by its size; other figures unchanged.
pub(super) fn readable(estimate: &Estimate) -> Estimate {
    const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let Estimate { value, lo, hi, .. } = *estimate;
    let ends = [value, lo, hi].map(f64::abs);
    let size = ends.into_iter().filter(|end| end.is_finite()).fold(0.0, f64::max);
    let coarser = UNITS.into_iter().find(|(ns, _)| size >= *ns);
    match coarser {
        Some((ns, unit)) if estimate.unit == "ns" => Estimate {
            value: value / ns,
            lo: lo / ns,
            hi: hi / ns,
            unit: unit.to_owned(),
            ..*estimate
        },
        _ => estimate.clone(),
    }
}

pub(super) fn ends(estimate: &Estimate) -> [String; 2] {
    [outwards(estimate.lo, -1.0), outwards(estimate.hi, 1.0)]
}

fn outwards(bound: f64, direction: f64) -> String {
    if !bound.is_finite() {
        return bound.to_string();
    }
    without_minus_zero(gpubench_show::outwards(bound, direction, decimals(bound)))
}

/// Three decimals, or as many as three digits of a small figure need; five at most.
fn decimals(figure: f64) -> usize {
    let size = figure.abs();
    if size >= 0.1 || size == 0.0 {
        return 3;
    }
    // The decimal of the first digit: the second in 0.04.
    let first_digit = (-size.log10()).ceil();
    if first_digit >= 3.0 { 5 } else { first_digit as usize + 2 }
}

fn without_minus_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::{Ends, Estimate};
    use proptest::prelude::*;

    use super::{interval, one_line, readable, value};

    fn estimate(value: f64, lo: f64, hi: f64) -> Estimate {
        Estimate {
            value,
            lo,
            hi,
            ends: Ends::Interval,
            parts: None,
            n: 8,
            unit: "ratio".to_owned(),
        }
    }

    #[test]
    fn a_bound_below_a_threshold_never_reads_as_the_threshold() {
        assert_eq!(interval(&estimate(0.96, 0.949_96, 0.950_01)), "[0.949, 0.951]");
        assert_eq!(interval(&estimate(0.95, 0.95, 0.95)), "[0.950, 0.950]");
        assert_eq!(interval(&estimate(0.0, -0.000_01, 0.0)), "[-0.00001, 0.000]");
    }

    #[test]
    fn a_range_and_a_bound_do_not_read_as_intervals() {
        let over = |ends, hi| Estimate { ends, parts: None, n: 3, ..estimate(8.0, 8.0, hi) };
        let range = one_line(&over(Ends::Range, 9.0), Some("of the limit"));
        assert_eq!(range, "8.000 range 8.000 to 9.000, n = 3 of the limit");
        assert_eq!(one_line(&over(Ends::AtLeast, f64::INFINITY), None), ">= 8");
    }

    #[test]
    fn small_figures_keep_their_digits_and_zero_has_no_sign() {
        assert_eq!(value(0.004_567), "0.00457");
        assert_eq!(value(-0.0), "0.000");
        assert_eq!(value(0.123_456), "0.123");
        assert_eq!(value(12.345_6), "12.346");
        assert_eq!(value(f64::NAN), "NaN");
        assert_eq!(
            one_line(&estimate(2.0, 1.5, f64::INFINITY), Some("native medians")),
            "2.000 [1.500, inf] native medians"
        );
    }

    #[test]
    fn times_get_a_unit_by_their_size_and_other_figures_stay() {
        let read = |value, lo, hi, unit: &str| {
            let unit = unit.to_owned();
            let estimate = Estimate { unit, ..estimate(value, lo, hi) };
            let read = readable(&estimate);
            one_line(&read, Some(&read.unit))
        };
        let ms = "120.000 [120.000, 120.001] ms";
        assert_eq!(read(120_000_020.0, 120e6, 120_000_020.0, "ns"), ms);
        assert_eq!(read(3_311.4, 2.9, 6_619.8, "ns"), "3.311 [0.00290, 6.620] us");
        assert_eq!(read(-1.0, -2.0, f64::INFINITY, "ns"), "-1.000 [-2.000, inf] ns");
        assert_eq!(read(2e9, 1.9e9, 2e9, "ns"), "2.000 [1.900, 2.000] s");
        assert_eq!(read(5e3, 4e3, 6e3, "SMs"), "5000.000 [4000.000, 6000.000] SMs");
    }

    proptest! {
        #[test]
        fn the_printed_interval_contains_the_computed_one(a in -1e3..1e3f64, b in -1e-3..1e-3f64) {
            for (lo, hi) in [(a.min(b), a.max(b)), (b, b + 1e-7)] {
                let text = interval(&estimate(lo, lo, hi));
                let mut ends = text.trim_matches(['[', ']']).split(", ");
                let printed_lo: f64 = ends.next().unwrap().parse().unwrap();
                let printed_hi: f64 = ends.next().unwrap().parse().unwrap();
                prop_assert!(printed_lo <= lo && hi <= printed_hi, "{lo} {hi} as {text}");
            }
        }
    }
}

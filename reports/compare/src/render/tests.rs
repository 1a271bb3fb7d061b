//! Published schemas, and what each format holds.

use std::path::PathBuf;

use gpubench_record::DeviceKind;

use gpubench_show::Look;
use serde_json::Value;

use super::diff::Document;
use super::{Detail, Format, VIRTUAL_TITLE, diff};
use crate::diff::report::{DiffRow, Doubt, Family, Figures, Report};
use crate::diff::{Conclusion, Counts, Difference, KeyDifference, Treatment, Verdict};
use crate::session::{Metric, RowKey};

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Compares a schema with the one checked in, or writes it where `GPUBENCH_REGENERATE` is set.
#[test]
fn the_published_schemas_are_up_to_date() -> TestResult {
    for (name, schema) in [
        ("diff", super::diff_schema()),
        ("history", super::history_schema()),
        ("compare", super::side_by_side_schema()),
        ("outliers", super::outliers_schema()),
        ("fidelity", super::fidelity_schema()),
    ] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../schema/{name}.json"));
        let mut value = schema.to_value();
        // With some features of serde_json maps keep the order of insertion.
        value.sort_all_objects();
        let text = gpubench_show::json(&value)?;
        if std::env::var_os("GPUBENCH_REGENERATE").is_some() {
            std::fs::write(&path, &text)?;
        }
        assert!(
            std::fs::read_to_string(&path)? == text,
            "{name}.json is out of date: run `GPUBENCH_REGENERATE=1 cargo test -p gpubench-compare`"
        );
    }
    Ok(())
}

fn report() -> Report {
    let figures = Figures {
        before: 0.297,
        after: 0.262,
        unit: "share".to_owned(),
        change: -0.118,
        lo: -0.14,
        hi: -0.097,
        equivalence_lo: -0.13,
        equivalence_hi: -0.1,
        margin: 0.03,
        detectable: Some(0.043),
        sessions_needed: None,
        basis: crate::diff::change::Basis::Sessions,
        spread_from: None,
        df: 6.0,
        p: 1e-6,
        p_adjusted: 1e-5,
    };
    let row = |variant: &str, verdict, figures| DiffRow {
        key: RowKey {
            variant: variant.to_owned(),
            axis: "bandwidth/dram".to_owned(),
            victim: "stream".to_owned(),
            aggressor: Some("dram-copy".to_owned()),
            dose: None,
            metric: Metric::Retention,
        },
        primary: true,
        verdict,
        confirmed: true,
        differs: false,
        bounds: false,
        reason: None,
        doubts: Vec::new(),
        hint: None,
        moved: std::collections::BTreeMap::new(),
        sessions: [4, 4],
        blocks: [32, 32],
        trials: None,
        figures,
    };
    let rows = vec![
        row("<mps|quota>", Verdict::Regressed, Some(figures)),
        row("mig", Verdict::Invalid, None),
    ];
    Report {
        diff_format: 2,
        kind: DeviceKind::Virtual,
        product: "H100".to_owned(),
        before: Vec::new(),
        after: Vec::new(),
        margins: gpubench_record::Margins::default(),
        vary: vec!["driver".to_owned()],
        differences: Vec::new(),
        comparable: true,
        attribution: "a change is attributed to: driver".to_owned(),
        family: Family { rows: 2, alpha: 0.05, coverage: 0.975 },
        counts: Counts::of(&rows),
        conclusion: Conclusion::Regression,
        rows,
        repetition: crate::diff::repetition::Repetition::default(),
        exit: 30,
    }
}

#[test]
fn every_format_has_the_figures_and_escapes_names() -> TestResult {
    for (format, wanted) in [
        (Format::Text, ["<mps|quota>", "-11.8 % [-14.0 %, -9.7 %]"]),
        (Format::Markdown, ["&lt;mps\\|quota&gt;", "-11.8 %"]),
        (Format::Html, ["&lt;mps|quota&gt;", "-11.8 % [-14.0 %, -9.7 %]"]),
        (Format::Junit, ["&lt;mps|quota&gt;", "failures=\"1\""]),
        (Format::Json, ["\"<mps|quota>\"", "\"change\": -0.118"]),
    ] {
        let text = diff(&report(), format, Detail::Changes, Look::PIPED)?;
        for wanted in wanted {
            assert!(text.contains(wanted), "{format:?}: {text}");
        }
        let is_marked = text.contains(VIRTUAL_TITLE) || text.contains("\"virtual\"");
        assert!(is_marked, "{format:?}");
    }
    let back: Report =
        serde_json::from_str(&diff(&report(), Format::Json, Detail::Full, Look::PIPED)?)?;
    assert_eq!(back, report());
    Ok(())
}

#[test]
fn what_is_not_counted_is_said() {
    let document = Document::of(&report(), Detail::Changes);
    assert_eq!(document.rows.len(), 2);
    let summary = document.summary.join("\n");
    assert!(summary.contains("nowhere: 1 retention; one side measured 1 of them"), "{summary}");
    assert_eq!(document.title, "REGRESSED: 1 of 2 primary rows. exit 30");
    let real = Report { kind: DeviceKind::Real, ..report() };
    let text = diff(&real, Format::Text, Detail::Full, Look::PIPED).unwrap_or_default();
    assert!(!text.contains("VIRTUAL") && !text.is_empty());
}

#[test]
fn many_values_of_a_fact_are_a_count_with_two_examples() {
    let value = |n: usize| format!("{n:012x}{:052x}", 0);
    let differs = |count: usize| Difference {
        fact: "machine".to_owned(),
        before: (0..count).map(value).collect(),
        after: vec!["620.00".to_owned()],
        treatment: Treatment::Noted,
        keys: Vec::new(),
    };
    for (count, wanted) in [
        (15, "noted: machine 15 different (000000000000, 000000000001...) -> 620.00"),
        (2, "noted: machine 000000000000, 000000000001 -> 620.00"),
        (0, "noted: machine (not recorded) -> 620.00"),
    ] {
        let report = Report { differences: vec![differs(count)], ..report() };
        let notices = Document::of(&report, Detail::Changes).notices;
        assert!(notices.iter().any(|notice| notice == wanted), "{notices:?}");
    }
}

#[test]
fn keys_of_profiles_are_named_and_the_rest_is_counted() {
    let key = |at: usize| KeyDifference {
        key: format!("k{at}"),
        before: vec![format!("{at} ms")],
        after: vec!["none".to_owned()],
    };
    for (count, wanted) in [
        (0, "no key of the profile that records keep differs"),
        (2, "keys of the profile: k0 0 ms -> none; k1 1 ms -> none"),
        (
            6,
            "keys of the profile: k0 0 ms -> none; k1 1 ms -> none; k2 2 ms -> none; k3 3 ms -> \
             none; and 2 more",
        ),
    ] {
        let difference = Difference {
            fact: "profile".to_owned(),
            before: vec!["a".to_owned()],
            after: vec!["b".to_owned()],
            treatment: Treatment::Refused,
            keys: (0..count).map(key).collect(),
        };
        let report = Report { differences: vec![difference], ..report() };
        let notices = Document::of(&report, Detail::Changes).notices;
        let refused = notices.iter().position(|one| one == "differs, and must not: profile a -> b");
        assert_eq!(notices[refused.unwrap() + 1], wanted);
    }
}

/// A comparison of 60 rows: three that regressed, some that are open, the rest unchanged.
fn of_sixty(open: usize) -> Report {
    let base = report().rows.remove(0);
    let row = |at: usize| {
        let (verdict, by) = match at {
            0..3 => (Verdict::Regressed, 3.0 + at as f64),
            _ if at < 3 + open => (Verdict::Inconclusive, 0.1 * at as f64),
            _ => (Verdict::Unchanged, 0.01 * at as f64),
        };
        let mut row = DiffRow { verdict, confirmed: false, ..base.clone() };
        row.key.variant = format!("time-slicing[slice={at}]");
        row.hint = (at < 3).then_some(crate::diff::hint::Hint::Interference);
        let doubt = |text: String| Doubt { text, sessions: [1, 1] };
        row.doubts = vec![doubt("the victim starved in 3 of 8 blocks".to_owned())];
        row.doubts.extend((at >= 3).then(|| doubt(format!("{} is odd", row.key.variant))));
        if let Some(figures) = &mut row.figures {
            figures.change = -by * figures.margin;
            (figures.lo, figures.hi) = (figures.change - 0.02, figures.change + 0.02);
            (figures.equivalence_lo, figures.equivalence_hi) = (figures.change - 0.01, 0.01);
            figures.sessions_needed = Some(7);
        }
        row
    };
    let rows: Vec<DiffRow> = (0..60).map(row).collect();
    let counts = Counts::of(&rows);
    Report { rows, counts, ..report() }
}

#[test]
fn sixty_rows_fit_a_screen_beside_those_that_changed() {
    let look = Look { width: 80, color: false };
    for open in [0, 1, 3, 20, 57] {
        let report = of_sixty(open);
        let text = Document::of(&report, Detail::Changes).lines(Detail::Changes).text(look);
        let mut page = gpubench_show::Page::new("");
        let document = Document::of(&report, Detail::Changes);
        let changed = document.rows[..document.changed].iter();
        changed.flat_map(super::diff::RowWords::lines).for_each(|line| page.push(line));
        let changed = page.text(look).trim().lines().count();
        assert!(changed >= 9 && text.lines().count() <= changed + 24, "{changed}\n{text}");
        // The largest change is on top.
        let at = |word: &str| text.find(word).unwrap_or(usize::MAX);
        assert!(at("[slice=2]") < at("[slice=0]") && at("[slice=0]") < at("slice=3]"), "{text}");
        let more = format!("{} more rows without a verdict: --full", open.max(3) - 3);
        assert_eq!(text.contains(&more), open > 3, "{text}");
        let unchanged = format!("{} rows shown to be equal: at most [", 57 - open);
        assert_eq!(text.contains(&unchanged), open < 57, "{text}");
        let all = Document::of(&report, Detail::Full).lines(Detail::Full).text(look);
        assert!((0..60).all(|at| all.contains(&format!("slice={at}]"))), "{all}");
    }
}

#[test]
fn the_page_leads_with_what_changed_and_draws_every_row() -> TestResult {
    let page = diff(&of_sixty(20), Format::Html, Detail::Changes, Look::PIPED)?;
    let at = |text: &str| page.find(text).unwrap_or(usize::MAX);
    assert!(at("REGRESSED: 3 of 60") < at("<svg"), "{page}");
    assert!(
        at("time-slicing 2% retention") < at("<svg") && at("<svg") < at("a change is attributed")
    );
    let svg = page.split("<svg").nth(1).and_then(|svg| svg.split("</svg>").next()).unwrap();
    assert_eq!(svg.matches("class=\"dots\"").count(), 60);
    assert_eq!(svg.matches("class=\"worse\"").count(), 3);
    // The band is one margin to each side of zero, and the worst row is at the right of it.
    let numbers = |from: &str| -> Vec<f64> {
        let path = svg.split(from).nth(1).unwrap().split('"').next().unwrap();
        path.split(|c: char| c != '.' && !c.is_ascii_digit())
            .filter_map(|x| x.parse().ok())
            .collect()
    };
    let (band, zero) = (numbers("class=\"band\" d=\""), numbers("class=\"grid\" d=\"")[0]);
    assert!((f64::midpoint(band[0], band[2]) - zero).abs() < 0.1, "{band:?} {zero}");
    let worst = numbers("class=\"dots\" d=\"")[0];
    assert!(((worst - zero) / (band[2] - zero) - 5.0).abs() < 0.02, "{worst} {band:?} {zero}");
    Ok(())
}

/// The descriptions of figures in a schema: objects with both parts of an interval and a unit.
fn figures_of<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    if ["stat_lo", "unit"].iter().all(|name| value["properties"].get(name).is_some()) {
        found.push(value);
    }
    let parts = value.as_object().into_iter().flat_map(|object| object.values());
    parts.chain(value.as_array().into_iter().flatten()).for_each(|one| figures_of(one, found));
}

/// A figure has an interval, a range, or one bound.
#[test]
fn every_schema_of_a_figure_allows_each_of_its_forms() -> TestResult {
    let mut count = 0;
    for file in std::fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../schema"))? {
        let path = file?.path();
        let schema: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
        let mut found = Vec::new();
        figures_of(&schema, &mut found);
        count += found.len();
        for one in found {
            let required = one["required"].as_array().into_iter().flatten();
            let of_one_form = ["lo", "hi", "range", "at_least", "stat_lo", "sys_lo"];
            let mut required = required.filter_map(Value::as_str);
            let extra = required.find(|name| of_one_form.contains(name));
            assert_eq!(extra, None, "{}", path.display());
            for name in ["range", "at_least"] {
                assert!(one["properties"].get(name).is_some(), "{}: {name}", path.display());
            }
        }
    }
    assert!(count > 3, "{count}");
    Ok(())
}

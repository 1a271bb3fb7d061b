//! The page as a whole: links, curves, and what it says of latencies.

use std::collections::BTreeSet;

use gpubench_record::{Condition, RunRecord};
use gpubench_sample_records as sample_records;
use gpubench_sample_records::row;
use gpubench_show::{Cell, Page, Paint, Table};
use gpubench_store::latency::{CurveOf, Latencies, LatencyChart, LatencyCurve};

use super::charts::Variants;
use super::{curves, page};
use crate::format::RenderOptions;
use crate::matrix::{Glance, Selection};

fn html(record: &RunRecord, options: &RenderOptions) -> String {
    page(record, options).into_string()
}

fn values<'a>(text: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!("{attribute}=\"");
    let parts = text.split(&begin).skip(1);
    parts.filter_map(|rest| rest.split('"').next()).collect()
}

fn curve(variant: &str, condition: Condition) -> LatencyCurve {
    let rows: Vec<_> = (0..40).map(row).collect();
    let of = CurveOf {
        variant: variant.to_owned(),
        condition,
        aggressor: (condition == Condition::C).then(|| "fma-hog".to_owned()),
    };
    LatencyCurve::new(of, &[(40, Latencies::of(&rows).unwrap())]).unwrap()
}

fn chart(variants: &[String]) -> LatencyChart {
    let contended = variants.iter().map(|variant| curve(variant, Condition::C));
    let native = std::iter::once(curve("exclusive", Condition::N));
    LatencyChart { victim: "compute".to_owned(), curves: native.chain(contended).collect() }
}

#[test]
fn twelve_mechanisms_have_twelve_styles_and_each_curve_its_name() {
    let mut record = sample_records::real();
    let names: Vec<String> = (0..12).map(|n| format!("mechanism-{n}")).collect();
    for name in &names {
        let mut row = record.matrix[1].clone();
        row.variant.clone_from(name);
        record.matrix.push(row);
    }
    let charts = [chart(&names)];
    let glance = Glance::of(&record, &Selection::default(), usize::MAX);
    let variants = Variants::of(&record, &glance);
    let section = curves::latency(&record, &charts, &variants).unwrap().into_string();
    let overview = section.split("</svg>").next().unwrap();
    let styles: Vec<&str> =
        values(overview, "class").into_iter().filter(|class| class.starts_with("line c")).collect();
    assert_eq!(styles.len(), 13);
    assert_eq!(styles.iter().collect::<BTreeSet<_>>().len(), 13, "{styles:?}");
    for name in &names {
        assert!(overview.contains(&format!(">{name}</text>")), "{name} has no label");
    }
}

#[test]
fn every_link_of_the_page_leads_to_an_element() {
    for (name, record) in sample_records::all() {
        let options =
            RenderOptions { latency: vec![chart(&["mps".to_owned()])], ..RenderOptions::default() };
        let page = html(&record, &options);
        let ids = values(&page, " id");
        for target in values(&page, "href").into_iter().filter_map(|link| link.strip_prefix('#')) {
            assert!(ids.contains(&target), "{name}: nothing has the id {target}");
        }
        let unique: BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "{name}: {ids:?}");
    }
}

#[test]
fn a_victim_of_closed_loops_is_said_to_have_no_latencies_and_not_no_answers() {
    let mut record = sample_records::real();
    for cell in &mut record.cells {
        cell.cell.closed_only = true;
        cell.cell.victim = "stream".to_owned();
    }
    let options =
        RenderOptions { latency: vec![chart(&["mps".to_owned()])], ..RenderOptions::default() };
    let page = html(&record, &options);
    assert!(
        page.contains("Measured in a closed loop only, which has rates and no latencies: stream.")
    );
    let none = html(&record, &RenderOptions::default());
    for text in [&page, &none] {
        assert!(!text.contains("No request was answered"));
    }
    // Without an open loop there is no section about latencies.
    assert!(!none.contains("id=\"latency\""));
}

#[test]
fn a_comparison_is_on_the_page_where_one_was_made() {
    let record = sample_records::real();
    let row =
        vec![Cell::text("REGRESSED*").painted(Paint::Bad, "regressed"), Cell::text("mps-quota")];
    let mut diff = Page::new("driver 570 -> 575");
    diff.notice("1 regression");
    diff.push(Table::new("", "Rows that changed", ["verdict", "mechanism"], [row]));
    let options = RenderOptions { diff: Some(diff), ..RenderOptions::default() };
    let page = html(&record, &options);
    assert!(page.contains("driver 570 -&gt; 575") && page.contains("1 regression"));
    assert!(page.contains("<td class=\"regressed\">REGRESSED*"));
    assert!(!html(&record, &RenderOptions::default()).contains("id=\"baseline\""));
}

#[test]
fn a_style_sheet_without_the_network_and_with_its_three_forms() {
    let sheet = super::STYLE;
    assert!(!sheet.contains("url(") && !sheet.contains("@import"));
    for form in ["prefers-color-scheme: dark", "@media print", "max-width: 640px"] {
        assert!(sheet.contains(form), "{form}");
    }
}

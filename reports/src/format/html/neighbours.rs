//! The experiments on neighbours as pictures: a heat map of pairs, and lines over tenants, asked
//! shares, depths and loads.

use gpubench_record::{Condition, RunRecord};
use gpubench_show::{Cell, Table};
use maud::{Markup, html};

use super::charts::Variants;
use super::curves::{charts, panels};
use crate::format::neighbours::{asked, in_ms, of_depths, of_loads, predictions, tables};

/// The section; `None` for a record without such an experiment.
pub(super) fn neighbours(record: &RunRecord, variants: &Variants<'_>) -> Option<Markup> {
    let tables = tables(record);
    if tables.is_empty() {
        return None;
    }
    let equals = || record.operator.iter().filter(|row| row.victim == row.aggressor);
    let free = || equals().filter(|row| asked(&row.variant).is_none());
    let least = charts(free().map(|row| {
        (row.victim.clone(), row.variant.as_str(), vec![(row.tenants.into(), &row.progress_min)])
    }));
    let stp = charts(free().map(|row| {
        (row.victim.clone(), row.variant.as_str(), vec![(row.tenants.into(), &row.stp)])
    }));
    let got = charts(equals().filter_map(|row| {
        let [own, _] = asked(&row.variant)?;
        let got = &row.progress.first()?.progress;
        Some((row.victim.clone(), row.mechanism.as_str(), vec![(own, got)]))
    }));
    let depths = charts(of_depths(record).filter_map(|row| {
        let [own, other] = row.shape.depths();
        let beside = row.aggressor.as_deref().unwrap_or_default();
        let title = format!("{} beside {beside} at depth {other}", row.victim);
        Some((title, row.variant.as_str(), vec![(own.into(), row.retention.as_ref()?)]))
    }));
    let p99: Vec<_> = of_loads(record)
        .into_iter()
        .filter_map(|row| {
            let title = match (&row.aggressor, row.condition) {
                (Some(aggressor), Condition::C) => format!("{} beside {aggressor}", row.victim),
                _ => format!("{} solo", row.victim),
            };
            let p99 = in_ms(row.at_load.as_ref()?.p99.as_ref()?);
            Some((title, row.variant.as_str(), f64::from(row.shape.load_pct?), p99))
        })
        .collect();
    let loads = charts(
        p99.iter().map(|(title, variant, pct, p99)| (title.clone(), *variant, vec![(*pct, p99)])),
    );
    Some(html! {
        p { "Vertical bars are 95 % intervals." }
        @for table in tables.iter().filter(|table| table.id == "pairs") { (heat(table)) }
        div class="panels" {
            (panels(&least, "least progress of a tenant, by tenants", variants))
            (panels(&stp, "sum of progress, by tenants", variants))
            (panels(&got, "share of the device got, by percent asked", variants))
            (panels(&depths, "retention, by the victim's requests outstanding", variants))
            (panels(&loads, "p99 in ms, by load in percent of the native rate", variants))
        }
        @for table in tables.iter().filter(|table| table.id != "pairs") { (plain(table)) }
        @let predicted = predictions(record);
        @if !predicted.rows.is_empty() {
            details { summary { (predicted.heading) } (plain(&predicted)) }
        }
    })
}

fn heat(table: &Table) -> Markup {
    html! { div class="scroll" tabindex="0" { (drawn(table, "heat")) } }
}

fn plain(table: &Table) -> Markup {
    html! { div class="scroll" tabindex="0" { (drawn(table, "figures")) } }
}

fn drawn(table: &Table, class: &str) -> Markup {
    let cell = |cell: &Cell| html! { td class=(cell.class) { (cell.lines.join(" ")) } };
    html! {
        table class=(class) {
            caption { (table.heading) }
            thead { tr { @for column in &table.columns { th scope="col" { (column.name) } } } }
            tbody {
                @for row in &table.rows { tr { @for one in row { (cell(one)) } } }
            }
        }
    }
}

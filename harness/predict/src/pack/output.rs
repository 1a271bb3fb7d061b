//! Output of `pack`: the report and a bill as documents.

use gpubench_show::{Block, Cell, Page, Table};

use super::bound::Binding;
use super::bound::Charge;
use super::demand::{KindReport, Report, rounded_gb};
use super::layout::Layout;
use gpubench_record::counted;

/// Layouts in the document; JSON has all.
const SHOWN: usize = 12;

pub fn page(report: &Report) -> Page {
    let memory_gb = rounded_gb(report.gpu_memory_gb);
    let mut page =
        Page::new(format!("tenants on one GPU of {memory_gb} GB: a bound, not a measurement"));
    page.push(bounds(&report.kinds));
    page.push(mechanisms(&report.kinds));
    beyond_mig(&mut page, &report.kinds);
    page.push(Block::Gap);
    fleet(&mut page, report);
    match report.layouts.as_deref() {
        None => {}
        Some([]) => {
            page.push(Block::Gap);
            page.say("no MIG layout holds any of the tenants");
        }
        Some(all) => page.push(layouts(all)),
    }
    if let Ok(Some(table)) = report.demand.mig_table() {
        page.say(format!("memory and SMs of instances: {}", table.source));
    }
    page.say(CONTEXT);
    page
}

/// What the memory of a tenant has in it.
const CONTEXT: &str = "memory of a tenant includes its context, which took 527 MiB on an H100 80GB \
                       HBM3 with driver 580";

fn bounds(kinds: &[KindReport]) -> Table {
    let rows = kinds.iter().map(|kind| {
        [
            kind.name.clone(),
            kind.count.to_string(),
            format!("{:.2}", kind.memory_gb),
            kind.bound.by_memory.to_string(),
            kind.bound.by_compute.to_string(),
            kind.bound.tenants.to_string(),
            format!("{:.2}", kind.bound.utilisation),
            binding(kind.bound.binding).to_owned(),
        ]
    });
    let header =
        ["tenant", "count", "GB", "by memory", "by compute", "fit", "utilisation", "binds"];
    Table::plain(header, rows).numbers(&header[1..7])
}

fn mechanisms(kinds: &[KindReport]) -> Table {
    let rows = kinds.iter().map(|kind| {
        [
            kind.name.clone(),
            kind.by_mps.to_string(),
            kind.by_time_slicing.to_string(),
            kind.by_mig.map_or_else(String::new, |count| count.to_string()),
            kind.mig_layout.clone().unwrap_or_default(),
        ]
    });
    let header = ["tenant", "MPS", "time-slicing", "MIG", "MIG layout"];
    Table::plain(header, rows)
        .numbers(&header[1..4])
        .with_heading("tenants that fit under each mechanism")
}

fn beyond_mig(page: &mut Page, kinds: &[KindReport]) {
    for kind in kinds {
        let Some(by_mig) = kind.by_mig else { continue };
        let more = kind.bound.tenants.saturating_sub(by_mig);
        if more > 0 {
            page.say(format!(
                "{}: MIG holds {by_mig}; {more} more fit under MPS or time-slicing, with less \
                 isolation",
                kind.name
            ));
        }
    }
}

fn binding(binding: Binding) -> &'static str {
    match binding {
        Binding::Memory => "memory",
        Binding::Compute => "compute",
        Binding::Both => "both",
    }
}

fn fleet(page: &mut Page, report: &Report) {
    page.say(format!(
        "all tenants need {:.2} GPUs of memory and {:.2} of compute ({} binds); first fit places \
         them on {}",
        report.fill.memory,
        report.fill.compute,
        binding(report.fill.binding),
        report.fill.gpus_by_first_fit,
    ));
    page.say(format!(
        "fleet at {:.0} % target: {}, utilisation {:.1} %",
        report.demand.target * 100.0,
        counted(report.fleet_gpus, "GPU"),
        report.fleet_utilisation * 100.0
    ));
    if let Some(cost) = &report.cost {
        page.say(format!(
            "price {:.2} per GPU-hour: {:.0} a year, of which {:.0} for idle time ({:.1} %)",
            cost.per_gpu_hour,
            cost.fleet_per_year,
            cost.idle_per_year,
            cost.idle_share * 100.0
        ));
    }
}

fn layouts(all: &[Layout]) -> Table {
    let rows = all.iter().take(SHOWN).map(|layout| {
        let names = layout.instances.iter().filter_map(|instance| instance.tenant.as_deref());
        [
            layout.name.clone(),
            layout.held.to_string(),
            layout.spare_sm.map_or_else(|| "unknown".to_owned(), |sm| format!("{sm:.1}")),
            format!("{:.1}", layout.spare_memory_gb),
            layout.outside_sm.map_or_else(|| "unknown".to_owned(), |sm| sm.to_string()),
            format!("{:.1}", layout.outside_memory_gb),
            with_counts(names.collect()),
        ]
    });
    let header =
        ["MIG layout", "holds", "spare SM", "spare GB", "SM outside", "GB outside", "tenants"];
    let (shown, of) = (all.len().min(SHOWN), all.len());
    Table::plain(header, rows)
        .numbers(&header[1..6])
        .with_heading(format!("MIG layouts, best first ({shown} of {of})"))
}

/// Names in order, each with its count, such as `3x chat, web`.
fn with_counts(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    let runs = names.chunk_by(|a, b| a == b);
    let parts: Vec<String> = runs
        .map(|run| match run {
            [only] => (*only).to_owned(),
            several => format!("{}x {}", several.len(), several[0]),
        })
        .collect();
    parts.join(", ")
}

pub fn bill(charges: &[Charge]) -> Page {
    let rows = charges.iter().map(|charge| {
        [
            Cell::text(&charge.tenant),
            format!("{:.3}", charge.gpu_time_s).into(),
            format!("{:.1}", charge.share * 100.0).into(),
            Cell::text(charge.charge.map_or_else(String::new, |charge| format!("{charge:.4}"))),
        ]
    });
    let mut page = Page::new("GPU time as measured");
    let header = ["tenant", "GPU time s", "share %", "charge"];
    page.push(Table::plain(header, rows).numbers(&header[1..]));
    page
}

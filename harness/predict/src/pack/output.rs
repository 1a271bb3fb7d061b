//! Output of `pack`: tables and JSON.

use super::bound::Binding;
use super::bound::Charge;
use super::demand::{Report, rounded_gb};
use crate::error::PredictError;
use crate::text::{draw, json_text};
use gpubench_record::counted;

/// Layouts in the table; JSON has all.
const SHOWN: usize = 12;

/// The report as JSON.
pub fn json(report: &Report) -> Result<String, PredictError> {
    json_text(report)
}

/// The report as text.
pub fn table(report: &Report) -> String {
    let mut parts = vec![kinds(report), fleet(report)];
    if report.layouts.is_some() {
        parts.push(layouts(report));
    }
    parts.join("\n")
}

fn kinds(report: &Report) -> String {
    let header = [
        "tenant",
        "count",
        "GB",
        "by memory",
        "by compute",
        "n",
        "binds",
        "utilisation",
        "MPS",
        "time-slicing",
        "MIG",
        "layout",
    ];
    let rows = report.kinds.iter().map(|kind| {
        vec![
            kind.name.clone(),
            kind.count.to_string(),
            format!("{:.2}", kind.memory_gb),
            kind.bound.by_memory.to_string(),
            kind.bound.by_compute.to_string(),
            kind.bound.tenants.to_string(),
            binding(kind.bound.binding).to_owned(),
            format!("{:.2}", kind.bound.utilisation),
            kind.by_mps.to_string(),
            kind.by_time_slicing.to_string(),
            kind.by_mig.map_or_else(|| "-".to_owned(), |count| count.to_string()),
            kind.mig_layout.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    });
    let memory_gb = rounded_gb(report.gpu_memory_gb);
    let title = format!("tenants on one GPU of {memory_gb} GB: a bound, not a measurement");
    let beyond = report.kinds.iter().filter_map(|kind| {
        let by_mig = kind.by_mig?;
        let more = kind.bound.tenants.checked_sub(by_mig).filter(|more| *more > 0)?;
        Some(format!(
            "{}: MIG holds {by_mig}; {more} more fit under MPS or time-slicing, with less \
             isolation\n",
            kind.name
        ))
    });
    format!("{title}\n{}{}", draw(&header, rows), beyond.collect::<String>())
}

fn binding(binding: Binding) -> &'static str {
    match binding {
        Binding::Memory => "memory",
        Binding::Compute => "compute",
        Binding::Both => "both",
    }
}

fn fleet(report: &Report) -> String {
    let mut text = format!(
        "all tenants need {:.2} GPUs of memory and {:.2} of compute ({} binds); first fit places \
         them on {}\nfleet at {:.0} % target: {}, utilisation {:.1} %\n",
        report.fill.memory,
        report.fill.compute,
        binding(report.fill.binding),
        report.fill.gpus_by_first_fit,
        report.demand.target * 100.0,
        counted(report.fleet_gpus, "GPU"),
        report.fleet_utilisation * 100.0
    );
    if let Some(cost) = &report.cost {
        text += &format!(
            "price {:.2} per GPU-hour: {:.0} a year, of which {:.0} for idle time ({:.1} %)\n",
            cost.per_gpu_hour,
            cost.fleet_per_year,
            cost.idle_per_year,
            cost.idle_share * 100.0
        );
    }
    text
}

fn layouts(report: &Report) -> String {
    let all = report.layouts.as_deref().unwrap_or_default();
    if all.is_empty() {
        return "no MIG layout holds any of the tenants\n".to_owned();
    }
    let header =
        ["MIG layout", "holds", "spare SM", "spare GB", "SM outside", "GB outside", "tenants"];
    let rows = all.iter().take(SHOWN).map(|layout| {
        let names: Vec<&str> =
            layout.instances.iter().filter_map(|instance| instance.tenant.as_deref()).collect();
        vec![
            layout.name.clone(),
            layout.held.to_string(),
            layout.spare_sm.map_or_else(|| "unknown".to_owned(), |sm| format!("{sm:.1}")),
            format!("{:.1}", layout.spare_memory_gb),
            layout.outside_sm.map_or_else(|| "unknown".to_owned(), |sm| sm.to_string()),
            format!("{:.1}", layout.outside_memory_gb),
            crate::text::counted(&names),
        ]
    });
    let title = format!("MIG layouts, best first ({} of {})", all.len().min(SHOWN), all.len());
    format!("{title}\n{}", draw(&header, rows))
}

/// A bill as text.
pub fn bill(charges: &[Charge]) -> String {
    let header = ["tenant", "GPU time s", "share %", "charge"];
    let rows = charges.iter().map(|charge| {
        vec![
            charge.tenant.clone(),
            format!("{:.3}", charge.gpu_time_s),
            format!("{:.1}", charge.share * 100.0),
            charge.charge.map_or_else(|| "-".to_owned(), |charge| format!("{charge:.4}")),
        ]
    });
    format!("GPU time as measured\n{}", draw(&header, rows))
}

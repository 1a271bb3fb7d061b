//! The content of every report for people: title, notices, tables, notes and footer.
//!
//! Formats differ in how they draw a document, not in its content.

use gpubench_record::calibration::ObservationCost;
use gpubench_record::{DeviceKind, Provenance, RunRecord};

use super::figures::MISSING_TEXT;
use super::parts::{Notes, Table, clean};
use super::{
    RenderOptions, VIRTUAL_TITLE, claims, dose, faults, latency, matrix, not_asked, nothing,
    operator, service, tables,
};

/// A report as text and tables, before it is drawn.
#[derive(Debug)]
pub(super) struct Document {
    /// One line; begins with the mark of a virtual GPU.
    pub(super) title: String,
    /// Statements that a reader needs before any figure.
    pub(super) notices: Vec<String>,
    /// The number of cells by outcome, as a sentence.
    pub(super) cells: String,
    /// The tables, the matrix first.
    pub(super) tables: Vec<Table>,
    /// Reasons and warnings that tables refer to by number, from 1.
    pub(super) notes: Vec<String>,
    /// The origin of the record, as name and text.
    pub(super) footer: Vec<(&'static str, String)>,
}

/// The title: the device, behind the mark of a virtual GPU.
pub(super) fn title(record: &RunRecord) -> String {
    let name = clean(&record.device.name);
    match record.device.kind {
        DeviceKind::Real => format!("gpubench: {name}"),
        DeviceKind::Virtual => format!("{VIRTUAL_TITLE} (gpubench: {name})"),
    }
}

impl Document {
    /// The document of a record.
    pub(super) fn of(record: &RunRecord, options: &RenderOptions) -> Self {
        let mut notes = Notes::default();
        let mut tables = if nothing::has_figures(record) {
            vec![
                matrix::matrix(record, &mut notes),
                operator::operator(record),
                latency::percentiles(&options.latency),
                service::service(record, &mut notes),
                service::tenant_limits(record, &mut notes),
                dose::curves(record, &mut notes),
                matrix::more_figures(record),
                tables::mechanisms(record, &mut notes),
            ]
        } else {
            vec![nothing::reasons(record)]
        };
        tables.extend([
            faults::faults(record),
            tables::probe_figures(record),
            tables::aggressors(record),
            tables::skips(record),
            tables::cells(record),
            tables::proof(record),
            claims::tested(record),
            claims::untested(record),
        ]);
        tables.retain(|table| !table.rows.is_empty());
        if let Some(last) = tables.iter_mut().rfind(|table| table.refers_to_notes()) {
            last.last_with_notes = true;
        }
        Self {
            title: title(record),
            notices: notices(record, options),
            cells: tables::cells_in_words(record),
            tables,
            notes: notes.into_texts(),
            footer: footer(record, options),
        }
    }
}

/// Statements that a reader needs before any figure.
pub(super) fn notices(record: &RunRecord, options: &RenderOptions) -> Vec<String> {
    let mut notices = urgent(record);
    if record.plan.required_proofs.is_none() {
        notices.push(
            "PROOFS BY MECHANISM: before format 2.2 a record did not keep the proofs of each cell; \
             every cell is judged by all proofs of its mechanism"
                .to_owned(),
        );
    }
    notices.extend(claims::notice(record));
    notices.extend(not_asked::not_asked(record));
    notices.extend(left_out(record, options));
    notices
}

/// Those that limit what the levels mean.
pub(super) fn urgent(record: &RunRecord) -> Vec<String> {
    let mut notices = Vec::new();
    if !record.complete {
        let reason = record.incomplete_reason.as_deref().unwrap_or("the record gives no reason");
        notices.push(format!("INCOMPLETE: {}", clean(reason)));
    }
    for interruption in &record.interruptions {
        let text = clean(&interruption.to_string());
        notices.push(format!("RESUMED: {text}; blocks of both starts count"));
    }
    if let Some(reason) = &record.fault_trials_stopped {
        notices.push(format!("FAULT TRIALS STOPPED: {}", clean(reason)));
    }
    notices.extend(faults::missing_trials(record));
    if !record.plan.decides {
        notices.push(format!(
            "DECIDES NOTHING: profile {} is a functional check, with {} blocks per cell",
            clean(&record.profile.name),
            record.plan.blocks
        ));
    }
    if !record.matrix.iter().any(|row| row.outcome.is_measured()) {
        notices.push("NOTHING MEASURED: no row of the matrix has a trusted figure".to_owned());
    }
    notices
}

/// Records that do not count, and warnings from opening the record.
pub(super) fn left_out(record: &RunRecord, options: &RenderOptions) -> Vec<String> {
    let records = record.records_left_out.iter().map(|left_out| {
        let (record, reason) = (clean(&left_out.record), clean(&left_out.reason));
        format!("LEFT OUT: the fault trials of {record} do not count: {reason}")
    });
    let warnings = options.warnings.iter();
    let warnings = warnings.map(|text| format!("warning: {}", clean(text)));
    records.chain(warnings).collect()
}

/// The hash of the calibration; `-` without one.
pub(super) fn calibration(record: &RunRecord) -> String {
    match record.calibration.entries.len() {
        0 => MISSING_TEXT.to_owned(),
        _ => record.calibration.hash.clone(),
    }
}

/// What the observation of a cell costs the victim.
fn observing(cost: &ObservationCost) -> String {
    let min = cost.ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let max = cost.ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!(
        "{} keeps {min:.3} to {max:.3} of its rate (range of {} pairs) beside observations back to \
         back; a cell has one, of {:.1} ms",
        cost.victim,
        cost.ratios.len(),
        cost.mean_ns as f64 / 1e6
    )
}

/// What the run made of the user's environment variables, and what else was measured.
fn environment(provenance: &Provenance) -> Vec<(&'static str, String)> {
    let dropped = match provenance.dropped_variables.as_slice() {
        [] => None,
        names => Some(format!("not inherited: {}", names.join(", "))),
    };
    let others = provenance.host.get("other_gpus");
    let beside = others.map(|others| format!("{others}, measured at the same time"));
    [
        ("beside", beside),
        ("environment", dropped),
        ("allotment", provenance.visible_devices.clone()),
        ("victim", provenance.victim_environment.clone()),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some((name, text?)))
    .collect()
}

/// The same, with a note where the record does not name the device of the rates.
fn bound_calibration(record: &RunRecord) -> String {
    let hash = calibration(record);
    let is_bound = record.calibration.binding.is_some();
    if is_bound || record.calibration.entries.is_empty() {
        return hash;
    }
    format!("{hash}, without a binding to its device, as before format 2.2")
}

fn footer(record: &RunRecord, options: &RenderOptions) -> Vec<(&'static str, String)> {
    let device = &record.device;
    let kind = device.kind.as_str();
    let plan = &record.plan;
    let ended = record.provenance.ended_at.as_deref().unwrap_or(MISSING_TEXT);
    let mut footer = vec![
        ("device", format!("{} ({kind}), {}", device.name, device.uuid)),
        ("driver", format!("{}, CUDA {}", device.driver, device.cuda)),
        ("profile", format!("{}, hash {}", record.profile.name, record.profile.hash)),
        (
            "plan",
            format!(
                "{} tenants, victim share {}, {} blocks, {} cells",
                plan.tenants,
                super::figures::value(plan.share),
                plan.blocks,
                plan.cells.len()
            ),
        ),
        ("seed", record.seed.to_string()),
        ("calibration", bound_calibration(record)),
        (
            "intervals",
            "95 %; n counts blocks, or trials for proportions; a range is from minimum to \
             maximum"
                .to_owned(),
        ),
        ("scoring", record.scoring.clone()),
        (
            "run",
            format!(
                "{} to {ended}, gpubench {}",
                record.provenance.started_at, record.provenance.gpubench
            ),
        ),
    ];
    if let Some(rotation) = &plan.rotation {
        footer.push(("rotation", rotation.to_string()));
    }
    if let Some(top_up) = &plan.top_up {
        footer.push(("more blocks", top_up.to_string()));
    }
    if let Some(cost) = &record.calibration.observation_cost {
        footer.push(("observing", observing(cost)));
    }
    footer.extend(environment(&record.provenance));
    if let Some(dir) = &options.record_dir {
        footer.push(("record", dir.clone()));
    }
    footer.into_iter().map(|(name, text)| (name, clean(&text))).collect()
}

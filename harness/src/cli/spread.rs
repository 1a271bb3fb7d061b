//! `gpubench doctor --calibrate`: A/A sessions, and the spread that they show.

use gpubench_record::{Axis, Spread, counted};

use super::doctor::Args;
use super::signals::run_until_signal;
use super::ui::{Ui, table};
use crate::catalogue::REFERENCE;
use crate::device::PrivateFolder;
use crate::error::ExpectedError;
use crate::judge::{
    AfterCells, DeviceSession, FaultRequest, MatrixRequest, calibration, conclude, host_facts,
    matrix_setup,
};
use crate::profile::{OpenLoops, Profile, Wanted};
use crate::run::{RunEnd, Silent};

/// Runs the sessions: the native cells of the profile and their repetitions, with the calibration
/// of the first one. Returns the spread with those of earlier sessions, and its file as text.
///
/// # Errors
/// When a session cannot run, is interrupted, or the file cannot be written.
pub(super) fn run(args: &Args, profile: &Profile, ui: &Ui) -> Result<Spread, ExpectedError> {
    let folder = PrivateFolder::temporary();
    let folder = folder.map_err(|error| ExpectedError::from_write(std::env::temp_dir(), error))?;
    let (device, options) = (args.device.device.as_ref(), args.profile.host_options());
    let mut calibration = None;
    let mut found = None;
    for session in 0..args.sessions {
        let profile = of_session(profile, session);
        let time = host_facts::time_mode(device, &options, &profile);
        let device = DeviceSession::open(device, profile.seed, time)?;
        let out = folder.path().join(session.to_string());
        let request = MatrixRequest {
            calibration: calibration.clone(),
            recalibrate: false,
            after_cells: AfterCells { faults: FaultRequest::Off, ..AfterCells::default() },
            ..MatrixRequest::default()
        };
        ui.note(&format!("A/A session {} of {}", session + 1, args.sessions));
        let run = matrix_setup(&device, &options, profile, &request, &out)?;
        if run_until_signal(run.setup, run.kernel_log, &mut Silent)? == RunEnd::Interrupted {
            return Err(ExpectedError::Interrupted { record: out });
        }
        let record = conclude(&out)?.opened.run;
        calibration.get_or_insert(out);
        found = Some(calibration::add(&record)?);
    }
    let (spread, path) = found
        .ok_or_else(|| ExpectedError::Internal { what: "no session was requested".to_owned() })?;
    ui.note(&format!("kept in {}", path.display()));
    Ok(spread)
}

/// Only native cells, without open loops; each session with orders and schedules of its own.
fn of_session(profile: &Profile, session: u32) -> Profile {
    let mut of_session = profile.clone();
    of_session.seed = profile.seed.wrapping_add(u64::from(session));
    of_session.mechanisms = Wanted::Names(vec![REFERENCE.to_owned()]);
    of_session.axes = axes_of_cells(&profile.axes);
    of_session.blocks.top_up = false;
    if profile.slo.ns == 0 {
        of_session.open_loops = OpenLoops::Jitter;
    }
    of_session
}

/// The axes without those that only probes and fault trials measure.
fn axes_of_cells(wanted: &Wanted) -> Wanted {
    let probed = [Axis::Memory, Axis::Fault].map(Axis::as_str);
    let has_cells = |name: &str| !probed.contains(&name.split('/').next().unwrap_or(name));
    let names: Vec<String> = match wanted {
        Wanted::All => [Axis::Compute, Axis::Bandwidth, Axis::Jitter]
            .map(|axis| axis.as_str().to_owned())
            .to_vec(),
        Wanted::Names(names) => names.iter().filter(|name| has_cells(name)).cloned().collect(),
    };
    Wanted::Names(names)
}

/// The spread as a table.
pub(super) fn as_text(spread: &Spread) -> String {
    let percent = |log: f64| format!("{:.2} %", 100.0 * log.exp_m1());
    let optional = |log: Option<f64>| log.map_or_else(|| "-".to_owned(), percent);
    let rows: Vec<[String; 6]> = spread
        .victims
        .iter()
        .map(|(victim, of_victim)| {
            [
                victim.clone(),
                percent(of_victim.between_blocks),
                optional(of_victim.between_sessions),
                optional(of_victim.difference_p95),
                optional(of_victim.smallest_detectable.map(f64::ln_1p)),
                of_victim.bimodal_sessions.to_string(),
            ]
        })
        .collect();
    let header = [
        "victim",
        "between blocks",
        "between sessions",
        "95 % of differences",
        "detectable (1 session a side)",
        "bimodal sessions",
    ];
    format!(
        "{} {}, driver {}: spread of equal cells in {}\n\n{}",
        spread.name,
        spread.device,
        spread.driver,
        counted(spread.sessions.len(), "session"),
        table(header, &rows)
    )
}

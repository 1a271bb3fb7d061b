//! The device check of `doctor`: a short native run completes the identity of the device, measures
//! rates to compare with the device's peak, samples the clocks under full load, and finds how far
//! equal cells differ.

mod clocks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpubench_host::device::identity::SmClocks;
use gpubench_host::device::nvml::{QUERY, named};
use gpubench_host::device::{BlockingCall, Driver, NoAnswer, Nvml, PrivateFolder, is_abandoned};
use gpubench_host::mechanism::HostFacts;
use gpubench_host::mechanism::host::JournalLocation;
use gpubench_host::tenant::{Spawner, Tenant};
use gpubench_judge::gate::closed_rate_per_s;
use gpubench_plan::draft as planned;
use gpubench_plan::draft::{FULL_COPY, FULL_LOAD, PAIR_VICTIM, TENANT};
use gpubench_plan::profile::Profile;
use gpubench_record::wire::Participants;
use gpubench_record::{Cell, DeviceIdentity, FromTenant, RunRecord, ToTenant, Verification};
use gpubench_run::{HostSetup, RunClock, Setup, Silent, participants_of};
use gpubench_stats::summary::moments;
use gpubench_store::Record;
use tokio::sync::watch;

use super::{DeviceSession, provenance, ptx_hash, verdict};
use crate::error::ExpectedError;

pub use clocks::Clocks;

/// The result of a device check.
pub struct DeviceReport {
    /// The identity of the device, completed from inside a context.
    pub identity: DeviceIdentity,
    /// Each workload with the result of its verification; empty without `--verify`.
    pub verified: Vec<(String, Verification)>,
    pub achieved: Vec<Achieved>,
    /// Clocks under full load, or why they are unknown.
    pub clocks: Result<Clocks, String>,
    /// Spread of equal cells, or why it is unknown.
    pub spread: Result<Spread, String>,
}

/// One rate of the whole device and the peak of the device.
pub struct Achieved {
    /// `copy` or `FMA`.
    pub name: &'static str,
    /// The measured rate, or why there is none.
    pub per_s: Result<f64, String>,
    /// The peak by the maximal clocks and the widths in NVML, or why it is unknown.
    pub peak_per_s: Result<f64, String>,
    pub unit: &'static str,
}

/// How far the two cells of an A/A pair differ.
pub struct Spread {
    pub pairs: u32,
    /// Standard deviation of the logarithm of their ratio.
    pub sd_log: f64,
    /// Length of the closed loop of a cell.
    pub loop_ns: u64,
    pub victim: &'static str,
}

pub fn check_device(
    session: &DeviceSession,
    facts: &HostFacts,
    profile: &Profile,
    verify: bool,
) -> Result<DeviceReport, ExpectedError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ExpectedError::internal(format!("event loop: {error}")))?;
    runtime.block_on(async {
        let (verified, step_ns) = if verify {
            let found = all_workloads(session).await;
            found.map_err(|reason| ExpectedError::NothingRan { reason })?
        } else {
            (Vec::new(), 0)
        };
        let folder = PrivateFolder::temporary();
        let folder =
            folder.map_err(|error| ExpectedError::from_write(std::env::temp_dir(), error))?;
        let setup = setup(session, facts, profile, &folder)?;
        // Nothing is sent: `doctor` ends with the signal.
        let (_stop, stopped) = watch::channel(false);
        let is_over = Arc::new(AtomicBool::new(false));
        let mut link = BlockingCall::start("reading the PCIe link by NVML", {
            let (nvml, is_over) = (session.nvml().aside(), Arc::clone(&is_over));
            move || highest_link(&nvml, &is_over)
        })
        .map_err(verdict::no_answer)?;
        let mut progress = Silent;
        let ended = gpubench_run::run(setup, None, stopped, &mut progress).await;
        ended.map_err(|error| verdict::from_run(error, folder.path(), false))?;
        is_over.store(true, Ordering::Relaxed);
        let link = link.within(QUERY).await.and_then(|link| link);
        let record = Record::open(folder.path())
            .map_err(|error| verdict::from_store(folder.path(), error))?;
        let mut report = report(&record, session, verified)?;
        let step = (step_ns > 0).then(|| format!("{step_ns} ns"));
        let in_words = |[generation, width]: [u32; 2]| format!("generation {generation}, x{width}");
        let link = link.map(|link| link.map(in_words));
        let link = link.unwrap_or_else(|hang| Some(format!("unknown: {hang}")));
        for (name, fact) in [("gpu_timer_step", step), ("pcie_under_load", link)] {
            report.identity.facts.extend(fact.map(|fact| (name.to_owned(), fact)));
        }
        Ok(report)
    })
}

/// Generation and width of the link to the host, which an idle device lowers.
type Link = Option<[u32; 2]>;

/// The highest until the check is over.
fn highest_link(nvml: &Nvml, is_over: &AtomicBool) -> Result<Link, NoAnswer> {
    let mut highest = Link::default();
    while !is_over.load(Ordering::Relaxed) && !is_abandoned() {
        highest = highest.max(nvml.ask("reading the PCIe link by NVML", Driver::pcie_link)?);
        std::thread::sleep(LINK_PERIOD);
    }
    Ok(highest)
}

/// How often the link is read during the check, of which the copies are a part.
const LINK_PERIOD: Duration = Duration::from_millis(20);

fn setup(
    session: &DeviceSession,
    facts: &HostFacts,
    profile: &Profile,
    folder: &PrivateFolder,
) -> Result<Setup, ExpectedError> {
    // Under MIG mode the tenant has the first instance, without a mechanism.
    let facts = HostFacts { mig: None, ..facts.clone() };
    // No mechanism changes the host, so the journal stays empty.
    let journal = JournalLocation::new(folder.path(), &session.identity().uuid, None);
    Ok(Setup {
        plan: planned::device_check(profile),
        out: folder.path().to_path_buf(),
        clock: session.clock(),
        nvml: session.nvml(),
        identity: session.identity().clone(),
        provenance: provenance::without_timer(&session.clock()),
        spawner: Spawner::new(session.environment()).map_err(|error| {
            ExpectedError::internal(format!("the path of this program is unknown: {error}"))
        })?,
        ptx_hash: ptx_hash(),
        calibration: None,
        kept: Vec::new(),
        settings: None,
        continued: None,
        top_up: None,
        host: HostSetup::new(profile.clone(), facts, journal),
    })
}

fn report(
    record: &Record,
    session: &DeviceSession,
    verified: Vec<(String, Verification)>,
) -> Result<DeviceReport, ExpectedError> {
    let run = record.run();
    let peaks = |driver: &Driver| {
        let peaks = [driver.memory_peak_bytes_per_s(), driver.fp32_peak_flops_per_s()];
        (peaks.map(|peak| peak.map_err(|error| named(&error))), driver.sm_clocks())
    };
    let (peaks, settings) = session.ask("reading peaks and clocks by NVML", peaks)?;
    Ok(DeviceReport {
        identity: run.device.clone(),
        verified,
        achieved: achieved(run, peaks),
        clocks: clocks(record, settings),
        spread: spread(record),
    })
}

/// The full-device rates of memory and arithmetic.
fn achieved(run: &RunRecord, peaks: [Result<f64, String>; 2]) -> Vec<Achieved> {
    let [memory, fp32] = peaks;
    let rows = [("copy", FULL_COPY, memory, "bytes"), ("FMA", FULL_LOAD, fp32, "operations")];
    let calibration = &run.calibration;
    let rate = |workload: &str| match calibration.entries.get(workload) {
        Some(entry) => Ok(entry.native_rate_per_s * entry.work_per_request),
        None => {
            let reason = calibration.waived.get(workload).cloned();
            Err(reason.unwrap_or_else(|| "it was not calibrated".to_owned()))
        }
    };
    rows.into_iter()
        .map(|(name, workload, peak_per_s, unit)| Achieved {
            name,
            per_s: rate(workload),
            peak_per_s,
            unit,
        })
        .collect()
}

/// The clocks during the cell that keeps every SM busy.
fn clocks(record: &Record, settings: SmClocks) -> Result<Clocks, String> {
    let mut cells = record.run().plan.cells.iter();
    let cell = cells.find(|cell| cell.victim == FULL_LOAD);
    let mut rows = record.telemetry().map_err(|error| error.to_string())?;
    rows.retain(|row| cell.is_some_and(|cell| cell.id == row.cell));
    Clocks::sampled(settings, &rows)
}

fn spread(record: &Record) -> Result<Spread, String> {
    let plan = &record.run().plan;
    let pairs: Vec<&Cell> = plan.cells.iter().filter(|cell| cell.victim == PAIR_VICTIM).collect();
    let mut log_ratios = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let (first, second) = (rate(record, pair[0])?, rate(record, pair[1])?);
        log_ratios.push((second / first).ln());
    }
    let moments = moments(&log_ratios).map_err(|error| error.to_string())?;
    Ok(Spread {
        pairs: moments.n,
        sd_log: moments.sd,
        loop_ns: plan.durations.closed_ns,
        victim: PAIR_VICTIM,
    })
}

fn rate(record: &Record, cell: &Cell) -> Result<f64, String> {
    let rows = record.samples(&cell.id, TENANT);
    let rows = rows.map_err(|error| error.to_string())?;
    closed_rate_per_s(&rows).ok_or_else(|| {
        let ms = record.run().plan.durations.closed_ns / 1_000_000;
        format!("a closed loop of {ms} ms completed too few requests for a rate")
    })
}

// `doctor --verify`: one tenant without a mechanism verifies the kernels of every workload.

/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(120);

/// The verification of each workload, and the step of the clock of kernels in nanoseconds.
async fn all_workloads(
    session: &DeviceSession,
) -> Result<(Vec<(String, Verification)>, u64), String> {
    let participants = participants_of(0);
    let spawner = Spawner::new(session.environment()).map_err(|error| error.to_string())?;
    let none = BTreeMap::new();
    let tenant = spawner.spawn("diagnostic", participants, &none);
    let mut diagnostic = Diagnostic {
        tenant: tenant.await.map_err(|error| error.to_string())?,
        participants,
        clock: session.clock(),
    };
    let results = diagnostic.verify().await;
    diagnostic.tenant.stop().await;
    results
}

/// The diagnostic tenant and its clock.
struct Diagnostic {
    tenant: Tenant,
    participants: Participants,
    clock: RunClock,
}

impl Diagnostic {
    async fn verify(&mut self) -> Result<(Vec<(String, Verification)>, u64), String> {
        let open = ToTenant::Open {
            ordinal: 0,
            spin: false,
            participants: self.participants,
            inside: None,
        };
        self.request(&open).await?;
        let workloads = gpubench_catalogue::workload::CATALOGUE
            .iter()
            .map(|workload| workload.name.to_owned())
            .collect();
        let results = match self.request(&ToTenant::Verify { workloads }).await? {
            FromTenant::Verified { results } => results.into_iter().collect(),
            other => return Err(format!("unexpected answer to a verification: {other:?}")),
        };
        let step_ns = match self.request(&ToTenant::FindTimerStep).await? {
            FromTenant::FoundTimerStep { ns } => ns,
            other => return Err(format!("unexpected answer to a question for time: {other:?}")),
        };
        self.request(&ToTenant::Close).await?;
        Ok((results, step_ns))
    }

    /// Sends a message and waits for the answer.
    async fn request(&mut self, message: &ToTenant) -> Result<FromTenant, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        self.clock.expect(self.participants.issuer).map_err(|error| text(&error))?;
        self.tenant.send(message).await.map_err(|error| text(&error))?;
        let answer = self.tenant.receive("verifying kernels", ANSWER).await;
        // A tenant that answers without a device call never joined the clock.
        self.clock.abandon(self.participants).map_err(|error| text(&error))?;
        answer.map_err(|error| text(&error))
    }
}

//! The processes of a watch: the canary, a program of the user, and planted neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use gpubench_host::device::PrivateFolder;
use gpubench_host::tenant::{SpawnError, Spawner, Tenant, TenantError};
use gpubench_judge::gate::closed_rate_per_s;
use gpubench_record::probe::step::{CanaryRequest, RunCanary, Step};
use gpubench_record::user_victim::UserVictim;
use gpubench_record::{AGGRESSOR_DEPTH, FromTenant, LoadSpec, ToTenant, WorkloadSpec};
use gpubench_run::{RunClock, RunError, participants_of};
use gpubench_workloads::log::read_log;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{CANARY, Plant, RESOURCES, SERVICE_NS};
use crate::error::ExpectedError;
use crate::verbs::{DeviceSession, verdict};

/// Longest wait for an answer beyond the time that the work takes.
const ANSWER: Duration = Duration::from_secs(120);
/// Where MPS has its pipes unless a variable names another folder.
const MPS_PIPES: (&str, &str) = ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");
/// Request of a planted neighbour.
const PLANT_SERVICE_NS: u64 = 1_000_000;
/// Room for the requests of a user's program in a second; more are counted and not kept.
const ROWS_PER_S: u64 = 20_000;

/// Why a watch ends before its time.
#[derive(Debug)]
pub enum End {
    /// By a signal.
    Stopped,
    Failed(ExpectedError),
}

impl From<ExpectedError> for End {
    fn from(error: ExpectedError) -> Self {
        Self::Failed(match error {
            // A watch leaves no record.
            ExpectedError::RunFailed { problem } => ExpectedError::WatchFailed { problem },
            error => error,
        })
    }
}

impl From<RunError> for End {
    fn from(error: RunError) -> Self {
        verdict::from_run(error, Path::new(""), false).into()
    }
}

impl From<SpawnError> for End {
    fn from(error: SpawnError) -> Self {
        RunError::Spawn(error).into()
    }
}

impl From<TenantError> for End {
    fn from(error: TenantError) -> Self {
        verdict::from_user_victim(error).into()
    }
}

fn internal(what: impl std::fmt::Display) -> End {
    End::Failed(ExpectedError::internal(what))
}

/// The tenants by slot: the canary, planted neighbours in their order, then the user's program.
pub struct Tenants {
    clock: RunClock,
    slots: Vec<Option<Tenant>>,
    stop: watch::Receiver<bool>,
    folder: PrivateFolder,
    /// The requests of the canary, in the order of [`RESOURCES`]; those that cannot be made are
    /// absent.
    specs: Vec<WorkloadSpec>,
    plants: Vec<(Plant, WorkloadSpec)>,
    program: Option<usize>,
    seed: u64,
}

/// One window as it was measured.
pub struct Measured {
    /// Start and end by the clock of the run.
    pub span_ns: [u64; 2],
    /// Requests by resource.
    pub requests: Vec<Vec<CanaryRequest>>,
    /// Requests of the user's program a second; `None` without one, or where too few ended.
    pub program_per_s: Option<f64>,
}

impl Tenants {
    /// Starts all processes, opens their contexts and sizes their requests. Returns the resources
    /// that the canary cannot use on this device too, each with the reason.
    pub async fn start(
        session: &DeviceSession,
        plants: &[Plant],
        program: Option<&UserVictim>,
        (stop, seed): (watch::Receiver<bool>, u64),
    ) -> Result<(Self, BTreeMap<&'static str, String>), End> {
        let spawner = Spawner::new(session.environment()).map_err(internal)?;
        let mut extra = BTreeMap::new();
        if !session.is_virtual() {
            // The canary shares the device as the programs of the user do.
            let (name, usual) = MPS_PIPES;
            let found = std::env::var_os(name).unwrap_or_else(|| usual.into());
            extra.insert(OsString::from(name), found);
        }
        // Neighbours in the canary's process run at the same time as its requests.
        let inside = (1..).zip(plants).filter(|(_, plant)| !plant.takes_turns);
        let mut members = vec![(CANARY.to_owned(), participants_of(0))];
        members
            .extend(inside.clone().map(|(at, _)| (format!("neighbour {at}"), participants_of(at))));
        let mut slots: Vec<Option<Tenant>> = (0..=plants.len()).map(|_| None).collect();
        let started = spawner.spawn_together(&members, &extra).await?;
        for (slot, tenant) in std::iter::once(0).chain(inside.map(|(at, _)| at)).zip(started) {
            slots[slot] = Some(tenant);
        }
        for (slot, place) in slots.iter_mut().enumerate().filter(|(_, one)| one.is_none()) {
            let name = format!("neighbour {slot}");
            *place = Some(spawner.spawn(&name, participants_of(slot), &extra).await?);
        }
        let program = match program {
            None => None,
            Some(program) => {
                let slot = slots.len();
                let own = participants_of(slot);
                slots.push(Some(spawner.spawn_user_victim("program", own, &extra, program).await?));
                Some(slot)
            }
        };
        let folder = PrivateFolder::temporary().map_err(internal)?;
        let clock = session.clock();
        let (specs, plants_of) = (Vec::new(), Vec::new());
        let mut all = Self { clock, slots, stop, folder, specs, plants: plants_of, program, seed };
        let waived = all.prepare(plants).await?;
        Ok((all, waived))
    }

    /// Opens the contexts, and finds the length of the requests.
    async fn prepare(&mut self, plants: &[Plant]) -> Result<BTreeMap<&'static str, String>, End> {
        for slot in 0..self.slots.len() {
            let participants = participants_of(slot);
            let open = ToTenant::Open { ordinal: 0, spin: false, participants, inside: None };
            self.ask(slot, open, "opening the device").await?;
        }
        let mut waived = BTreeMap::new();
        for (resource, workload, share) in RESOURCES {
            match self.calibrated(0, (workload, share), SERVICE_NS).await {
                Ok(spec) => self.specs.push(spec),
                Err(End::Failed(error)) if self.is_open() => {
                    waived.insert(resource, error.to_string());
                }
                Err(end) => return Err(end),
            }
        }
        for (at, plant) in (1..).zip(plants) {
            let spec = self.calibrated(at, (plant.workload, plant.share), PLANT_SERVICE_NS).await?;
            self.plants.push((plant.clone(), spec));
        }
        self.canary(0, 0, 0).await?;
        Ok(waived)
    }

    /// Whether the canary lives.
    fn is_open(&self) -> bool {
        self.slots[0].as_ref().is_some_and(Tenant::is_open)
    }

    async fn calibrated(
        &mut self,
        slot: usize,
        (workload, share): (&str, f64),
        service_ns: u64,
    ) -> Result<WorkloadSpec, End> {
        let workload = workload.to_owned();
        let message = ToTenant::Calibrate { workload, share, service_ns };
        match self.ask(slot, message, "finding the length of requests").await? {
            FromTenant::Calibrated { spec, .. } => Ok(spec),
            other => Err(internal(format!("unexpected answer {other:?}"))),
        }
    }

    pub const fn clock(&self) -> &RunClock {
        &self.clock
    }

    /// Process ids of the tenants.
    pub fn pids(&self) -> Vec<u32> {
        // Tenants in one process have one id.
        let pids: BTreeSet<u32> = self.slots.iter().flatten().map(Tenant::pid).collect();
        pids.into_iter().collect()
    }

    /// The canary alone, to learn how long its requests are: [`Measured::requests`].
    async fn canary(
        &mut self,
        start_ns: u64,
        rounds: u32,
        period_ns: u64,
    ) -> Result<Vec<Vec<CanaryRequest>>, End> {
        let message = self.step(start_ns, rounds, period_ns);
        let answer = self.ask(0, message, "preparing the canary").await?;
        requests(answer)
    }

    fn step(&mut self, start_ns: u64, rounds: u32, period_ns: u64) -> ToTenant {
        self.seed = self.seed.wrapping_add(1);
        let specs = self.specs.clone();
        let step = RunCanary { specs, start_ns, rounds, period_ns, seed: self.seed };
        ToTenant::Probe { step: step.into_step() }
    }

    /// One window with the canary, if `rounds` is not 0, beside the program and the neighbours that
    /// are planted then; `began_ns` is the start of the watch, before which there are none.
    pub async fn window(
        &mut self,
        (began_ns, length_ns): (Option<u64>, u64),
        (rounds, period_ns): (u32, u64),
    ) -> Result<Measured, End> {
        // Preparing takes little time, and none once buffers are there.
        let since_ns = began_ns.map(|began_ns| self.clock.now_ns().saturating_sub(began_ns));
        let beside = self.prepared(since_ns, length_ns).await?;
        let others = beside.iter().map(|(slot, _)| (*slot, true));
        let canary = (rounds > 0).then_some((0, false));
        self.expect(canary.into_iter().chain(others))?;
        // Others have to know first.
        let is_alone = beside.is_empty() && !self.clock.is_virtual();
        let start_ns = if is_alone { self.clock.now_ns() } else { self.clock.start_ns() };
        let step = canary.map(|(slot, _)| (slot, self.step(start_ns, rounds, period_ns)));
        let go = |(slot, later_ns)| (slot, ToTenant::Go { t0_ns: start_ns + later_ns });
        let messages = step.into_iter().chain(beside.into_iter().map(go)).collect();
        let limit = ANSWER + Duration::from_nanos(length_ns);
        let answers = self.exchange(messages, "running a window", limit).await?;
        let program_per_s = self.program_rate()?;
        let first = answers.into_iter().next().filter(|_| rounds > 0);
        let requests = first.map_or(Ok(Vec::new()), requests)?;
        Ok(Measured { span_ns: [start_ns, start_ns + length_ns], requests, program_per_s })
    }

    /// Prepares the program, and the neighbours that are planted in a window; the slots, each with
    /// the time from the start of the window to its own.
    async fn prepared(
        &mut self,
        since_ns: Option<u64>,
        length_ns: u64,
    ) -> Result<Vec<(usize, u64)>, End> {
        let mut found = Vec::new();
        for (slot, (plant, spec)) in (1..).zip(self.plants.clone()) {
            let Some(since_ns) = since_ns else { break };
            let from_ns = plant.from_ns.max(since_ns);
            let to_ns = plant.to_ns.min(since_ns.saturating_add(length_ns));
            if from_ns < to_ns {
                let load = LoadSpec::Aggressor {
                    start_ns: 0,
                    end_ns: to_ns - from_ns,
                    dose: 1.0,
                    period_ns: 0,
                    depth: AGGRESSOR_DEPTH,
                };
                let prepare = self.cell(slot, Some(spec), load, 1);
                self.ask(slot, prepare, "preparing a neighbour").await?;
                found.push((slot, from_ns - since_ns));
            }
        }
        if let Some(slot) = self.program {
            let load = LoadSpec::Victim {
                warmup_end_ns: 0,
                sparse: None,
                closed_end_ns: length_ns,
                depth: 1,
                open_start_ns: length_ns,
                open_end_ns: length_ns,
                rate_per_s: 1.0,
                bursts: None,
                seed: self.seed,
                outstanding_max: 1,
            };
            let rows = (length_ns / 1_000_000_000 + 1) * ROWS_PER_S;
            let prepare = self.cell(slot, None, load, rows);
            self.ask(slot, prepare, "preparing the program").await?;
            found.push((slot, 0));
        }
        Ok(found)
    }

    fn cell(
        &self,
        slot: usize,
        workload: Option<WorkloadSpec>,
        load: LoadSpec,
        rows: u64,
    ) -> ToTenant {
        ToTenant::Prepare {
            id: "watch".to_owned(),
            workload,
            load,
            log: self.new_log(slot).display().to_string(),
            capacity_rows: rows,
            cpu: None,
            reaper_cpu: None,
        }
    }

    /// The path of the next log, without the last one.
    fn new_log(&self, slot: usize) -> std::path::PathBuf {
        let path = self.log(slot);
        // The first has none before it; a file that stays is an error of the tenant.
        let _absent = std::fs::remove_file(&path);
        path
    }

    fn log(&self, slot: usize) -> std::path::PathBuf {
        self.folder.path().join(slot.to_string())
    }

    fn program_rate(&self) -> Result<Option<f64>, End> {
        let Some(slot) = self.program else { return Ok(None) };
        let log = read_log(&self.log(slot)).map_err(internal)?;
        Ok(closed_rate_per_s(&log.rows))
    }

    async fn ask(
        &mut self,
        slot: usize,
        message: ToTenant,
        doing: &'static str,
    ) -> Result<FromTenant, End> {
        self.expect([(slot, false)])?;
        let mut answers = self.exchange(vec![(slot, message)], doing, ANSWER).await?;
        answers.pop().ok_or_else(|| internal("no answer"))
    }

    /// Announces the threads that join the clock: those of a cell have a reaper.
    fn expect(&self, slots: impl IntoIterator<Item = (usize, bool)>) -> Result<(), End> {
        for (slot, has_reaper) in slots {
            let own = participants_of(slot);
            self.clock.expect(own.issuer)?;
            if has_reaper {
                self.clock.expect(own.reaper)?;
            }
        }
        Ok(())
    }

    /// Sends messages to several tenants at the same time; the answers are in their order.
    async fn exchange(
        &mut self,
        messages: Vec<(usize, ToTenant)>,
        doing: &'static str,
        limit: Duration,
    ) -> Result<Vec<FromTenant>, End> {
        let mut answers: Vec<Option<FromTenant>> = messages.iter().map(|_| None).collect();
        let mut waiting = JoinSet::new();
        for (at, (slot, message)) in messages.into_iter().enumerate() {
            let mut tenant = self.slots[slot].take().ok_or_else(|| internal("a tenant is gone"))?;
            let mut stop = self.stop.clone();
            waiting.spawn(async move {
                let answer = tokio::select! {
                    answer = tenant.exchange(&message, doing, limit) => Some(answer),
                    () = async { stop.wait_for(|stops| *stops).await.map(drop).unwrap_or(()) } => {
                        None
                    }
                };
                if answer.is_none() {
                    tenant.kill().await;
                }
                (at, slot, tenant, answer)
            });
        }
        let mut end = None;
        while let Some(done) = waiting.join_next().await {
            let (at, slot, tenant, answer) = done.map_err(internal)?;
            // At once: until then the clock of the others waits for it.
            self.clock.abandon(tenant.participants())?;
            match answer {
                Some(Ok(answer)) => answers[at] = Some(answer),
                Some(Err(error)) => end = Some(error.into()),
                None => end = Some(End::Stopped),
            }
            self.slots[slot] = Some(tenant);
        }
        match end {
            Some(end) => Err(end),
            None => Ok(answers.into_iter().flatten().collect()),
        }
    }

    /// Ends all processes.
    pub async fn stop(mut self) {
        for tenant in self.slots.iter_mut().flatten() {
            tenant.stop().await;
        }
    }
}

fn requests(answer: FromTenant) -> Result<Vec<Vec<CanaryRequest>>, End> {
    match answer {
        FromTenant::Probed { reply } => {
            RunCanary::reply(reply).map_err(|other| internal(format!("{other:?}")))
        }
        other => Err(internal(format!("unexpected answer {other:?}"))),
    }
}

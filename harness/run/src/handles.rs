//! The components of a run that tenant sets use, with calls to NVML and to the clock.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use gpubench_host::device::{Driver, identity};
use gpubench_record::wire::Participants;
use gpubench_record::{
    Cell, DeviceIdentity, MechanismRow, Outcome, OutcomeKind, RunEvent, SpentTime, TimePart,
};

use super::observe::PidRegistry;
use super::setup::Recorder;
use super::waits::Waits;
use super::{RunClock, RunError, Setup, tenant_process};

/// Longest wait for NVML, and for the shared clock of a virtual device.
const NVML: Duration = Duration::from_secs(30);
const CLOCK: Duration = Duration::from_secs(30);

/// The components that tenant sets use. Clones share them.
#[derive(Clone)]
pub struct RunHandles {
    pub setup: Arc<Setup>,
    pub waits: Waits,
    pub recorder: Recorder,
    pub registry: PidRegistry,
    /// The identity of the device, completed by the first tenant that sees it whole.
    identity: Rc<RefCell<DeviceIdentity>>,
    time: Rc<RefCell<Stopwatch>>,
}

/// What the time was spent on up to an instant, and what it is spent on since.
struct Stopwatch {
    sums: BTreeMap<TimePart, u64>,
    on: TimePart,
    since_ns: u64,
    is_lost: bool,
}

impl RunHandles {
    pub fn new(setup: Arc<Setup>, waits: Waits, recorder: Recorder) -> Self {
        let identity = Rc::new(RefCell::new(setup.identity.clone()));
        let since_ns = setup.clock.now_ns();
        let time =
            Stopwatch { sums: BTreeMap::new(), on: TimePart::Other, since_ns, is_lost: false };
        let time = Rc::new(RefCell::new(time));
        Self { setup, waits, recorder, registry: PidRegistry::default(), identity, time }
    }

    /// Asks NVML. A call that does not return ends the run.
    pub async fn nvml<T: Send + 'static>(
        &self,
        doing: &'static str,
        call: impl FnOnce(&Driver) -> T + Send + 'static,
    ) -> Result<T, RunError> {
        let nvml = Arc::clone(&self.setup.nvml);
        Ok(self.waits.blocking(doing, NVML, move || nvml.ask(doing, call)).await??)
    }

    /// From now on time is spent on this part. Returns the part before.
    pub async fn spend(&self, on: TimePart) -> TimePart {
        // A clock that gives no answer ends the run; until then no time is counted.
        let is_counted = !self.time.borrow().is_lost;
        let now = if is_counted { self.now_ns().await.ok() } else { None };
        let mut time = self.time.borrow_mut();
        let (before, since_ns) = (time.on, time.since_ns);
        time.on = on;
        let Some(now_ns) = now else {
            time.is_lost = true;
            return before;
        };
        *time.sums.entry(before).or_insert(0) += now_ns.saturating_sub(since_ns);
        time.since_ns = now_ns;
        before
    }

    /// The same for a step of a cell's set-up. Such a step of a calibration, check of speed, probe
    /// or fault trial is time of these.
    pub async fn spend_step(&self, on: TimePart) -> TimePart {
        use TimePart::{Calibration, Faults, Probes, SpeedChecks};
        let present = self.time.borrow().on;
        let is_whole = matches!(present, Calibration | Faults | Probes | SpeedChecks);
        self.spend(if is_whole { present } else { on }).await
    }

    /// Of the time that was spent on the present part, so much was spent on another one.
    pub async fn of_it(&self, on: TimePart, ns: u64) {
        let before = self.spend(on).await;
        self.spend(before).await;
        let sums = &mut self.time.borrow_mut().sums;
        let from = sums.entry(before).or_insert(0);
        let ns = ns.min(*from);
        *from -= ns;
        *sums.entry(on).or_insert(0) += ns;
    }

    /// Splits the time since the start of a cell: warm-up, windows, and the wait for the last
    /// answers.
    pub async fn split_cell(&self, cell: &Cell, t0_ns: u64) -> Result<(), RunError> {
        let durations = self.setup.plan.durations_of(cell);
        let ran_ns = self.now_ns().await?.saturating_sub(t0_ns).min(durations.cell_ns());
        let warmup_ns = ran_ns.min(durations.warmup_ns);
        self.of_it(TimePart::WarmUp, warmup_ns).await;
        self.of_it(TimePart::Windows, ran_ns - warmup_ns).await;
        Ok(())
    }

    pub async fn time_spent(&self) -> Vec<SpentTime> {
        self.spend(TimePart::Other).await;
        let sums = self.time.borrow().sums.clone().into_iter().filter(|(_, ns)| *ns > 0);
        sums.map(|(part, ns)| SpentTime { part, ns }).collect()
    }

    /// Announces participants of the clock, in this order.
    pub async fn expect(&self, ids: Vec<u32>) -> Result<(), RunError> {
        self.clock("announcing participants of the clock", move |clock| {
            ids.into_iter().try_for_each(|id| clock.expect(id))
        })
        .await
    }

    /// Withdraws announced participants that did not join.
    pub async fn abandon(&self, participants: Participants) -> Result<(), RunError> {
        self.clock("taking participants off the clock", move |clock| clock.abandon(participants))
            .await
    }

    /// Frees what dead tenants held on the virtual device.
    pub async fn reap(&self) -> Result<(), RunError> {
        self.clock("reaping dead processes", RunClock::reap).await
    }

    pub async fn now_ns(&self) -> Result<u64, RunError> {
        self.clock("reading the clock", |clock| Ok(clock.now_ns())).await
    }

    /// The instant at which a cell that is started now begins.
    pub async fn start_ns(&self) -> Result<u64, RunError> {
        self.clock("reading the clock", |clock| Ok(clock.start_ns())).await
    }

    /// Calls the shared clock, with a limit: a stopped participant may hold its lock.
    async fn clock<T: Send + 'static>(
        &self,
        doing: &'static str,
        call: impl FnOnce(&RunClock) -> Result<T, RunError> + Send + 'static,
    ) -> Result<T, RunError> {
        let clock = self.setup.clock.clone();
        if !clock.is_virtual() {
            return call(&clock);
        }
        self.waits.blocking(doing, CLOCK, move || call(&clock)).await?
    }

    /// Writes that a tenant's process was started, and remembers its process id.
    pub fn started(&self, tenant: &str, pid: u32) -> Result<(), RunError> {
        self.registry.enter(tenant, pid);
        let tenant = tenant.to_owned();
        self.waits.look_at(&tenant, &[pid]);
        Ok(self.recorder.event(&RunEvent::TenantStarted { tenant, pid })?)
    }

    pub fn identity(&self) -> DeviceIdentity {
        self.identity.borrow().clone()
    }

    /// SMs of the whole device; 0 until a tenant has reported them.
    pub fn sm_count(&self) -> u32 {
        self.identity.borrow().sm_count
    }

    /// Adds facts from a tenant of the whole device.
    pub fn complete_identity(&self, facts: &BTreeMap<String, String>) {
        identity::complete(&mut self.identity.borrow_mut(), facts);
    }
}

// Variants of mechanisms that failed or cannot run, each written once.

/// The outcomes of variants that have ended, by variant.
pub struct MechanismLedger {
    ended: BTreeMap<String, Outcome>,
    /// Which tenants of which variants were seen, and the library that answers for the driver.
    seen: BTreeMap<(String, String), Option<String>>,
    recorder: Recorder,
}

impl MechanismLedger {
    /// A ledger with the variants that ended before an interruption.
    pub const fn new(recorder: Recorder, ended: BTreeMap<String, Outcome>) -> Self {
        Self { ended, seen: BTreeMap::new(), recorder }
    }

    /// Writes what a tenant of a variant has in its process, once. Returns a library that answers
    /// for the driver in it without being the mechanism's.
    pub fn see(&mut self, variant: &str, tenant: &str, pid: u32) -> Result<Option<&str>, RunError> {
        let key = (variant.to_owned(), tenant.to_owned());
        if !self.seen.contains_key(&key) {
            let process = tenant_process::of(pid);
            let found = tenant_process::interposer(&process).map(str::to_owned);
            let (variant, tenant) = key.clone();
            self.recorder.event(&RunEvent::TenantSeen { variant, tenant, process })?;
            self.seen.insert(key.clone(), found);
        }
        Ok(self.seen.get(&key).and_then(Option::as_deref))
    }

    pub fn has_ended(&self, variant: &str) -> bool {
        self.ended.contains_key(variant)
    }

    /// Why no cell of this variant can run, if it is waived.
    pub fn waived(&self, variant: &str) -> Option<String> {
        let outcome = self.ended.get(variant)?;
        let is_waived = outcome.outcome == OutcomeKind::Waived;
        is_waived.then(|| outcome.reason.clone().unwrap_or_default())
    }

    pub fn failed(&mut self, name: &str, variant: &str, reason: &str) -> Result<(), RunError> {
        self.end(name, variant, &Outcome::failed(reason), None)
    }

    /// Writes that a mechanism failed or cannot run. The first outcome of a variant stays.
    pub fn end(
        &mut self,
        name: &str,
        variant: &str,
        outcome: &Outcome,
        remedy: Option<&str>,
    ) -> Result<(), RunError> {
        if self.has_ended(variant) {
            return Ok(());
        }
        self.ended.insert(variant.to_owned(), outcome.clone());
        self.write(name, variant, outcome.clone(), remedy)
    }

    pub fn runs(&self, name: &str, variant: &str) -> Result<(), RunError> {
        if self.has_ended(variant) {
            return Ok(());
        }
        self.write(name, variant, Outcome::measured(), None)
    }

    fn write(
        &self,
        name: &str,
        variant: &str,
        outcome: Outcome,
        remedy: Option<&str>,
    ) -> Result<(), RunError> {
        let row = MechanismRow {
            name: name.to_owned(),
            variant: variant.to_owned(),
            outcome,
            remedy: remedy.map(str::to_owned),
            proof: Vec::new(),
            tenants: BTreeMap::new(),
        };
        Ok(self.recorder.event(&RunEvent::Mechanism { row })?)
    }
}

//! Every wait of the coordinator. It ends with its result, with its limit, or when the user stops
//! the run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpubench_host::device::BlockingCall;
use gpubench_host::device::virtual_gpu::Device;
use gpubench_host::tenant::{Tenant, TenantError};
use gpubench_record::wire::Participants;
use gpubench_record::{FromTenant, ToTenant};
use gpubench_workloads::user_victim::process_tree;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{RunError, RunPhase};

/// Time that a running call still has after the user stopped the run.
const GRACE: Duration = Duration::from_secs(3);

/// How often a tenant that is waited for is looked at, after how many looks it counts as stopped by
/// a signal, and after how many it is killed: before virtual time, which it holds, ends by its own
/// limit of 10 s.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS_STOPPED: u32 = 2;
const LOOKS_KILLED: u32 = 6;

/// The user's stop, which ends every wait, and the way of long waits to the screen.
#[derive(Debug, Clone)]
pub struct Waits {
    stop: watch::Receiver<bool>,
    phases: UnboundedSender<RunPhase>,
    looked_at: Arc<Mutex<BTreeMap<u32, LookedAt>>>,
}

/// A process of a tenant. Each wait looks at all of them: one that nobody waits for is said too.
#[derive(Debug)]
struct LookedAt {
    tenant: String,
    stopped_since: Option<Instant>,
    is_said: bool,
}

impl Waits {
    /// Ends waits once `stop` is true.
    pub fn new(stop: watch::Receiver<bool>, phases: UnboundedSender<RunPhase>) -> Self {
        Self { stop, phases, looked_at: Arc::default() }
    }

    /// Has the screen show a phase during a wait.
    pub fn show(&self, phase: RunPhase) {
        // Without a receiver the run has ended.
        let _ = self.phases.send(phase);
    }

    /// Waits until a signal has stopped one of these processes for so long that its tenant is
    /// killed.
    async fn halted(&self, pids: Vec<u32>) {
        let mut looks = 0;
        while looks < LOOKS_KILLED {
            tokio::time::sleep(LOOK).await;
            looks = if pids.iter().any(|&pid| is_stopped(pid)) { looks + 1 } else { 0 };
            self.say_stopped();
        }
    }

    /// Says each process once that is stopped for some looks.
    fn say_stopped(&self) {
        let mut all = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|pid, _| process_tree::Process::of(*pid).is_some());
        for (&pid, one) in all.iter_mut() {
            if !is_stopped(pid) {
                (one.stopped_since, one.is_said) = (None, false);
                continue;
            }
            let since = one.stopped_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= LOOK * (LOOKS_STOPPED - 1) && !one.is_said {
                one.is_said = true;
                let seconds = (LOOK * (LOOKS_KILLED - LOOKS_STOPPED)).as_secs();
                self.show(RunPhase::Halted { tenant: one.tenant.clone(), pid, seconds });
            }
        }
    }

    /// Has every wait look at these processes of a tenant.
    pub fn look_at(&self, tenant: &str, pids: &[u32]) {
        let mut all = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        for &pid in pids {
            let tenant = tenant.to_owned();
            all.entry(pid).or_insert(LookedAt { tenant, stopped_since: None, is_said: false });
        }
    }

    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the user stops the run.
    pub async fn stopped(&self) {
        let mut stop = self.stop.clone();
        // Without a sender the run cannot be stopped.
        if stop.wait_for(|is_stopped| *is_stopped).await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits for a future, which is dropped if the user stops the run.
    pub async fn unless_stopped<T>(&self, wait: impl Future<Output = T>) -> Result<T, RunError> {
        tokio::select! {
            done = wait => Ok(done),
            () = self.stopped() => Err(RunError::Interrupted),
        }
    }

    /// Runs a call that may hang on a thread of its own, until the limit. After the user stopped
    /// the run it has a short grace, so that calls of a tear-down are made too.
    pub async fn blocking<T: Send + 'static>(
        &self,
        doing: &str,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RunError> {
        let mut call = BlockingCall::start(doing, work)?;
        tokio::select! {
            answer = call.within(limit) => Ok(answer?),
            () = self.grace_is_over() => Err(RunError::Interrupted),
        }
    }

    /// Waits until the grace after the user's stop is over.
    pub async fn grace_is_over(&self) {
        self.stopped().await;
        tokio::time::sleep(GRACE).await;
    }

    /// Waits for a tenant's answer to a message that was sent. If the user stops the run, kills the
    /// tenant and returns `None`.
    pub async fn reply(
        &self,
        tenant: &mut Tenant,
        doing: &'static str,
        limit: Duration,
    ) -> Option<Result<FromTenant, TenantError>> {
        self.answer(tenant, None, doing, limit).await
    }

    /// Sends a tenant a message, if there is one, and waits for its answer. A tenant that a signal
    /// stopped is killed. If the user stops the run, kills the tenant and returns `None`.
    pub async fn answer(
        &self,
        tenant: &mut Tenant,
        message: Option<&ToTenant>,
        doing: &'static str,
        limit: Duration,
    ) -> Option<Result<FromTenant, TenantError>> {
        let pids: Vec<u32> = [Some(tenant.pid()), tenant.program()].into_iter().flatten().collect();
        self.look_at(tenant.name(), &pids);
        let halted = self.halted(pids);
        let waiting = async {
            match message {
                Some(message) => tenant.exchange(message, doing, limit).await,
                None => tenant.receive(doing, limit).await,
            }
        };
        tokio::select! {
            answer = waiting => return Some(answer),
            () = halted => {}
            () = self.stopped() => {
                tenant.kill().await;
                return None;
            }
        }
        Some(Err(tenant.halted(doing, LOOK * LOOKS_KILLED).await))
    }
}

fn is_stopped(pid: u32) -> bool {
    process_tree::Process::of(pid).is_some_and(|process| process.is_stopped)
}

// The tenants' clock as the coordinator uses it: announcing participants, and choosing the instant
// at which a cell begins.

/// Time between the message to start and the start, in which every tenant receives the message. On
/// a host with few cores the tenants wait for each other.
const LEAD_WALL_NS: u64 = 50_000_000;
const LEAD_CROWDED_NS: u64 = 200_000_000;
const CROWDED_CORES: usize = 6;
const LEAD_VIRTUAL_NS: u64 = 1_000_000;

#[derive(Clone)]
pub enum RunClock {
    /// `CLOCK_MONOTONIC`.
    Wall,
    /// The virtual GPU's.
    Virtual(Arc<Device>),
}

impl RunClock {
    /// `virtual` or `wall`, as in records.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Virtual(_) => "virtual",
        }
    }

    /// Whether time is virtual.
    pub const fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }

    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Wall => gpubench_host::device::monotonic_ns(),
            Self::Virtual(device) => device.now_ns(),
        }
    }

    /// The instant at which a cell that is started now begins.
    pub fn start_ns(&self) -> u64 {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let lead = match self {
            Self::Virtual(_) => LEAD_VIRTUAL_NS,
            Self::Wall if cores < CROWDED_CORES => LEAD_CROWDED_NS,
            Self::Wall => LEAD_WALL_NS,
        };
        self.now_ns() + lead
    }

    /// Announces a participant.
    /// Fails when the clock refuses: a bug in the numbering.
    pub fn expect(&self, id: u32) -> Result<(), RunError> {
        match self {
            Self::Wall => Ok(()),
            Self::Virtual(device) => {
                device.expect(id).map_err(|e| refused(&format!("announcing participant {id}"), &e))
            }
        }
    }

    /// Withdraws participants that did not join.
    pub fn abandon(&self, participants: Participants) -> Result<(), RunError> {
        let Self::Virtual(device) = self else { return Ok(()) };
        for id in [participants.issuer, participants.reaper] {
            let doing = format!("withdrawing participant {id}");
            device.abandon(id).map_err(|error| refused(&doing, &error))?;
        }
        Ok(())
    }

    /// Reaps dead processes: frees what they held on the virtual device.
    pub fn reap(&self) -> Result<(), RunError> {
        let Self::Virtual(device) = self else { return Ok(()) };
        device.reap_dead_processes().map_err(|error| refused("reaping dead processes", &error))
    }
}

/// What the virtual GPU's clock was asked for, and why it refused.
fn refused(doing: &str, error: &dyn std::fmt::Display) -> RunError {
    RunError::VirtualClock(format!("{doing}: {error}"))
}

/// A UTC time to the second, such as 2026-01-31T00:00:00Z, checked with the calendar. Such texts
/// sort by time.
/// Fails with what is accepted.
pub fn rfc3339(text: &str) -> Result<String, String> {
    use humantime::{format_rfc3339_seconds, parse_rfc3339};
    let time = parse_rfc3339(text.trim()).map(|time| format_rfc3339_seconds(time).to_string());
    time.map_err(|error| match error {
        humantime::TimestampError::OutOfRange => {
            "the calendar has no such time (accepted: a time in UTC from 1970 on, as \
             2026-01-31T00:00:00Z)"
                .to_owned()
        }
        _ => "accepted: a time in UTC, as 2026-01-31T00:00:00Z".to_owned(),
    })
}

/// The present time of day, for provenance.
#[expect(clippy::disallowed_methods, reason = "the time of day is a fact of the provenance")]
pub fn rfc3339_now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;

    #[cfg(feature = "virtual-gpu")]
    use super::RunClock;
    use super::{RunError, Waits, rfc3339};

    const LIMIT: Duration = Duration::from_secs(600);

    fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
        tokio::runtime::Builder::new_current_thread().enable_all().build()
    }

    #[cfg(feature = "virtual-gpu")]
    #[test]
    fn a_refusal_of_the_clock_says_what_was_asked() -> Result<(), Box<dyn std::error::Error>> {
        use gpubench_host::device::virtual_gpu::{TimeMode, VirtualGpu};

        let gpu = VirtualGpu::start("turing", TimeMode::Virtual, 1)?;
        let clock = RunClock::Virtual(std::sync::Arc::new(gpu.open()?));
        clock.expect(3)?;
        let twice = clock.expect(3).map_err(|error| error.to_string());
        let text = twice.err().unwrap_or_default();
        let begin = "the virtual GPU's clock: announcing participant 3: ";
        assert!(text.starts_with(begin), "{text}");
        Ok(())
    }

    #[test]
    fn a_hanging_call_ends_with_its_limit_or_the_user_s_stop() -> std::io::Result<()> {
        let hang = || std::thread::sleep(Duration::from_secs(3600));
        runtime()?.block_on(async {
            let (stop, stopped) = watch::channel(false);
            let waits = Waits::new(stopped, tokio::sync::mpsc::unbounded_channel().0);
            let late = waits.blocking("calling a driver", Duration::from_millis(10), hang).await;
            let text = late.map_err(|error| error.to_string());
            assert!(text.as_ref().is_err_and(|text| text.contains("calling a driver")), "{text:?}");
            let call = waits.blocking("calling a driver", LIMIT, hang);
            let stopping = async {
                // The receiver is held above.
                let _ = stop.send(true);
            };
            let (ended, ()) = tokio::join!(call, stopping);
            assert!(matches!(ended, Err(RunError::Interrupted)), "{ended:?}");
            // A short call still runs, as a tear-down needs it.
            let done = waits.blocking("adding", LIMIT, || 1 + 1).await;
            assert!(matches!(done, Ok(2)), "{done:?}");
            let pending = waits.unless_stopped(std::future::pending::<()>()).await;
            assert!(matches!(pending, Err(RunError::Interrupted)));
        });
        Ok(())
    }

    #[test]
    fn a_time_is_one_of_the_calendar_and_has_one_form() {
        let form = "2024-02-29T23:59:59Z";
        for text in
            [form, "2024-02-29T23:59:59.5Z", "2024-02-29T23:59:60Z", " 2024-02-29T23:59:59+00:00"]
        {
            assert_eq!(rfc3339(text).as_deref(), Ok(form), "{text}");
        }
        for text in ["2026-99-99T00:00:00Z", "2026-02-29T00:00:00Z", "2026-01-31T24:00:00Z"] {
            let refused = rfc3339(text);
            assert!(refused.is_err_and(|why| why.starts_with("the calendar has no")), "{text}");
        }
        for text in ["", "2026-01-31", "2026-01-31 00:00:00Z", "2026-01-31T00:00:00", "yesterday"] {
            let refused = rfc3339(text);
            assert!(refused.is_err_and(|why| why.starts_with("accepted: ")), "{text}");
        }
    }
}

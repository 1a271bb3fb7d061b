//! `gpubench watch`: a canary beside other programs on a GPU that is shared as found.

mod detect;
pub mod line;
mod tenants;

use std::collections::BTreeMap;

use gpubench_record::probe::step::CanaryRequest;
use gpubench_record::user_victim::UserVictim;
use gpubench_run::rfc3339_now;
use gpubench_stats::{Confidence, LogRatio};
use hdrhistogram::Histogram;
use procfs::process::Process;
use tokio::sync::watch::Receiver;

use crate::error::ExpectedError;
use crate::verbs::DeviceSession;
use detect::{Change, Detector, Requests, Rule};
use line::{Effect, Ended, Event, Line, Started};
use tenants::{End, Measured, Tenants};

/// The name of the canary's tenant.
const CANARY: &str = "canary";

/// Length of a request of the canary, about.
const SERVICE_NS: u64 = 100_000;

/// The resources in turn, each with the workload of its requests and its share of the device:
/// enough to be slowed by whoever uses the same resource, and few enough thread slots to be slowed
/// by nobody else.
const RESOURCES: [(&str, &str, f64); 5] = [
    ("compute", "compute", 0.9),
    ("dram", "stream", 0.9),
    ("l2", "l2", 0.9),
    ("pcie", "pcie-h2d", 1.0),
    ("launch", "launch", 1.0),
];

/// The resource whose requests are calls of the host more than work of the device.
const LAUNCH: &str = "launch";
/// Beside the resources: the wait for a time slice, which requests of every kernel have.
pub const TURNS: &str = "turns";
/// The requests whose wait counts.
const KERNELS: [&str; 3] = ["compute", "dram", "l2"];

/// The neighbours that can be planted, by resource, each with its share of the device. That of
/// [`TURNS`] is a process of its own.
pub const NEIGHBOURS: [(&str, &str, f64); 6] = [
    ("compute", "fma-hog", 1.0),
    ("dram", "dram-copy", 1.0),
    ("l2", "l2", 0.9),
    ("pcie", "pcie-h2d", 1.0),
    ("launch", "launch-flood", 1.0),
    (TURNS, "fma-hog", 1.0),
];

/// Slowdowns of the kernels within this factor are alike.
const ALIKE: f64 = 1.1;

/// Rounds and time of each request with which the canary learns how long its requests are.
const FIRST: (u32, u64) = (20, 5_000_000);
/// Pairs of windows that compare a program with and without the canary, and their longest length.
const PAIRS: u32 = 10;
const PAIR_NS: u64 = 2_000_000_000;
/// Fewest requests of each resource in a window.
pub const ROUNDS_MIN: u32 = 8;

/// A neighbour that is put beside the canary on the virtual GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Plant {
    pub workload: &'static str,
    pub share: f64,
    /// Whether it is a process of its own, which takes turns with the canary.
    pub takes_turns: bool,
    /// When it comes and goes, since the start of the watch.
    pub from_ns: u64,
    pub to_ns: u64,
}

/// What to watch, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// Share of the device's time for the canary.
    pub duty: f64,
    pub window_ns: u64,
    pub learn_ns: u64,
    /// How long to watch after learning; `None` until a signal.
    pub length_ns: Option<u64>,
    pub least: f64,
    pub alarms_per_day: f64,
    pub plants: Vec<Plant>,
    pub program: Option<UserVictim>,
    pub seed: u64,
}

/// The latest window, for metrics.
#[derive(Debug, Clone, Default)]
pub struct Now {
    /// Slowdown of each resource; empty while it is learned.
    pub slowdowns: BTreeMap<&'static str, f64>,
    pub contended: Option<&'static str>,
    pub events: u64,
    pub duty: f64,
    pub program_per_s: Option<f64>,
}

/// Where the watch says what it finds.
pub trait Listener {
    /// A line of the event log.
    fn line(&mut self, line: &Line) -> Result<(), ExpectedError>;
    /// A window.
    fn window(&mut self, now: &Now) -> Result<(), ExpectedError>;
}

/// Times of the requests of one resource without and with contention, in nanoseconds.
pub struct Latencies {
    pub resource: &'static str,
    pub quiet: Histogram<u64>,
    pub contended: Histogram<u64>,
}

/// Watches until its time is over or `stop` is true; returns the last line and the latencies.
pub async fn watch(
    session: &DeviceSession,
    request: &Request,
    stop: Receiver<bool>,
    listener: &mut dyn Listener,
) -> Result<(Ended, Vec<Latencies>), ExpectedError> {
    let free = || session.ask("reading the free memory by NVML", |driver| driver.free_bytes());
    let before = free()?;
    let started =
        Tenants::start(session, &request.plants, request.program.as_ref(), (stop, request.seed));
    let (tenants, waived) = match started.await {
        Ok(started) => started,
        Err(End::Failed(error)) => return Err(error),
        Err(End::Stopped) => {
            return Ok((Watch::of(request, Vec::new(), listener)?.ended(true, [0; 2]), Vec::new()));
        }
    };
    let resources: Vec<&'static str> = RESOURCES
        .iter()
        .map(|(name, ..)| *name)
        .filter(|name| !waived.contains_key(name))
        .collect();
    if resources.is_empty() {
        let (resource, reason) = waived.iter().next().unzip();
        let reason = format!("no request of the canary runs here ({resource:?}: {reason:?})");
        return Err(ExpectedError::NothingRan { reason });
    }
    let mut watch = Watch::of(request, resources, listener)?;
    watch.is_virtual = tenants.clock().is_virtual();
    let started = Event::Started(Started {
        version: line::VERSION,
        gpu: session.identity().name.clone(),
        uuid: session.identity().uuid.clone(),
        clock: session.clock().name().to_owned(),
        duty: request.duty,
        window_s: in_s(request.window_ns),
        least: request.least,
        alarms_per_day: request.alarms_per_day,
        resources: watch.names.iter().map(|name| (*name).to_owned()).collect(),
        waived: waived.into_iter().map(|(name, why)| (name.to_owned(), why)).collect(),
    });
    watch.say(0, started)?;
    let held = before.zip(free()?);
    let held = held.map(|(before, after)| before.saturating_sub(after));
    watch.run(tenants, held).await
}

struct Watch<'a> {
    request: &'a Request,
    listener: &'a mut dyn Listener,
    detector: Detector,
    /// The canary's resources, then [`TURNS`] where requests can wait for it.
    names: Vec<&'static str>,
    latencies: Vec<Latencies>,
    is_virtual: bool,
    began_ns: u64,
    /// Requests of each resource in a window.
    rounds: u32,
    /// Start of the first and end of the last contended window of the event under way.
    event_ns: [u64; 2],
    now: Now,
    contended_ns: BTreeMap<&'static str, u64>,
    busy_ns: u64,
    watched_ns: u64,
    /// Windows that were learned from, and that were judged.
    windows: [u64; 2],
    /// Sum and number of the rates of the program, without and with contention.
    rates: [(f64, u32); 2],
}

impl<'a> Watch<'a> {
    fn of(
        request: &'a Request,
        mut names: Vec<&'static str>,
        listener: &'a mut dyn Listener,
    ) -> Result<Self, ExpectedError> {
        if names.iter().any(|name| KERNELS.contains(name)) {
            names.push(TURNS);
        }
        let learned = request.learn_ns.div_ceil(request.window_ns).max(1);
        let rule = Rule {
            window_ns: request.window_ns,
            learned: u32::try_from(learned).unwrap_or(u32::MAX),
            least: request.least,
            alarms_per_day: request.alarms_per_day,
        };
        // Two digits of times up to an hour.
        let histogram = || Histogram::new_with_bounds(1, 3_600_000_000_000, 2);
        let latencies = names.iter().map(|&resource| {
            let pair = histogram().and_then(|one| Ok((one, histogram()?)));
            let (quiet, contended) = pair.map_err(ExpectedError::internal)?;
            Ok(Latencies { resource, quiet, contended })
        });
        Ok(Self {
            request,
            listener,
            detector: Detector::new(rule, names.len()),
            latencies: latencies.collect::<Result<_, ExpectedError>>()?,
            names,
            is_virtual: false,
            began_ns: 0,
            rounds: 0,
            event_ns: [0; 2],
            now: Now::default(),
            contended_ns: BTreeMap::new(),
            busy_ns: 0,
            watched_ns: 0,
            windows: [0; 2],
            rates: [(0.0, 0); 2],
        })
    }

    /// Measures the canary's own effect, and watches.
    async fn run(
        mut self,
        mut tenants: Tenants,
        memory_bytes: Option<u64>,
    ) -> Result<(Ended, Vec<Latencies>), ExpectedError> {
        self.began_ns = tenants.clock().now_ns();
        let pids = tenants.pids();
        let before = resident_bytes(&pids);
        let end = match self.watched(&mut tenants, memory_bytes).await {
            Ok(()) => Ok(false),
            Err(End::Stopped) => Ok(true),
            Err(End::Failed(error)) => Err(error),
        };
        let resident = [before, resident_bytes(&pids)];
        let at_ns = tenants.clock().now_ns();
        tenants.stop().await;
        let by_signal = end?;
        if let Some(change) = self.detector.end() {
            self.report(at_ns, change)?;
        }
        let ended = self.ended(by_signal, resident);
        self.say(at_ns, Event::Ended(ended.clone()))?;
        Ok((ended, self.latencies))
    }

    async fn watched(&mut self, tenants: &mut Tenants, memory: Option<u64>) -> Result<(), End> {
        let (period_ns, rounds) = self.pace(tenants).await?;
        self.rounds = rounds;
        let program = match &self.request.program {
            Some(_) => Some(self.compared(tenants, period_ns).await?),
            None => None,
        };
        // The neighbours come and go by the time of the windows.
        (self.began_ns, self.busy_ns, self.watched_ns) = (tenants.clock().now_ns(), 0, 0);
        let mut left_ns = self.request.length_ns.unwrap_or(u64::MAX);
        let mut effect = Some((memory, program));
        while left_ns > 0 {
            let times = (Some(self.began_ns), self.request.window_ns);
            let measured = tenants.window(times, (rounds, period_ns)).await?;
            let is_learned = !self.detector.is_learning();
            self.take(&measured)?;
            if let Some((memory_bytes, program)) = effect.take() {
                let effect = Effect { duty: self.now.duty, memory_bytes, program };
                self.say(measured.span_ns[1], Event::Effect(effect))?;
            }
            if is_learned {
                left_ns = left_ns.saturating_sub(self.request.window_ns);
            }
        }
        Ok(())
    }

    /// The time of each request, and how many rounds of them fit into a window.
    async fn pace(&self, tenants: &mut Tenants) -> Result<(u64, u32), End> {
        let (rounds, period_ns) = FIRST;
        let length_ns = u64::from(rounds) * period_ns * RESOURCES.len() as u64;
        let first = tenants.window((None, length_ns), (rounds, period_ns)).await?;
        let medians = first.requests.iter().filter_map(|all| {
            let mut all: Vec<u64> = all.iter().map(|one| one.gpu_ns).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied()
        });
        let kinds = first.requests.len().max(1) as f64;
        let mean_ns = medians.sum::<u64>() as f64 / kinds;
        let period_ns = (mean_ns / self.request.duty).max(1.0);
        let rounds = self.request.window_ns as f64 / (kinds * period_ns);
        if rounds < f64::from(ROUNDS_MIN) {
            let needed_s = f64::from(ROUNDS_MIN) * kinds * period_ns / 1e9;
            let problem = format!(
                "at a duty of {} % a window of {} s has {rounds:.1} requests of each resource \
                 (accepted: --window {}s or longer)",
                100.0 * self.request.duty,
                in_s(self.request.window_ns),
                needed_s.ceil(),
            );
            return Err(End::Failed(ExpectedError::usage(problem, None)));
        }
        let rounds = rounds as u32;
        Ok((self.request.window_ns / (u64::from(rounds) * kinds as u64), rounds))
    }

    /// The rate of the program in pairs of windows with and without the canary, each pair in the
    /// other order than the one before.
    async fn compared(&self, tenants: &mut Tenants, period_ns: u64) -> Result<line::Change, End> {
        let pair_ns = PAIR_NS.min(self.request.window_ns);
        let rounds = (pair_ns / (period_ns * RESOURCES.len() as u64)).max(1) as u32;
        let (mut beside, mut alone) = (Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            let mut rates = [0.0; 2];
            for with in [pair % 2 == 0, pair % 2 == 1] {
                let rounds = if with { rounds } else { 0 };
                let window = tenants.window((None, pair_ns), (rounds, period_ns)).await?;
                rates[usize::from(with)] = window.program_per_s.ok_or_else(too_few)?;
            }
            alone.push(rates[0]);
            beside.push(rates[1]);
        }
        let interval = LogRatio::paired(&beside, &alone);
        let interval = interval.and_then(|ratio| ratio.interval(Confidence::P95));
        let ratio = interval.map_err(|error| End::Failed(ExpectedError::internal(error)))?;
        Ok(line::Change {
            change: ratio.value - 1.0,
            lo: ratio.lo - 1.0,
            hi: ratio.hi - 1.0,
            n: ratio.n,
            without_per_s: alone.iter().sum::<f64>() / f64::from(PAIRS),
        })
    }

    /// Takes a window of the watch.
    fn take(&mut self, measured: &Measured) -> Result<(), ExpectedError> {
        let [from_ns, to_ns] = measured.span_ns;
        let was_learning = self.detector.is_learning();
        let window = self.requests(&measured.requests);
        let (judged, change) = self.detector.take(&window);
        let is_contended = judged.iter().any(|one| one.is_contended);
        self.windows[usize::from(!was_learning)] += 1;
        self.watched_ns += to_ns - from_ns;
        self.busy_ns += measured.requests.iter().flatten().map(|one| one.gpu_ns).sum::<u64>();
        if is_contended {
            let begins = matches!(change, Some(Change::Contended));
            self.event_ns = [if begins { from_ns } else { self.event_ns[0] }, to_ns];
        }
        if !was_learning {
            for (own, one) in self.latencies.iter_mut().zip(&window) {
                let into = if is_contended { &mut own.contended } else { &mut own.quiet };
                one.ns.iter().for_each(|ns| into.saturating_record((*ns as u64).max(1)));
            }
            if let Some(rate) = measured.program_per_s {
                let (sum, count) = &mut self.rates[usize::from(is_contended)];
                (*sum, *count) = (*sum + rate, *count + 1);
            }
        }
        let slowdowns = self.names.iter().copied().zip(judged.iter().map(|one| one.slowdown));
        self.now.slowdowns = slowdowns.collect();
        self.now.program_per_s = measured.program_per_s;
        self.now.duty = self.busy_ns as f64 / self.watched_ns.max(1) as f64;
        self.now.contended = self.detector.contended().map(|of| self.named(&of));
        if is_contended && let Some(resource) = self.now.contended {
            *self.contended_ns.entry(resource).or_default() += to_ns - from_ns;
        }
        if let Some(change) = change {
            self.report(to_ns, change)?;
        }
        self.listener.window(&self.now)
    }

    /// The requests as they are judged, in the order of the names.
    fn requests(&self, found: &[Vec<CanaryRequest>]) -> Vec<Requests> {
        let rounds = self.rounds as usize;
        let mut waits = Requests::default();
        let mut all = Vec::new();
        for (name, own) in self.names.iter().zip(found) {
            let missed = rounds.saturating_sub(own.len());
            if KERNELS.contains(name) {
                waits.ns.extend(own.iter().map(|one| one.host_ns as f64));
                waits.missed += missed;
            }
            let time = |one: &CanaryRequest| match *name {
                LAUNCH => one.host_ns as f64,
                _ => one.gpu_ns as f64,
            };
            all.push(Requests { ns: own.iter().map(time).collect(), missed });
        }
        if self.names.last() == Some(&TURNS) {
            all.push(waits);
        }
        all
    }

    fn report(&mut self, at_ns: u64, change: Change) -> Result<(), ExpectedError> {
        let event = match change {
            Change::Learned { again } => {
                Event::Learned { again, mean_ns: self.by_name(self.detector.means()) }
            }
            Change::Contended => {
                self.now.events += 1;
                let slowdowns = self.now.slowdowns.iter();
                let slowdowns = slowdowns.map(|(name, one)| ((*name).to_owned(), *one)).collect();
                let resource = self.now.contended.unwrap_or_default().to_owned();
                return self.say(self.event_ns[0], Event::Contended { resource, slowdowns });
            }
            Change::Over(found) => {
                let [from_s, to_s] = self.event_ns.map(|ns| self.since_s(ns));
                let resource = self.named(&found).to_owned();
                Event::Over { resource, from_s, to_s, slowdowns: self.by_name(found) }
            }
            Change::Faster => Event::Faster {},
        };
        self.say(at_ns, event)
    }

    /// The resource that a neighbour uses. Where the launches of empty kernels wait too, it takes
    /// turns. Where it slows all kernels alike it uses what each needs before it runs: the launch
    /// path, or slots on the SMs.
    fn named(&self, found: &[f64]) -> &'static str {
        let of = |name: &str| {
            let at = self.names.iter().position(|known| *known == name);
            at.and_then(|at| found.get(at)).copied().unwrap_or(1.0)
        };
        let slowest = |names: &[&'static str]| {
            let all = names.iter().copied();
            all.max_by(|one, other| of(one).total_cmp(&of(other))).unwrap_or(TURNS)
        };
        let kernel = slowest(&KERNELS);
        if of("pcie") > of(kernel).max(of(LAUNCH)) {
            return "pcie";
        }
        if of(LAUNCH) >= 1.0 + self.request.least {
            return if of(LAUNCH) > of(kernel) { LAUNCH } else { TURNS };
        }
        let others = KERNELS.iter().filter(|name| **name != kernel).map(|name| of(name));
        if of(kernel) > ALIKE * others.fold(1.0, f64::max) {
            return kernel;
        }
        LAUNCH
    }

    fn by_name(&self, values: Vec<f64>) -> BTreeMap<String, f64> {
        self.names.iter().map(|name| (*name).to_owned()).zip(values).collect()
    }

    fn since_s(&self, at_ns: u64) -> f64 {
        in_s(at_ns.saturating_sub(self.began_ns))
    }

    fn say(&mut self, at_ns: u64, event: Event) -> Result<(), ExpectedError> {
        let time = (!self.is_virtual).then(rfc3339_now);
        self.listener.line(&Line { at_s: self.since_s(at_ns), time, event })
    }

    fn ended(&self, by_signal: bool, resident_bytes: [u64; 2]) -> Ended {
        let contended = self.contended_ns.iter();
        let mean = |(sum, count): (f64, u32)| (count > 0).then(|| sum / f64::from(count));
        Ended {
            by_signal,
            windows_learned: self.windows[0],
            windows: self.windows[1],
            events: self.now.events,
            contended_s: contended.map(|(name, ns)| ((*name).to_owned(), in_s(*ns))).collect(),
            duty: self.now.duty,
            resident_bytes,
            program_per_s: self.request.program.as_ref().map(|_| self.rates.map(mean)),
        }
    }
}

fn too_few() -> End {
    let seconds = in_s(PAIR_NS);
    let problem = format!("too few requests ended within {seconds} s for a rate");
    End::Failed(ExpectedError::VictimProgram { problem })
}

fn in_s(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Resident memory of this process and these.
fn resident_bytes(pids: &[u32]) -> u64 {
    let own = Process::myself().into_iter();
    let others = pids.iter().filter_map(|pid| Process::new(i32::try_from(*pid).ok()?).ok());
    let status = own.chain(others).filter_map(|one| one.status().ok());
    status.filter_map(|status| status.rssanon.or(status.vmrss)).map(|kib| kib << 10).sum()
}

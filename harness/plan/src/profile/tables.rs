//! The tables of a profile whose types are those of the record, or whose rules are their own.

use gpubench_catalogue::axis;
use gpubench_catalogue::axis::Selection;
use gpubench_catalogue::fault::Class;
use gpubench_record::{Axis, Margins, SoakPlan, Thresholds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::Fault;
use super::options::OptionTable;
use super::units::within;
use super::{Profile, Span, Wanted};

// The `[thresholds]` table: the type of the record, with unknown keys refused, and its rules.

/// The thresholds of `scoring-v4`: conventions, which are part of the profile's hash.
// The compiler checks that the keys are those of the record's type.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Thresholds", deny_unknown_fields)]
pub(super) struct ThresholdsTable {
    /// Lower bound of retention for L3.
    retention_l3: f64,
    /// Lower bound of retention for L2.
    retention_l2: f64,
    /// Lower bound of retention for L1: clearly more than an even split between two gives.
    retention_l1: f64,
    /// Lower bound of the guarantee for L2 and L3; below it the mechanism forfeits capacity.
    guarantee_l3: f64,
    /// Upper bound of service jitter, in native medians, for `Negligible`.
    jitter_negligible: f64,
    /// Upper bound of service jitter, in native medians, for `Low-Medium`.
    service_jitter_low_medium: f64,
    /// Upper bound of the effectiveness; an aggressor above it is too weak to show anything.
    effectiveness_max: f64,
    /// Smallest part of a closed loop in which both tenants must have work outstanding.
    overlap_min: f64,
    /// Drift of the native rate from the first block to the last, and of N' from N, that a row
    /// mentions, as a log ratio.
    drift_max: f64,
    /// Fewest open-loop requests in a block for a p99.
    tail_requests_min: u32,
    // Of records up to `scoring-v3`; no keys of a profile.
    #[serde(default, skip)]
    index_l1: Option<f64>,
    #[serde(default, skip)]
    jitter_low_medium: Option<f64>,
}

/// Keys of `scoring-v3`, and those that have their place with another meaning.
const RENAMED: [(&str, &str); 3] = [
    ("index_l1", "retention_l1, a bound of the retention"),
    ("jitter_low_medium", "service_jitter_low_medium, a bound of the service jitter"),
    ("jitter_requests_min", "tail_requests_min"),
];

/// What has the place of a key of older scoring; `None` for any other key.
pub(super) fn renamed(table: &str, key: &str) -> Option<&'static str> {
    let mut renamed = RENAMED.iter().filter(|_| table == "thresholds");
    renamed.find(|(old, _)| *old == key).map(|(_, new)| *new)
}

/// Checks that the bounds are in range and in order.
pub(super) fn check_thresholds(t: &Thresholds) -> Result<(), Fault> {
    for (name, value) in [
        ("retention_l3", t.retention_l3),
        ("retention_l2", t.retention_l2),
        ("retention_l1", t.retention_l1),
        ("guarantee_l3", t.guarantee_l3),
        ("effectiveness_max", t.effectiveness_max),
        ("overlap_min", t.overlap_min),
    ] {
        if !(value > 0.0 && value < 1.0) {
            let key = format!("thresholds.{name}");
            return Err(Fault::at(&key, format!("{value} is out of range"), "above 0 and below 1"));
        }
    }
    for (name, value) in [("jitter_negligible", t.jitter_negligible), ("drift_max", t.drift_max)] {
        if !(value > 0.0 && value.is_finite()) {
            let key = format!("thresholds.{name}");
            return Err(Fault::at(&key, format!("{value} is out of range"), "a number above 0"));
        }
    }
    rising("retention_l3", t.retention_l3, "retention_l2", t.retention_l2)?;
    rising("retention_l2", t.retention_l2, "retention_l1", t.retention_l1)?;
    rising(
        "service_jitter_low_medium",
        t.service_jitter_low_medium,
        "jitter_negligible",
        t.jitter_negligible,
    )?;
    // The smallest sample with a finite upper end of the two-sided 95 % interval of its p99.
    within("thresholds.tail_requests_min", t.tail_requests_min, 368, 1_000_000)
}

fn rising(upper: &str, above: f64, lower: &str, below: f64) -> Result<(), Fault> {
    if above > below && above.is_finite() {
        return Ok(());
    }
    let accepted = format!("a number above thresholds.{lower}, which is {below}");
    let key = format!("thresholds.{upper}");
    let fault = Fault::at(&key, format!("{above} is too low"), accepted);
    Err(fault.bound_by(&format!("thresholds.{lower}")))
}

// The `[margins]` table: the type of the record, with unknown keys refused, and its rules.

/// The smallest changes that matter to `gpubench diff`. They are not part of the profile's hash,
/// because they change nothing that is measured.
// The compiler checks that the keys are those of the record's type.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Margins", deny_unknown_fields)]
pub(super) struct MarginsTable {
    /// Of ratios, rates and medians, as a share.
    ratio: f64,
    /// Of the 99th percentile, as a share.
    p99: f64,
    /// Of jitter, in native medians and as a share of the jitter; the larger one counts.
    jitter: f64,
    /// Of proportions of trials, as a difference of proportions.
    survival: f64,
}

/// Checks that every margin is above zero and no larger than what flags accept.
pub(super) fn check_margins(margins: &Margins) -> Result<(), Fault> {
    for (key, value, max) in [
        ("margins.ratio", margins.ratio, 10.0),
        ("margins.p99", margins.p99, 10.0),
        ("margins.jitter", margins.jitter, 10.0),
        ("margins.survival", margins.survival, 1.0),
    ] {
        within(key, value, 0.0001, max)?;
    }
    Ok(())
}

// The rotation of expensive measurements over the runs of a profile, and the cells with open
// loops.

/// Most runs of a cycle.
const RUNS_MAX: u32 = 31;

/// `[rotation]`: what one run leaves to the others of its cycle. `--rotation N` selects the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotationOptions {
    /// Runs of a cycle, 1 to 31. In each run one pair in this many has the doses below 1; 1 gives
    /// every pair every dose in each run.
    pub runs: u32,
    /// Service times that runs have in turn in place of `service`; empty for `service` in each run.
    pub services: Vec<Span>,
}

/// Which cells have an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OpenLoops {
    /// Every cell, as far as time allows.
    All,
    /// The cells that jitter is scored from.
    Jitter,
}

/// Which neighbours a victim meets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PairsOf {
    /// The aggressors that stress its resource.
    #[default]
    Resource,
    /// Every aggressor.
    All,
    /// Tenants that do what it does.
    Equal,
}

impl PairsOf {
    /// Whether it is the default.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_usual(&self) -> bool {
        *self == Self::Resource
    }
}

/// Most requests that a tenant keeps outstanding: a stream takes 1,024 launches before calls wait.
const DEPTH_MAX: u32 = 512;
/// Highest load in percent of the native rate.
const LOAD_MAX: u32 = 400;

/// Reports the first rule that the dimensions of the neighbours break.
pub(super) fn check_dimensions(profile: &Profile) -> Result<(), Fault> {
    for (key, values, max) in
        [("depths", &profile.depths, DEPTH_MAX), ("loads", &profile.loads, LOAD_MAX)]
    {
        let mut before = 0;
        for (index, &value) in values.iter().enumerate() {
            if value <= before || value > max {
                let accepted = format!("rising numbers from 1 to {max}");
                return Err(
                    Fault::at(key, format!("{value} at its place"), accepted).element(index)
                );
            }
            before = value;
        }
    }
    for (index, asked) in profile.shares.iter().enumerate() {
        let is_bad = |pct: &u32| !(1..=100).contains(pct);
        if asked.iter().any(is_bad) || profile.shares[..index].contains(asked) {
            let [victim, neighbour] = asked;
            let problem = format!("[{victim}, {neighbour}] is not accepted");
            let accepted = "pairs of percentages from 1 to 100, each once";
            return Err(Fault::at("shares", problem, accepted).element(index));
        }
    }
    let mut events = profile.events.iter().enumerate();
    if let Some((index, event)) = events.find(|(at, event)| profile.events[..*at].contains(event)) {
        let problem = format!("{:?} again", event.as_str());
        return Err(Fault::at("events", problem, "each event once").element(index));
    }
    if profile.user_victim.victim().is_some() {
        let dimensions = [
            ("pairs", profile.pairs != PairsOf::Resource),
            ("depths", !profile.depths.is_empty()),
            ("loads", !profile.loads.is_empty()),
            ("events", !profile.events.is_empty()),
        ];
        if let Some((key, _)) = dimensions.into_iter().find(|(_, set)| *set) {
            let problem = "the user's own program has a load of its own";
            let fault = Fault::at(key, problem, "a profile without this key");
            return Err(fault.bound_by("user-victim.command"));
        }
    }
    Ok(())
}

impl Profile {
    /// The profile with the service time of its run.
    pub fn of_run(&self) -> Self {
        let services = &self.rotation.services;
        let index = self.run as usize % services.len().max(1);
        Self { service: services.get(index).copied().unwrap_or(self.service), ..self.clone() }
    }
}

/// Reports the first rule that the rotation or the open loops break.
pub(super) fn check_rotation(profile: &Profile) -> Result<(), Fault> {
    within("rotation.runs", profile.rotation.runs, 1, RUNS_MAX)?;
    if profile.open_loops == OpenLoops::Jitter && profile.slo.ns > 0 {
        let fault =
            Fault::at("open_loops", "a promised latency needs the open loop of every cell", "all");
        return Err(fault.bound_by("slo"));
    }
    Ok(())
}

/// A rule that a service time of the rotation breaks, at that time and not at the key whose floor
/// follows from it.
pub(super) fn conflict(service: Span, fault: &Fault) -> Fault {
    const KEY: &str = "rotation.services";
    let (key, accepted) = (fault.dotted(), &fault.accepted);
    if key == "service" {
        return Fault::at(KEY, &*fault.problem, &**accepted);
    }
    let problem = format!("{service} is too long for `{key}`");
    Fault::at(KEY, problem, format!("a shorter one, or for {key}: {accepted}")).bound_by(&key)
}

/// Every profile of a cycle with another service time, with the index of that time.
pub(super) fn services(profile: &Profile) -> impl Iterator<Item = (usize, Profile)> {
    let services = profile.rotation.services.iter().enumerate();
    services.map(|(index, &service)| {
        let of_run = Profile { service, ..profile.clone() };
        (index, of_run)
    })
}

// What keeps the device at one speed: heating, load after an idle, and the check kernel.

/// Fewest windows of a heating: steadiness is a property of several.
pub const WINDOWS_MIN: u64 = 5;
/// A heating takes at most one in so many parts of `device_time`, and a window one in so many.
const LIMIT_PART: u64 = 2;
const WINDOW_PART: u64 = 50;
const HOUR: Span = Span::from_s(3_600);

/// `[soak]`: what keeps the device at one speed. This comes on top of `device_time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SoakOptions {
    /// Longest heating under load before the first cell, at least five windows; half of
    /// `device_time` where that is less, and 0 for none.
    pub limit: Span,
    /// Window of the heating, 100 ms to 1 min, or a fiftieth of `device_time`: the device is steady
    /// when the rates of five in a row vary by less than 1 % and its temperature by less than 0.5 C
    /// a minute.
    pub window: Span,
    /// Idle time after which the device is loaded for as long, one window at most, before the next
    /// cell; 0 for never.
    pub keep_warm: Span,
    /// Length of one measurement of the check kernel, 1 s at most: one before and after each switch
    /// of the host; 0 for none.
    pub check: Span,
    /// Time after which the check kernel is measured again, between two mechanisms; within one,
    /// twice this time.
    pub every: Span,
}

impl SoakOptions {
    /// As a plan has it, in which the heating is no longer than a part of the cells; `None` where
    /// nothing is done.
    pub fn planned(&self, device_time: Span) -> Option<SoakPlan> {
        let any = [self.limit, self.keep_warm, self.check].map(|span| span.ns > 0);
        any.contains(&true).then_some(SoakPlan {
            limit_ns: self.limit.ns.min(device_time.ns / LIMIT_PART),
            window_ns: self.window.ns.min(device_time.ns / WINDOW_PART),
            keep_warm_ns: self.keep_warm.ns,
            check_ns: self.check.ns,
            every_ns: self.every.ns,
        })
    }
}

impl OptionTable for SoakOptions {
    fn check(&self) -> Result<(), Fault> {
        let none = Span::from_ns(0);
        within("soak.window", self.window, Span::from_ms(100), Span::from_s(60))?;
        let shortest = Span::from_ns(self.window.ns * WINDOWS_MIN);
        if self.limit > none {
            within("soak.limit", self.limit, shortest, HOUR)
                .map_err(|fault| fault.bound_by("soak.window"))?;
        }
        within("soak.keep_warm", self.keep_warm, none, HOUR)?;
        within("soak.check", self.check, none, Span::from_s(1))?;
        within("soak.every", self.every, Span::from_s(1), HOUR)
    }
}

// What the axes of a profile select beside pairs of workloads: probes and classes of faults.

impl Profile {
    /// Whether its axes include a selection that meets a condition. `"all"` includes every axis.
    pub fn selects(&self, condition: impl Fn(Selection) -> bool) -> bool {
        match &self.axes {
            Wanted::All => Axis::ALL.into_iter().map(Selection::Axis).any(condition),
            Wanted::Names(names) => {
                let mut found = names.iter().filter_map(|name| Selection::find(name));
                found.any(condition)
            }
        }
    }

    /// The classes of faults on its axes.
    pub fn fault_classes(&self) -> Vec<Class> {
        let mut classes = axis::fault_classes();
        classes.retain(|&class| self.selects(|selection| selection.has_faults(class)));
        classes
    }
}

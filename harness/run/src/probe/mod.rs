//! Probes: under each mechanism, checks of its tenants that do not produce a throughput.
//!
//! To add one, write its `Probe` in the file of its resource and add its line to [`CATALOGUE`]. A
//! step that tenants do not know yet goes into `record/src/probe/step.rs` and
//! `workloads/src/probe/`. Findings are written unjudged; `score` makes rows and figures from them.

mod arithmetic;
mod driver_calls;
mod escape;
mod memory;
mod timing;

use std::pin::Pin;
use std::time::Duration;

use arithmetic::FullDeviceBaseline;
use gpubench_catalogue::axis;
use gpubench_record::probe::step::Step;
use gpubench_record::{
    Cell, FromTenant, MechanismProperties, Plan, ProbeFound, ProbeResult, RunEvent, SubAxis,
    ToTenant,
};

use super::RunError;
use super::handles::MechanismLedger;
use super::tenant_set::TenantSet;
use crate::host_session::{HostSession, MechanismKey};
use crate::tenant_set::{missing, note_end};
use crate::{Observer, RunHandles, RunPhase};

/// The victim's slot, and the slot of the neighbour beside it.
const VICTIM: usize = 0;
const NEIGHBOUR: usize = 1;

/// A check of the tenants of a mechanism that does not produce a throughput.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    pub name: &'static str,
    pub summary: &'static str,
    /// The sub-axis of the rows that it makes or explains, as `axis/sub-axis`.
    pub sub_axis: &'static str,
    /// Whether it makes a row with a level there; other probes explain existing rows.
    pub scored: bool,
    /// The flag of `matrix` that turns it on.
    pub flag: Flag,
    applies_to: fn(&MechanismProperties) -> bool,
    /// Its runs. Each begins with closed contexts and gives a finding.
    runs: &'static [Run],
}

/// A flag of `matrix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// Checks in which tenants keep to their limits.
    Probes,
    /// Checks in which a tenant tries to get past its limits.
    Escape,
}

type Finding<'a> = Pin<Box<dyn Future<Output = Result<ProbeFound, RunError>> + 'a>>;

#[derive(Debug, Clone, Copy)]
enum Run {
    Tenants(for<'a> fn(&'a mut TenantSet) -> Finding<'a>),
    /// The same, compared with the device without a mechanism.
    AgainstBaseline(for<'a> fn(&'a mut TenantSet, &'a FullDeviceBaseline) -> Finding<'a>),
}

/// What most probes have in common.
const PROBE: Probe = Probe {
    name: "",
    summary: "",
    sub_axis: "",
    scored: false,
    flag: Flag::Probes,
    applies_to: has_neighbours,
    runs: &[],
};

/// Every probe, in the order in which they run.
pub const CATALOGUE: &[Probe] = &[
    memory::CAPACITY,
    memory::CAP,
    memory::OUT_OF_MEMORY,
    memory::RESIDUE,
    memory::VISIBILITY,
    timing::TIME_SLICE_TRACE,
    timing::SM_PLACEMENT,
    arithmetic::SHARE,
    arithmetic::ENFORCEMENT,
    timing::LAUNCH_LATENCY,
    driver_calls::DRIVER_CALLS,
    escape::ESCAPE,
];

impl Flag {
    /// The flag on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Probes => "--probes",
            Self::Escape => "--escape",
        }
    }
}

impl Probe {
    /// The sub-axes of the memory axis whose rows it makes: none, or its own.
    pub fn rows(&self) -> impl Iterator<Item = SubAxis> {
        let own = self.sub_axis;
        let rows = axis::CATALOGUE.iter().chain(axis::PROBED);
        let rows = rows.filter(move |entry| entry.name == own);
        let rows = rows.filter(|_| self.scored);
        rows.map(|entry| entry.sub_axis)
    }

    fn is_planned(&self, plan: &Plan) -> bool {
        plan.probes.iter().any(|name| name == self.name)
    }

    fn needs_baseline(&self) -> bool {
        let mut runs = self.runs.iter();
        runs.any(|run| matches!(run, Run::AgainstBaseline(_)))
    }
}

/// Whether tenants of a mechanism share the device.
fn has_neighbours(properties: &MechanismProperties) -> bool {
    !properties.is_reference() && !properties.admits_one_tenant()
}

// Runs the planned probes after all cells, so that their use of memory affects no cell.

/// The full-device baseline, or why there is none.
type Baseline = Result<FullDeviceBaseline, String>;

/// Runs each probe under every mechanism of the plan that it applies to.
pub async fn campaign(
    handles: &RunHandles,
    session: &mut HostSession,
    ledger: &mut MechanismLedger,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let setup = &handles.setup;
    let all: Vec<&Probe> = CATALOGUE.iter().filter(|probe| probe.is_planned(&setup.plan)).collect();
    let baseline = if all.iter().any(|probe| probe.needs_baseline() && is_left(probe, handles)) {
        observer.phase(&RunPhase::ProbingDevice);
        full_device_baseline(handles, session, ledger).await?
    } else {
        Err("no probe needs it".to_owned())
    };
    for planned in &setup.plan.mechanisms {
        let applies = |probe: &&&Probe| (probe.applies_to)(&planned.properties);
        let probes: Vec<&Probe> = all.iter().filter(applies).copied().collect();
        let own = |cell: &&Cell| cell.variant == planned.variant;
        let Some(cell) = setup.plan.cells.iter().find(own) else { continue };
        if probes.is_empty() {
            continue;
        }
        observer.phase(&RunPhase::Probing(planned.variant.clone()));
        let probes = probes.into_iter();
        let runs = probes.flat_map(|probe| {
            let done = setup.findings(&planned.variant, probe.name);
            probe.runs.iter().skip(done).map(move |run| (probe, run))
        });
        for (probe, run) in runs {
            if handles.waits.is_stopped() {
                return Err(RunError::Interrupted);
            }
            // A mechanism that could not be set up has its row, which says why.
            let Ok(tenants) = session.ready(&MechanismKey::from(cell), ledger).await? else {
                break;
            };
            let began_ns = handles.now_ns().await?;
            let found = match one(tenants, &baseline, run).await {
                // A failure of a tenant is a finding; every other error ends the run.
                Err(RunError::Tenant(error)) => Err(error.to_string()),
                found => found?,
            };
            let found = found.unwrap_or_else(|reason| ProbeFound::Broken {
                name: probe.name.to_owned(),
                reason,
            });
            tenants.close().await?;
            let took_ns = handles.now_ns().await?.saturating_sub(began_ns);
            write(handles, &planned.variant, Some(took_ns), found)?;
        }
    }
    Ok(())
}

fn is_left(probe: &Probe, handles: &RunHandles) -> bool {
    let setup = &handles.setup;
    setup.plan.mechanisms.iter().any(|planned| {
        (probe.applies_to)(&planned.properties)
            && setup.findings(&planned.variant, probe.name) < probe.runs.len()
    })
}

/// Does one run of a probe; returns why it cannot run where that is known before.
async fn one(
    tenants: &mut TenantSet,
    baseline: &Baseline,
    run: &Run,
) -> Result<Result<ProbeFound, String>, RunError> {
    if tenants.handles().setup.plan.tenants < 2 {
        let reason = "the plan has no neighbour: two tenants are needed";
        return Ok(Err(reason.to_owned()));
    }
    tenants.close().await?;
    match (run, baseline) {
        (Run::Tenants(run), _) => run(tenants).await.map(Ok),
        (Run::AgainstBaseline(run), Ok(baseline)) => run(tenants, baseline).await.map(Ok),
        (Run::AgainstBaseline(_), Err(reason)) => {
            Ok(Err(format!("no full-device baseline: {reason}")))
        }
    }
}

async fn full_device_baseline(
    handles: &RunHandles,
    session: &mut HostSession,
    ledger: &mut MechanismLedger,
) -> Result<Baseline, RunError> {
    let mut cells = handles.setup.plan.cells.iter();
    let Some(cell) = cells.find(|cell| cell.condition.is_native()) else {
        return Ok(Err("the plan has no native cell".to_owned()));
    };
    let tenants = match session.ready(&MechanismKey::from(cell), ledger).await? {
        Ok(tenants) => tenants,
        Err(reason) => return Ok(Err(reason)),
    };
    let found = arithmetic::measure(tenants).await;
    tenants.close().await?;
    match found {
        Ok((baseline, found)) => {
            write(handles, &cell.variant, None, found)?;
            Ok(Ok(baseline))
        }
        Err(RunError::Tenant(error)) => Ok(Err(error.to_string())),
        Err(other) => Err(other),
    }
}

fn write(
    handles: &RunHandles,
    variant: &str,
    took_ns: Option<u64>,
    found: ProbeFound,
) -> Result<(), RunError> {
    let result = ProbeResult { variant: variant.to_owned(), took_ns, found };
    Ok(handles.recorder.event(&RunEvent::Probed { result })?)
}

// Steps of probes: by one tenant, or by victim and neighbour at the same time.

/// Longest wait for one step.
const LIMIT: Duration = Duration::from_secs(300);

pub async fn step<S: Step>(
    tenants: &mut TenantSet,
    slot: usize,
    step: S,
) -> Result<S::Reply, RunError> {
    let message = message(step);
    let answer = tenants.ask(slot, &message, "probing", LIMIT).await?;
    reply_of::<S>(tenants, slot, answer)
}

/// Has victim and neighbour do a step each, at the same time.
pub async fn step_both<V: Step, N: Step>(
    tenants: &mut TenantSet,
    victim: V,
    neighbour: N,
) -> Result<(V::Reply, N::Reply), RunError> {
    let (first, second) = ask_both(tenants, &message(victim), &message(neighbour)).await?;
    Ok((reply_of::<V>(tenants, VICTIM, first)?, reply_of::<N>(tenants, NEIGHBOUR, second)?))
}

fn message(step: impl Step) -> ToTenant {
    ToTenant::Probe { step: step.into_step() }
}

fn reply_of<S: Step>(
    tenants: &TenantSet,
    slot: usize,
    answer: FromTenant,
) -> Result<S::Reply, RunError> {
    let FromTenant::Probed { reply } = answer else {
        return Err(tenants.unexpected(slot, &answer));
    };
    S::reply(reply).map_err(|reply| {
        let reply = *reply;
        tenants.unexpected(slot, &FromTenant::Probed { reply })
    })
}

/// Sends victim and neighbour a message each at the same time; returns the answers in that order.
pub async fn ask_both(
    tenants: &mut TenantSet,
    victim: &ToTenant,
    neighbour: &ToTenant,
) -> Result<(FromTenant, FromTenant), RunError> {
    let handles = tenants.handles().clone();
    let mut members = tenants.take_slots(&[VICTIM, NEIGHBOUR]);
    // Both are announced first, so that in virtual time neither begins alone.
    let ids = members.iter().map(|(_, tenant)| tenant.participants().issuer);
    handles.expect(ids.collect()).await?;
    let mut sent = Vec::new();
    for ((_, tenant), message) in members.iter_mut().zip([victim, neighbour]) {
        sent.push(tenant.send(message).await);
    }
    let (mut answers, mut failure) = (Vec::new(), None);
    for ((slot, mut tenant), sent) in members.into_iter().zip(sent) {
        let doing = "probing beside a neighbour";
        let answer = match sent {
            Ok(()) => handles.waits.reply(&mut tenant, doing, LIMIT).await,
            Err(error) => Some(Err(error)),
        };
        // A tenant that answered without using the device has not joined the clock.
        handles.abandon(tenant.participants()).await?;
        match answer {
            Some(Ok(answer)) => {
                answers.push(answer);
                tenants.put_back(slot, tenant);
            }
            Some(Err(error)) => {
                note_end(&handles, tenant, &error).await?;
                failure.get_or_insert(error);
            }
            None => return Err(RunError::Interrupted),
        }
    }
    match (failure, answers.pop(), answers.pop()) {
        (None, Some(second), Some(first)) => Ok((first, second)),
        (Some(error), ..) => Err(error.into()),
        (None, ..) => Err(missing(NEIGHBOUR).into()),
    }
}

/// Replaces the victim's process and opens its context only: a limiter has no history of it.
pub async fn restart_victim(tenants: &mut TenantSet) -> Result<(), RunError> {
    tenants.close().await?;
    tenants.renew(VICTIM).await?;
    tenants.ensure().await?;
    tenants.open_only(VICTIM).await
}

// Probes that are left out on purpose, with the reason.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    pub name: &'static str,
    pub summary: &'static str,
    pub reason: &'static str,
}

pub const LEFT_OUT: &[LeftOut] = &[LeftOut {
    name: "static-program",
    summary: "does a statically linked program get past the limits of a preloaded library?",
    reason: "a static program of gcc (glibc, -static and -static-pie, tried) crashes when it loads \
             libcuda, which needs the shared C library, so a row would describe the program and \
             not the limit; `escape` finds the same functions past the library, by dlvsym and \
             without the preload",
}];

// The device time of a probe: further trials begin only while some is left.
//
// The probes of the memory axis run in every default matrix, so together they take at most 15 s
// under each mechanism. A finding counts the trials that were held; what they found does not
// decide when they stop.

/// Device time of the probe `capacity`, of the rounds of `cap` after the first, and of each half of
/// `residue`. Visibility takes a few seconds.
pub const CAPACITY_NS: u64 = 6_000_000_000;
const CAP_NS: u64 = 3_000_000_000;
const RESIDUE_NS: u64 = 1_500_000_000;

pub struct DeviceTime {
    handles: RunHandles,
    end_ns: u64,
}

impl DeviceTime {
    pub async fn begin(tenants: &TenantSet, length_ns: u64) -> Result<Self, RunError> {
        let handles = tenants.handles().clone();
        Ok(Self { end_ns: handles.now_ns().await?.saturating_add(length_ns), handles })
    }

    /// Whether a further trial may begin.
    pub async fn is_left(&self) -> Result<bool, RunError> {
        Ok(self.handles.now_ns().await? < self.end_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gpubench_catalogue::axis;

    use super::CATALOGUE;

    #[test]
    fn every_probe_has_a_name_a_question_a_sub_axis_and_a_run() {
        let mut names = BTreeSet::new();
        for probe in CATALOGUE {
            let name = probe.name;
            assert!(names.insert(name), "two probes are named {name:?}");
            assert!(probe.summary.ends_with('?'), "{name}: a question");
            assert!(!probe.runs.is_empty(), "{name}");
            let known = axis::CATALOGUE.iter().chain(axis::PROBED);
            assert!(
                known.into_iter().any(|axis| axis.name == probe.sub_axis),
                "{name}: {} is no sub-axis",
                probe.sub_axis
            );
        }
    }
}

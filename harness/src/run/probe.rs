//! Probes: under each mechanism, single questions to its tenants whose answer is no rate. They
//! come after all cells, so that what they do to memory reaches no cell, and only when they are
//! asked for.
//!
//! Each begins with contexts that were just opened, so that a tenant has nothing but its context.
//! What it finds is written down as it is; `score` says what it means.

mod calls;
mod census;
mod enforce;
mod escape;
mod exhaust;
mod latency;
mod memory;
mod pair;
mod rush;
mod share;
mod turns;
mod windows;

use std::time::Duration;

use gpubench_record::{
    Cell, FromTenant, ProbeAsk, ProbeFound, ProbeResult, ProbeTold, RunEvent, ToTenant,
};

use super::crew::Crew;
use super::standing::Standing;
use super::{Observer, Run, RunError};
use crate::catalogue::EXCLUSIVE;
use memory::GivenUp;
use share::Yardstick;

/// Longest wait for one step.
const STEP: Duration = Duration::from_secs(300);

/// The victim's place, and that of the neighbour that owns what is looked for.
const VICTIM: usize = 0;
const NEIGHBOUR: usize = 1;

/// What is asked under each mechanism, in this order.
const PROBES: [Probe; 13] = [
    Probe::Capacity,
    Probe::Cap,
    Probe::Exhaust,
    Probe::Residue(GivenUp::Freed),
    Probe::Residue(GivenUp::Context),
    Probe::Visibility,
    Probe::Turns,
    Probe::Census,
    Probe::Share,
    Probe::Enforce,
    Probe::Launch,
    Probe::Calls,
    Probe::Escape,
];

#[derive(Debug, Clone, Copy)]
enum Probe {
    Capacity,
    Cap,
    Exhaust,
    Residue(GivenUp),
    Visibility,
    Turns,
    Census,
    Share,
    Enforce,
    Launch,
    Calls,
    Escape,
}

impl Probe {
    /// As `catalogue::probes` has it.
    const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Cap => "cap",
            Self::Exhaust => "out-of-memory",
            Self::Residue(_) => "residue",
            Self::Visibility => "visibility",
            Self::Turns => "turns",
            Self::Census => "census",
            Self::Share => "share",
            Self::Enforce => "enforcement",
            Self::Launch => "launch-latency",
            Self::Calls => "driver-calls",
            Self::Escape => "escape",
        }
    }

    /// Whether the user asked for it.
    fn is_wanted(self, run: &Run) -> bool {
        match self {
            Self::Escape => run.setup.escape,
            _ => run.setup.probes,
        }
    }
}

/// Probes every mechanism of the plan that has neighbours. The reference gives the yardstick.
pub async fn campaign(
    run: &mut Run,
    standing: &mut Standing,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    observer.stage("probing the device alone");
    let yardstick = yardstick(run, standing).await?;
    for planned in run.setup.plan.mechanisms.clone() {
        if planned.name == EXCLUSIVE || planned.turns_away {
            continue;
        }
        let cells = &run.setup.plan.cells;
        let own = |cell: &&Cell| cell.variant == planned.variant;
        let Some(cell) = cells.iter().find(own).cloned() else {
            continue;
        };
        observer.stage(&format!("probing {}", planned.variant));
        for probe in PROBES {
            if !probe.is_wanted(run) {
                continue;
            }
            if *run.stop.borrow() {
                return Err(RunError::Interrupted);
            }
            // A mechanism that could not be set up has its row, which says why.
            let Ok(crew) = standing.ready(run, &cell).await? else {
                break;
            };
            let found = one(run, crew, &yardstick, probe).await;
            let found = unless_broken(found, probe.name())?;
            let variant = planned.variant.clone();
            let result = ProbeResult { variant, found };
            run.events.append(&RunEvent::Probed { result })?;
            crew.close(run).await?;
        }
    }
    Ok(())
}

/// What the device does alone, which shares are held against; or why nobody could find it out.
async fn yardstick(
    run: &mut Run,
    standing: &mut Standing,
) -> Result<Result<Yardstick, String>, RunError> {
    let mut cells = run.setup.plan.cells.iter();
    let Some(cell) = cells.find(|cell| cell.variant == EXCLUSIVE).cloned() else {
        return Ok(Err("the plan has no cell on the device alone".to_owned()));
    };
    let crew = match standing.ready(run, &cell).await? {
        Ok(crew) => crew,
        Err(reason) => return Ok(Err(reason)),
    };
    let found = share::yardstick(run, crew).await;
    crew.close(run).await?;
    match found {
        Ok((yardstick, found)) => {
            let variant = EXCLUSIVE.to_owned();
            let result = ProbeResult { variant, found };
            run.events.append(&RunEvent::Probed { result })?;
            Ok(Ok(yardstick))
        }
        Err(RunError::Tenant(error)) => Ok(Err(error.to_string())),
        Err(other) => Err(other),
    }
}

/// What a tenant could not do is a finding; everything else ends the run.
fn unless_broken(found: Result<ProbeFound, RunError>, probe: &str) -> Result<ProbeFound, RunError> {
    match found {
        Err(RunError::Tenant(error)) => Ok(broken(probe, error.to_string())),
        other => other,
    }
}

fn broken(probe: &str, reason: String) -> ProbeFound {
    ProbeFound::Broken {
        sub_axis: probe.to_owned(),
        reason,
    }
}

async fn one(
    run: &mut Run,
    crew: &mut Crew,
    yardstick: &Result<Yardstick, String>,
    probe: Probe,
) -> Result<ProbeFound, RunError> {
    if run.setup.plan.tenants < 2 {
        let reason = "the plan has no neighbour: two tenants are needed";
        return Ok(broken(probe.name(), reason.to_owned()));
    }
    crew.close(run).await?;
    let with = |reason: &String| Ok(broken(probe.name(), format!("no yardstick: {reason}")));
    match (probe, yardstick) {
        (Probe::Capacity, _) => memory::capacity(run, crew).await,
        (Probe::Cap, _) => memory::cap(run, crew).await,
        (Probe::Exhaust, _) => exhaust::exhaust(run, crew).await,
        (Probe::Residue(given_up), _) => memory::residue(run, crew, given_up).await,
        (Probe::Visibility, _) => memory::visibility(run, crew).await,
        (Probe::Turns, _) => turns::turns(run, crew).await,
        (Probe::Census, _) => census::census(run, crew).await,
        (Probe::Share, Ok(yardstick)) => share::share(run, crew, yardstick).await,
        (Probe::Enforce, Ok(yardstick)) => enforce::enforce(run, crew, yardstick).await,
        (Probe::Launch, Ok(yardstick)) => latency::launches(run, crew, yardstick).await,
        (Probe::Calls, Ok(yardstick)) => calls::calls(run, crew, yardstick).await,
        (Probe::Escape, Ok(yardstick)) => escape::escape(run, crew, yardstick).await,
        (_, Err(reason)) => with(reason),
    }
}

/// Has only the victim, in a process that has just been started: no limiter remembers anything of
/// it.
async fn fresh(run: &mut Run, crew: &mut Crew) -> Result<(), RunError> {
    crew.close(run).await?;
    crew.renew(run, VICTIM).await?;
    crew.ensure(run).await?;
    crew.open_only(run, VICTIM).await
}

async fn step(
    run: &mut Run,
    crew: &mut Crew,
    place: usize,
    ask: ProbeAsk,
) -> Result<ProbeTold, RunError> {
    let message = ToTenant::Probe { ask };
    match crew.ask(run, place, &message, "probing", STEP).await? {
        FromTenant::Probed { told } => Ok(told),
        other => Err(crew.unexpected(place, &other)),
    }
}

fn unexpected(crew: &Crew, place: usize, told: ProbeTold) -> RunError {
    crew.unexpected(place, &FromTenant::Probed { told })
}

#[cfg(test)]
mod tests {
    use super::PROBES;
    use crate::catalogue::probes::CATALOGUE;

    #[test]
    fn every_probe_of_the_catalogue_is_asked_in_its_order() {
        let mut asked: Vec<&str> = PROBES.iter().map(|probe| probe.name()).collect();
        asked.dedup();
        let known: Vec<&str> = CATALOGUE.iter().map(|entry| entry.name).collect();
        assert_eq!(asked, known);
    }
}

//! Fault trials: victims that run, a fresh process that breaks something at an instant, and a fresh
//! client that asks for the device afterwards. Only what was seen is written down.

use std::time::Duration;

use gpubench_record::{
    Calibration, FaultSeen, FaultTrial, FromTenant, LoadSpec, NewClient, Role, RunEvent, Struck,
    TenantResult, ToTenant,
};
use gpubench_reports::store::log_path;
use gpubench_workloads::fault::{self, HostAct};
use tokio::task::JoinSet;

use super::crew::{Crew, note_end};
use super::hangman::{Errand, Hangman};
use super::standing::Standing;
use super::{Observer, Run, RunError};
use crate::tenant::{Tenant, TenantError};

/// Longest wait for an answer, beside what the trial itself takes.
const LIMIT: Duration = Duration::from_secs(120);
/// A new client asks this often, and gives up after this long: the slowest recovery of a server
/// that was published took 1.4 s (arXiv 2605.26461).
const EVERY_NS: u64 = 1_000_000;
const ARRIVE_LIMIT_NS: u64 = 10_000_000_000;
/// Requests outstanding; the victims run closed loops.
const OUTSTANDING: u32 = 64;
/// A signal comes this part of the budget after the kernel was launched that it shall meet.
const SIGNAL_PART: u64 = 16;

/// Xids after which the GPU or the host has to be reset or restarted (XID catalogue, recovery
/// actions RESET_GPU and RESTART_BM): no further trial may run.
const FATAL_XIDS: &[u32] = &[46, 48, 64, 74, 79, 95, 109, 119, 120, 140, 155, 156, 158];

/// Holds every trial of the plan, unless one shows that the GPU is in no state for more.
pub async fn campaign(
    run: &mut Run,
    standing: &mut Standing,
    calibration: &Calibration,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let mut told = (String::new(), String::new());
    for trial in run.setup.plan.fault_trials.clone() {
        if *run.stop.borrow() {
            return Ok(());
        }
        let what = (trial.cell.variant.clone(), trial.fault.clone());
        if told != what {
            observer.stage(&format!("fault {} under {}", what.1, what.0));
            told = what;
        }
        let id = trial.cell.id.clone();
        run.events
            .append(&RunEvent::FaultTrialBegan { id: id.clone() })?;
        let seen = match standing.ready(run, &trial.cell).await? {
            Ok(crew) => one(run, crew, calibration, &trial).await?,
            Err(reason) => FaultSeen {
                failure: Some(reason),
                ..FaultSeen::default()
            },
        };
        let ends = must_end(&seen);
        run.events.append(&RunEvent::FaultTrialEnded {
            id: id.clone(),
            seen: Box::new(seen),
        })?;
        if let Some(why) = ends {
            let text = format!("fault trials end with {id}: {why}");
            run.events.append(&RunEvent::Warning { text })?;
            return Ok(());
        }
    }
    Ok(())
}

/// Why no further trial may run, if so.
fn must_end(seen: &FaultSeen) -> Option<String> {
    if let Some(action) = seen.recovery_action[1].filter(|action| *action != 0) {
        return Some(format!("NVML asks for recovery action {action}"));
    }
    let mut xids = seen.xids.iter().flatten();
    let fatal = xids.find(|xid| FATAL_XIDS.contains(xid))?;
    Some(format!("Xid {fatal} asks for a reset"))
}

/// Holds one trial.
async fn one(
    run: &mut Run,
    crew: &mut Crew,
    calibration: &Calibration,
    trial: &FaultTrial,
) -> Result<FaultSeen, RunError> {
    let mut seen = FaultSeen {
        recovery_action: [run.setup.nvml.recovery_action(), None],
        ..FaultSeen::default()
    };
    // What came before is not this trial's.
    drain_xids(run)?;
    match prepare(run, crew, calibration, trial, &mut seen).await {
        Ok(client) => {
            strike(run, crew, trial, &mut seen).await?;
            // One process for each fault, however well it took it.
            crew.renew(run, last(trial)).await?;
            seen.new_client = arrive(run, client, &mut seen).await?;
        }
        Err(RunError::Tenant(error)) => seen.failure = Some(error.to_string()),
        Err(other) => return Err(other),
    }
    crew.renew(run, last(trial)).await?;
    seen.xids = drain_xids(run)?;
    seen.recovery_action[1] = run.setup.nvml.recovery_action();
    let mut ours = crew.open_pids();
    // A server of the mechanism belongs there.
    ours.extend(crew.terms().set_up.servers().unwrap_or_default());
    let listed = run.setup.nvml.compute_pids().ok();
    seen.left_behind =
        listed.map(|pids| pids.into_iter().filter(|pid| !ours.contains(pid)).collect());
    Ok(seen)
}

/// The place in which the fault happens.
fn last(trial: &FaultTrial) -> usize {
    trial.cell.tenants.len() - 1
}

/// Readies victims and fault, and starts the process that will ask for the device.
async fn prepare(
    run: &mut Run,
    crew: &mut Crew,
    calibration: &Calibration,
    trial: &FaultTrial,
    seen: &mut FaultSeen,
) -> Result<Tenant, RunError> {
    crew.renew(run, last(trial)).await?;
    crew.arrange(run, trial.cell.condition).await?;
    for (place, tenant) in trial.cell.tenants.iter().enumerate() {
        let message = if tenant.role == Role::Victim {
            prepare_victim(run, calibration, trial, &tenant.tenant)?
        } else {
            ToTenant::Arm {
                fault: trial.fault.clone(),
                budget_ns: trial.until_ns - trial.at_ns,
            }
        };
        match crew
            .ask(run, place, &message, "getting ready", LIMIT)
            .await?
        {
            FromTenant::Ready { schedule_hash } => seen.victims.push(TenantResult {
                tenant: tenant.tenant.clone(),
                role: tenant.role,
                workload: tenant.workload.clone(),
                rows: 0,
                schedule_hash,
                death: None,
                unlogged: 0,
                overloaded: false,
                sched: None,
            }),
            FromTenant::Armed => {}
            other => return Err(crew.unexpected(place, &other)),
        }
    }
    crew.guest(run, "newcomer").await
}

/// A closed loop from the common start to the end of the window.
fn prepare_victim(
    run: &Run,
    calibration: &Calibration,
    trial: &FaultTrial,
    tenant: &str,
) -> Result<ToTenant, RunError> {
    let log = log_path(&run.setup.out, &trial.cell.id, tenant)?;
    super::cell::make_folder(&log)?;
    let entry = calibration.entries.get(&trial.cell.victim);
    let rate_per_s = entry.map_or(0.0, |entry| entry.native_rate_per_s);
    let window_ns = trial.window_ns;
    let rows = rate_per_s * window_ns as f64 / 1e9 * 2.0;
    Ok(ToTenant::Prepare {
        cell: trial.cell.id.clone(),
        workload: entry.map(|entry| entry.spec.clone()),
        load: LoadSpec::Victim {
            warmup_end_ns: trial.from_ns,
            closed_end_ns: window_ns,
            open_start_ns: window_ns,
            open_end_ns: window_ns,
            rate_per_s,
            seed: trial.cell.schedule_seed,
            outstanding_max: OUTSTANDING,
        },
        log: log.display().to_string(),
        capacity_rows: rows as u64 + 4096,
        cpu: None,
    })
}

/// Starts everybody at one instant and waits for all of them. Whoever was harmed lives on until
/// everybody has answered, so that in virtual time its end comes at an instant of its own.
async fn strike(
    run: &mut Run,
    crew: &mut Crew,
    trial: &FaultTrial,
    seen: &mut FaultSeen,
) -> Result<(), RunError> {
    let places: Vec<usize> = (0..trial.cell.tenants.len()).collect();
    let tenants = crew.take(&places);
    let clock = run.setup.clock.clone();
    for (place, tenant) in &tenants {
        clock.expect(tenant.participants().issuer)?;
        if *place != last(trial) {
            clock.expect(tenant.participants().reaper)?;
        }
    }
    let t0_ns = clock.start_ns();
    let hangman = match errand(trial, &tenants, t0_ns) {
        Some(errand) => Some(Hangman::start(&clock, errand)?),
        None => None,
    };
    let limit = LIMIT + Duration::from_nanos(trial.window_ns);
    let mut waits = JoinSet::new();
    for (place, mut tenant) in tenants {
        let message = if place == last(trial) {
            ToTenant::Strike {
                t0_ns,
                at_ns: trial.at_ns,
                until_ns: trial.until_ns,
            }
        } else {
            ToTenant::Go { t0_ns }
        };
        let sent = tenant.send(&message).await;
        waits.spawn(async move {
            let answer = match sent {
                Ok(()) => tenant.receive("running a fault trial", limit).await,
                Err(error) => Err(error),
            };
            (place, tenant, answer)
        });
    }
    let mut answers = Vec::new();
    while let Some(done) = waits.join_next().await {
        let done = done.map_err(|error| RunError::Clock(format!("a wait ended: {error}")))?;
        answers.push(done);
    }
    if let Some(hangman) = hangman
        && let Err(text) = hangman.finish(true)
    {
        seen.failure = Some(text);
    }
    answers.sort_by_key(|(place, ..)| *place);
    for (place, tenant, answer) in answers {
        if place == last(trial) {
            seen.struck = struck(run, crew, place, tenant, answer, seen).await?;
        } else {
            victim(run, crew, place, tenant, answer, &mut seen.victims[place]).await?;
        }
    }
    Ok(())
}

/// What the coordinator does at the instant.
fn errand(trial: &FaultTrial, tenants: &[(usize, Tenant)], t0_ns: u64) -> Option<Errand> {
    let fault = fault::find(&trial.fault)?;
    let pid_of = |place: usize| {
        tenants
            .iter()
            .find(|(p, _)| *p == place)
            .map(|(_, t)| t.pid())
    };
    let budget_ns = trial.until_ns - trial.at_ns;
    let at_ns = t0_ns + trial.at_ns;
    let meets_ns = at_ns + budget_ns / SIGNAL_PART;
    let errand = |pid, signal, at_ns, until_ns| Errand {
        pid,
        signal,
        at_ns,
        until_ns,
    };
    match fault.act {
        HostAct::None => None,
        HostAct::Kill => Some(errand(pid_of(last(trial))?, libc::SIGKILL, meets_ns, None)),
        HostAct::Stop => {
            // It sleeps until the end of its budget by then, so nobody waits for it meanwhile.
            let until_ns = Some(at_ns + budget_ns / 2);
            Some(errand(
                pid_of(last(trial))?,
                libc::SIGSTOP,
                meets_ns,
                until_ns,
            ))
        }
        HostAct::KillVictim => Some(errand(pid_of(0)?, libc::SIGKILL, at_ns, None)),
    }
}

/// Takes down what the process says that broke something.
async fn struck(
    run: &mut Run,
    crew: &mut Crew,
    place: usize,
    tenant: Tenant,
    answer: Result<FromTenant, TenantError>,
    seen: &mut FaultSeen,
) -> Result<Struck, RunError> {
    match answer {
        Ok(FromTenant::Struck {
            began_ns,
            detected_ns,
            code,
            later_code,
        }) => {
            crew.put_back(place, tenant);
            Ok(Struck {
                began_ns: Some(began_ns),
                detected_ns: Some(detected_ns),
                code,
                later_code: Some(later_code),
                ended: None,
            })
        }
        Ok(other) => {
            let error = tenant.unexpected(&other);
            seen.failure = Some(error.to_string());
            let ended = Some(note_end(run, tenant, &error).await?);
            Ok(Struck {
                ended,
                ..Struck::default()
            })
        }
        Err(error) => {
            if !matches!(error, TenantError::Ended { .. }) {
                seen.failure = Some(error.to_string());
            }
            let ended = Some(note_end(run, tenant, &error).await?);
            Ok(Struck {
                ended,
                ..Struck::default()
            })
        }
    }
}

/// Takes down how a victim fared; its requests stand in its log.
async fn victim(
    run: &mut Run,
    crew: &mut Crew,
    place: usize,
    tenant: Tenant,
    answer: Result<FromTenant, TenantError>,
    result: &mut TenantResult,
) -> Result<(), RunError> {
    match answer {
        Ok(FromTenant::Done {
            rows,
            unlogged,
            overloaded,
            sched,
        }) => {
            result.rows = rows;
            result.unlogged = unlogged;
            result.overloaded = overloaded;
            result.sched = Some(sched);
            crew.put_back(place, tenant);
        }
        Ok(other) => {
            let error = tenant.unexpected(&other);
            result.death = Some(note_end(run, tenant, &error).await?);
        }
        // One that was refused by its driver lives, but has to be replaced all the same.
        Err(error) => result.death = Some(note_end(run, tenant, &error).await?),
    }
    Ok(())
}

/// Lets the newcomer ask for the device. Whoever was harmed has ended by now.
async fn arrive(
    run: &mut Run,
    mut client: Tenant,
    seen: &mut FaultSeen,
) -> Result<Option<NewClient>, RunError> {
    let participants = client.participants();
    let clock = run.setup.clock.clone();
    clock.expect(participants.issuer)?;
    let message = ToTenant::Arrive {
        ordinal: 0,
        participants,
        every_ns: EVERY_NS,
        limit_ns: ARRIVE_LIMIT_NS,
    };
    let answer = match client.send(&message).await {
        Ok(()) => client.receive("asking for the device", LIMIT).await,
        Err(error) => Err(error),
    };
    clock.abandon(participants)?;
    let (name, pid) = (client.name().to_owned(), client.pid());
    let reason = client.stop().await;
    run.events.append(&RunEvent::TenantEnded {
        tenant: name,
        pid,
        reason,
    })?;
    clock.bury()?;
    match answer {
        Ok(FromTenant::Arrived {
            accepted_after_ns,
            tries,
            refused_with,
        }) => Ok(Some(NewClient {
            accepted_after_ns,
            tries,
            refused_with,
        })),
        Ok(other) => {
            seen.failure = Some(client.unexpected(&other).to_string());
            Ok(None)
        }
        Err(error) => {
            seen.failure = Some(error.to_string());
            Ok(None)
        }
    }
}

fn drain_xids(run: &mut Run) -> Result<Option<Vec<u32>>, RunError> {
    let Some(drained) = run.xids.as_ref().map(|watch| watch.drain()) else {
        return Ok(None);
    };
    match drained {
        Ok(xids) => Ok(Some(xids)),
        Err(error) => {
            let text = format!("Xids cannot be asked for: {error}");
            run.events.append(&RunEvent::Warning { text })?;
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_asks_for_a_reset_ends_the_trials() {
        let seen = |action, xids: &[u32]| FaultSeen {
            recovery_action: [Some(0), action],
            xids: Some(xids.to_vec()),
            ..FaultSeen::default()
        };
        for (action, xids, ends) in [
            (Some(0), &[13, 31, 43, 45, 69, 94][..], false),
            (None, &[], false),
            (Some(1), &[], true),
            (Some(0), &[31, 79], true),
            (Some(0), &[109], true),
        ] {
            assert_eq!(must_end(&seen(action, xids)).is_some(), ends, "{xids:?}");
        }
    }
}

//! Fault trials: which fault under which mechanism, how often, and when in the victims' life.
//!
//! Under each mechanism they come after all cells, from benign to severe, the controls first. The
//! instant of each follows from the seed, so that no fault always meets the same phase of a turn.

use gpubench_record::{Axis, Cell, CellTenant, Condition, FaultTrial, Plan, Role, Skip, SubAxis};
use gpubench_workloads::fault::{Applies, CATALOGUE, Fault};

use super::seed::derive;
use crate::catalogue::{EXCLUSIVE, has_mps};

/// What the user wants of faults, and what the device can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultWish {
    /// Names of the faults; all if empty. The controls run in any case.
    pub names: Vec<String>,
    /// Trials of each fault under each mechanism.
    pub trials: u32,
    /// Whether the tenants' time is virtual: then few requests tell as much as many.
    pub is_virtual_time: bool,
    /// Mechanisms whose tenants are threads of one process.
    pub in_one_process: Vec<String>,
    /// Whether the machine plants illegal instructions.
    pub plants_illegal_instruction: bool,
}

/// Name of the mechanism in whose tenants HAMi's library counts.
const HAMI: &str = "hami";

/// Why no fault, or not this one, is held under a mechanism.
pub const ALONE: &str = "it has one tenant, beside which nobody is a victim";
/// The same of one that turns a second tenant away.
pub const TURNS_AWAY: &str = "a second tenant is refused: no fault has a victim beside it";
/// The same of one whose tenants are threads.
pub const ONE_PROCESS: &str = "its tenants are threads of one process, which ends as a whole";
/// The same of a fault of another mechanism's parts.
pub const NOTHING_TO_BREAK: &str = "this mechanism has nothing that it could break";

/// Before victims count under HAMi. Its bucket is empty when a process launches for the first time
/// and is first filled 120 ms later (HAMi-core at 8f3a89c, `multiprocess_utilization_watcher.c`):
/// three fillings, so that no trial takes that pause for the fault's.
const HAMI_SETTLES_NS: u64 = 360_000_000;

/// Requests of a victim, served natively, that a part of a trial lasts.
const REQUESTS_VIRTUAL: u64 = 40;
const REQUESTS_WALL: u64 = 400;

/// Plans the trials into a plan.
pub fn add_faults(plan: &mut Plan, wish: &FaultWish) {
    let variants: Vec<(String, String, bool)> = plan
        .mechanisms
        .iter()
        .filter(|one| one.name != EXCLUSIVE)
        .map(|one| (one.name.clone(), one.variant.clone(), one.turns_away))
        .collect();
    for (name, variant, turns_away) in variants {
        if turns_away {
            plan.skips.push(skip(&variant, None, TURNS_AWAY));
            continue;
        }
        if plan.tenants < 2 {
            let reason = "a fault needs a victim beside it: tenants is 1";
            plan.skips.push(skip(&variant, None, reason));
            continue;
        }
        if wish.in_one_process.contains(&name) {
            plan.skips.push(skip(&variant, None, ONE_PROCESS));
            continue;
        }
        // Cells have the group; a variant that is only the unprotected form of others has some too.
        let mut cells = plan.cells.iter();
        let Some(group) = cells
            .find(|cell| cell.variant == variant)
            .map(|cell| cell.group.clone())
        else {
            continue;
        };
        for fault in CATALOGUE.iter().filter(|fault| is_wanted(fault, wish)) {
            if !applies(fault.applies, &name) {
                // Every other fault of the catalogue is none of this mechanism's, and only who
                // named it wants to know.
                if !wish.names.is_empty() {
                    plan.skips
                        .push(skip(&variant, Some(fault), NOTHING_TO_BREAK));
                }
                continue;
            }
            if fault.planted_only && !wish.plants_illegal_instruction {
                let reason = "no machine file plants it here, and no program can make one";
                plan.skips.push(skip(&variant, Some(fault), reason));
                continue;
            }
            for trial in 1..=wish.trials {
                let place = Place {
                    mechanism: &name,
                    variant: &variant,
                    group: &group,
                    fault,
                    trial,
                };
                let planned = planned(plan, wish, &place);
                plan.fault_trials.push(planned);
            }
        }
    }
}

/// Whether a fault can happen under a mechanism whose tenants are processes.
#[must_use]
pub fn applies(to: Applies, mechanism: &str) -> bool {
    match to {
        Applies::Everywhere => true,
        Applies::Mps => has_mps(mechanism),
        Applies::Hami => mechanism == HAMI,
    }
}

fn is_wanted(fault: &Fault, wish: &FaultWish) -> bool {
    let control = fault.class == gpubench_workloads::fault::Class::Control;
    wish.names.is_empty() || control || wish.names.iter().any(|name| name == fault.name)
}

fn skip(variant: &str, fault: Option<&Fault>, reason: &str) -> Skip {
    let axis = Axis::Fault.as_str();
    Skip {
        mechanism: variant.to_owned(),
        axis: Some(fault.map_or(axis.to_owned(), |fault| format!("{axis}/{}", fault.name))),
        reason: reason.to_owned(),
        remedy: None,
    }
}

/// Which trial.
struct Place<'a> {
    mechanism: &'a str,
    variant: &'a str,
    group: &'a str,
    fault: &'a Fault,
    trial: u32,
}

fn planned(plan: &Plan, wish: &FaultWish, place: &Place<'_>) -> FaultTrial {
    let requests = if wish.is_virtual_time {
        REQUESTS_VIRTUAL
    } else {
        REQUESTS_WALL
    };
    let part_ns = requests * plan.service_ns * u64::from(plan.tenants);
    let number = u32::try_from(plan.fault_trials.len()).unwrap_or(u32::MAX);
    let seed = derive(plan.seed, place.variant, number);
    let settles_ns = if place.mechanism == HAMI {
        HAMI_SETTLES_NS
    } else {
        0
    };
    // Somewhere in the second part; the third lies wholly after it.
    let at_ns = settles_ns + part_ns + seed % (part_ns / 4).max(1);
    let fault = place.fault;
    FaultTrial {
        cell: cell(plan, place, number, seed),
        fault: fault.name.to_owned(),
        class: fault.class.as_str().to_owned(),
        trial: place.trial,
        at_ns,
        until_ns: at_ns + part_ns,
        from_ns: settles_ns + part_ns / 4,
        window_ns: settles_ns + part_ns * 5 / 2,
    }
}

/// Victims in all places but the last, where the fault happens.
fn cell(plan: &Plan, place: &Place<'_>, number: u32, seed: u64) -> Cell {
    let last = plan.tenants - 1;
    let tenant = |index: u32| CellTenant {
        tenant: match index {
            0 => "victim".to_owned(),
            index => format!("neighbour-{index}"),
        },
        role: if index == last {
            Role::Aggressor
        } else {
            Role::Victim
        },
        workload: (index != last).then(|| place.fault.victim.to_owned()),
    };
    Cell {
        id: format!("f{number:04}-{}-{}", place.mechanism, place.fault.name),
        // After the last block, so that readers who group by block find no stranger in one.
        block: plan.blocks,
        group: place.group.to_owned(),
        mechanism: place.mechanism.to_owned(),
        variant: place.variant.to_owned(),
        sub_axis: SubAxis::Sm,
        condition: Condition::C,
        victim: place.fault.victim.to_owned(),
        aggressor: None,
        dose: 0.0,
        tenants: (0..plan.tenants).map(tenant).collect(),
        schedule_seed: seed,
        closed_only: false,
    }
}

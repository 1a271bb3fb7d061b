//! Fault trials: which faults run under which mechanism, how often, and when in the trial.
//!
//! Under each mechanism they run after all cells, from benign to severe, the controls first. The
//! instant of each fault follows from the seed, so that faults hit different phases of a time
//! slice.

use gpubench_catalogue::axis;
use gpubench_catalogue::fault::{CATALOGUE, Class, Fault, Needs};
use gpubench_record::plan::PlannedMechanism;
use gpubench_record::{
    Axis, CellTenant, FaultTrial, MechanismProperties, Plan, Role, Sharing, Skip,
};

use super::block::derive;
use super::facts;
use super::time_use::time_of;

/// The fault trials that the user requests, and the abilities of the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultWish {
    /// Names of the faults; all of `classes` if empty. The controls run in any case.
    pub names: Vec<String>,
    /// The classes that are injected where no fault is named.
    pub classes: Vec<Class>,
    /// Trials of each fault under each mechanism.
    pub trials: u32,
    /// Whether the tenants' time is virtual, so that few requests suffice for a rate.
    pub is_virtual_time: bool,
}

/// Why one fault is not injected under a mechanism.
pub const NOTHING_TO_BREAK: &str = "this mechanism lacks what the fault breaks";

/// Why a fault that no PTX raises is not injected unless the user names it.
const NO_PTX: &str = "no PTX raises it, only a virtual GPU with it planted";
const NO_PTX_REMEDY: &str = "name it in --faults to inject it";

/// Length of a part of a trial, in native service times of a victim request.
const REQUESTS_VIRTUAL: u64 = 40;
const REQUESTS_WALL: u64 = 400;

/// Plans the trials into a plan.
pub fn add_faults(plan: &mut Plan, wish: &FaultWish) {
    let under_test = |one: &&PlannedMechanism| !one.properties.is_reference();
    let mechanisms = plan.mechanisms.iter().filter(under_test);
    let mechanisms: Vec<PlannedMechanism> = mechanisms.cloned().collect();
    for mechanism in &mechanisms {
        let variant = &mechanism.variant;
        let alone = (plan.tenants < 2).then_some("a fault needs a victim beside it: tenants is 1");
        if let Some(reason) = no_victim(&mechanism.properties).or(alone) {
            plan.skips.push(skip(mechanism, None, reason));
            continue;
        }
        // The group of a variant is that of its cells.
        let mut cells = plan.cells.iter();
        let Some(group) =
            cells.find(|cell| cell.variant == *variant).map(|cell| cell.group.clone())
        else {
            continue;
        };
        for fault in CATALOGUE.iter().filter(|fault| is_wanted(fault, wish)) {
            if !has_needs(&mechanism.properties, fault.needs) {
                // Only a user who named the fault expects a row for it.
                if !wish.names.is_empty() {
                    plan.skips.push(skip(mechanism, Some(fault), NOTHING_TO_BREAK));
                }
                continue;
            }
            if fault.planted_only && wish.names.is_empty() {
                plan.skips.push(Skip {
                    remedy: Some(NO_PTX_REMEDY.to_owned()),
                    ..skip(mechanism, Some(fault), NO_PTX)
                });
                continue;
            }
            for trial in 1..=wish.trials {
                let key = TrialKey { mechanism, group: &group, fault, trial };
                let planned = planned(plan, wish, &key);
                plan.fault_trials.push(planned);
            }
        }
    }
}

/// How long the trials of this part of the axis take under a mechanism of the plan, by the figures
/// of a plan. One that the plan does not have takes as long as the first that it has; `None` where
/// it has none with faults.
pub fn faults_ns(plan: &Plan, variant: &str, part: Option<&str>, wish: FaultWish) -> Option<u64> {
    let is_of_part = |class: &Class| {
        let own = CATALOGUE.iter().filter(|fault| fault.class == *class);
        part.is_none_or(|part| class.as_str() == part || own.clone().any(|one| one.name == part))
    };
    let one = CATALOGUE.iter().filter(|fault| part == Some(fault.name));
    let wish = FaultWish {
        names: one.map(|fault| fault.name.to_owned()).collect(),
        classes: axis::fault_classes().into_iter().filter(is_of_part).collect(),
        ..wish
    };
    let has_faults = |one: &&PlannedMechanism| no_victim(&one.properties).is_none();
    let mut known = plan.mechanisms.iter().filter(has_faults);
    let own = known.clone().find(|one| one.variant == variant).or_else(|| known.next())?;
    let mut trial = Plan {
        mechanisms: vec![own.clone()],
        fault_trials: Vec::new(),
        probes: Vec::new(),
        soak: None,
        ..plan.clone()
    };
    // Trials have the group of the mechanism's cells.
    trial.cells.truncate(1);
    trial.cells.iter_mut().for_each(|cell| cell.variant.clone_from(&own.variant));
    add_faults(&mut trial, &wish);
    trial.cells.clear();
    let ns = time_of(&trial).iter().map(|one| one.ns).sum();
    (ns > 0).then_some(ns)
}

/// Why faults have no victim under a mechanism; `None` where they have.
pub const fn no_victim(properties: &MechanismProperties) -> Option<&'static str> {
    match properties.sharing {
        Sharing::Reference => Some("it has one tenant, so no fault has a victim"),
        Sharing::OneTenant => Some("a second tenant is refused, so no fault has a victim"),
        Sharing::InTime | Sharing::InSpace if properties.has_threads() => {
            Some("its tenants are threads of one process, which ends as a whole")
        }
        Sharing::InTime | Sharing::InSpace => None,
    }
}

/// Whether a fault of this part of the axis, or of the whole axis, ends the process that causes it
/// under such a mechanism.
pub fn is_fatal(part: Option<&str>, properties: &MechanismProperties) -> bool {
    CATALOGUE.iter().any(|fault| {
        part.is_none_or(|part| fault.name == part || fault.class.as_str() == part)
            && matches!(fault.class, Class::Process | Class::Sm | Class::Mmu)
            && has_needs(properties, fault.needs)
    })
}

/// Whether a mechanism has what a fault needs.
pub const fn has_needs(properties: &MechanismProperties, needs: Needs) -> bool {
    match needs {
        Needs::Nothing => true,
        Needs::MpsDaemon => properties.mps_daemon,
        Needs::AccountingLibrary => properties.accounting_library,
    }
}

/// Whether a sub-axis or an aggressor of rates has this name, beside which jitter can be measured.
pub fn is_part_of_rates(name: &str) -> bool {
    let sub_axes = axis::CATALOGUE.iter().map(|entry| entry.sub_axis.as_str());
    sub_axes.chain(axis::aggressors()).any(|known| known == name)
}

/// A part of the fault axis under a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultPart {
    /// A class of faults, or one fault.
    Class,
    One,
    /// This mechanism lacks what every fault of the part breaks.
    NothingToBreak,
}

/// The part of the fault axis with this name; `None` where no fault has it. Without properties it
/// is one of any mechanism.
pub fn fault_part(name: &str, properties: Option<&MechanismProperties>) -> Option<FaultPart> {
    let scored = CATALOGUE.iter().filter(|fault| fault.class != Class::Control);
    let mut own = scored.filter(|one| one.name == name || one.class.as_str() == name).peekable();
    let is_one = own.peek()?.name == name;
    let exists = properties.is_none_or(|of| own.any(|fault| has_needs(of, fault.needs)));
    Some(match (exists, is_one) {
        (false, _) => FaultPart::NothingToBreak,
        (true, true) => FaultPart::One,
        (true, false) => FaultPart::Class,
    })
}

fn is_wanted(fault: &Fault, wish: &FaultWish) -> bool {
    let wanted = if wish.names.is_empty() {
        wish.classes.contains(&fault.class)
    } else {
        wish.names.iter().any(|name| name == fault.name)
    };
    wanted || fault.class == Class::Control
}

fn skip(of: &PlannedMechanism, fault: Option<&Fault>, reason: &str) -> Skip {
    let axis = Axis::Fault.as_str();
    Skip {
        name: of.name.clone(),
        variant: of.variant.clone(),
        axis: Some(fault.map_or(axis.to_owned(), |fault| format!("{axis}/{}", fault.name))),
        reason: reason.to_owned(),
        remedy: None,
    }
}

/// One trial of the plan.
struct TrialKey<'a> {
    mechanism: &'a PlannedMechanism,
    group: &'a str,
    fault: &'a Fault,
    trial: u32,
}

fn planned(plan: &Plan, wish: &FaultWish, key: &TrialKey<'_>) -> FaultTrial {
    let requests = if wish.is_virtual_time { REQUESTS_VIRTUAL } else { REQUESTS_WALL };
    let part_ns = requests * plan.service_ns * u64::from(plan.tenants);
    let part_ns = part_ns.max(key.fault.takes_ns);
    let number = u32::try_from(plan.fault_trials.len()).unwrap_or(u32::MAX);
    let seed = derive(plan.seed, &key.mechanism.variant, number);
    let settles_ns = key.mechanism.properties.settles_ns;
    // In the first quarter of the second part; the rest of the trial shows the victims afterwards.
    let at_ns = settles_ns + part_ns + seed % (part_ns / 4).max(1);
    let fault = key.fault;
    FaultTrial {
        id: format!("f{number:04}-{}-{}", key.mechanism.name, fault.name),
        group: key.group.to_owned(),
        mechanism: key.mechanism.name.clone(),
        variant: key.mechanism.variant.clone(),
        fault: fault.name.to_owned(),
        class: fault.class.as_str().to_owned(),
        facts: facts::of_fault(fault),
        trial: key.trial,
        victim: fault.victim.to_owned(),
        tenants: tenants(plan.tenants, fault),
        schedule_seed: seed,
        at_ns,
        until_ns: at_ns + part_ns,
        from_ns: settles_ns + part_ns / 4,
        window_ns: settles_ns + part_ns * 5 / 2,
    }
}

/// The victims, and the injector last.
fn tenants(count: u32, fault: &Fault) -> Vec<CellTenant> {
    let last = count - 1;
    let tenant = |index: u32| CellTenant {
        tenant: match index {
            0 => "victim".to_owned(),
            index => format!("neighbour-{index}"),
        },
        role: if index == last { Role::Aggressor } else { Role::Victim },
        workload: (index != last).then(|| fault.victim.to_owned()),
    };
    (0..count).map(tenant).collect()
}

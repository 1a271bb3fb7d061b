//! What a matrix does after its cells: probes and fault trials, by profile, flags and device.

use gpubench_record::Plan;

use crate::axis::Selection;
use crate::error::ExpectedError;
use crate::plan;
use crate::profile::Profile;
use crate::run::probe::{self, Flag, Probe};

/// Trials of each fault that nothing but the default requests.
const TRIALS_BY_DEFAULT: u32 = 1;

/// Which faults the command line requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FaultRequest {
    /// No flag: on the virtual GPU the classes that the axes of the profile include, else none.
    #[default]
    Unset,
    /// `--no-faults`.
    Off,
    /// `--faults`, with names or without.
    On(Vec<String>),
}

/// The flags of the command line.
#[derive(Debug, Clone, Default)]
pub struct AfterCells {
    /// `--probes`.
    pub probes: bool,
    /// `--escape`.
    pub escape: bool,
    /// `--faults` and `--no-faults`.
    pub faults: FaultRequest,
    /// `--fault-trials`.
    pub fault_trials: Option<u32>,
}

/// Adds probes and fault trials to a plan. `is_virtual_time` says whether the device is virtual and
/// its time too: a host that no other user shares.
///
/// # Errors
/// When a flag needs another one, or the profile selects nothing that may run.
pub fn add(
    plan: &mut Plan,
    profile: &Profile,
    flags: &AfterCells,
    is_virtual_time: bool,
) -> Result<(), ExpectedError> {
    plan.probes = probe::CATALOGUE
        .iter()
        .filter(|probe| is_wanted(probe, profile, flags))
        .map(|probe| probe.name.to_owned())
        .collect();
    match wish(profile, flags, is_virtual_time) {
        Some(wish) => plan::add_faults(plan, &wish),
        None if flags.fault_trials.is_some() => {
            return Err(usage(
                "--fault-trials counts trials of \
            no fault",
                "--faults beside it",
            ));
        }
        None if only_faults(profile) => {
            return Err(usage(
                "the profile has no axis but fault, and no fault may be injected",
                "--faults, on a GPU without other users",
            ));
        }
        None => {}
    }
    Ok(())
}

fn usage(problem: &str, remedy: &str) -> ExpectedError {
    ExpectedError::Usage { problem: problem.to_owned(), remedy: Some(remedy.to_owned()) }
}

/// A probe that makes a row runs where the axes of the profile include the row. Every other one
/// runs by its flag.
fn is_wanted(probe: &Probe, profile: &Profile, flags: &AfterCells) -> bool {
    let by_flag = match probe.flag {
        Flag::Probes => flags.probes,
        Flag::Escape => flags.escape,
    };
    let of_axes = || {
        let makes_row = |selection: Selection| {
            let mut rows = probe.rows();
            rows.any(|sub_axis| selection.needs(sub_axis))
        };
        profile.user_victim.victim().is_none() && profile.selects(makes_row)
    };
    by_flag || of_axes()
}

fn only_faults(profile: &Profile) -> bool {
    let is_fault = |selection: Selection| {
        profile.fault_classes().iter().any(|&class| selection.has_faults(class))
    };
    !profile.selects(|selection| !is_fault(selection))
}

/// The faults to inject.
fn wish(profile: &Profile, flags: &AfterCells, is_virtual_time: bool) -> Option<plan::FaultWish> {
    let chosen = profile.fault_classes();
    let is_user = profile.user_victim.victim().is_some();
    let (names, classes, trials) = match &flags.faults {
        FaultRequest::Off => return None,
        FaultRequest::Unset if !is_virtual_time || is_user || chosen.is_empty() => return None,
        FaultRequest::Unset => (Vec::new(), chosen, TRIALS_BY_DEFAULT),
        // The flag alone requests faults, whatever the axes.
        FaultRequest::On(names) if chosen.is_empty() => {
            (names.clone(), crate::axis::fault_classes(), profile.faults.trials)
        }
        FaultRequest::On(names) => (names.clone(), chosen, profile.faults.trials),
    };
    Some(plan::FaultWish {
        names,
        classes,
        trials: flags.fault_trials.unwrap_or(trials),
        is_virtual_time,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Overrides, parse};

    fn profile(axes: &str) -> Profile {
        let text = format!("version = 1\n{axes}");
        parse("p", &text, &Overrides::default()).expect("a profile")
    }

    /// Names of the probes, and trials and classes of the faults.
    fn after(
        axes: &str,
        flags: &AfterCells,
        is_virtual: bool,
    ) -> (Vec<&'static str>, Option<(u32, usize)>) {
        let profile = profile(axes);
        let probes = probe::CATALOGUE.iter();
        let probes = probes.filter(|probe| is_wanted(probe, &profile, flags));
        let wish = wish(&profile, flags, is_virtual);
        (
            probes.map(|probe| probe.name).collect(),
            wish.map(|wish| (wish.trials, wish.classes.len())),
        )
    }

    #[test]
    fn memory_is_probed_on_every_device_and_faults_run_by_default_on_the_virtual_gpu() {
        const MEMORY: [&str; 4] = ["capacity", "cap", "residue", "visibility"];
        let unset = AfterCells::default();
        let on = AfterCells { faults: FaultRequest::On(Vec::new()), ..AfterCells::default() };
        let off = AfterCells { faults: FaultRequest::Off, ..AfterCells::default() };
        let all = crate::axis::fault_classes().len();
        for (axes, flags, is_virtual, probes, faults) in [
            ("", &unset, true, &MEMORY[..], Some((1, all))),
            ("", &unset, false, &MEMORY, None),
            ("", &on, false, &MEMORY, Some((14, all))),
            ("", &off, true, &MEMORY, None),
            ("axes = [\"memory/cap\"]", &unset, true, &["cap"], None),
            ("axes = [\"compute\"]", &unset, true, &[], None),
            ("axes = [\"compute\"]", &on, true, &[], Some((14, all))),
            ("axes = [\"fault/sm\"]", &unset, true, &[], Some((1, 1))),
        ] {
            let found = after(axes, flags, is_virtual);
            assert_eq!(found, (probes.to_vec(), faults), "{axes} {flags:?}");
        }
        let all = AfterCells { probes: true, escape: true, ..AfterCells::default() };
        let (probes, _) = after("axes = [\"compute\"]", &all, true);
        assert_eq!(probes.len(), probe::CATALOGUE.len());
    }

    #[test]
    fn the_fault_axis_alone_needs_faults() {
        assert!(only_faults(&profile("axes = [\"fault\"]")));
        assert!(only_faults(&profile("axes = [\"fault/sm\", \"fault/mmu\"]")));
        assert!(!only_faults(&profile("axes = [\"fault\", \"memory\"]")));
        assert!(!only_faults(&profile("")));
    }
}

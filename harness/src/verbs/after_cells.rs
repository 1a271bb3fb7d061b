//! What a matrix does after its cells: probes and fault trials, by profile, flags and device.

use std::path::Path;

use gpubench_catalogue::axis::Selection;
use gpubench_judge::score::{Look, Straddling};
use gpubench_plan::profile::Profile;
use gpubench_plan::profile::units::Span;
use gpubench_plan::{MoreBlocks, extend};
use gpubench_record::{Cell, Estimate, MatrixRow, OutcomeKind, Plan, TopUp, TopUpReason};
use gpubench_run::probe::{Flag, Probe};
use gpubench_run::{TopUpDecision, probe};
use gpubench_store::Record;

use super::record::{JudgeError, judged, look as look_at};
use crate::error::ExpectedError;

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
    pub probes: bool,
    pub escape: bool,
    /// `--faults` and `--no-faults`.
    pub faults: FaultRequest,
    pub fault_trials: Option<u32>,
}

/// Adds probes and fault trials to a plan. `is_virtual_time` says whether the device is virtual and
/// its time too: a host that no other user shares.
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
        Some(wish) => gpubench_plan::add_faults(plan, &wish),
        None if flags.fault_trials.is_some() => {
            return Err(ExpectedError::usage(
                "--fault-trials counts trials of no fault",
                Some("--faults beside it"),
            ));
        }
        None if only_faults(profile) => {
            return Err(ExpectedError::usage(
                "the profile has no axis but fault, and no fault may be injected",
                Some("--faults, on a GPU without other users"),
            ));
        }
        None => {}
    }
    plan.time = gpubench_plan::time_of(plan);
    Ok(())
}

/// The plan of a whole run and its profile. With a time in minutes the profile gets the longest
/// `device_time` with which the run takes no longer, set-up and top-up included.
pub fn planned(
    profile: Profile,
    for_minutes: Option<u64>,
    plan_of: impl Fn(&Profile) -> Result<Plan, ExpectedError>,
) -> Result<(Profile, Plan), ExpectedError> {
    let Some(minutes) = for_minutes else {
        let plan = plan_of(&profile)?;
        return Ok((profile, plan));
    };
    let limit_ns = minutes * MINUTE_NS;
    let of = |seconds| Profile { device_time: Span::from_s(seconds), ..profile.clone() };
    // Whatever else is wrong with the profile is so with the longest time, too.
    plan_of(&of(LONGEST_S))?;
    let shortest = smallest(1, LONGEST_S, |seconds| plan_of(&of(seconds)).is_ok());
    let takes_ns = |seconds| Ok(run_ns(&of(seconds), &plan_of(&of(seconds))?));
    let exceeds = |seconds| takes_ns(seconds).is_ok_and(|ns: u64| ns > limit_ns);
    let best = smallest(shortest, minutes * 60 + 1, exceeds) - 1;
    if best < shortest {
        let needed: Result<u64, ExpectedError> = takes_ns(shortest);
        let needed = needed?.div_ceil(MINUTE_NS);
        let what = format!("--for-minutes {minutes} is too short (accepted: at least {needed})");
        return Err(ExpectedError::usage(what, Some("fewer mechanisms or axes, or more minutes")));
    }
    let profile = of(best);
    let plan = plan_of(&profile)?;
    Ok((profile, plan))
}

const MINUTE_NS: u64 = 60_000_000_000;
/// The longest `device_time` that a profile accepts.
const LONGEST_S: u64 = 7 * 24 * 3_600;

/// The smallest number of `low..=high` that is so: all greater ones are.
fn smallest(mut low: u64, mut high: u64, is: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if is(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Time of a whole run with the top-up that its profile allows.
fn run_ns(profile: &Profile, plan: &Plan) -> u64 {
    let left_ns = profile.device_time.ns.saturating_sub(plan.device_time_ns());
    let top_up_ns = if plan.looks > 1 { left_ns } else { 0 };
    plan.time.iter().map(|part| part.ns).sum::<u64>() + top_up_ns
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

fn wish(
    profile: &Profile,
    flags: &AfterCells,
    is_virtual_time: bool,
) -> Option<gpubench_plan::FaultWish> {
    let chosen = profile.fault_classes();
    let is_user = profile.user_victim.victim().is_some();
    let (names, classes, trials) = match &flags.faults {
        FaultRequest::Off => return None,
        FaultRequest::Unset if !is_virtual_time || is_user || chosen.is_empty() => return None,
        FaultRequest::Unset => (Vec::new(), chosen, TRIALS_BY_DEFAULT),
        // The flag alone requests faults, whatever the axes.
        FaultRequest::On(names) if chosen.is_empty() => {
            (names.clone(), gpubench_catalogue::axis::fault_classes(), profile.faults.trials)
        }
        FaultRequest::On(names) => (names.clone(), chosen, profile.faults.trials),
    };
    Some(gpubench_plan::FaultWish {
        names,
        classes,
        trials: flags.fault_trials.unwrap_or(trials),
        is_virtual_time,
    })
}

// The look at a run after its planned blocks: which rows straddle a boundary, or are less precise
// than the profile wants, and what their spread asks for. It happens once, so no row stops on its
// own result, and levels are decided once, from all blocks.

/// Most blocks of a row that asks for them for its precision.
const BLOCKS_MAX: u32 = 20;

/// The look of a profile; `None` where it decides nothing or wants none.
pub(super) fn look(profile: &Profile) -> Option<TopUpDecision> {
    let device_time_ns = profile.device_time.ns;
    let half_width = profile.blocks.half_width;
    let is_on = profile.blocks.top_up && profile.decides;
    is_on.then(|| -> TopUpDecision {
        Box::new(move |out: &Path| {
            let decided = decide(out, device_time_ns, half_width);
            decided.map_err(|error| error.to_string())
        })
    })
}

/// The decision, and the cells to run; `None` where no row asks for blocks.
fn decide(
    out: &Path,
    device_time_ns: u64,
    half_width: f64,
) -> Result<Option<(TopUp, Vec<Cell>)>, JudgeError> {
    let record = Record::open(out)?;
    let run = judged(&record, record.run().clone())?.run;
    let Look { matrix, straddling } = look_at(&run)?;
    let rows = wanted(&matrix, &straddling, half_width);
    let left_ns = device_time_ns.saturating_sub(run.plan.device_time_ns());
    Ok((!rows.is_empty()).then(|| extend(&run.plan, left_ns, rows)))
}

fn wanted(matrix: &[MatrixRow], straddling: &[Straddling], half_width: f64) -> Vec<MoreBlocks> {
    let more = |(place, row): (usize, &MatrixRow)| {
        let deciding = row.retention.as_ref().or(row.jitter.as_ref())?;
        let open = straddling.iter().find(|open| open.row == place);
        let (reason, wanted) = match (open, row.outcome.outcome) {
            (Some(open), _) => (TopUpReason::Straddles, open.blocks_wanted),
            (None, OutcomeKind::Measured) => {
                let precise = blocks_for_precision(row.retention.as_ref()?, half_width)?;
                (TopUpReason::Wide, precise)
            }
            _ => return None,
        };
        Some(MoreBlocks {
            variant: row.variant.clone(),
            axis: row.axis.clone(),
            victim: row.victim.clone()?,
            aggressor: row.aggressor.clone()?,
            reason,
            // Jitter has groups of blocks.
            blocks: open.map_or(deciding.n, |open| open.blocks),
            wanted,
        })
    };
    matrix.iter().enumerate().filter_map(more).collect()
}

/// The blocks at which the half-width of a retention, on the log scale, is the wanted one; at most
/// [`BLOCKS_MAX`]. `None` where it is that narrow, or the profile has no rule.
fn blocks_for_precision(retention: &Estimate, half_width: f64) -> Option<u32> {
    let half = (retention.hi / retention.lo).ln() / 2.0;
    let target = half_width.ln_1p();
    let is_wide = target > 0.0 && half.is_finite() && half > target;
    let wanted = (f64::from(retention.n) * (half / target).powi(2)).ceil();
    (is_wide && retention.n < BLOCKS_MAX)
        .then(|| (wanted.min(BLOCKS_MAX.into()) as u32).max(retention.n + 1))
}

#[cfg(test)]
mod tests {
    use gpubench_plan::profile::{Overrides, parse};
    use gpubench_record::Ends;

    use super::*;

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
        let all = gpubench_catalogue::axis::fault_classes().len();
        for (axes, flags, is_virtual, probes, faults) in [
            ("", &unset, true, &MEMORY[..], Some((1, all))),
            ("", &unset, false, &MEMORY, None),
            ("", &on, false, &MEMORY, Some((17, all))),
            ("", &off, true, &MEMORY, None),
            ("axes = [\"memory\"]", &unset, true, &MEMORY, None),
            ("axes = [\"memory/cap\"]", &unset, true, &["cap"], None),
            ("axes = [\"fault\"]", &unset, true, &[], Some((1, all))),
            ("axes = [\"compute\"]", &unset, true, &[], None),
            ("axes = [\"compute\"]", &on, true, &[], Some((17, all))),
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

    fn figure(value: f64, lo: f64, hi: f64) -> Estimate {
        Estimate {
            value,
            lo,
            hi,
            ends: Ends::Interval,
            parts: None,
            n: 8,
            unit: "ratio".to_owned(),
        }
    }

    #[test]
    fn a_wide_interval_asks_for_blocks_up_to_the_limit() {
        // Half-widths of 2 % and 1.5 %: 8 (ln 1.02 / ln 1.015)^2 = 14.2.
        let wide = figure(0.5, 0.5 / 1.02, 0.5 * 1.02);
        assert_eq!(blocks_for_precision(&wide, 0.015), Some(15));
        assert_eq!(blocks_for_precision(&wide, 0.0), None);
        assert_eq!(blocks_for_precision(&wide, 0.02), None);
        assert_eq!(blocks_for_precision(&wide, 0.001), Some(BLOCKS_MAX));
    }
}

//! The number of blocks and the length of a cell, within the `device_time` of the profile.

use gpubench_record::{Cell, Durations, Plan};

use super::PlanError;
use super::block::{ALONE_BLOCKS, derive};
use super::draft::{Draft, Layout};
use super::facts::Capability;
use crate::profile::units::Span;
use crate::profile::{CellParts, OpenLoops, Profile};

/// Margin of an open loop, in standard deviations of its Poisson count: with 3.5, about one cell in
/// four thousand has fewer arrivals than a p99 needs.
const ARRIVALS_MARGIN_SD: f64 = 3.5;

/// Blocks beyond the fewest for which cells are shortened. Other load on the host spoils a cell now
/// and then, and its block does not count. Without a spare block, one such cell left a row of an
/// H100 without a level.
const SPARE_BLOCKS: u32 = 2;

/// Parts shrink in whole steps of this length, so that durations stay readable.
const STEP_NS: u64 = 1_000_000;

/// The cells of one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct PerBlock {
    pub cells: u64,
    /// Cells with open loops from which the tail is scored; 0 where the profile does not request
    /// it.
    pub with_jitter: u64,
    /// Length of all sparse phases, which never shrink.
    pub sparse_ns: u64,
}

impl PerBlock {
    /// Length of a block with open loops in every cell, or in those that give jitter.
    fn ns(self, durations: &Durations, open: OpenLoops) -> u64 {
        let everywhere = self.cells.saturating_mul(durations.cell_ns());
        let closed = self.cells.saturating_mul(durations.closed_only().cell_ns());
        let opening = self.with_jitter.saturating_mul(durations.gap_ns + durations.open_ns);
        let rest_ns = match open {
            OpenLoops::All => everywhere,
            OpenLoops::Jitter => closed.saturating_add(opening),
        };
        rest_ns.saturating_add(self.sparse_ns)
    }

    /// The device time that so many blocks leave to everything but their sparse phases.
    fn time_ns(self, profile: &Profile, blocks: u32) -> u64 {
        profile.device_time.ns.saturating_sub(self.sparse_ns.saturating_mul(blocks.into()))
    }

    /// With cells that only the first blocks have, as their mean over the fewest blocks.
    pub(super) fn with_alone(self, cells: usize, blocks_min: u32) -> Self {
        let all = cells as u64 * u64::from(ALONE_BLOCKS.min(blocks_min));
        Self { cells: self.cells + all.div_ceil(u64::from(blocks_min.max(1))), ..self }
    }

    pub(super) fn of(drafts: impl Iterator<Item = Draft>, layout: &Layout<'_>) -> Self {
        let none = Self { cells: 0, with_jitter: 0, sparse_ns: 0 };
        drafts.fold(none, |sum, draft| Self {
            cells: sum.cells + 1,
            with_jitter: sum.with_jitter + u64::from(draft.needs_open_loop(layout.jitter)),
            sparse_ns: sum.sparse_ns + layout.sparse_of(&draft).map_or(0, |one| one.length_ns),
        })
    }
}

/// How a plan fits its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    pub blocks: u32,
    pub durations: Durations,
    /// Whether every cell has an open loop, or only those that jitter is scored from.
    pub open_everywhere: bool,
}

/// One block of full cells without open loops.
pub(super) fn one_block(profile: &Profile) -> Fit {
    Fit { blocks: 1, durations: durations(&profile.cell).closed_only(), open_everywhere: false }
}

/// The part of `device_time` that plans of shortened cells leave to undecided rows.
const RESERVE: u64 = 10;

/// The plan of [`fit_within`] the device time. With a top-up, shortened cells leave a part of it,
/// unless that costs a block, an open loop or the p99.
pub(super) fn fit(profile: &Profile, per_block: PerBlock) -> Result<Fit, PlanError> {
    let whole = fit_within(profile, per_block)?;
    let full_ns = durations(&profile.cell).closed_ns;
    if !profile.decides || !profile.blocks.top_up || whole.durations.closed_ns == full_ns {
        return Ok(whole);
    }
    let mut less = profile.clone();
    less.device_time = Span::from_ns(profile.device_time.ns - profile.device_time.ns / RESERVE);
    let has_p99 = |fit: &Fit| fit.durations.open_ns >= open_ns_for_p99(profile);
    let less = fit_within(&less, per_block).ok();
    let costs_nothing = |less: &Fit| {
        (less.blocks, less.open_everywhere) == (whole.blocks, whole.open_everywhere)
            && (has_p99(less) || !has_p99(&whole))
    };
    Ok(less.filter(costs_nothing).unwrap_or(whole))
}

/// As many blocks of full cells as fit; else the fewest blocks of shorter cells, with
/// [`SPARE_BLOCKS`] where these do not cost the p99. Where open loops in every cell would be too
/// short for a p99, only the cells that give jitter have one.
fn fit_within(profile: &Profile, per_block: PerBlock) -> Result<Fit, PlanError> {
    let bounds = profile.blocks;
    let full = durations(&profile.cell);
    let block_ns = per_block.ns(&full, profile.open_loops).max(1);
    let fitting = u32::try_from(profile.device_time.ns / block_ns).unwrap_or(u32::MAX);
    if fitting >= bounds.max {
        return Ok(Fit {
            blocks: bounds.max,
            durations: full,
            open_everywhere: profile.open_loops == OpenLoops::All,
        });
    }
    let fewest = bounds.min.max(fitting);
    let fit = shortened(profile, per_block, fewest)?;
    let has_p99 = |fit: &Fit| fit.durations.open_ns >= open_ns_for_p99(profile);
    let max = bounds.max.min(bounds.min.saturating_add(SPARE_BLOCKS));
    let more = (fewest + 1..=max).rev();
    let spare = more
        .filter_map(|blocks| shortened(profile, per_block, blocks).ok())
        .find(|more| has_p99(more) || !has_p99(&fit));
    Ok(spare.unwrap_or(fit))
}

/// This number of blocks, of cells that are as long as the time allows and at most full.
fn shortened(profile: &Profile, per_block: PerBlock, blocks: u32) -> Result<Fit, PlanError> {
    let everywhere = |durations| Fit { blocks, durations, open_everywhere: true };
    if profile.open_loops == OpenLoops::Jitter {
        return shortened_with_few(profile, per_block, blocks);
    }
    let full = durations(&profile.cell);
    let cells = per_block.cells.saturating_mul(u64::from(blocks)).max(1);
    let shortest = durations(&profile.cell_min);
    let cell_ns = per_block.time_ns(profile, blocks) / cells;
    if cell_ns >= full.cell_ns() {
        return Ok(everywhere(full));
    }
    if cell_ns < shortest.cell_ns() {
        let sparse_ns = per_block.sparse_ns.saturating_mul(blocks.into());
        let needed_ns = cells.saturating_mul(shortest.cell_ns()).saturating_add(sparse_ns);
        let (needed, device_time) = (Span::from_ns(needed_ns), profile.device_time);
        return Err(PlanError::TooLittleTime { device_time, cells, needed });
    }
    let durations = shrink(&full, &enough_arrivals(profile, shortest, cell_ns), cell_ns);
    // A promised latency is evaluated in the open loop of every cell.
    if profile.slo.ns == 0
        && durations.open_ns < open_ns_for_p99(profile)
        && let Some(durations) = few_open_loops(profile, &full, shortest, per_block, blocks)
    {
        return Ok(Fit { blocks, durations, open_everywhere: false });
    }
    Ok(everywhere(durations))
}

/// The same for a profile in which only cells that give jitter have an open loop. Every part
/// shrinks by the same fraction, the open loop at most to the length that a p99 needs where that
/// fits.
fn shortened_with_few(
    profile: &Profile,
    per_block: PerBlock,
    blocks: u32,
) -> Result<Fit, PlanError> {
    let (full, shortest) = (durations(&profile.cell), durations(&profile.cell_min));
    let block_ns = profile.device_time.ns / u64::from(blocks).max(1);
    let length = |durations: &Durations| per_block.ns(durations, OpenLoops::Jitter);
    let with_p99 = Durations {
        open_ns: open_ns_for_p99(profile).clamp(shortest.open_ns, full.open_ns),
        ..shortest
    };
    let mut bases = [with_p99, shortest].into_iter();
    let Some(base) = bases.find(|base| length(base) <= block_ns) else {
        let needed_ns = u64::from(blocks).saturating_mul(length(&shortest));
        return Err(PlanError::TooLittleTime {
            device_time: profile.device_time,
            cells: per_block.cells.saturating_mul(u64::from(blocks)),
            needed: Span::from_ns(needed_ns),
        });
    };
    let missing_ns = length(&full).saturating_sub(length(&base));
    let spare_ns = (block_ns - length(&base)).min(missing_ns);
    Ok(Fit { blocks, durations: grow(&full, &base, spare_ns, missing_ns), open_everywhere: false })
}

/// Durations where only cells that give jitter have an open loop, long enough for a p99; `None`
/// where even these do not fit. The other parts share the rest of the time.
fn few_open_loops(
    profile: &Profile,
    full: &Durations,
    shortest: Durations,
    per_block: PerBlock,
    blocks: u32,
) -> Option<Durations> {
    let wanted_ns = open_ns_for_p99(profile).next_multiple_of(STEP_NS);
    let open_ns = wanted_ns.max(shortest.open_ns);
    if per_block.with_jitter == 0 || open_ns > full.open_ns {
        return None;
    }
    let block_ns = per_block.time_ns(profile, blocks) / u64::from(blocks).max(1);
    let opening_ns = per_block.with_jitter.checked_mul(full.gap_ns + open_ns)?;
    let cell_ns = block_ns.checked_sub(opening_ns)? / per_block.cells.max(1);
    let (full, shortest) = (full.closed_only(), shortest.closed_only());
    if cell_ns < shortest.cell_ns() {
        return None;
    }
    let closed = shrink(&full, &shortest, cell_ns.min(full.cell_ns()));
    Some(Durations { open_ns, gap_ns: profile.cell.gap.ns, ..closed })
}

/// Length of an open loop that holds the arrivals that a p99 needs, with the margin of
/// [`ARRIVALS_MARGIN_SD`].
pub(super) fn open_ns_for_p99(profile: &Profile) -> u64 {
    let wanted = f64::from(profile.thresholds.tail_requests_min);
    // Solves mean - margin * sqrt(mean) = wanted.
    let root = (ARRIVALS_MARGIN_SD + (ARRIVALS_MARGIN_SD.powi(2) + 4.0 * wanted).sqrt()) / 2.0;
    let open_s = root * root / profile.nominal_rate_per_s();
    // Saturates for a rate close to 0, where no open loop is long enough.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as above")]
    let open_ns = (open_s * 1e9).ceil() as u64;
    open_ns
}

/// The shortest cell with an open loop that is long enough for a p99. Where time or profile do not
/// allow that, the shortest cell, so that every part shrinks alike.
fn enough_arrivals(profile: &Profile, shortest: Durations, cell_ns: u64) -> Durations {
    let open_ns = open_ns_for_p99(profile).max(shortest.open_ns);
    let base = Durations { open_ns, ..shortest };
    if open_ns <= profile.cell.open.ns && base.cell_ns() <= cell_ns { base } else { shortest }
}

/// Grows `base` towards `full` by the same fraction in every part, as far as `cell_ns` allows.
fn shrink(full: &Durations, base: &Durations, cell_ns: u64) -> Durations {
    let missing_ns = full.cell_ns() - base.cell_ns();
    grow(full, base, cell_ns - base.cell_ns(), missing_ns)
}

/// Grows every part of `base` towards `full` by the fraction `spare / missing`.
fn grow(full: &Durations, base: &Durations, spare_ns: u64, missing_ns: u64) -> Durations {
    let (spare, missing) = (u128::from(spare_ns), u128::from(missing_ns).max(1));
    let part = |full_ns: u64, base_ns: u64| {
        let grown = u128::from(full_ns - base_ns) * spare / missing;
        // At most `full_ns`: the cell does not fit at full length.
        let grown_ns = u64::try_from(grown).unwrap_or(0);
        base_ns + grown_ns / STEP_NS * STEP_NS
    };
    Durations {
        warmup_ns: part(full.warmup_ns, base.warmup_ns),
        closed_ns: part(full.closed_ns, base.closed_ns),
        open_ns: part(full.open_ns, base.open_ns),
        gap_ns: part(full.gap_ns, base.gap_ns),
        sparse_ns: 0,
    }
}

fn durations(parts: &CellParts) -> Durations {
    Durations {
        warmup_ns: parts.warmup.ns,
        closed_ns: parts.closed.ns,
        open_ns: parts.open.ns,
        gap_ns: parts.gap.ns,
        sparse_ns: 0,
    }
}

// Closed loops against the periods of mechanisms that let a tenant run and then wait.
//
// A window that is no multiple of such a period, and always begins in the same part of it,
// measures a rate that no other window has. Closed loops therefore last whole periods, and each
// cell begins at a random instant of a period, equal for equal seeds.

/// The same durations with a closed loop of whole periods of the runnable mechanism with the
/// longest. It is unchanged where that would be shorter than `closed_min_ns`.
pub(super) fn whole_periods(
    durations: Durations,
    runnable: &[&Capability],
    closed_min_ns: u64,
) -> Durations {
    let periods = runnable.iter().map(|one| one.properties.period_ns);
    rounded(durations, periods.max().unwrap_or(0), closed_min_ns)
}

fn rounded(durations: Durations, period_ns: u64, closed_min_ns: u64) -> Durations {
    let closed_ns = match durations.closed_ns.checked_rem(period_ns) {
        Some(rest_ns) => durations.closed_ns - rest_ns,
        None => durations.closed_ns,
    };
    if closed_ns == 0 || closed_ns < closed_min_ns {
        return durations;
    }
    Durations { closed_ns, ..durations }
}

/// The longest period of a planned mechanism; 0 where none has one.
pub(super) fn longest_period_ns(plan: &Plan) -> u64 {
    let periods = plan.mechanisms.iter().map(|one| one.properties.period_ns);
    periods.max().unwrap_or(0)
}

/// Time by which the start of a cell is delayed: a random part of its mechanism's period.
pub fn phase_ns(plan: &Plan, cell: &Cell) -> u64 {
    let mut mechanisms = plan.mechanisms.iter();
    let own = mechanisms.find(|one| one.variant == cell.variant);
    let period_ns = own.map_or(0, |one| one.properties.period_ns);
    let drawn = derive(plan.seed, &format!("phase {}", cell.id), cell.block);
    drawn.checked_rem(period_ns).unwrap_or(0)
}

/// One line for each limit; none for a plan that can decide every axis it measures.
pub fn notes(plan: &Plan, profile: &Profile) -> Vec<String> {
    let profile = &profile.of_run();
    let mut notes = Vec::new();
    if plan.cells.iter().all(|cell| cell.closed_only) && plan.blocks == 1 {
        notes.push("the cells only prove that each mechanism is in force".to_owned());
        return notes;
    }
    if !plan.decides {
        notes
            .push(format!("profile {} decides nothing: its runs show that it works", plan.profile));
    }
    let open_ns_wanted = open_ns_for_p99(profile);
    if plan.durations.open_ns < open_ns_wanted {
        notes.push(short_open_loops(plan, profile, open_ns_wanted));
    }
    let period_ns = longest_period_ns(plan);
    if plan.durations.closed_ns.checked_rem(period_ns).unwrap_or(0) > 0 {
        notes.push(format!(
            "closed loops of {} are no whole periods of a limiter, which has {}: each cell starts \
             at a random instant of a period, and blocks differ by that",
            Span::from_ns(plan.durations.closed_ns),
            Span::from_ns(period_ns)
        ));
    }
    notes
}

#[expect(clippy::cast_precision_loss, reason = "durations and counts are far below 2^53")]
fn short_open_loops(plan: &Plan, profile: &Profile, open_ns_wanted: u64) -> String {
    let requests = plan.durations.open_ns as f64 / 1e9 * profile.nominal_rate_per_s();
    let wanted = plan.thresholds.tail_requests_min;
    let others_ns = plan.durations.cell_ns() - plan.durations.open_ns;
    let needed_ns = (others_ns + open_ns_wanted).saturating_mul(plan.cells.len() as u64);
    let needed = Span::from_ns(needed_ns.div_ceil(1_000_000_000).saturating_mul(1_000_000_000));
    format!(
        "open loops hold about {requests:.0} requests a block and a p99 needs {wanted}: jitter \
         will be inconclusive (cell.open = \"{}\" with device_time = \"{needed}\" is enough)",
        Span::from_ns(open_ns_wanted.div_ceil(10_000_000).saturating_mul(10_000_000)),
    )
}

#[cfg(test)]
mod tests {
    use gpubench_record::{Cell, Durations, Plan};

    use super::{phase_ns, rounded};
    use crate::plan;
    use crate::tests::{TestResult, host, of_name};

    const PERIOD_NS: u64 = 120_000_000;
    /// Every cell of the plan, under so many seeds.
    const SEEDS: u64 = 50;

    /// A plan of the default profile with one mechanism under test, which has a period.
    fn limited() -> Result<Plan, Box<dyn std::error::Error>> {
        let mut host = host(&[0]);
        for capability in &mut host.mechanisms[1..] {
            capability.properties.period_ns = PERIOD_NS;
        }
        Ok(plan(&of_name("default")?, &host, "ptx")?)
    }

    /// The plan under each seed, with the phase of each cell of its limiter.
    fn phases(mut plan: Plan) -> Vec<u64> {
        let mut phases = Vec::new();
        for seed in 1..=SEEDS {
            plan.seed = seed;
            let limited = plan.cells.iter().filter(|cell| cell.variant == "m1");
            phases.extend(limited.map(|cell| phase_ns(&plan, cell)));
        }
        phases
    }

    #[test]
    fn phases_are_even_over_the_period_and_follow_from_the_seed() -> TestResult {
        const PARTS: u64 = 10;
        let plan = limited()?;
        let found = phases(plan.clone());
        assert_eq!(found, phases(plan.clone()));
        let mut counts = [0_u32; PARTS as usize];
        for phase in &found {
            counts[usize::try_from(phase * PARTS / PERIOD_NS)?] += 1;
        }
        let expected = found.len() as f64 / PARTS as f64;
        for count in counts {
            let off = (f64::from(count) - expected).abs();
            assert!(off < 4.0 * expected.sqrt(), "{counts:?}, not {expected}");
        }
        // Cells of one block and equal cells of other blocks differ, and another seed moves all.
        let of = |plan: &Plan, cell: &Cell| phase_ns(plan, cell);
        let cells: Vec<&Cell> = plan.cells.iter().filter(|one| one.variant == "m1").collect();
        let mut one: Vec<u64> = cells.iter().map(|cell| of(&plan, cell)).collect();
        let mut other = plan.clone();
        other.seed += 1;
        assert!(cells.iter().zip(&one).all(|(cell, phase)| of(&other, cell) != *phase));
        one.sort_unstable();
        one.dedup();
        assert_eq!(one.len(), cells.len());
        let mut native = plan.cells.iter().filter(|cell| cell.variant == "exclusive");
        assert!(native.all(|cell| phase_ns(&plan, cell) == 0), "it has no period");
        Ok(())
    }

    /// The share of a window from `start_ns` in which a limiter passes launches, that is open for
    /// the first `open_ns` of each period.
    fn seen(start_ns: u64, window_ns: u64, open_ns: u64) -> f64 {
        let open_until = |ns: u64| ns / PERIOD_NS * open_ns + (ns % PERIOD_NS).min(open_ns);
        let open = open_until(start_ns + window_ns) - open_until(start_ns);
        open as f64 / window_ns as f64
    }

    #[test]
    fn windows_measure_the_duty_of_a_limiter_without_bias() -> TestResult {
        const MS: u64 = 1_000_000;
        let plan = limited()?;
        let planned_ns = plan.durations.closed_ns;
        assert!(planned_ns >= PERIOD_NS);
        let phases = phases(plan);
        for percent in [10, 50, 90] {
            let (duty, open_ns) = (percent as f64 / 100.0, PERIOD_NS / 100 * percent);
            let of = |window_ns: u64| phases.iter().map(move |at| seen(*at, window_ns, open_ns));
            // Whole periods: every window sees it.
            assert!(of(planned_ns).all(|share| (share - duty).abs() < 1e-12));
            // A window that is too short for that sees it on average, and from phase 0 never.
            let short_ns = 200 * MS;
            let count = phases.len() as f64;
            let mean = of(short_ns).sum::<f64>() / count;
            let squares: f64 = of(short_ns).map(|share| (share - mean).powi(2)).sum();
            let error = (squares / count / count).sqrt();
            assert!((mean - duty).abs() < 4.0 * error, "{mean} +- {error}, not {duty}");
            assert!((seen(0, short_ns, open_ns) - duty).abs() > 10.0 * error);
        }
        Ok(())
    }

    #[test]
    fn closed_loops_last_whole_periods_where_they_are_long_enough() {
        const MS: u64 = 1_000_000;
        for (closed_ms, period_ms, min_ms, expected_ms) in [
            (850, 120, 120, 840),
            (840, 120, 120, 840),
            (200, 120, 120, 120),
            (200, 120, 125, 200),
            (25, 120, 25, 25),
            (850, 0, 125, 850),
        ] {
            let full = Durations {
                warmup_ns: 1,
                closed_ns: closed_ms * MS,
                gap_ns: 2,
                open_ns: 3,
                sparse_ns: 0,
            };
            let found = rounded(full, period_ms * MS, min_ms * MS);
            let expected = Durations { closed_ns: expected_ms * MS, ..full };
            assert_eq!(found, expected);
        }
    }
}

//! Properties of every plan, over random profiles and hosts.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{Cell, Condition, Plan, TimePart};
use gpubench_stats::ratio::LogRatio;
use gpubench_stats::{Confidence, ScheduleRng};
use proptest::prelude::*;

use super::{TestResult, host, is_alone, of_name};
use crate::block::{Group, in_order, selected};
use crate::draft::Layout;
use crate::facts::{Capabilities, VariantRef};
use crate::profile::units::Span;
use crate::profile::{Overrides, Profile, parse};
use crate::{PlanError, layout, plan, time_of};

/// What a cell measures, without its position in the order.
fn identity(cell: &Cell) -> (String, String, String, Condition, String) {
    let dose = format!("{:?} {}", cell.aggressor, cell.dose);
    (cell.group.clone(), cell.variant.clone(), cell.victim.clone(), cell.condition, dose)
}

/// The cells of each block of each group, in run order.
fn blocks(plan: &Plan) -> BTreeMap<(String, u32), Vec<&Cell>> {
    let mut blocks: BTreeMap<_, Vec<&Cell>> = BTreeMap::new();
    for cell in &plan.cells {
        blocks.entry((cell.group.clone(), cell.block)).or_default().push(cell);
    }
    blocks
}

fn ids(plan: &Plan) -> Vec<String> {
    plan.cells.iter().map(|cell| cell.id.clone()).collect()
}

prop_compose! {
    fn any_host()(groups in prop::collection::vec(0_usize..4, 0..6)) -> Capabilities {
        host(&groups)
    }
}

prop_compose! {
    fn any_profile()(
        seed in any::<u64>(),
        min in 8_u32..14,
        more in 0_u32..8,
        doses in prop::sample::select(vec!["[1.0]", "[0.5, 1.0]", "[0.25, 0.5, 0.75, 1.0]"]),
        tenants in 2_u32..6,
        device_time_s in 60_u64..4_000,
        axes in prop::sample::select(vec![
            "\"all\"", "[\"jitter\"]", "[\"bandwidth\"]", "[\"bandwidth/l2\", \"compute\"]",
        ]),
    ) -> Profile {
        let max = min + more;
        let text = format!(
            "version = 1\ntenants = {tenants}\ndoses = {doses}\naxes = {axes}\n\
             device_time = \"{device_time_s}s\"\nblocks = {{ min = {min}, max = {max} }}\n"
        );
        let overrides = Overrides { seed: Some(seed), ..Overrides::default() };
        parse("random.toml", &text, &overrides).expect("a profile within bounds")
    }
}

proptest! {
    #[test]
    fn every_plan_has_its_invariants(profile in any_profile(), host in any_host()) {
        let made = match plan(&profile, &host, "ptx") {
            Ok(made) => made,
            Err(PlanError::TooLittleTime { needed, .. }) => {
                // The time that the message names is sufficient.
                let enough = Profile { device_time: needed, ..profile };
                prop_assert!(plan(&enough, &host, "ptx").is_ok());
                return Ok(());
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        };
        prop_assert!(made.device_time_ns() <= profile.device_time.ns);
        prop_assert!((profile.blocks.min..=profile.blocks.max).contains(&made.blocks));
        // The time of the run: that of the cells, and contexts as often as the mechanism changes.
        let time = time_of(&made);
        let of = |part| time.iter().find(|one| one.part == part).map_or(0, |one| one.ns);
        prop_assert_eq!(of(TimePart::Windows) + of(TimePart::WarmUp), made.device_time_ns());
        let opened = made.cells.chunk_by(|a, b| a.variant == b.variant).count() as u64;
        prop_assert_eq!(of(TimePart::Contexts), opened * 105_000_000);
        prop_assert!(time.iter().all(|one| one.guessed == (one.part == TimePart::Buffers
            || one.part == TimePart::Tenants || one.part == TimePart::Proofs
            || one.part == TimePart::Calibration)));
        let parts = made.durations;
        for (part, full, shortest) in [
            (parts.warmup_ns, profile.cell.warmup, profile.cell_min.warmup),
            (parts.closed_ns, profile.cell.closed, profile.cell_min.closed),
            (parts.gap_ns, profile.cell.gap, profile.cell_min.gap),
            (parts.open_ns, profile.cell.open, profile.cell_min.open),
        ] {
            prop_assert!((shortest.ns..=full.ns).contains(&part));
        }

        // Every block holds every cell of its group once, in the reverse order of its pair; the
        // first four also have the aggressors alone.
        let blocks = blocks(&made);
        for ((group, block), cells) in &blocks {
            let set: BTreeSet<_> = cells.iter().map(|cell| identity(cell)).collect();
            prop_assert_eq!(set.len(), cells.len());
            let first = blocks[&(group.clone(), 0)].iter();
            let first = first.filter(|cell| *block < 4 || !is_alone(&made, cell));
            let first: BTreeSet<_> = first.map(|cell| identity(cell)).collect();
            prop_assert_eq!(set, first);
            if block % 2 == 1 {
                let mut reversed: Vec<_> = cells.iter().map(|cell| identity(cell)).collect();
                reversed.reverse();
                let before = &blocks[&(group.clone(), block - 1)];
                prop_assert!(reversed.into_iter().eq(before.iter().map(|cell| identity(cell))));
            }
            let seeds: BTreeSet<u64> = cells.iter().map(|cell| cell.schedule_seed).collect();
            prop_assert_eq!(seeds.len(), 1);
            // The cells of a mechanism stand side by side, and in it those of a victim.
            let variants = cells.chunk_by(|a, b| a.variant == b.variant);
            let names: BTreeSet<&str> = cells.iter().map(|cell| cell.variant.as_str()).collect();
            prop_assert_eq!(variants.count(), names.len());
            let of = |cell: &Cell| (cell.variant.clone(), cell.victim.clone());
            let victims = cells.chunk_by(|a, b| of(a) == of(b));
            let names: BTreeSet<_> = cells.iter().map(|cell| of(cell)).collect();
            prop_assert_eq!(victims.count(), names.len());
            // No cell of another block or group runs between the cells of a block.
            let at = made.cells.iter().position(|cell| cell.id == cells[0].id).unwrap_or(0);
            let piece = &made.cells[at..at + cells.len()];
            prop_assert!(piece.iter().all(|cell| cell.block == *block && cell.group == *group));
        }
        let schedules: BTreeSet<u64> = made.cells.iter().map(|cell| cell.schedule_seed).collect();
        prop_assert_eq!(schedules.len(), made.blocks as usize);

        // Ids are unique, sort in run order, and need no quoting as file names.
        let ids = ids(&made);
        prop_assert!(ids.is_sorted() && ids.iter().collect::<BTreeSet<_>>().len() == ids.len());
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        prop_assert!(ids.iter().all(|id| id.len() < 100 && id.chars().all(plain)));
    }

    #[test]
    fn the_seed_decides_the_order(profile in any_profile(), host in any_host()) {
        let profile = Profile { device_time: Span::from_s(100_000), ..profile };
        let made = plan(&profile, &host, "ptx").map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(&plan(&profile, &host, "ptx").ok(), &Some(made.clone()));
        let other = Profile { seed: profile.seed ^ 1, ..profile };
        let other = plan(&other, &host, "ptx").map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_ne!(made.cells[0].schedule_seed, other.cells[0].schedule_seed);
        // Two seeds can give the smallest plan the same order by chance (about 1 in 16), so only
        // plans with more cells are checked.
        if made.cells.len() > 100 {
            prop_assert_ne!(ids(&made), ids(&other));
        }
    }
}

#[test]
fn pairs_of_blocks_are_shuffled_independently_and_groups_alternate() -> TestResult {
    let plan = plan(&of_name("default")?, &host(&[0, 1, 1]), "ptx")?;
    let orders: BTreeSet<Vec<_>> = blocks(&plan)
        .into_iter()
        .filter(|((group, _), _)| group == "g1")
        .map(|(_, cells)| cells.into_iter().map(identity).collect())
        .collect();
    assert_eq!(orders.len(), 10, "five shuffles, each forwards and backwards");
    let mut visits: Vec<&str> = plan.cells.iter().map(|cell| cell.group.as_str()).collect();
    visits.dedup();
    assert_eq!(visits, ["g0", "g1", "g0", "g1", "g0", "g1"]);
    Ok(())
}

#[test]
fn each_switch_of_the_host_runs_the_native_and_the_unprotected_cells_again() -> TestResult {
    let mut host = host(&[0, 1, 2]);
    for member in &mut host.mechanisms {
        let name = &member.variant.mechanism;
        if name != "exclusive" {
            member.unprotected = Some(VariantRef::new("open", "open"));
        }
        // The whole device does not exist in its state.
        member.needs_native = name != "m3";
    }
    let plan = plan(&of_name("default")?, &host, "ptx")?;
    let visits = plan.cells.chunk_by(|a, b| a.group == b.group);
    let mut count = 0;
    for visit in visits {
        let group = &visit[0].group;
        let blocks: BTreeSet<u32> = visit.iter().map(|cell| cell.block).collect();
        let of_victims = visit.iter().filter(|cell| !is_alone(&plan, cell));
        for victim in of_victims.map(|cell| &cell.victim).collect::<BTreeSet<_>>() {
            for (condition, runs) in [(Condition::N, group != "g2"), (Condition::U, true)] {
                let cells = visit.iter();
                let own =
                    cells.filter(|cell| cell.victim == *victim && cell.condition == condition);
                let of: BTreeSet<u32> = own.map(|cell| cell.block).collect();
                assert_eq!(of == blocks, runs, "{group} {victim} {condition:?}");
            }
        }
        count += 1;
    }
    // Five pairs of blocks; the last group of a pair is the first of the next.
    assert_eq!(count, 3 + 4 * 2);
    Ok(())
}

// What a drift of the device does to a retention, with neighbours side by side and, as before,
// with every cell of a block anywhere in it.

/// So many of a simulated campaign; all of them in `bash ci/long.sh statistics`.
fn replicates(whole: u64, quick: u64) -> u64 {
    if std::env::var_os("GPUBENCH_WHOLE").is_some() { whole } else { quick }
}

/// Set-up of a cell, and spread of the rate of one.
const SET_UP_S: f64 = 0.1;
const CELL_SD: f64 = 0.002;

/// The logarithm of the speed of the device at an instant of a session.
#[derive(Debug, Clone, Copy)]
enum Drift {
    /// 0.5 % a minute.
    Line,
    /// A step of 0.5 % up or down every two minutes or so, at random.
    Steps,
    /// 0.3 % up and down, with a period within a fifth of the length of a pair of cells. (With
    /// exactly that length the reversed block cancels it: the interval holds the truth in 0.99.)
    Wave,
}

impl Drift {
    fn at(self, t_s: f64, pair_s: f64, seed: u64) -> f64 {
        let mut rng = ScheduleRng::new(seed);
        match self {
            Self::Line => 0.005 * t_s / 60.0,
            Self::Steps => {
                let mut level = 0.0;
                let mut next_s = 120.0 * rng.exponential();
                while next_s < t_s {
                    level += if rng.uniform() < 0.5 { -0.005 } else { 0.005 };
                    next_s += 120.0 * rng.exponential();
                }
                level
            }
            Self::Wave => {
                let (phase, period_s) = (rng.uniform(), pair_s * (0.8 + 0.4 * rng.uniform()));
                0.003 * (std::f64::consts::TAU * (t_s / period_s + phase)).sin()
            }
        }
    }
}

/// As before: the cells of each pair of blocks of a group in random order.
fn anywhere(cells: &mut [Cell], seed: u64) {
    for (number, block) in cells.chunk_by_mut(|a, b| a.block == b.block).enumerate() {
        let identity = |cell: &Cell| (cell.variant.clone(), cell.victim.clone(), cell.condition);
        block.sort_by_key(identity);
        ScheduleRng::new(seed * 31 + number as u64 / 2).shuffle(block);
        if number % 2 == 1 {
            block.reverse();
        }
    }
}

/// Of all rows of all sessions: the share whose interval of C over S holds the truth, the share
/// whose interval of S' over S does not, and the mean half-width of the former.
fn coverage(drift: Drift, before: bool) -> Result<[f64; 3], Box<dyn std::error::Error>> {
    let profile = Profile { decides: false, ..of_name("default")? };
    let host = host(&[0, 0, 0]);
    let plan = plan(&profile, &host, "ptx")?;
    let groups = Group::sort(&host.mechanisms.iter().collect::<Vec<_>>());
    let (pairs, turns) = (selected(&profile).ok_or("no pair")?, BTreeSet::new());
    let (mut inside, mut alarms, mut width, mut rows) = (0_u32, 0_u32, 0.0, 0_u32);
    for seed in 0..replicates(1000, 300) {
        let layout = layout(&profile, &pairs, &[], &turns);
        let mut cells = in_order(&groups, &Layout { seed, blocks: plan.blocks, ..layout });
        if before {
            anywhere(&mut cells, seed);
        }
        let mut rng = ScheduleRng::new(!seed);
        let mut normal = || (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
        let pair_s = 2.0 * (plan.durations.cell_ns() as f64 / 1e9 + SET_UP_S);
        let (mut t_s, mut rates) = (0.0, BTreeMap::<_, Vec<f64>>::new());
        for cell in &cells {
            let length_s = plan.durations_of(cell).cell_ns() as f64 / 1e9 + SET_UP_S;
            let log = drift.at(t_s + length_s / 2.0, pair_s, seed) + CELL_SD * normal();
            let key = (cell.variant.as_str(), cell.victim.as_str(), cell.condition);
            rates.entry(key).or_default().push(log.exp());
            t_s += length_s;
        }
        for ((variant, victim, condition), solo) in &rates {
            if *condition != Condition::S {
                continue;
            }
            let of = |condition| {
                let other: &Vec<f64> = &rates[&(*variant, *victim, condition)];
                LogRatio::paired(other, solo)?.interval(Confidence::P95)
            };
            let (beside, again) = (of(Condition::C)?, of(Condition::SAgain)?);
            inside += u32::from(beside.contains(1.0));
            alarms += u32::from(!again.contains(1.0));
            width += (beside.hi - beside.lo) / 2.0;
            rows += 1;
        }
    }
    let rows = f64::from(rows);
    Ok([f64::from(inside) / rows, f64::from(alarms) / rows, width / rows])
}

#[test]
#[expect(clippy::print_stdout, reason = "the table is the result of the test")]
fn neighbours_in_time_cancel_a_drift_of_the_device() -> TestResult {
    for drift in [Drift::Line, Drift::Steps, Drift::Wave] {
        let ([before, alarms_before, wide], [inside, alarms, width]) =
            (coverage(drift, true)?, coverage(drift, false)?);
        println!(
            "{drift:?}: coverage {before:.3} -> {inside:.3}, A/A alarms {alarms_before:.3} -> \
             {alarms:.3}, half-width {wide:.5} -> {width:.5}"
        );
        assert!((0.93..=0.97).contains(&inside), "{drift:?}: {inside}");
        assert!((0.03..=0.07).contains(&alarms), "{drift:?}: {alarms}");
        let narrower = if matches!(drift, Drift::Wave) { 1.2 } else { 0.8 };
        assert!(width < narrower * wide, "{drift:?}: {width}, before {wide}");
    }
    Ok(())
}

//! Plans of profiles and hosts that the tests construct.

mod archetypes;
mod properties;

use std::collections::BTreeSet;

use gpubench_record::{Cell, Condition, MechanismProperties, Plan, Role};

use super::facts::{Availability, Capabilities, Capability, VariantRef};
use super::{PlanError, plan};
use crate::notes;
use crate::profile::units::Span;
use crate::profile::{Blocks, Overrides, Profile, Wanted, built_in};

pub(super) type TestResult = Result<(), Box<dyn std::error::Error>>;

pub(super) fn of_name(name: &str) -> Result<Profile, String> {
    built_in(name, &Overrides::default()).map_err(|error| error.to_string())
}

fn capability(mechanism: &str, group: &str) -> Capability {
    Capability {
        variant: VariantRef::new(mechanism, mechanism),
        group: group.to_owned(),
        availability: Availability::Available,
        host_changes: Vec::new(),
        needs_native: true,
        separate: false,
        properties: MechanismProperties::of_format_1_0(mechanism),
        unprotected: None,
    }
}

/// `exclusive`, then mechanisms under test `m1`, `m2`... in these groups.
pub(super) fn host(groups: &[usize]) -> Capabilities {
    let under_test = groups
        .iter()
        .enumerate()
        .map(|(number, group)| capability(&format!("m{}", number + 1), &format!("g{group}")));
    Capabilities {
        mechanisms: std::iter::once(capability("exclusive", "g0")).chain(under_test).collect(),
        required_proofs: std::collections::BTreeMap::new(),
    }
}

/// Whether an aggressor stands in the place of the victim.
fn is_alone(plan: &Plan, cell: &Cell) -> bool {
    plan.pairs.iter().all(|pair| pair.victim != cell.victim)
}

#[test]
fn the_cells_of_exclusive_and_one_mechanism() -> TestResult {
    let profile = Profile { axes: Wanted::Names(vec!["jitter".to_owned()]), ..of_name("default")? };
    let plan = plan(&profile, &host(&[0]), "ptx")?;
    assert_eq!(plan.blocks, 10);
    // With two tenants, one victim is offered a quarter of its native rate.
    assert_eq!((plan.load, plan.service_ns), (0.25, 1_000_000));
    let first: BTreeSet<_> = plan
        .cells
        .iter()
        .filter(|cell| cell.block == 0)
        .map(|cell| (cell.mechanism.as_str(), cell.condition.as_str(), cell.tenants.len()))
        .collect();
    let expected = [
        ("exclusive", "N", 1),
        ("exclusive", "N'", 1),
        ("m1", "C", 2),
        ("m1", "S", 2),
        ("m1", "S'", 2),
    ];
    assert_eq!(first.into_iter().collect::<Vec<_>>(), expected);
    // Ten blocks of five, and the aggressor alone in the first four.
    assert_eq!(plan.cells.len(), 50 + 4);
    let contended = plan.cells.iter().find(|cell| cell.condition == Condition::C);
    let contended = contended.ok_or("no contended cell")?;
    assert!(contended.id.ends_with("-m1-compute-C-fma-hog"), "{}", contended.id);
    let roles: Vec<Role> = contended.tenants.iter().map(|tenant| tenant.role).collect();
    assert_eq!(roles, [Role::Victim, Role::Aggressor]);
    Ok(())
}

#[test]
fn aggressors_of_one_victim_share_its_cells_without_an_aggressor() -> TestResult {
    let names = |names: &[&str]| Wanted::Names(names.iter().map(|&n| n.to_owned()).collect());
    let profile = Profile {
        axes: names(&["bandwidth/dram", "compute/launch"]),
        victims: names(&["stream", "inference"]),
        aggressors: names(&["dram-copy", "dram-read"]),
        ..of_name("default")?
    };
    let plan = plan(&profile, &host(&[0]), "ptx")?;
    let mut first: Vec<String> = plan
        .cells
        .iter()
        .filter(|cell| cell.block == 0)
        .map(|cell| {
            let beside = cell.aggressor.as_deref().unwrap_or("-");
            format!("{} {} {beside}", cell.victim, cell.condition.as_str())
        })
        .collect();
    first.sort();
    let expected = [
        "dram-copy S -",
        "dram-read S -",
        "inference C dram-copy",
        "inference N -",
        "inference N' -",
        "inference S -",
        "inference S' -",
        // The profile names this sub-axis, so it has its first pair in any case.
        "launch C launch-flood",
        "launch N -",
        "launch N' -",
        "launch S -",
        "launch S' -",
        "launch-flood S -",
        "stream C dram-copy",
        "stream C dram-read",
        "stream N -",
        "stream N' -",
        "stream S -",
        "stream S' -",
    ];
    assert_eq!(first, expected);
    Ok(())
}

#[test]
fn four_tenants_are_a_victim_and_three_neighbours_of_one_kind() -> TestResult {
    let profile = Profile { tenants: 4, ..of_name("smoke")? };
    for cell in plan(&profile, &host(&[0]), "ptx")?.cells {
        let neighbours: BTreeSet<Role> = cell.tenants[1..].iter().map(|t| t.role).collect();
        let expected = match cell.condition {
            Condition::N | Condition::NAgain => BTreeSet::new(),
            Condition::S | Condition::SAgain => BTreeSet::from([Role::Idle]),
            Condition::C | Condition::U => BTreeSet::from([Role::Aggressor]),
        };
        assert_eq!(neighbours, expected, "{}", cell.id);
        assert_eq!(cell.tenants.len(), if cell.condition.is_native() { 1 } else { 4 });
    }
    Ok(())
}

#[test]
fn an_unprotected_form_has_u_cells_only_where_it_is_not_under_test() -> TestResult {
    let slicing = VariantRef::new("m1", "m1");
    let unlimited = VariantRef::new("mps", "mps");
    let mut host = host(&[0, 0, 1]);
    host.mechanisms[1].unprotected = Some(slicing.clone());
    host.mechanisms[2].unprotected = Some(slicing);
    host.mechanisms[3].unprotected = Some(unlimited);
    let plan = plan(&of_name("smoke")?, &host, "ptx")?;
    let forms: BTreeSet<(&str, &str)> = plan
        .cells
        .iter()
        .filter(|cell| cell.condition == Condition::U)
        .map(|cell| (cell.group.as_str(), cell.variant.as_str()))
        .collect();
    assert_eq!(forms, BTreeSet::from([("g1", "mps")]));
    Ok(())
}

#[test]
fn a_group_without_native_cells_still_runs() -> TestResult {
    let mut host = host(&[1]);
    host.mechanisms[1].needs_native = false;
    let plan = plan(&of_name("smoke")?, &host, "ptx")?;
    let native = |group: &str| {
        plan.cells.iter().any(|cell| cell.group == group && cell.condition == Condition::N)
    };
    assert!(native("g0") && !native("g1"));
    assert!(plan.cells.iter().any(|cell| cell.group == "g1"));
    Ok(())
}

#[test]
fn a_plan_without_cells_is_refused_with_every_reason() -> TestResult {
    let mut host = host(&[]);
    let reason = "another process holds the GPU".to_owned();
    host.mechanisms[0].availability = Availability::Waived { reason, remedy: None };
    let names = vec!["exclusive".to_owned(), "time-slicing".to_owned()];
    let profile = Profile { mechanisms: Wanted::Names(names), ..of_name("smoke")? };
    let reasons = vec![
        "exclusive: another process holds the GPU".to_owned(),
        "time-slicing: its availability on this host is unknown".to_owned(),
    ];
    assert_eq!(plan(&profile, &host, "ptx"), Err(PlanError::NothingToRun { reasons }));
    Ok(())
}

#[test]
fn too_little_time_names_the_smallest_sufficient_time() -> TestResult {
    let short = Profile { device_time: Span::from_s(10), ..of_name("default")? };
    let Err(PlanError::TooLittleTime { needed, cells, .. }) = plan(&short, &host(&[0]), "ptx")
    else {
        return Err("a plan of 176 cells fitted into 10 s".into());
    };
    assert_eq!((cells, needed), (176, Span::from_ms(176 * 345)));
    let enough = plan(&Profile { device_time: needed, ..short.clone() }, &host(&[0]), "ptx")?;
    assert!(enough.device_time_ns() <= needed.ns);
    assert!(enough.cells.iter().all(|cell| cell.sparse.is_none()), "they are the first to go");
    let skip = enough.skips.iter().find(|skip| skip.name == "jitter").ok_or("it is not said")?;
    assert!(skip.reason.contains("no jitter beside fma-hog, dram-copy"), "{}", skip.reason);
    let remedy = skip.remedy.as_deref().and_then(|text| text.split('"').nth(1));
    let device_time = remedy.and_then(Span::parse).ok_or("no time")?;
    let all = plan(&Profile { device_time, ..short.clone() }, &host(&[0]), "ptx")?;
    assert!(all.skips.iter().all(|skip| skip.name != "jitter"), "{:?}", all.skips);
    let less = Span::from_ns(device_time.ns - 1_000_000);
    let less = plan(&Profile { device_time: less, ..short.clone() }, &host(&[0]), "ptx")?;
    assert!(less.skips.iter().any(|skip| skip.name == "jitter"));
    let less = Profile { device_time: Span::from_ns(needed.ns - 1), ..short };
    assert!(plan(&less, &host(&[0]), "ptx").is_err());
    Ok(())
}

// What the axes of a profile plan: pairs, cells that only prove, and nothing.

fn on_axes(axes: &[&str]) -> Result<Profile, String> {
    Ok(Profile {
        axes: Wanted::Names(axes.iter().map(|&name| name.to_owned()).collect()),
        ..of_name("default")?
    })
}

#[test]
fn an_axis_that_is_named_has_a_pair_also_where_the_profile_selects_none() -> TestResult {
    for (axes, expected) in [
        // The default profile does not select the aggressor of power.
        (&["power", "compute/sm"][..], &["compute:fma-hog", "compute:power-virus"][..]),
        (&["power", "memory"], &["compute:power-virus"]),
        (&["memory/capacity", "power"], &["reserve:memory-hog", "compute:power-virus"]),
        (&["bandwidth"], &["stream:dram-copy", "l2:l2-stream", "pcie:pcie-h2d"]),
        (&["jitter", "fault"], &["compute:fma-hog"]),
    ] {
        let plan = plan(&on_axes(axes)?, &host(&[0]), "ptx")?;
        let pairs = plan.pairs.iter();
        let pairs: Vec<String> =
            pairs.map(|pair| format!("{}:{}", pair.victim, pair.aggressor)).collect();
        assert_eq!(pairs, expected, "{axes:?}");
        assert!(plan.blocks >= 8, "{axes:?}");
    }
    Ok(())
}

#[test]
fn axes_without_cells_have_one_block_that_proves_each_mechanism() -> TestResult {
    for axes in [&["memory"][..], &["fault"], &["memory/cap", "fault/sm"]] {
        let plan = plan(&on_axes(axes)?, &host(&[0, 1]), "ptx")?;
        assert_eq!(plan.blocks, 1, "{axes:?}");
        let cells: BTreeSet<(&str, &str, bool)> = plan
            .cells
            .iter()
            .map(|cell| (cell.variant.as_str(), cell.condition.as_str(), cell.closed_only))
            .collect();
        let expected = [("exclusive", "N", true), ("m1", "C", true), ("m2", "C", true)];
        assert_eq!(cells.into_iter().collect::<Vec<_>>(), expected, "{axes:?}");
        assert_eq!(plan.device_time_ns() / 1_000_000_000, 4, "{axes:?}");
    }
    Ok(())
}

#[test]
fn a_users_program_has_no_pair_on_the_memory_axis() -> TestResult {
    let mut profile = on_axes(&["memory"])?;
    profile.user_victim.command = "true".to_owned();
    let refused = plan(&profile, &host(&[0]), "ptx");
    assert!(matches!(refused, Err(PlanError::NoPair { .. })), "{refused:?}");
    Ok(())
}

#[test]
fn native_cells_are_repeated_in_the_first_group_only() -> TestResult {
    let plan = plan(&of_name("default")?, &host(&[0, 1, 2]), "ptx")?;
    let first = plan.cells.iter().filter(|cell| cell.block == 0);
    let groups = |condition: &str| -> BTreeSet<&str> {
        let of = first.clone().filter(|cell| cell.condition.as_str() == condition);
        of.map(|cell| cell.group.as_str()).collect()
    };
    assert_eq!(groups("N'"), BTreeSet::from(["g0"]));
    assert_eq!(groups("N"), BTreeSet::from(["g0", "g1", "g2"]));
    Ok(())
}

// The lengths of the parts of cells, and which cells have an open loop.

#[test]
fn the_default_profile_gives_a_p99_or_a_note() -> TestResult {
    let profile = of_name("default")?;
    assert_eq!(profile.nominal_rate_per_s(), 250.0);
    let two = plan(&profile, &host(&[0]), "ptx")?;
    assert!(two.durations.open_ns >= 1_766_000_000, "{:?}", two.durations);
    assert_eq!(notes(&two, &profile), Vec::<String>::new());
    let short = Profile {
        axes: Wanted::Names(vec!["jitter".to_owned()]),
        device_time: Span::from_s(100),
        ..profile
    };
    let many = plan(&short, &host(&[1, 2, 3, 4]), "ptx")?;
    let notes = notes(&many, &short);
    assert!(notes.len() == 1 && notes[0].contains("a p99 needs 368"), "{notes:?}");
    Ok(())
}

#[test]
fn short_of_time_only_cells_that_give_jitter_have_open_loops() -> TestResult {
    let profile = of_name("default")?;
    let mut found = [false; 2];
    for under_test in 1..=9 {
        let plan = plan(&profile, &host(&vec![0; under_test]), "ptx")?;
        let of_victims = || plan.cells.iter().filter(|cell| !is_alone(&plan, cell));
        let short = of_victims().any(|cell| cell.closed_only);
        found[usize::from(short)] = true;
        // Every jitter row has its p99.
        assert_eq!(notes(&plan, &profile), Vec::<String>::new(), "{under_test}");
        assert!(plan.device_time_ns() <= profile.device_time.ns, "{under_test}");
        for cell in of_victims().filter(|_| short) {
            let gives_jitter =
                cell.victim == "compute" && matches!(cell.condition, Condition::N | Condition::C);
            assert_eq!(cell.closed_only, !gives_jitter, "{}", cell.id);
            assert!(plan.durations_of(cell).closed_ns >= profile.cell_min.closed.ns);
        }
    }
    assert_eq!(found, [true; 2], "open loops everywhere with few mechanisms, not with many");
    // Without the jitter axis, open loops shrink as every other part does.
    let without = Profile {
        axes: Wanted::Names(vec!["compute".to_owned(), "bandwidth".to_owned()]),
        ..profile
    };
    let plan = plan(&without, &host(&[0; 8]), "ptx")?;
    assert!(plan.cells.iter().all(|cell| cell.closed_only == is_alone(&plan, cell)));
    Ok(())
}

#[test]
fn open_loops_are_shortened_last_while_they_give_a_p99() -> TestResult {
    let profile = Profile { device_time: Span::from_s(300), ..of_name("default")? };
    let plan = plan(&profile, &host(&[0]), "ptx")?;
    assert!(plan.durations.open_ns >= 1_766_000_000, "{:?}", plan.durations);
    assert!(plan.durations.closed_ns < profile.cell.closed.ns);
    assert!(plan.device_time_ns() <= 300_000_000_000);
    Ok(())
}

#[test]
fn spare_blocks_are_planned_where_they_cost_no_p99() -> TestResult {
    let profile = of_name("default")?;
    assert_eq!((profile.blocks.min, profile.blocks.max), (8, 10));
    let mut blocks = Vec::new();
    for under_test in [1, 8, 12] {
        let plan = plan(&profile, &host(&vec![0; under_test]), "ptx")?;
        assert_eq!(notes(&plan, &profile), Vec::<String>::new(), "{under_test}");
        assert!(plan.device_time_ns() <= profile.device_time.ns);
        blocks.push(plan.blocks);
    }
    assert_eq!(blocks[..2], [10, 9], "there is time for shorter cells");
    assert!(blocks[2] >= 8, "{blocks:?}");
    // With a wide range, two spare blocks are the limit.
    let wide = Profile {
        blocks: Blocks { min: 8, max: 100, top_up: false, half_width: 0.0 },
        device_time: Span::from_s(150),
        ..profile
    };
    assert_eq!(plan(&wide, &host(&[0]), "ptx")?.blocks, 10);
    Ok(())
}

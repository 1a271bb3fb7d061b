//! What the axes of a profile plan: pairs, cells that only prove, and nothing.

use std::collections::BTreeSet;

use super::super::{PlanError, plan};
use super::{TestResult, built_in, host};
use crate::profile::{Profile, Wanted};

fn on_axes(axes: &[&str]) -> Result<Profile, String> {
    Ok(Profile {
        axes: Wanted::Names(axes.iter().map(|&name| name.to_owned()).collect()),
        ..built_in("default")?
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
    let plan = plan(&built_in("default")?, &host(&[0, 1, 2]), "ptx")?;
    let first = plan.cells.iter().filter(|cell| cell.block == 0);
    let groups = |condition: &str| -> BTreeSet<&str> {
        let of = first.clone().filter(|cell| cell.condition.as_str() == condition);
        of.map(|cell| cell.group.as_str()).collect()
    };
    assert_eq!(groups("N'"), BTreeSet::from(["g0"]));
    assert_eq!(groups("N"), BTreeSet::from(["g0", "g1", "g2"]));
    Ok(())
}

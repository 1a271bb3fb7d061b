//! How long the parts of cells are, and which cells have an open loop.

use gpubench_record::Condition;

use super::tests::{TestResult, built_in, host};
use super::{notes, plan};
use crate::profile::units::Span;
use crate::profile::{Blocks, Profile, Wanted};

#[test]
fn the_default_profile_leaves_room_for_a_p99_and_says_when_it_does_not() -> TestResult {
    let profile = built_in("default")?;
    assert_eq!(profile.nominal_rate_per_s(), 250.0);
    let two = plan(&profile, &host(&[0]), "ptx")?;
    assert!(
        two.durations.open_ns >= 1_766_000_000,
        "{:?}",
        two.durations
    );
    assert_eq!(notes(&two, &profile), Vec::<String>::new());
    let hasty = Profile {
        axes: Wanted::Names(vec!["jitter".to_owned()]),
        device_time: Span::from_s(100),
        ..profile
    };
    let many = plan(&hasty, &host(&[1, 2, 3, 4]), "ptx")?;
    let said = notes(&many, &hasty);
    assert!(
        said.len() == 1 && said[0].contains("a p99 needs 368"),
        "{said:?}"
    );
    Ok(())
}

#[test]
fn where_time_is_short_only_the_cells_that_jitter_is_scored_from_have_open_loops() -> TestResult {
    let profile = built_in("default")?;
    let mut seen = [false; 2];
    for under_test in 1..=9 {
        let plan = plan(&profile, &host(&vec![0; under_test]), "ptx")?;
        let short = plan.cells.iter().any(|cell| cell.closed_only);
        seen[usize::from(short)] = true;
        // Every jitter row can be scored: that is what the open loops were left out for.
        assert_eq!(notes(&plan, &profile), Vec::<String>::new(), "{under_test}");
        assert!(
            plan.device_time_ns() <= profile.device_time.ns,
            "{under_test}"
        );
        for cell in plan.cells.iter().filter(|_| short) {
            let tells = cell.victim == "compute"
                && matches!(cell.condition, Condition::N | Condition::S | Condition::C);
            assert_eq!(cell.closed_only, !tells, "{}", cell.id);
            assert!(plan.durations_of(cell).closed_ns >= profile.cell_min.closed.ns);
        }
    }
    assert_eq!(
        seen, [true; 2],
        "few mechanisms have open loops everywhere, many have not"
    );
    // Nothing is scored from open loops: they shrink as everything else does.
    let without = Profile {
        axes: Wanted::Names(vec!["compute".to_owned(), "bandwidth".to_owned()]),
        ..profile
    };
    let plan = plan(&without, &host(&[0; 8]), "ptx")?;
    assert!(plan.cells.iter().all(|cell| !cell.closed_only));
    Ok(())
}

#[test]
fn open_loops_are_shortened_last_as_long_as_they_are_good_for_a_p99() -> TestResult {
    let profile = Profile {
        device_time: Span::from_s(400),
        ..built_in("default")?
    };
    let plan = plan(&profile, &host(&[0]), "ptx")?;
    assert!(
        plan.durations.open_ns >= 1_766_000_000,
        "{:?}",
        plan.durations
    );
    assert!(plan.durations.closed_ns < profile.cell.closed.ns);
    assert!(plan.device_time_ns() <= 400_000_000_000);
    Ok(())
}

#[test]
fn blocks_to_spare_are_planned_where_they_cost_no_p99() -> TestResult {
    let profile = built_in("default")?;
    assert_eq!((profile.blocks.min, profile.blocks.max), (8, 10));
    let mut seen = Vec::new();
    for under_test in [1, 8, 12] {
        let plan = plan(&profile, &host(&vec![0; under_test]), "ptx")?;
        assert_eq!(notes(&plan, &profile), Vec::<String>::new(), "{under_test}");
        assert!(plan.device_time_ns() <= profile.device_time.ns);
        seen.push(plan.blocks);
    }
    assert_eq!(
        seen[..2],
        [10, 10],
        "there is time for cells of the least length"
    );
    assert!(seen[2] >= 8, "{seen:?}");
    // A profile that asks for a range has no more to spare than two beyond the fewest.
    let wide = Profile {
        blocks: Blocks { min: 8, max: 100 },
        device_time: Span::from_s(90),
        ..profile
    };
    assert_eq!(plan(&wide, &host(&[0]), "ptx")?.blocks, 10);
    Ok(())
}

//! The lengths of the parts of cells, and which cells have an open loop.

use gpubench_record::Condition;

use super::{TestResult, built_in, host, is_alone};
use crate::plan::{notes, plan};
use crate::profile::units::Span;
use crate::profile::{Blocks, Profile, Wanted};

#[test]
fn the_default_profile_gives_a_p99_or_a_note() -> TestResult {
    let profile = built_in("default")?;
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
    let profile = built_in("default")?;
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
            let gives_jitter = cell.victim == "compute"
                && matches!(cell.condition, Condition::N | Condition::S | Condition::C);
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
    let profile = Profile { device_time: Span::from_s(440), ..built_in("default")? };
    let plan = plan(&profile, &host(&[0]), "ptx")?;
    assert!(plan.durations.open_ns >= 1_766_000_000, "{:?}", plan.durations);
    assert!(plan.durations.closed_ns < profile.cell.closed.ns);
    assert!(plan.device_time_ns() <= 440_000_000_000);
    Ok(())
}

#[test]
fn spare_blocks_are_planned_where_they_cost_no_p99() -> TestResult {
    let profile = built_in("default")?;
    assert_eq!((profile.blocks.min, profile.blocks.max), (8, 10));
    let mut blocks = Vec::new();
    for under_test in [1, 8, 12] {
        let plan = plan(&profile, &host(&vec![0; under_test]), "ptx")?;
        assert_eq!(notes(&plan, &profile), Vec::<String>::new(), "{under_test}");
        assert!(plan.device_time_ns() <= profile.device_time.ns);
        blocks.push(plan.blocks);
    }
    assert_eq!(blocks[..2], [10, 10], "there is time for shorter cells");
    assert!(blocks[2] >= 8, "{blocks:?}");
    // With a wide range, two spare blocks are the limit.
    let wide = Profile {
        blocks: Blocks { min: 8, max: 100, top_up: false, half_width: 0.0 },
        device_time: Span::from_s(90),
        ..profile
    };
    assert_eq!(plan(&wide, &host(&[0]), "ptx")?.blocks, 10);
    Ok(())
}

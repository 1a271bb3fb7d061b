//! More blocks for undecided rows.

use std::collections::BTreeSet;

use gpubench_record::{Condition, Plan, TopUpDecision, TopUpReason};

use super::{TestResult, built_in, host};
use crate::plan::{MoreBlocks, VariantRef, extend, plan};
use crate::profile::{Profile, Wanted};

/// Two mechanisms in one group, the first of which is the unprotected form of both, and one in
/// another group.
fn planned() -> Result<Plan, Box<dyn std::error::Error>> {
    let mut host = host(&[0, 0, 1]);
    let form = VariantRef::new("m1", "m1");
    for mechanism in &mut host.mechanisms[1..] {
        mechanism.unprotected = Some(form.clone());
    }
    // Without jitter, all cells have the same length.
    let profile = Profile {
        axes: Wanted::Names(vec!["compute".to_owned(), "bandwidth".to_owned()]),
        ..built_in("default")?
    };
    Ok(plan(&profile, &host, "ptx")?)
}

fn row(variant: &str, victim: &str, aggressor: &str, more: u32) -> MoreBlocks {
    MoreBlocks {
        variant: variant.to_owned(),
        axis: "compute".to_owned(),
        victim: victim.to_owned(),
        aggressor: aggressor.to_owned(),
        reason: TopUpReason::Straddles,
        blocks: 10,
        wanted: 10 + more,
    }
}

#[test]
fn a_row_gets_every_condition_of_its_victim_in_each_further_block() -> TestResult {
    let plan = planned()?;
    let (top_up, cells) = extend(&plan, u64::MAX, vec![row("m2", "compute", "fma-hog", 3)]);
    assert_eq!(top_up.rows[0].decision, TopUpDecision::Planned);
    let blocks: BTreeSet<u32> = cells.iter().map(|cell| cell.block).collect();
    assert_eq!(blocks, (plan.blocks..plan.blocks + 3).collect());
    for block in blocks {
        let of_block = cells.iter().filter(|cell| cell.block == block);
        let mut found: Vec<(&str, Condition)> =
            of_block.map(|cell| (cell.variant.as_str(), cell.condition)).collect();
        found.sort_unstable();
        use Condition::{C, N, NAgain, S, SAgain};
        let expected = [("exclusive", N), ("exclusive", NAgain), ("m1", C)];
        let own = [("m2", S), ("m2", SAgain), ("m2", C)];
        assert_eq!(found, [&expected[..], &own[..]].concat(), "block {block}");
    }
    // The second block is the first one reversed.
    let of = |block: u32| {
        let cells = cells.iter().filter(move |cell| cell.block == plan.blocks + block);
        cells.map(|cell| (cell.variant.clone(), cell.condition)).collect::<Vec<_>>()
    };
    let (first, mut second) = (of(0), of(1));
    second.reverse();
    assert_eq!(first, second);
    let needs_ns: u64 = cells.iter().map(|cell| plan.durations_of(cell).cell_ns()).sum();
    assert_eq!(top_up.rows[0].needs_ns, needs_ns);
    Ok(())
}

#[test]
fn further_cells_have_new_ids_in_run_order_and_the_schedule_of_their_block() -> TestResult {
    let plan = planned()?;
    let rows = vec![row("m2", "compute", "fma-hog", 4), row("m3", "stream", "dram-copy", 2)];
    let (_, cells) = extend(&plan, u64::MAX, rows);
    let ids: Vec<&str> = plan.cells.iter().chain(&cells).map(|cell| cell.id.as_str()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    let seeds: BTreeSet<(u32, u64)> =
        plan.cells.iter().chain(&cells).map(|cell| (cell.block, cell.schedule_seed)).collect();
    assert_eq!(seeds.len() as u32, plan.blocks + 4, "one schedule a block");
    Ok(())
}

#[test]
fn the_smallest_rows_come_first_and_shared_cells_count_once() -> TestResult {
    let plan = planned()?;
    let rows = |first: u32| {
        vec![
            row("m3", "stream", "dram-copy", 9),
            row("m2", "compute", "fma-hog", first),
            row("m1", "compute", "fma-hog", 1),
        ]
    };
    let (all, _) = extend(&plan, u64::MAX, rows(2));
    let order: Vec<&str> = all.rows.iter().map(|row| row.variant.as_str()).collect();
    assert_eq!(order, ["m1", "m2", "m3"]);
    // m2 needs two blocks of six cells, of which the row of m1 has three in the first.
    let cell_ns = plan.durations.cell_ns();
    let needs = [all.rows[0].needs_ns, all.rows[1].needs_ns].map(|ns| ns / cell_ns);
    assert_eq!(needs, [5, 9]);
    let left_ns = all.rows[0].needs_ns + all.rows[1].needs_ns;
    let (some, cells) = extend(&plan, left_ns, rows(2));
    let decisions: Vec<TopUpDecision> = some.rows.iter().map(|row| row.decision).collect();
    use TopUpDecision::{Planned, TooLong};
    assert_eq!(decisions, [Planned, Planned, TooLong]);
    let spent_ns: u64 = cells.iter().map(|cell| plan.durations_of(cell).cell_ns()).sum();
    assert_eq!(spent_ns, left_ns);
    assert!(cells.iter().all(|cell| cell.victim == "compute"));
    // Each fits alone, both do not.
    let (one, _) = extend(&plan, left_ns - 1, rows(2));
    let decisions: Vec<TopUpDecision> = one.rows.iter().map(|row| row.decision).collect();
    assert_eq!(decisions, [Planned, TooLong, TooLong]);
    let (none, cells) = extend(&plan, 0, rows(2));
    assert!(none.rows.iter().all(|row| row.decision == TooLong) && cells.is_empty());
    Ok(())
}

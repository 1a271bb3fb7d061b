//! The profile that a record gives plans what the record has.

use std::path::Path;

use gpubench_virtual_gpu::machine::Machine;

use super::TestResult;
use super::hosts::complete_host;
use crate::judge::{FaultRequest, Repair, capabilities, fidelity, open_scored, rescore};
use crate::plan::plan;
use crate::profile::{Overrides, load};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../reports/examples");

/// Each example with the number of its faults, and whether it has probes that no row needs.
const AFTER_CELLS: [(&str, usize, bool); 4] = [
    ("h100_580.159.04_matrix", 0, false),
    ("h100_580.159.04_faults-mps", 22, false),
    ("h100_580.159.04_faults-time-slicing", 19, false),
    ("h100_580.159.04_probes", 0, true),
];

#[test]
fn the_profile_of_an_example_plans_its_mechanisms_pairs_lengths_and_seed() -> TestResult {
    let facts = complete_host(&Machine::load("h100-80")?);
    for (name, faults, probes) in AFTER_CELLS {
        let mut run = open_scored(&Path::new(EXAMPLES).join(name), Repair::No)?.run;
        rescore(&mut run, &[])?;
        let profile = fidelity::profile(&run, load("default", &Overrides::default())?, 3);
        let planned = plan(&profile, &capabilities(&facts, &profile), "ptx")?;
        let variants = |plan: &gpubench_record::Plan| -> Vec<String> {
            plan.mechanisms.iter().map(|one| one.variant.clone()).collect()
        };
        assert_eq!(variants(&planned), variants(&run.plan), "{name}");
        assert_eq!(planned.pairs, run.plan.pairs, "{name}");
        assert_eq!(planned.durations, run.plan.durations, "{name}");
        assert_eq!((planned.blocks, planned.seed), (3, run.seed), "{name}");
        assert_eq!(planned.soak, None, "{name}");
        let share = (planned.load, planned.share, planned.service_ns);
        assert_eq!(share, (run.plan.load, run.plan.share, run.plan.service_ns), "{name}");
        // Every cell of the record's first three blocks, in whatever order.
        let cells = |plan: &gpubench_record::Plan| {
            let is_victim = |name: &String| plan.pairs.iter().any(|pair| pair.victim == *name);
            let cells = plan.cells.iter().filter(|cell| cell.block < 3);
            // The record is older than cells of aggressors alone.
            let cells = cells.filter(|cell| is_victim(&cell.victim));
            let mut keys: Vec<String> = cells
                .map(|cell| {
                    let aggressor = cell.aggressor.as_deref().unwrap_or("-");
                    let (variant, victim) = (&cell.variant, &cell.victim);
                    format!("{variant} {:?} {victim} {aggressor} {}", cell.condition, cell.dose)
                })
                .collect();
            keys.sort();
            keys.dedup();
            keys
        };
        assert_eq!(cells(&planned), cells(&run.plan), "{name}");
        let after = fidelity::after_cells(&run, 2);
        assert_eq!((after.probes, after.escape), (probes, false), "{name}");
        let found = match &after.faults {
            FaultRequest::On(names) => names.len(),
            _ => 0,
        };
        assert_eq!(found, faults, "{name}");
    }
    Ok(())
}

#[test]
fn the_machine_follows_from_the_board_of_the_record() -> TestResult {
    let mut run = open_scored(&Path::new(EXAMPLES).join(AFTER_CELLS[0].0), Repair::No)?.run;
    let named = |run: &_, machine| fidelity::machine_name("r", run, machine);
    assert_eq!(named(&run, None)?, "h100-80");
    assert_eq!(named(&run, Some("hopper"))?, "hopper");
    "NVIDIA B200".clone_into(&mut run.device.name);
    assert_eq!(named(&run, None)?, "b200");
    "NVIDIA L4".clone_into(&mut run.device.name);
    assert!(named(&run, None).is_err());
    Ok(())
}

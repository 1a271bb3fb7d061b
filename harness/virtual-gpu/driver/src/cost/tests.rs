//! The roofline, one resource at a time.

use super::{Part, Shape, cost, cycle_model};
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::state::{ONE, Resource};
use gpubench_virtual_gpu_ptx::{Class, Counts, HotWord};

fn share(demand: &[u32], resource: Resource) -> f64 {
    f64::from(demand[resource as usize]) / ONE as f64
}

#[test]
fn a_copy_over_all_sms_takes_bytes_over_bandwidth() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::load("turing")?;
    let counts = Counts {
        load_sector_bytes: 160_000_000,
        store_sector_bytes: 160_000_000,
        ..Counts::default()
    };
    let shape = Shape { blocks: 160, blocks_per_sm: 4, footprint_bytes: 320 << 20 };
    let result = cost(&machine, &Part::whole(&machine), &counts, &shape);
    // 320 MB at 320 GB/s.
    assert!((result.alone_ns - 1e6).abs() < 1.0, "{}", result.alone_ns);
    assert!((share(&result.demand, Resource::Dram) - 1.0).abs() < 1e-5);
    assert!((share(&result.demand, Resource::SmSlots) - 1.0).abs() < 1e-5);
    Ok(())
}

#[test]
fn a_footprint_within_l2_does_not_use_dram() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::load("turing")?;
    let counts = Counts { load_sector_bytes: 1 << 30, ..Counts::default() };
    let shape = Shape { blocks: 160, blocks_per_sm: 4, footprint_bytes: 1 << 20 };
    let result = cost(&machine, &Part::whole(&machine), &counts, &shape);
    assert!((result.alone_ns - (1u64 << 30) as f64 / 1270.0).abs() < 1.0, "{}", result.alone_ns);
    assert_eq!(result.demand[Resource::Dram as usize], 0);
    Ok(())
}

#[test]
fn l1_hits_use_the_l1_path_and_not_l2() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::load("turing")?;
    // 40 SMs of 64 bytes a clock at 1.59 GHz move this in a millisecond.
    let bytes = 40 * 64 * 1_590_000;
    let shape = Shape { blocks: 40, blocks_per_sm: 4, footprint_bytes: 1 << 20 };
    let hits = Counts { load_sector_bytes: bytes, l1_hit_bytes: bytes, ..Counts::default() };
    let shared = Counts { shared_bytes: bytes, ..Counts::default() };
    for counts in [hits, shared] {
        let result = cost(&machine, &Part::whole(&machine), &counts, &shape);
        assert!((result.alone_ns - 1e6).abs() < 1.0, "{}", result.alone_ns);
        assert!((share(&result.demand, Resource::Shared) - 1.0).abs() < 1e-5);
        assert_eq!(result.demand[Resource::L2 as usize], 0);
    }
    Ok(())
}

#[test]
fn atomics_on_one_word_take_a_clock_each() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::load("turing")?;
    let shape = Shape { blocks: 40, blocks_per_sm: 4, footprint_bytes: 1 << 20 };
    let atomics = 1_590_000;
    let cost_of = |hottest| {
        let hot_word = HotWord { address: 64, atomics: hottest };
        let counts = Counts { device_atomics: atomics, hot_word, ..Counts::default() };
        cost(&machine, &Part::whole(&machine), &counts, &shape)
    };
    let (spread, one_word) = (cost_of(1), cost_of(atomics));
    // One word: a clock each at 1.59 GHz. Spread over words: 40 in a clock.
    assert!((one_word.alone_ns - 1e6).abs() < 1.0, "{}", one_word.alone_ns);
    assert!((spread.alone_ns - 1e6 / 40.0).abs() < 1.0, "{}", spread.alone_ns);
    assert!((share(&spread.demand, Resource::Atomics) - 1.0).abs() < 1e-5);
    assert!((share(&one_word.demand, Resource::Atomics) - 1.0 / 40.0).abs() < 1e-5);
    Ok(())
}

#[test]
fn translations_are_bound_by_the_sms_and_by_the_device() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::load("turing")?;
    let counts = Counts { translations: 1_600_000, ..Counts::default() };
    // 1600 a microsecond for the device, 80 for an SM.
    for (blocks, alone_ns, part) in [(40, 1e6, 1.0), (10, 2e6, 0.5)] {
        let shape = Shape { blocks, blocks_per_sm: 4, footprint_bytes: 1 << 20 };
        let result = cost(&machine, &Part::whole(&machine), &counts, &shape);
        assert!((result.alone_ns - alone_ns).abs() < 1.0, "{}", result.alone_ns);
        assert!((share(&result.demand, Resource::Tlb) - part).abs() < 1e-5);
    }
    Ok(())
}

#[test]
fn only_short_kernels_keep_the_front_end_busy() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::load("turing")?;
    let shape = Shape { blocks: 1, blocks_per_sm: 4, footprint_bytes: 0 };
    let mut counts = Counts::default();
    let empty = cost(&machine, &Part::whole(&machine), &counts, &shape);
    assert!((share(&empty.demand, Resource::FrontEnd) - 0.9).abs() < 1e-5);
    counts.longest_warp_cycles = 1_590_000;
    let long = cost(&machine, &Part::whole(&machine), &counts, &shape);
    assert!((share(&long.demand, Resource::FrontEnd) - 0.0009).abs() < 1e-5);
    Ok(())
}

#[test]
fn a_small_grid_uses_its_share_of_the_pipe() -> Result<(), Box<dyn std::error::Error>> {
    let machine = Machine::load("turing")?;
    let mut counts = Counts::default();
    // 17 blocks, each 64 lanes for 1.59 M clocks: one millisecond on its SM.
    counts.lane_instructions[Class::Fp32 as usize] = 17 * 64 * 1_590_000;
    let shape = Shape { blocks: 17, blocks_per_sm: 4, footprint_bytes: 0 };
    let result = cost(&machine, &Part::whole(&machine), &counts, &shape);
    assert!((result.alone_ns - 1e6).abs() < 1.0, "{}", result.alone_ns);
    assert!((share(&result.demand, Resource::Fp32) - 17.0 / 40.0).abs() < 1e-5);
    Ok(())
}

#[test]
fn bytes_in_flight_follow_from_loads_and_limits() -> Result<(), Box<dyn std::error::Error>> {
    let mut machine = Machine::load("hopper")?;
    (machine.memory.sm_dram_in_flight_kib, machine.memory.l2_in_flight_kib) = (80, 8_000);
    // Blocks of 8 warps that wait for 2 KiB of loads, which are then stored.
    let of = |blocks: u64, most_loading_bytes: u64| {
        let counts = Counts {
            load_sector_bytes: blocks * 80 * 1024,
            store_sector_bytes: blocks * 80 * 1024,
            most_loading_bytes,
            warps: blocks * 8,
            blocks,
            ..Counts::default()
        };
        let shape = Shape { blocks, blocks_per_sm: 8, footprint_bytes: 1 << 30 };
        let cost = cost(&machine, &Part::whole(&machine), &counts, &shape);
        let kib = (cost.in_flight.dram >> 10, cost.in_flight.l2 >> 10);
        (kib, cost.blocks_wait)
    };
    // 32 KiB for each block, at most 80 on an SM and 8000 in L2.
    assert_eq!(of(17, 2048), ((17 * 32, 17 * 32), false));
    assert_eq!(of(1056, 2048), ((132 * 80, 8_000), false));
    // 1056 of more blocks are resident.
    assert_eq!(of(5_000, 2048), ((132 * 80, 8_000), true));
    // A kernel that never waits has in flight what its SMs and L2 hold.
    assert_eq!(of(17, 0), ((17 * 80, 8_000), false));
    Ok(())
}

#[test]
fn a_warp_issues_over_the_lanes_of_its_scheduler() -> Result<(), Box<dyn std::error::Error>> {
    for (machine, cycles) in [("hopper", 1), ("turing", 2), ("a100-80", 2)] {
        let model = cycle_model(&Machine::load(machine)?);
        assert_eq!(model.issue_cycles[Class::Fp32 as usize], cycles, "{machine}");
    }
    Ok(())
}

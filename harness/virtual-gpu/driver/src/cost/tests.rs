//! The roofline, one resource at a time.

use super::{Part, Shape, cost, cycle_model};
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::state::{ONE, Resource};
use gpubench_virtual_gpu_ptx::{Class, Counts, HotWord};

fn share(demand: &[u32], resource: Resource) -> f64 {
    f64::from(demand[resource as usize]) / ONE as f64
}

#[test]
fn each_resource_has_its_time_and_share() -> Result<(), Box<dyn std::error::Error>> {
    use Resource::{Atomics, Dram, Fp32, L2, Shared, SmSlots, Tlb};
    let machine = Machine::load("turing")?;
    let loads = |load_sector_bytes| Counts { load_sector_bytes, ..Counts::default() };
    // 40 SMs of 64 bytes a clock at 1.59 GHz move this in a millisecond.
    let bytes = 40 * 64 * 1_590_000;
    // Of as many atomics as there are clocks in a millisecond.
    let atomics = |atomics| Counts {
        device_atomics: 1_590_000,
        hot_word: HotWord { address: 64, atomics },
        ..Counts::default()
    };
    // 1600 a microsecond for the device, 80 for an SM.
    let translations = Counts { translations: 1_600_000, ..Counts::default() };
    // 17 blocks, each 64 lanes for 1.59 M clocks: one millisecond on its SM.
    let mut lanes = Counts::default();
    lanes.lane_instructions[Class::Fp32 as usize] = 17 * 64 * 1_590_000;
    let copy = Counts { store_sector_bytes: 160_000_000, ..loads(160_000_000) };
    let in_l2_ns = (1_u64 << 30) as f64 / 1270.0;
    type Case = (&'static str, Counts, (u64, u64), f64, &'static [(Resource, f64)]);
    let cases: [Case; 9] = [
        // 320 MB at 320 GB/s.
        ("a copy", copy, (160, 320 << 20), 1e6, &[(Dram, 1.0), (SmSlots, 1.0)]),
        ("a footprint within L2", loads(1 << 30), (160, 1 << 20), in_l2_ns, &[(Dram, 0.0)]),
        (
            "L1 hits",
            Counts { l1_hit_bytes: bytes, ..loads(bytes) },
            (40, 1 << 20),
            1e6,
            &[(Shared, 1.0), (L2, 0.0)],
        ),
        (
            "shared memory",
            Counts { shared_bytes: bytes, ..Counts::default() },
            (40, 1 << 20),
            1e6,
            &[(Shared, 1.0), (L2, 0.0)],
        ),
        // One word: a clock each. Spread over words: 40 in a clock.
        ("atomics on one word", atomics(1_590_000), (40, 1 << 20), 1e6, &[(Atomics, 1.0 / 40.0)]),
        ("atomics on many words", atomics(1), (40, 1 << 20), 1e6 / 40.0, &[(Atomics, 1.0)]),
        ("translations", translations.clone(), (40, 1 << 20), 1e6, &[(Tlb, 1.0)]),
        ("translations of ten SMs", translations, (10, 1 << 20), 2e6, &[(Tlb, 0.5)]),
        ("a small grid", lanes, (17, 0), 1e6, &[(Fp32, 17.0 / 40.0)]),
    ];
    for (what, counts, (blocks, footprint_bytes), alone_ns, shares) in cases {
        let shape = Shape { blocks, blocks_per_sm: 4, footprint_bytes };
        let result = cost(&machine, &Part::whole(&machine), &counts, &shape);
        assert!((result.alone_ns - alone_ns).abs() < 1.0, "{what}: {}", result.alone_ns);
        for &(resource, wanted) in shares {
            let found = share(&result.demand, resource);
            assert!((found - wanted).abs() < 1e-5, "{what}: {found} of {resource:?}");
            assert_eq!(found == 0.0, wanted == 0.0, "{what}: {resource:?}");
        }
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

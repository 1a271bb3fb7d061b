//! Tests that walk the whole catalogue.

use gpubench_catalogue::workload::CATALOGUE;
use gpubench_kernels::driver::DeviceProps;
use gpubench_record::{Role, SubAxis};

use super::arithmetic::OF_WHOLE_DEVICE;
use super::*;

/// A very small device, from a public data sheet (T4).
pub(super) fn small_device() -> DeviceProps {
    DeviceProps {
        sm_count: 40,
        l2_bytes: 4 << 20,
        total_bytes: 15 << 30,
        integrated: false,
        threads_per_sm: 1024,
        blocks_per_sm: 16,
        threads_per_block: 1024,
        warp_threads: 32,
        shared_per_sm_bytes: 64 << 10,
        shared_per_block_bytes: 64 << 10,
        compute_capability: (7, 5),
        copy_engines: 3,
        sm_clock_khz: 1_590_000,
        memory_clock_khz: 5_001_000,
        memory_bus_bits: 256,
    }
}

/// A large device (H100 SXM), and a MIG slice of a seventh of it.
fn devices() -> [DeviceProps; 3] {
    let small = small_device();
    let large = DeviceProps {
        sm_count: 132,
        l2_bytes: 50 << 20,
        total_bytes: 80 << 30,
        threads_per_sm: 2048,
        blocks_per_sm: 32,
        ..small
    };
    let slice = DeviceProps { sm_count: 16, l2_bytes: 6 << 20, total_bytes: 10 << 30, ..large };
    [small, large, slice]
}

#[test]
fn every_workload_has_its_load() {
    let loads: Vec<_> = LOADS.iter().map(|load| load.facts.name).collect();
    assert_eq!(loads, CATALOGUE.iter().map(|facts| facts.name).collect::<Vec<_>>());
    for load in LOADS.iter() {
        if let Some(kernel) = load.kernel.filter(|_| load.facts.name != "power-virus") {
            assert_eq!(load.facts.counter, kernel.info().counter(), "{load:?}");
        }
    }
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let message = find("inference2").expect_err("no such workload").to_string();
    for workload in LOADS.iter() {
        assert!(message.contains(workload.facts.name), "{message}");
    }
}

#[test]
fn first_guesses_depend_on_the_device() -> Result<(), LoadError> {
    for workload in LOADS.iter() {
        let specs: Vec<_> = devices()
            .iter()
            .map(|props| workload.first_guess(props, 3.0 / 7.0))
            .collect::<Result<_, _>>()?;
        for spec in &specs {
            assert_eq!(spec.name, workload.facts.name);
            if let Some(knob) = workload.facts.knob {
                let value = spec.params.get(knob.param).copied().unwrap_or(0);
                assert!(value > 0 && value <= knob.max && value.is_multiple_of(knob.granule));
            }
        }
        // The host and its link decide the length of the other requests.
        let of_host = [SubAxis::Pcie, SubAxis::Launch, SubAxis::Driver];
        let differs = specs[0].params != specs[1].params;
        assert!(differs || of_host.contains(&workload.facts.sub_axis), "{specs:?}");
        // The link, the launch path and the driver are not device properties.
        let elsewhere = SubAxis::Pcie == workload.facts.sub_axis
            || SubAxis::Launch == workload.facts.sub_axis
            || ["context-storm", "module-storm"].contains(&workload.facts.name);
        let follows = specs[0] != specs[1] && specs[1] != specs[2];
        assert_eq!(follows, !elsewhere, "{}", workload.facts.name);
    }
    Ok(())
}

#[test]
fn victims_keep_within_the_share_of_sms_cache_and_memory() -> Result<(), LoadError> {
    for props in devices() {
        for share in [3.0 / 7.0, 0.5, 1.0] {
            for workload in LOADS.iter().filter(|w| w.facts.role == Role::Victim) {
                let params = workload.first_guess(&props, share)?.params;
                let fraction = |used: u64, of: u64| used as f64 / of as f64;
                for blocks in ["blocks", "rows"].into_iter().filter_map(|key| params.get(key)) {
                    let waves = if share < 1.0 { 1.0 } else { OF_WHOLE_DEVICE as f64 };
                    assert!(fraction(*blocks, props.sm_count.into()) <= share * waves);
                }
                let (l2, memory) = (props.l2_bytes, props.total_bytes);
                let uses = [
                    (
                        "buffer_bytes",
                        if workload.facts.sub_axis == SubAxis::L2 { l2 } else { memory },
                    ),
                    ("words", l2 / 4),
                    ("pages", memory >> 21),
                    ("bytes", memory),
                ];
                for (key, of) in uses {
                    let uses = params.get(key).copied().unwrap_or(0);
                    let name = workload.facts.name;
                    assert!(fraction(uses, of) <= share, "{name}: {key} {uses} of {of}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn dram_workloads_exceed_l2_and_aggressors_fill_every_sm() -> Result<(), LoadError> {
    let of_dram =
        |one: &Load| one.facts.sub_axis == SubAxis::Dram && one.facts.resource.starts_with("DRAM");
    assert!(LOADS.iter().any(|one| of_dram(one)));
    for props in devices() {
        for workload in LOADS.iter() {
            let params = workload.first_guess(&props, 1.0)?.params;
            if of_dram(workload) {
                assert!(params["buffer_bytes"] >= 4 * props.l2_bytes);
            }
            let on_sms = [SubAxis::Sm, SubAxis::Issue, SubAxis::Dram, SubAxis::L2];
            if workload.facts.role == Role::Aggressor && on_sms.contains(&workload.facts.sub_axis) {
                let threads = params["blocks"] * params["threads"];
                // It occupies slots with as few threads as possible.
                let max_threads = match workload.facts.name {
                    "block-slots" => props.blocks_per_sm * props.warp_threads,
                    _ => props.threads_per_sm,
                };
                let name = workload.facts.name;
                assert_eq!(threads, u64::from(props.sm_count * max_threads), "{name}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_device_too_small_is_refused() {
    let tiny = DeviceProps { sm_count: 2, l2_bytes: 0, total_bytes: 1 << 20, ..small_device() };
    for (name, share) in [
        ("compute", 0.4),
        ("stream", 0.9),
        ("l2", 0.9),
        ("l2-stream", 1.0),
        ("l2-thrash", 1.0),
        ("dram-read", 1.0),
        ("fp64", 0.4),
        ("inference", 0.9),
    ] {
        let refused = find(name).and_then(|workload| workload.first_guess(&tiny, share));
        assert!(matches!(refused, Err(LoadError::TooSmall { .. })), "{name}: {refused:?}");
    }
}

#[test]
fn impossible_parameters_are_refused_with_the_accepted_values() {
    let spec = error::spec("compute", [("blocks", 0), ("threads", 4096)]);
    let params = Params::of(&spec);
    let message = params.grid(&small_device()).expect_err("no blocks").to_string();
    assert_eq!(message, "workload compute: parameter blocks is 0, accepted are 1 to 2147483647");
    let spec = error::spec("compute", [("blocks", 1), ("threads", 4096)]);
    let refused = Params::of(&spec).grid(&small_device()).expect_err("too many threads");
    assert!(refused.to_string().ends_with("is 4096, accepted are 1 to 1024"));
    let missing = Params::of(&spec).size("bytes").expect_err("no bytes").to_string();
    assert!(missing.contains("bytes is missing"), "{missing}");
}

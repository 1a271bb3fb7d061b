//! The SMs and the memory that a tenant gets.

use gpubench_virtual_gpu_model::machine::Machine;

use super::case::{Case, Measurement, check};
use super::table::Figure;
use crate::mps_support::mechanisms::Mechanism;
use crate::mps_support::sharing::Sharing;
use crate::mps_support::{Error, quiet};

fn sms(machine: &Machine, sharing: Sharing, grid: u32, want: f64) -> Case {
    let measurement = Measurement::Part { first: ["open"; 2], work: format!("chain:{grid}") };
    Case::noisy(machine, sharing, measurement, Figure::SmCap, want)
}

pub fn percentages() -> Result<Vec<Case>, Error> {
    let plain = quiet("hopper")?;
    let (mut more, mut ignored) = (plain.clone(), plain.clone());
    more.defects.mps_percentage_error = 0.2;
    ignored.defects.mps_percentage_ignored = true;
    // 50 % of 132 SMs; all of them; 60 %, rounded down.
    let whole = |machine: &Machine, count: f64| {
        sms(machine, Sharing::Quota(["50", "100"]), 10_428, count / 132.0)
    };
    // The same for the 60 SMs of an instance.
    let within = |machine: &Machine, count: f64| {
        sms(machine, Sharing::MigMps(["50", "100"]), 10_080, count / 60.0)
    };
    let (loud, loud_within) = (whole(&more, 78.0), within(&more, 36.0));
    Ok(vec![
        within(&plain, 30.0).quiet(),
        within(&ignored, 60.0).quiet(),
        loud_within.quiet(),
        loud_within,
        whole(&plain, 66.0).quiet(),
        whole(&ignored, 132.0).quiet(),
        loud.quiet(),
        loud,
    ])
}

#[test]
fn a_percentage_gives_the_planted_sms() -> Result<(), Error> {
    check(test_name!(), &percentages()?)
}

pub fn partitions() -> Result<Vec<Case>, Error> {
    let plain = quiet("hopper")?;
    let mut large = plain.clone();
    large.mps.as_mut().ok_or("no MPS")?.chunk_sms = 12;
    // 32 and 96 SMs; 48 and 60.
    let loud = sms(&large, Sharing::Static([4, 5]), 9_600, 48.0 / 60.0);
    // The L2 throughput of the SMs of two chunks over that of nine. A ratio of two partitions would
    // not depend on the chunk size.
    let drawn = |machine: &Machine, sms: f64| {
        let memory = &machine.memory;
        let want = sms * memory.sm_l2_gb_per_s / memory.l2_gb_per_s;
        let measurement = Measurement::Part { first: ["open"; 2], work: "l2:160".to_owned() };
        Case::noisy(machine, Sharing::Static([2, 9]), measurement, Figure::SmCap, want)
    };
    Ok(vec![
        sms(&plain, Sharing::Static([4, 12]), 9_600, 32.0 / 96.0).quiet(),
        drawn(&plain, 16.0).quiet(),
        drawn(&large, 24.0).quiet(),
        loud.quiet(),
        loud,
    ])
}

#[test]
fn a_static_partition_has_its_chunks() -> Result<(), Error> {
    check(test_name!(), &partitions()?)
}

pub fn instances() -> Result<Vec<Case>, Error> {
    let mut machine = quiet("hopper")?;
    let geometry = machine.mig.as_mut().ok_or("no MIG")?;
    for profile in &mut geometry.profile {
        match profile.name.as_str() {
            // Neither the file's value (60) nor that of the model's rule (48 and 64).
            "3g.40gb" => profile.sm = Some(40),
            "4g.40gb" => profile.sm = Some(56),
            _ => {}
        }
    }
    let sharing = Sharing::Mig(["4g.40gb", "3g.40gb"]);
    let loud = sms(&machine, sharing, 8_400, 56.0 / 40.0);
    Ok(vec![loud.quiet(), loud])
}

#[test]
fn an_instance_has_the_sms_of_its_profile() -> Result<(), Error> {
    check(test_name!(), &instances()?)
}

pub fn green_contexts() -> Result<Vec<Case>, Error> {
    let mut plain = quiet("hopper")?;
    // The other process's slice would be part of the first kernel's time.
    plain.scheduler.switch_gap_us = 0;
    let mut whole = plain.clone();
    whole.defects.green_contexts_whole = true;
    let case = |machine: &Machine, want| {
        let measurement =
            Measurement::Part { first: ["green 64", "open"], work: "chain:8448".to_owned() };
        let sharing = Sharing::NoSetup(Mechanism::GreenContext);
        Case::noisy(machine, sharing, measurement, Figure::SmCap, want)
    };
    let loud = case(&plain, 64.0 / 132.0);
    Ok(vec![case(&whole, 1.0).quiet(), loud.quiet(), loud])
}

#[test]
fn a_green_context_has_exactly_its_sms() -> Result<(), Error> {
    check(test_name!(), &green_contexts()?)
}

pub fn memory_limits() -> Result<Vec<Case>, Error> {
    let plain = quiet("hopper")?;
    let mut loose = plain.clone();
    loose.defects.mps_memory_overshoot = 0.25;
    // 4 GiB, or a quarter more, of which the context uses 512 MiB.
    let case = |sharing, limit| {
        let measurement = Measurement::Cap { limit };
        let loud = Case::noisy(&loose, sharing, measurement, Figure::MemoryCap, 4_608.0);
        let tight = Case {
            machine: plain.clone(),
            want: vec![(Figure::MemoryCap, 3_584.0)],
            ..loud.quiet()
        };
        [tight, loud.quiet(), loud]
    };
    let limit = Some("0=4G");
    Ok([
        case(Sharing::Quota(["50"; 2]), limit),
        case(Sharing::MigMps(["50"; 2]), limit),
        case(Sharing::Memory([4096; 2]), None),
    ]
    .concat())
}

#[test]
fn noise_does_not_change_a_memory_limit() -> Result<(), Error> {
    check(test_name!(), &memory_limits()?)
}

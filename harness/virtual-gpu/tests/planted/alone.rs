//! What a machine plants in the turns, in its calls, in its limits and in the reach of its faults.

use gpubench_virtual_gpu::machine::Machine;
use gpubench_virtual_gpu::session::TimeMode::Virtual;

use super::intervals::{EACH, SEEDS, covered, covered_chance, near};
use super::mps_support::{Error, Stage, quiet, scenes};
use super::{figures, noisy};

/// Variables of the one client, beside or without a daemon.
type Env = &'static [(&'static str, &'static str)];

/// Figures of so many seeds, as one client finds them.
fn seeds(stage: &Stage, daemon: bool, env: Env, script: &str) -> Result<Vec<f64>, Error> {
    let _daemon = daemon.then(|| stage.daemon("", &[])).transpose()?;
    let mut clients = stage.clients(&[(env, script)])?;
    figures(&clients.remove(0).finish()?)
}

/// The lengths of turns, and of the pauses between them, beside somebody who always has work.
fn turns(stage: &Stage, seeds: usize) -> Result<[Vec<f64>; 2], Error> {
    let scheduler = &stage.device.machine().scheduler;
    let period_us = 2 * (scheduler.slice_us + scheduler.switch_gap_us);
    let span_us = (EACH as u64 + 3) * period_us;
    let until_ms = 600 + 3 * seeds as u64 * span_us / 1_000;
    let watch = format!("open; at 500; seeds turns {seeds} {span_us}");
    let keep = format!("open; at 400; keep chain:9600 {until_ms}");
    let said = stage.play(&[&watch, &keep])?;
    let spans = figures(&said[0])?;
    let there: Vec<f64> = spans.iter().step_by(2).copied().collect();
    // Away is a turn of the other's and a pause on either side of it.
    let gaps = spans.chunks(2).map(|pair| (pair[1] - pair[0]) / 2.0);
    let gaps = gaps.collect();
    Ok([there, gaps])
}

#[test]
fn turns_and_the_pauses_between_them_are_as_long_as_planted() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let of = |slice_us, switch_gap_us| {
        let mut machine = plain.clone();
        machine.scheduler.slice_us = slice_us;
        machine.scheduler.switch_gap_us = switch_gap_us;
        machine
    };
    let test = "alone::turns_and_the_pauses_between_them_are_as_long_as_planted";
    // What watches the clock is executed step by step: short turns are cheaper.
    let machines = [of(2_500, 200), of(800, 300), noisy(&of(150, 60))];
    scenes(test, Virtual, &machines, |stage, index| {
        let scheduler = &machines[index].scheduler;
        let us = [scheduler.slice_us, scheduler.switch_gap_us];
        let found = turns(stage, if index == 2 { SEEDS } else { 1 })?;
        for (found, us) in found.iter().zip(us) {
            let want_ns = us as f64 * 1e3;
            if index == 2 {
                covered(found, want_ns, test);
            } else {
                found.iter().for_each(|ns| near(*ns, want_ns, test));
            }
        }
        Ok(())
    })
}

#[test]
fn a_launch_costs_what_the_machine_says() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut slow = plain.clone();
    slow.host.launch_ns *= 3;
    let machines = [plain.clone(), slow.clone(), plain, noisy(&slow)];
    let test = "alone::a_launch_costs_what_the_machine_says";
    scenes(test, Virtual, &machines, |stage, index| {
        let want_ns = machines[index].host.launch_ns as f64;
        let count = if index == 3 { SEEDS } else { 1 };
        let script = format!("open; seeds calls {count} 20");
        // The third is a client of MPS.
        let found = seeds(stage, index == 2, &[], &script)?;
        if index == 3 {
            covered(&found, want_ns, test);
        } else {
            found.iter().for_each(|ns| near(*ns, want_ns, test));
        }
        Ok(())
    })
}

#[test]
fn a_memory_limit_lets_the_same_through_whatever_the_noise() -> Result<(), Error> {
    let mut loose = quiet("hopper")?;
    loose.defects.mps_memory_overshoot = 0.25;
    let test = "alone::a_memory_limit_lets_the_same_through_whatever_the_noise";
    scenes(test, Virtual, &[noisy(&loose)], |stage, _| {
        let env: Env = &[("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=4G")];
        let found = seeds(stage, true, env, &format!("seeds caps {SEEDS}"))?;
        // 4 GiB and a quarter, of which the context takes 512 MiB.
        assert_eq!(found, [4_608.0; SEEDS]);
        Ok(())
    })
}

#[test]
fn a_fault_gets_out_as_often_as_planted() -> Result<(), Error> {
    const TRIALS: u64 = 4;
    const VICTIMS: u64 = 5;
    const CHANCE: f64 = 0.3;
    let plain = quiet("hopper")?;
    let escaping = |chance: f64| {
        let mut machine = plain.clone();
        machine.defects.mps_contains_faults = true;
        machine.defects.fault_escape = chance;
        machine
    };
    let machines = [escaping(0.0), escaping(1.0), escaping(CHANCE)];
    let test = "alone::a_fault_gets_out_as_often_as_planted";
    scenes(test, Virtual, &machines, |stage, index| {
        let count = if index == 2 { SEEDS } else { 1 };
        let script = format!("seeds escapes {count} {TRIALS} {VICTIMS}");
        let found = seeds(stage, index != 1, &[], &script)?;
        let counts: Vec<u64> = found.iter().map(|&count| count as u64).collect();
        let of = TRIALS * VICTIMS;
        match index {
            0 => assert_eq!(counts, [0]),
            1 => assert_eq!(counts, [of], "contexts that take turns"),
            _ => covered_chance(&counts, of, CHANCE, test),
        }
        Ok(())
    })
}

#[test]
fn service_comes_back_when_the_machine_says() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut slow = plain.clone();
    slow.mps.as_mut().ok_or("no MPS")?.recovery_ms = 240;
    let machines: [Machine; 3] = [slow, plain.clone(), noisy(&plain)];
    let test = "alone::service_comes_back_when_the_machine_says";
    scenes(test, Virtual, &machines, |stage, index| {
        let mps = machines[index].mps.as_ref().ok_or("no MPS")?;
        let count = if index == 2 { SEEDS } else { 1 };
        let script = format!("seeds recoveries {count} {}", mps.recovery_ms * 1_000);
        let found = seeds(stage, true, &[], &script)?;
        let want_ns = mps.recovery_ms as f64 * 1e6;
        if index == 2 {
            covered(&found, want_ns, test);
        } else {
            found.iter().for_each(|ns| near(*ns, want_ns, test));
        }
        Ok(())
    })
}

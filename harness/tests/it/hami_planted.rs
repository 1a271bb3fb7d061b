//! Planted figures as a program under the HAMi stand-in measures them. The memory limit is tested
//! in `hami.rs`, other mechanisms in `virtual-gpu/abi/tests/it/planted`, whose table names these
//! tests.
//!
//! Noise is drawn for every operation, call and time slice, so groups of figures from one device
//! serve as seeds. Noise that is drawn once per session is left out.

#[path = "../../virtual-gpu/abi/tests/it/planted/intervals.rs"]
mod intervals;

use std::process::{Command, Stdio};

use gpubench_host::device::VirtualGpu;
use gpubench_virtual_gpu::machine::{Machine, Noise};
use gpubench_virtual_gpu::session::TimeMode::Virtual;

use crate::support::{Error, Finished, TestResult, driver_client};
use intervals::{EACH, SEEDS, covered, covered_chance, near};

/// A `hopper` without noise, or with all noise that is drawn repeatedly.
fn hopper(noise: bool) -> Result<Machine, Error> {
    let mut machine = Machine::load("hopper")?;
    machine.noise = Noise::default();
    if noise {
        machine.noise = Noise {
            request: 0.02,
            epoch: 0.01,
            epoch_ms: 7,
            call: 0.05,
            turn: 0.05,
            ..Noise::default()
        };
    }
    Ok(machine)
}

/// The figures that concurrent clients measure, each under the stand-in with its own cache file.
fn measured<const N: usize>(
    machine: &Machine,
    commands: [String; N],
) -> Result<[Vec<f64>; N], Error> {
    measured_with_limits(machine, commands, ["0"; N])
}

/// The same with an SM limit for each client in percent; 0 is no limit.
fn measured_with_limits<const N: usize>(
    machine: &Machine,
    commands: [String; N],
    sm_limits: [&str; N],
) -> Result<[Vec<f64>; N], Error> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("machine.toml");
    std::fs::write(&file, toml::to_string(machine)?)?;
    let gpu = VirtualGpu::start(&file.display().to_string(), Virtual, 1)?;
    let library = gpu.hami_library().ok_or("the machine has no stand-in")?;
    let device = gpu.open()?;
    for id in 0..N {
        device.expect(id as u32)?;
    }
    let mut children = Vec::new();
    for (index, command) in commands.iter().enumerate() {
        let id = index.to_string();
        let child = Command::new(driver_client()?)
            .args(["figures", &id])
            .args(command.split(' '))
            .envs(gpu.environment())
            .env("LD_PRELOAD", &library)
            .env("CUDA_DEVICE_MEMORY_SHARED_CACHE", dir.path().join(&id))
            .env("CUDA_DEVICE_MEMORY_LIMIT", "40000M")
            .env("CUDA_DEVICE_SM_LIMIT", sm_limits[index])
            .env("GPU_CORE_UTILIZATION_POLICY", "FORCE")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        children.push(child);
    }
    let mut all = [const { Vec::new() }; N];
    for (child, figures) in children.into_iter().zip(&mut all) {
        let done = Finished::from(child.wait_with_output()?).ended_with(0)?;
        let numbers = done.stdout.split_whitespace().map(str::parse);
        *figures = numbers.collect::<Result<_, _>>()?;
    }
    Ok(all)
}

const fn groups(noise: bool) -> usize {
    if noise { SEEDS } else { 1 }
}

/// Each value is within one percent without noise, and in its group's interval with noise.
fn holds(noise: bool, values: &[f64], planted: f64, what: &str) {
    assert!(values.len() >= EACH, "{what}: {values:?}");
    if noise {
        covered(values, planted, what);
    } else {
        values.iter().for_each(|value| near(*value, planted, what));
    }
}

/// `Launch`: host time of a launch through the limiter's hook.
#[test]
fn a_launch_costs_what_the_machine_says() -> TestResult {
    for noise in [false, true] {
        let mut machine = hopper(noise)?;
        machine.host.launch_ns *= 3;
        let [times_ns] = measured(&machine, [format!("launches {}", groups(noise))])?;
        holds(noise, &times_ns, machine.host.launch_ns as f64, "a launch");
    }
    Ok(())
}

/// `Quantum` and `Gap`: length of time slices and of the gaps between them.
#[test]
fn time_slices_and_the_pauses_between_them_are_as_long_as_planted() -> TestResult {
    for (slice_us, gap_us, noise) in [(800, 300, false), (150, 60, true)] {
        let mut machine = hopper(noise)?;
        machine.scheduler.slice_us = slice_us;
        machine.scheduler.switch_gap_us = gap_us;
        let span_us = (EACH as u64 + 3) * 2 * (slice_us + gap_us);
        let until_ms = 600 + 3 * groups(noise) as u64 * span_us / 1_000;
        let trace = format!("time-slice-trace {} {span_us}", groups(noise));
        let [spans, _] = measured(&machine, [trace, format!("keep {until_ms}")])?;
        let slices: Vec<f64> = spans.iter().step_by(2).copied().collect();
        // Between two slices of a client lie one slice of the other client and two gaps.
        let gaps = spans.chunks(2).map(|pair| (pair[1] - pair[0]) / 2.0);
        holds(noise, &slices, slice_us as f64 * 1e3, "a time slice");
        holds(noise, &gaps.collect::<Vec<_>>(), gap_us as f64 * 1e3, "a gap");
    }
    Ok(())
}

/// `SmCap`: the share of time in which the limiter lets launches through. The unmodified token
/// bucket of HAMi-core has no constant share: it follows the utilisation of the last second in
/// bursts.
#[test]
fn a_limiter_gives_the_share_that_is_planted() -> TestResult {
    const PERIOD_NS: f64 = 120e6;
    for (limit, error, planted, noise) in [
        ("50", 0.0, 0.5, false),
        ("30", -0.5, 0.15, false),
        ("25", 0.2, 0.3, false),
        ("25", 0.2, 0.3, true),
    ] {
        let mut machine = hopper(noise)?;
        machine.defects.hami_limiter_paced = true;
        machine.defects.hami_sm_error = error;
        // A gap would add to the period.
        machine.scheduler.switch_gap_us = 0;
        let blocks = EACH * groups(noise);
        let commands = ["limited", "free"].map(|what| format!("{what} {blocks}"));
        let [counts, times_ns] = measured_with_limits(&machine, commands, [limit, "0"])?;
        // The last kernel of a period starts before the limiter closes and ends after it. On
        // average, half of it is within the limit.
        let shares = counts.iter().zip(&times_ns);
        let shares: Vec<f64> =
            shares.map(|(count, time_ns)| (count - 0.5) * time_ns / PERIOD_NS).collect();
        holds(noise, &shares, planted, "the share");
    }
    Ok(())
}

/// `Link`: beside a client with two copies in the queue, a client has one copy in three.
#[test]
fn copies_queue_for_one_engine() -> TestResult {
    for noise in [false, true] {
        let blocks = EACH * groups(noise);
        let commands = [format!("copies {blocks}"), format!("lean {blocks}")];
        let [shares, _] = measured(&hopper(noise)?, commands)?;
        holds(noise, &shares, 1.0 / 3.0, "the share of the link");
    }
    Ok(())
}

/// `Containment`: how often a fault reaches another tenant.
#[test]
fn a_fault_gets_out_as_often_as_planted() -> TestResult {
    const TRIALS: u64 = 4;
    const VICTIMS: u64 = 5;
    for (chance, noise) in [(0.0, false), (1.0, false), (0.3, true)] {
        let mut machine = hopper(noise)?;
        machine.defects.fault_escape = chance;
        let command = format!("escapes {} {TRIALS} {VICTIMS}", groups(noise));
        let [escapes] = measured(&machine, [command])?;
        let counts: Vec<u64> = escapes.iter().map(|&count| count as u64).collect();
        let of = TRIALS * VICTIMS;
        if noise {
            covered_chance(&counts, of, chance, "escapes");
        } else {
            assert_eq!(counts, [(of as f64 * chance) as u64]);
        }
    }
    Ok(())
}

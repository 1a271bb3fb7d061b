//! Planted figures as a program under HAMi's stand-in finds them: the library stands between
//! program and driver, and what it does not limit is the device's. (Memory: in `hami.rs`. All other
//! mechanisms: in the device's own tests, whose table names what stands here.)
//!
//! Noise is drawn for every operation, call and turn, so that groups of one device's figures are
//! here what seeds are there; what is drawn once a session stays out.

#[path = "../../virtual-gpu/abi/tests/planted/intervals.rs"]
mod intervals;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Error, TestResult};
use gpubench::device::VirtualGpu;
use gpubench_virtual_gpu::machine::{Machine, Noise};
use gpubench_virtual_gpu::session::TimeMode::Virtual;
use intervals::{EACH, SEEDS, covered, covered_chance, near};

/// A `hopper` without noise, or with all that is drawn again and again.
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

/// The program that is not part of the harness, beside this test.
fn client() -> Result<PathBuf, Error> {
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(Path::parent);
    Ok(target
        .ok_or("a target folder")?
        .join("examples/driver_client"))
}

/// What clients find on a machine, each under the stand-in with a count of its own.
fn found<const N: usize>(machine: &Machine, wishes: [String; N]) -> Result<[Vec<f64>; N], Error> {
    found_under(machine, wishes, ["0"; N])
}

/// The same with a limit of each one's share, in percent; 0 is none.
fn found_under<const N: usize>(
    machine: &Machine,
    wishes: [String; N],
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
    for (index, wish) in wishes.iter().enumerate() {
        let id = index.to_string();
        let child = Command::new(client()?)
            .args(["figures", &id])
            .args(wish.split(' '))
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
    for ((child, figures), wish) in children.into_iter().zip(&mut all).zip(&wishes) {
        let out = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&out.stdout);
        let complaint = String::from_utf8_lossy(&out.stderr);
        if !out.status.success() {
            return Err(format!("{wish}: {said}{complaint}").into());
        }
        let numbers = said.split_whitespace().map(str::parse);
        *figures = numbers.collect::<Result<_, _>>()?;
    }
    Ok(all)
}

/// How many groups.
const fn groups(noise: bool) -> usize {
    if noise { SEEDS } else { 1 }
}

/// Each within one percent without noise; inside its group's interval with noise.
fn holds(noise: bool, values: &[f64], want: f64, what: &str) {
    assert!(values.len() >= EACH, "{what}: {values:?}");
    if noise {
        covered(values, want, what);
    } else {
        values.iter().for_each(|value| near(*value, want, what));
    }
}

/// `Launch`: what a launch costs the host, with the limiter's hook in its way.
#[test]
fn a_launch_costs_what_the_machine_says() -> TestResult {
    for noise in [false, true] {
        let mut machine = hopper(noise)?;
        machine.host.launch_ns *= 3;
        let [found] = found(&machine, [format!("launches {}", groups(noise))])?;
        holds(noise, &found, machine.host.launch_ns as f64, "a launch");
    }
    Ok(())
}

/// `Quantum` and `Gap`: how long turns and the pauses between them are.
#[test]
fn turns_and_the_pauses_between_them_are_as_long_as_planted() -> TestResult {
    for (slice_us, gap_us, noise) in [(800, 300, false), (150, 60, true)] {
        let mut machine = hopper(noise)?;
        machine.scheduler.slice_us = slice_us;
        machine.scheduler.switch_gap_us = gap_us;
        let span_us = (EACH as u64 + 3) * 2 * (slice_us + gap_us);
        let until_ms = 600 + 3 * groups(noise) as u64 * span_us / 1_000;
        let watch = format!("turns {} {span_us}", groups(noise));
        let [spans, _] = found(&machine, [watch, format!("keep {until_ms}")])?;
        let there: Vec<f64> = spans.iter().step_by(2).copied().collect();
        // Away is a turn of the other's and a pause on either side of it.
        let gaps = spans.chunks(2).map(|pair| (pair[1] - pair[0]) / 2.0);
        holds(noise, &there, slice_us as f64 * 1e3, "a turn");
        holds(
            noise,
            &gaps.collect::<Vec<_>>(),
            gap_us as f64 * 1e3,
            "a pause",
        );
    }
    Ok(())
}

/// `SmCap`: the share of time in which launches go. The bucket of HAMi-core has none to look for:
/// it follows the utilisation of the last second, in bursts.
#[test]
fn a_limiter_gives_the_share_that_is_planted() -> TestResult {
    const PERIOD_NS: f64 = 120e6;
    for (limit, error, want, noise) in [
        ("50", 0.0, 0.5, false),
        ("30", -0.5, 0.15, false),
        ("25", 0.2, 0.3, false),
        ("25", 0.2, 0.3, true),
    ] {
        let mut machine = hopper(noise)?;
        machine.defects.hami_limiter_paced = true;
        machine.defects.hami_sm_error = error;
        // The other client's turn would be part of a period.
        machine.scheduler.switch_gap_us = 0;
        let blocks = EACH * groups(noise);
        let wishes = ["limited", "free"].map(|what| format!("{what} {blocks}"));
        let [counts, times_ns] = found_under(&machine, wishes, [limit, "0"])?;
        // The last kernel is begun before the limiter closes and ends behind it: half of it is
        // within, in the mean.
        let shares = counts.iter().zip(&times_ns);
        let shares: Vec<f64> = shares
            .map(|(count, time_ns)| (count - 0.5) * time_ns / PERIOD_NS)
            .collect();
        holds(noise, &shares, want, "the share");
    }
    Ok(())
}

/// `Link`: beside somebody with two copies in the queue, one in three is one's own.
#[test]
fn copies_queue_for_one_engine() -> TestResult {
    for noise in [false, true] {
        let blocks = EACH * groups(noise);
        let wishes = [format!("copies {blocks}"), format!("lean {blocks}")];
        let [kept, _] = found(&hopper(noise)?, wishes)?;
        holds(noise, &kept, 1.0 / 3.0, "the part of the link");
    }
    Ok(())
}

/// `Containment`: how often a fault reaches somebody else.
#[test]
fn a_fault_gets_out_as_often_as_planted() -> TestResult {
    const TRIALS: u64 = 4;
    const VICTIMS: u64 = 5;
    for (chance, noise) in [(0.0, false), (1.0, false), (0.3, true)] {
        let mut machine = hopper(noise)?;
        machine.defects.fault_escape = chance;
        let wish = format!("escapes {} {TRIALS} {VICTIMS}", groups(noise));
        let [found] = found(&machine, [wish])?;
        let counts: Vec<u64> = found.iter().map(|&count| count as u64).collect();
        let of = TRIALS * VICTIMS;
        if noise {
            covered_chance(&counts, of, chance, "escapes");
        } else {
            assert_eq!(counts, [(of as f64 * chance) as u64]);
        }
    }
    Ok(())
}

//! Planted figures as a program on the driver interface observes them: what leaks between MIG
//! instances, what shares the link, what the power cap takes, what a percentage of MPS gives, what
//! a launch costs. Without noise, within one percent; with noise, inside an interval of 95 % as
//! often as that says. (Memory limits and how far faults reach are in `mps.rs`, `mps_faults.rs` and
//! `faults.rs`, turns and HAMi's stand-in with the harness; what a launch costs the host has no
//! noise.)

mod mps_support;

use gpubench_virtual_gpu::machine::{Machine, Noise};
use gpubench_virtual_gpu::mig;
use gpubench_virtual_gpu::session::TimeMode::Virtual;

use mps_support::{Error, Stage, quiet, scenes};

/// Blocks behind one interval, and intervals behind the share of them that hold the figure.
const BLOCKS: usize = 8;
const INTERVALS: usize = 200;
/// Two-sided 95 % quantile of Student's t with seven degrees of freedom.
const T_7: f64 = 2.364_624;

/// The machine with noise of its own for every operation, short spans of time, and the session.
fn noisy(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    machine.noise = Noise {
        request: 0.02,
        epoch: 0.01,
        epoch_ms: 7,
        session: 0.01,
    };
    machine
}

/// Splits the device in two instances of three slices; their UUIDs.
fn halves(stage: &Stage, machine: &Machine) -> Result<Vec<String>, Error> {
    let made = stage.device.transact(|state, _| {
        mig::set_mode(state, machine, true);
        let geometry = machine.mig.as_ref().ok_or("no MIG")?;
        let profile = geometry.profile.iter().position(|p| p.name == "3g.40gb");
        let profile = profile.ok_or("no profile")? as u32;
        let mut uuids = Vec::new();
        for _ in 0..2 {
            let instance = mig::create_instance(state, machine, profile, None);
            let instance = instance.map_err(|_| "no instance")?;
            let engine = mig::create_engine(state, machine, instance, 3);
            uuids.push(mig::uuid(state, machine, engine.map_err(|_| "no engine")?));
        }
        Ok::<_, &str>(uuids)
    })?;
    Ok(made?)
}

/// The figures that a client said last.
fn figures(said: &[String]) -> Result<Vec<f64>, Error> {
    let last = said.last().ok_or("it says nothing")?;
    Ok(last.split(' ').map(str::parse).collect::<Result<_, _>>()?)
}

/// For each block, the share of its rate that a client keeps beside another on the other instance.
fn kept_beside(
    stage: &Stage,
    machine: &Machine,
    work: &str,
    blocks: usize,
) -> Result<Vec<f64>, Error> {
    let uuids = halves(stage, machine)?;
    let show = |index: usize| [("CUDA_VISIBLE_DEVICES", uuids[index].as_str())];
    let (first, second) = (show(0), show(1));
    let measure = format!("open; measure {work} {blocks} 500");
    let lean = format!("open; lean {work} {blocks} 500");
    let mut cast = stage
        .clients(&[(&first[..], &measure), (&second[..], &lean)])?
        .into_iter();
    let mut next = || -> Result<Vec<String>, Error> { cast.next().ok_or("a client")?.finish() };
    let (victim, other) = (figures(&next()?)?, next()?);
    assert_eq!(other, ["0", "0"], "the other leaned to the end");
    Ok(victim.chunks(2).map(|pair| pair[0] / pair[1]).collect())
}

fn near(found: f64, want: f64, what: &str) {
    assert!(
        (found / want - 1.0).abs() < 0.01,
        "{what}: {found} is not {want}"
    );
}

/// The figure lies in 92 to 98 % of the intervals that blocks of ratios support.
fn covered(ratios: &[f64], want: f64, what: &str) {
    let n = BLOCKS as f64;
    let holds = |block: &&[f64]| {
        let mean = block.iter().sum::<f64>() / n;
        let variance = block.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0);
        assert!(variance > 0.0, "{what}: no noise in {block:?}");
        (mean - want).abs() <= T_7 * (variance / n).sqrt()
    };
    let held = ratios.chunks_exact(BLOCKS).filter(holds).count();
    let of = ratios.len() / BLOCKS;
    assert!(
        of == INTERVALS && (of * 92..=of * 98).contains(&(held * 100)),
        "{what}: {want} is in {held} of {of} intervals"
    );
}

/// Plays work on both instances of each machine, and once more with the last one's noise on.
fn between_instances(test: &str, work: &str, cases: &[(Machine, f64)]) -> Result<(), Error> {
    let (last, want) = cases.last().ok_or("no case")?;
    let mut machines: Vec<Machine> = cases.iter().map(|(machine, _)| machine.clone()).collect();
    machines.push(noisy(last));
    scenes(test, Virtual, &machines, |stage, index| {
        let machine = &machines[index];
        if let Some((_, want)) = cases.get(index) {
            for kept in kept_beside(stage, machine, work, 2)? {
                near(kept, *want, test);
            }
            return Ok(());
        }
        let kept = kept_beside(stage, machine, work, BLOCKS * INTERVALS)?;
        covered(&kept, *want, test);
        Ok(())
    })
}

#[test]
fn the_dram_bandwidth_that_leaks_between_instances_is_the_planted_share() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut leaky = plain.clone();
    leaky.defects.mig_dram_leak = 0.2;
    let test = "the_dram_bandwidth_that_leaks_between_instances_is_the_planted_share";
    between_instances(test, "pour:1024", &[(plain, 1.0), (leaky, 0.8)])
}

#[test]
fn the_l2_bandwidth_that_leaks_between_instances_is_the_planted_share() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut leaky = plain.clone();
    leaky.defects.mig_l2_leak = 0.3;
    let test = "the_l2_bandwidth_that_leaks_between_instances_is_the_planted_share";
    between_instances(test, "l2:160", &[(plain, 1.0), (leaky, 0.7)])
}

#[test]
fn instances_share_the_link_evenly() -> Result<(), Error> {
    let test = "instances_share_the_link_evenly";
    between_instances(test, "push:64", &[(quiet("hopper")?, 0.5)])
}

#[test]
fn what_the_power_cap_leaves_is_the_planted_clock() -> Result<(), Error> {
    // Arithmetic on half of the chip draws 60/132 of half the range: 143 W above idle. A cap that
    // leaves that much lets one instance alone run at the full clock, and two at half of it.
    let plain = quiet("hopper")?;
    let mut capped = plain.clone();
    let full_w = 0.5 * (capped.power.max_w - capped.power.idle_w);
    capped.power.cap_w = capped.power.idle_w + full_w * 60.0 / 132.0;
    let test = "what_the_power_cap_leaves_is_the_planted_clock";
    between_instances(test, "chain:9600", &[(plain, 1.0), (capped, 0.5)])
}

/// For each block, the share of the whole device's work that a client with half of its threads
/// does. They never run at the same time.
fn share_of_half(stage: &Stage, blocks: usize) -> Result<Vec<f64>, Error> {
    let _daemon = stage.daemon("", &[])?;
    // A grid that 66, 79 and 132 SMs divide evenly.
    let half = [("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")];
    let measure = |begin_ms| format!("open; measure chain:10428 {blocks} {begin_ms}");
    let (now, later) = (measure(500), measure(508));
    let mut cast = stage
        .clients(&[(&half[..], &now), (&[], &later)])?
        .into_iter();
    let mut next = || figures(&cast.next().ok_or("a client")?.finish()?);
    let (half, whole) = (next()?, next()?);
    Ok(whole
        .iter()
        .zip(&half)
        .map(|(w, h)| w / h)
        .step_by(2)
        .collect())
}

#[test]
fn a_percentage_is_worth_what_the_machine_makes_of_it() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut more = plain.clone();
    more.defects.mps_percentage_error = 0.2;
    let machines = [plain, more.clone(), noisy(&more)];
    let test = "a_percentage_is_worth_what_the_machine_makes_of_it";
    scenes(test, Virtual, &machines, |stage, index| {
        // 50 % of 132 SMs; 60 %, rounded down.
        let want = [66.0, 79.0, 79.0][index] / 132.0;
        if index == 2 {
            covered(&share_of_half(stage, BLOCKS * INTERVALS)?, want, test);
            return Ok(());
        }
        for share in share_of_half(stage, 2)? {
            near(share, want, test);
        }
        Ok(())
    })
}

#[test]
fn a_launch_costs_what_the_machine_says() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut slow = plain.clone();
    slow.host.launch_ns *= 3;
    let machines = [plain, slow];
    let test = "a_launch_costs_what_the_machine_says";
    scenes(test, Virtual, &machines, |stage, index| {
        let mut clients = stage.clients(&[(&[], "open; launches 500")])?;
        let found = figures(&clients.remove(0).finish()?)?;
        near(found[0], machines[index].host.launch_ns as f64, test);
        Ok(())
    })
}

//! Planted figures as a program on the driver interface observes them: what leaks between MIG
//! instances, what shares the link, what the power cap takes, what a launch costs. Without noise,
//! within one percent. (Those of MPS are in `mps.rs`, those of HAMi's stand-in with the harness.)

mod mps_support;

use gpubench_virtual_gpu::machine::Machine;
use gpubench_virtual_gpu::mig;
use gpubench_virtual_gpu::session::TimeMode::Virtual;

use mps_support::{Error, Stage, quiet, scenes};

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

/// How often a client that alone follows the first script did what it says last, and how often
/// beside one that follows the second.
fn alone_and_beside(
    stage: &Stage,
    uuids: &[String],
    script: &str,
    other: &str,
) -> Result<(f64, f64), Error> {
    let show = |index: usize| [("CUDA_VISIBLE_DEVICES", uuids[index].as_str())];
    let (first, second) = (show(0), show(1));
    let count = |said: &[String]| -> Result<f64, Error> {
        let last = said.last().ok_or("it says nothing")?;
        Ok(last.split(' ').next().unwrap_or_default().parse()?)
    };
    // The two rounds follow one another on one clock: the second ends as late as the first is long.
    let begin_ms = stage.device.shared().read(|state| state.now_ns)? / 1_000_000;
    let at = |script: &str, from_ms: u64| {
        let words = (from_ms + 500, from_ms + 600);
        script
            .replace("BEGIN", &words.0.to_string())
            .replace("END", &words.1.to_string())
    };
    let alone = stage.clients(&[(&first[..], &at(script, begin_ms))])?;
    let mut heard = Vec::new();
    for client in alone {
        heard.push(count(&client.finish()?)?);
    }
    let (mine, theirs) = (at(script, begin_ms + 2000), at(other, begin_ms + 2000));
    let both = stage.clients(&[(&first[..], &mine), (&second[..], &theirs)])?;
    for client in both {
        heard.push(count(&client.finish()?)?);
    }
    Ok((heard[0], heard[1]))
}

fn near(found: f64, want: f64, what: &str) {
    assert!(
        (found / want - 1.0).abs() < 0.01,
        "{what}: {found} is not {want}"
    );
}

#[test]
fn the_bandwidth_that_leaks_between_instances_is_the_planted_share() -> Result<(), Error> {
    let test = "the_bandwidth_that_leaks_between_instances_is_the_planted_share";
    let machines: Vec<Machine> = [0.0, 0.2]
        .into_iter()
        .map(|leak| {
            let mut machine = quiet("hopper")?;
            machine.defects.mig_dram_leak = leak;
            Ok(machine)
        })
        .collect::<Result<_, Error>>()?;
    scenes(test, Virtual, &machines, |stage, index| {
        let uuids = halves(stage, &machines[index])?;
        let pour = "open; at BEGIN; pour 256 END";
        let (alone, beside) = alone_and_beside(stage, &uuids, pour, pour)?;
        let kept = 1.0 - machines[index].defects.mig_dram_leak;
        near(beside / alone, kept, "share of the bandwidth that is kept");
        Ok(())
    })
}

#[test]
fn instances_share_the_link_evenly() -> Result<(), Error> {
    let machines = [quiet("hopper")?];
    scenes(
        "instances_share_the_link_evenly",
        Virtual,
        &machines,
        |stage, _| {
            let uuids = halves(stage, &machines[0])?;
            let push = "open; at BEGIN; push 64 END";
            let (alone, beside) = alone_and_beside(stage, &uuids, push, push)?;
            near(beside / alone, 0.5, "share of the link");
            Ok(())
        },
    )
}

#[test]
fn what_the_power_cap_leaves_is_the_planted_clock() -> Result<(), Error> {
    // Arithmetic on half of the chip draws 60/132 of half the range: 143 W above idle. A cap that
    // leaves half of it halves the clock, and so the work.
    let mut capped = quiet("hopper")?;
    let full_w = 0.5 * (capped.power.max_w - capped.power.idle_w);
    capped.power.cap_w = capped.power.idle_w + full_w * 60.0 / 132.0;
    let machines = [quiet("hopper")?, capped];
    let work = "open; at BEGIN; work 9600 END";
    let test = "what_the_power_cap_leaves_is_the_planted_clock";
    scenes(test, Virtual, &machines, |stage, index| {
        let uuids = halves(stage, &machines[index])?;
        let (alone, beside) = alone_and_beside(stage, &uuids, work, work)?;
        // One instance alone stays under the cap; two together draw twice what it leaves.
        let kept = if index == 0 { 1.0 } else { 0.5 };
        near(
            beside / alone,
            kept,
            "work beside an instance that draws power",
        );
        Ok(())
    })
}

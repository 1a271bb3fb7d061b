//! What is taken from a tenant beside another one: bandwidth, the link, the clock; and the part of
//! the device that a tenant gets.

use gpubench_virtual_gpu::machine::Machine;
use gpubench_virtual_gpu::mig;
use gpubench_virtual_gpu::session::TimeMode::Virtual;

use super::intervals::{EACH, SEEDS, covered, near};
use super::mps_support::{Daemon, Error, Stage, quiet, scenes};
use super::{figures, noisy};

/// How two clients share the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Under {
    /// A MIG instance of these profiles each.
    Mig([&'static str; 2]),
    /// One server of MPS, at these percentages.
    Mps([&'static str; 2]),
    /// One server of MPS in a MIG instance, at these percentages of it.
    MigMps([&'static str; 2]),
    /// Static partitions of so many chunks.
    Static([u32; 2]),
    /// Turns, by nothing at all.
    Turns,
}

/// What part of the SMs a client of MPS has.
const PERCENTAGE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

/// Two equal instances.
const HALVES: Under = Under::Mig(["3g.40gb", "3g.40gb"]);

/// The daemon, if there is one, and the variable that gives each of two clients its part.
type Parts = (Option<Daemon>, [(&'static str, String); 2]);

fn set_up(stage: &Stage, machine: &Machine, under: Under) -> Result<Parts, Error> {
    let each = |name, values: [String; 2]| values.map(|value| (name, value));
    match under {
        Under::Mig(profiles) => {
            let uuids = instances(stage, machine, profiles)?;
            Ok((None, each("CUDA_VISIBLE_DEVICES", uuids)))
        }
        Under::Mps(percentages) => {
            let daemon = stage.daemon("", &[])?;
            Ok((
                Some(daemon),
                each(PERCENTAGE, percentages.map(str::to_owned)),
            ))
        }
        Under::MigMps(percentages) => {
            let [uuid, _empty] = instances(stage, machine, ["3g.40gb"; 2])?;
            let daemon = stage.daemon("", &[("CUDA_VISIBLE_DEVICES", &uuid)])?;
            Ok((
                Some(daemon),
                each(PERCENTAGE, percentages.map(str::to_owned)),
            ))
        }
        Under::Static(chunks) => {
            let (daemon, gpu) = (stage.daemon("-S", &[])?, machine.uuid());
            for count in chunks {
                let said = daemon.ask(&format!("sm_partition add {gpu} {count}"))?;
                assert!(said.contains("created"), "{said}");
            }
            let names = ["1", "2"].map(|name| format!("{gpu}/{name}"));
            Ok((Some(daemon), each("CUDA_MPS_SM_PARTITION", names)))
        }
        Under::Turns => Ok((None, each("IN_TURNS", ["1", "2"].map(str::to_owned)))),
    }
}

/// Makes an instance of each profile; their UUIDs.
fn instances(stage: &Stage, machine: &Machine, profiles: [&str; 2]) -> Result<[String; 2], Error> {
    let made = stage.device.transact(|state, _| {
        mig::set_mode(state, machine, true);
        let geometry = machine.mig.as_ref().ok_or("no MIG")?;
        let mut uuids = [String::new(), String::new()];
        for (uuid, name) in uuids.iter_mut().zip(profiles) {
            let profile = geometry.profile.iter().position(|p| p.name == name);
            let profile = profile.ok_or("no profile")?;
            let slices = geometry.profile[profile].slices;
            let instance = mig::create_instance(state, machine, profile as u32, None);
            let instance = instance.map_err(|_| "no instance")?;
            let engine = mig::create_engine(state, machine, instance, slices);
            *uuid = mig::uuid(state, machine, engine.map_err(|_| "no engine")?);
        }
        Ok::<_, &str>(uuids)
    })?;
    Ok(made?)
}

/// What two clients do, each in its part, and what they say last.
fn play(
    stage: &Stage,
    machine: &Machine,
    under: Under,
    scripts: [&str; 2],
) -> Result<[Vec<f64>; 2], Error> {
    let (_daemon, parts) = set_up(stage, machine, under)?;
    let env = parts
        .each_ref()
        .map(|(name, value)| [(*name, value.as_str())]);
    let cast = [(&env[0][..], scripts[0]), (&env[1][..], scripts[1])];
    let mut clients = stage.clients(&cast)?.into_iter();
    let mut next = || figures(&clients.next().ok_or("a client")?.finish()?);
    Ok([next()?, next()?])
}

/// Blocks of two phases; without noise two of them are as good as any number.
fn blocks(noise: bool, begin_ms: u64, lean_ms: u64) -> String {
    let (count, per_seed) = if noise { (EACH * SEEDS, EACH) } else { (2, 0) };
    format!("{count}x{per_seed}@{begin_ms}+{lean_ms}")
}

/// One promise about what a client keeps of its rate beside another.
struct Kept {
    machine: Machine,
    under: Under,
    /// What the measured one does, and the other.
    work: [&'static str; 2],
    /// How long the other leans.
    lean_ms: u64,
    want: f64,
}

impl Kept {
    fn of(machine: &Machine, under: Under, work: &'static str, want: f64) -> Self {
        Self {
            machine: machine.clone(),
            under,
            work: [work; 2],
            lean_ms: 8,
            want,
        }
    }

    /// For each block, the part of the rate that is kept.
    fn observe(&self, stage: &Stage, machine: &Machine, noise: bool) -> Result<Vec<f64>, Error> {
        let blocks = blocks(noise, 500, self.lean_ms);
        let [measured, other] = self.work;
        let measure = format!("open; measure {measured} {blocks}");
        let lean = format!("open; lean {other} {blocks}");
        let [victim, leant] = play(stage, machine, self.under, [&measure, &lean])?;
        assert_eq!(leant, [0.0], "the other leaned to the end");
        Ok(victim.chunks(2).map(|pair| pair[0] / pair[1]).collect())
    }
}

/// Every case without noise, and the last one with it.
fn kept(test: &str, cases: &[Kept]) -> Result<(), Error> {
    let last = cases.last().ok_or("no case")?;
    let mut machines: Vec<Machine> = cases.iter().map(|case| case.machine.clone()).collect();
    machines.push(noisy(&last.machine));
    scenes(test, Virtual, &machines, |stage, index| {
        let machine = &machines[index];
        let Some(case) = cases.get(index) else {
            covered(&last.observe(stage, machine, true)?, last.want, test);
            return Ok(());
        };
        for found in case.observe(stage, machine, false)? {
            near(found, case.want, &format!("{test}, {:?}", case.under));
        }
        Ok(())
    })
}

#[test]
fn the_dram_bandwidth_that_leaks_between_instances_is_the_planted_share() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut leaky = plain.clone();
    leaky.defects.mig_dram_leak = 0.2;
    let test = "sharing::the_dram_bandwidth_that_leaks_between_instances_is_the_planted_share";
    let case = |machine, want| Kept::of(machine, HALVES, "pour:1024", want);
    kept(test, &[case(&plain, 1.0), case(&leaky, 0.8)])
}

#[test]
fn the_l2_bandwidth_that_leaks_between_instances_is_the_planted_share() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut leaky = plain.clone();
    leaky.defects.mig_l2_leak = 0.3;
    let test = "sharing::the_l2_bandwidth_that_leaks_between_instances_is_the_planted_share";
    let case = |machine, want| Kept::of(machine, HALVES, "l2:160", want);
    kept(test, &[case(&plain, 1.0), case(&leaky, 0.7)])
}

#[test]
fn clients_of_one_server_share_bandwidth_evenly_whatever_their_percentages() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let test = "sharing::clients_of_one_server_share_bandwidth_evenly_whatever_their_percentages";
    let case = |under| Kept::of(&plain, under, "pour:1024", 0.5);
    let cases = [
        Under::Mps(["100"; 2]),
        Under::Static([8, 8]),
        Under::MigMps(["50"; 2]),
        Under::Mps(["50"; 2]),
    ];
    kept(test, &cases.map(case))
}

#[test]
fn instances_share_the_link_evenly() -> Result<(), Error> {
    let test = "sharing::instances_share_the_link_evenly";
    kept(test, &[Kept::of(&quiet("hopper")?, HALVES, "push:64", 0.5)])
}

#[test]
fn copies_of_an_undivided_device_queue() -> Result<(), Error> {
    // One engine a direction, first come first served: beside somebody with two copies in the
    // queue, one in three is one's own.
    let plain = quiet("hopper")?;
    let test = "sharing::copies_of_an_undivided_device_queue";
    let case = |under| Kept {
        lean_ms: 36,
        work: ["push1:192", "push:192"],
        ..Kept::of(&plain, under, "", 1.0 / 3.0)
    };
    kept(test, &[case(Under::Mps(["50"; 2])), case(Under::Turns)])
}

#[test]
fn what_the_power_cap_leaves_is_the_planted_clock() -> Result<(), Error> {
    // Arithmetic on half of the chip draws 60/132 of half the range: 143 W above idle. A cap that
    // leaves that much lets one instance alone run at the full clock, and two at half of it.
    let plain = quiet("hopper")?;
    let capped = |sms: f64| {
        let mut capped = plain.clone();
        let full_w = 0.5 * (capped.power.max_w - capped.power.idle_w);
        capped.power.cap_w = capped.power.idle_w + full_w * sms / 132.0;
        capped
    };
    let test = "sharing::what_the_power_cap_leaves_is_the_planted_clock";
    let case = |machine, under| Kept::of(machine, under, "chain:9600", 0.5);
    let cases = [
        Kept::of(&plain, HALVES, "chain:9600", 1.0),
        case(&capped(64.0), Under::Static([8, 8])),
        case(&capped(60.0), HALVES),
    ];
    kept(test, &cases)
}

/// One promise about the part of the device's arithmetic that a client gets.
struct Share {
    machine: Machine,
    under: Under,
    /// What the clients do first, and the blocks of their kernels: a number that the SMs of both
    /// divide evenly.
    first: [&'static str; 2],
    grid: u32,
    want: f64,
}

impl Share {
    /// For each block, the first client's rate over the second's. They never run at the same time.
    fn observe(&self, stage: &Stage, machine: &Machine, noise: bool) -> Result<Vec<f64>, Error> {
        let script = |first: &str, begin_ms| {
            let (grid, blocks) = (self.grid, blocks(noise, begin_ms, 8));
            format!("{first}; measure chain:{grid} {blocks}")
        };
        let [first, second] = self.first;
        let scripts = [script(first, 500), script(second, 508)];
        let [first, second] = play(
            stage,
            machine,
            self.under,
            scripts.each_ref().map(|s| &s[..]),
        )?;
        let rate = |spans: &[f64]| 1.0 / spans.iter().sum::<f64>();
        let both = first.chunks(2).zip(second.chunks(2));
        Ok(both.map(|(own, other)| rate(own) / rate(other)).collect())
    }
}

/// Every case without noise, and the last one with it.
fn shares(test: &str, cases: &[Share]) -> Result<(), Error> {
    let last = cases.last().ok_or("no case")?;
    let mut machines: Vec<Machine> = cases.iter().map(|case| case.machine.clone()).collect();
    machines.push(noisy(&last.machine));
    scenes(test, Virtual, &machines, |stage, index| {
        let machine = &machines[index];
        let Some(case) = cases.get(index) else {
            covered(&last.observe(stage, machine, true)?, last.want, test);
            return Ok(());
        };
        for found in case.observe(stage, machine, false)? {
            near(found, case.want, &format!("{test}, {:?}", case.under));
        }
        Ok(())
    })
}

#[test]
fn a_percentage_is_worth_what_the_machine_makes_of_it() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let (mut more, mut ignored) = (plain.clone(), plain.clone());
    more.defects.mps_percentage_error = 0.2;
    ignored.defects.mps_percentage_ignored = true;
    let test = "sharing::a_percentage_is_worth_what_the_machine_makes_of_it";
    // 50 % of 132 SMs; all of them; 60 %, rounded down.
    let case = |machine: &Machine, sms: f64| Share {
        machine: machine.clone(),
        under: Under::Mps(["50", "100"]),
        first: ["open"; 2],
        grid: 10_428,
        want: sms / 132.0,
    };
    // The same of the 60 SMs of an instance.
    let within = |machine: &Machine, sms: f64| Share {
        under: Under::MigMps(["50", "100"]),
        grid: 10_080,
        want: sms / 60.0,
        ..case(machine, 0.0)
    };
    let cases = [
        within(&plain, 30.0),
        within(&ignored, 60.0),
        within(&more, 36.0),
        case(&plain, 66.0),
        case(&ignored, 132.0),
        case(&more, 79.0),
    ];
    shares(test, &cases)
}

#[test]
fn a_static_partition_has_its_chunks() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut large = plain.clone();
    large.mps.as_mut().ok_or("no MPS")?.chunk_sms = 12;
    let case = |machine: &Machine, under, want| Share {
        machine: machine.clone(),
        under,
        first: ["open"; 2],
        grid: 9_600,
        want,
    };
    // 32 and 96 SMs; 48 and 60.
    let cases = [
        case(&plain, Under::Static([4, 12]), 32.0 / 96.0),
        case(&large, Under::Static([4, 5]), 48.0 / 60.0),
    ];
    shares("sharing::a_static_partition_has_its_chunks", &cases)
}

#[test]
fn an_instance_has_the_sms_of_its_profile() -> Result<(), Error> {
    let mut machine = quiet("hopper")?;
    let geometry = machine.mig.as_mut().ok_or("no MIG")?;
    for profile in &mut geometry.profile {
        match profile.name.as_str() {
            "3g.40gb" => profile.sm = Some(48),
            "4g.40gb" => profile.sm = Some(64),
            _ => {}
        }
    }
    let case = Share {
        machine,
        under: Under::Mig(["4g.40gb", "3g.40gb"]),
        first: ["open"; 2],
        grid: 9_600,
        want: 64.0 / 48.0,
    };
    shares("sharing::an_instance_has_the_sms_of_its_profile", &[case])
}

#[test]
fn a_green_context_has_its_sms_and_no_more() -> Result<(), Error> {
    let mut plain = quiet("hopper")?;
    // The other process's turn would be part of the first kernel's time.
    plain.scheduler.switch_gap_us = 0;
    let mut whole = plain.clone();
    whole.defects.green_contexts_whole = true;
    let case = |machine: &Machine, want| Share {
        machine: machine.clone(),
        under: Under::Turns,
        first: ["green 64", "open"],
        grid: 8_448,
        want,
    };
    let cases = [case(&whole, 1.0), case(&plain, 64.0 / 132.0)];
    shares("sharing::a_green_context_has_its_sms_and_no_more", &cases)
}

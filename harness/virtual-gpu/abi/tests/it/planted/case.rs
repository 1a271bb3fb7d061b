//! A planted figure that clients measure: their scripts, and the expected values without noise and
//! over seeds.

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;
use gpubench_virtual_gpu_model::machine::{Machine, Noise};

use super::intervals::{EACH, SEEDS, covered, covered_chance, near};
use super::table::Figure;
use crate::mps_support::mechanisms::Mechanism;
use crate::mps_support::sharing::{SharedDevice, Sharing, borrowed};
use crate::mps_support::{Error, Stage, scenes};

/// Figures of a device under one mechanism, and their measurement.
#[derive(Clone)]
pub struct Case {
    pub machine: Machine,
    pub sharing: Sharing,
    pub measurement: Measurement,
    /// Expected values, in the order of the measurement.
    pub want: Vec<(Figure, f64)>,
    /// Whether it is measured over seeds with noise, or without noise.
    pub noise: bool,
}

/// What two clients do, and what is measured.
#[derive(Debug, Clone)]
pub enum Measurement {
    /// One measures its work without and then with the other: the share of its rate that it keeps.
    Beside { work: [&'static str; 2], load_ms: u64 },
    /// The same for two streams of one process, created by this step.
    Within { streams: &'static str, work: [&'static str; 2] },
    /// Both work, never at the same time: the first one's rate over the second's.
    Part {
        /// Steps before.
        first: [&'static str; 2],
        /// The work; for arithmetic, a number of blocks that the SMs of both divide evenly.
        work: String,
    },
    /// Time slices and gaps, beside a process that always has work.
    TimeSlices,
    /// Host time of a launch (ns) on a stream with or without a priority, after this step.
    Launch { first: &'static str, priority: u32 },
    /// Memory that a context can allocate (MiB), with this limit on the client.
    Cap { limit: Option<&'static str> },
    /// Time of refused service after a fault (ns).
    Recovery,
    /// Share of other contexts of the same client that a fault reaches, many times.
    Escapes,
    /// The same for the other client, once.
    Across,
}

/// Faults per seed, and contexts that each may reach.
const TRIALS: u64 = 4;
const VICTIMS: u64 = 5;

const fn seeds(noise: bool) -> usize {
    if noise { SEEDS } else { 1 }
}

/// Blocks of two phases; without noise two of them suffice.
fn blocks(noise: bool, begin_ms: u64, load_ms: u64) -> String {
    let (count, per_seed) = if noise { (EACH * SEEDS, EACH) } else { (2, 0) };
    format!("{count}x{per_seed}@{begin_ms}+{load_ms}")
}

impl Case {
    /// A case of one figure, with noise.
    pub fn noisy(
        machine: &Machine,
        sharing: Sharing,
        measurement: Measurement,
        figure: Figure,
        want: f64,
    ) -> Self {
        Self {
            machine: machine.clone(),
            sharing,
            measurement,
            want: vec![(figure, want)],
            noise: true,
        }
    }

    /// The same case without noise.
    pub fn quiet(&self) -> Self {
        Self { noise: false, ..self.clone() }
    }

    /// The scripts of the two clients; the second one is optional.
    fn scripts(&self) -> [Option<String>; 2] {
        let (noise, count) = (self.noise, seeds(self.noise));
        match &self.measurement {
            Measurement::Beside { work, load_ms } => {
                let blocks = blocks(noise, 500, *load_ms);
                let [measured, other] = work;
                [
                    Some(format!("open; measure {measured} {blocks}")),
                    Some(format!("open; load {other} {blocks}")),
                ]
            }
            Measurement::Within { streams, work } => {
                let ([own, other], blocks) = (work, blocks(noise, 500, 40));
                [Some(format!("{streams}; within {streams} {own} {other} {blocks}")), None]
            }
            Measurement::Part { first, work } => [0, 1].map(|at| {
                let blocks = blocks(noise, 500 + 8 * at as u64, 8);
                Some(format!("{}; measure {work} {blocks}", first[at]))
            }),
            Measurement::TimeSlices => {
                let scheduler = &self.machine.scheduler;
                let period_us = 2 * (scheduler.slice_us + scheduler.switch_gap_us);
                let span_us = (EACH as u64 + 3) * period_us;
                let until_ms = 600 + 3 * count as u64 * span_us / 1_000;
                [
                    Some(format!("open; at 500; seeds slices {count} {span_us}")),
                    Some(format!("open; at 400; keep chain:9600 {until_ms}")),
                ]
            }
            Measurement::Launch { first, priority } => {
                let watch = format!("{first}; seeds calls {count} 20 {priority}");
                // A second process is present, where the mechanism allows one.
                let mechanism = self.sharing.mechanism();
                let is_single =
                    mechanism == Mechanism::Exclusive || *first != "open" || *priority != 0;
                [Some(watch), (!is_single).then(|| "at 600; open; at 5000".to_owned())]
            }
            Measurement::Cap { .. } => [Some(format!("seeds caps {count}")), None],
            Measurement::Recovery => {
                let mean_us = self.want[0].1 / 1e3;
                [Some(format!("seeds recoveries {count} {mean_us:.0}")), None]
            }
            Measurement::Escapes => {
                [Some(format!("seeds escapes {count} {TRIALS} {VICTIMS}")), None]
            }
            Measurement::Across => {
                [Some("open; at 1500; sync".to_owned()), Some("open; at 1000; trap".to_owned())]
            }
        }
    }

    /// The last output of each client; empty without one.
    fn play(&self, stage: &Stage) -> Result<[Vec<f64>; 2], Error> {
        let ground = SharedDevice::set_up(stage, stage.device.machine(), self.sharing)?;
        let scripts = self.scripts();
        let mut env = ground.env.each_ref().map(borrowed);
        if let Measurement::Cap { limit: Some(limit) } = self.measurement {
            env[0].push(("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limit));
        }
        let both = env.iter().zip(&scripts);
        let cast: Vec<_> =
            both.filter_map(|(env, script)| Some((&env[..], script.as_deref()?))).collect();
        let mut clients = stage.clients(&cast)?.into_iter();
        let mut next = || {
            let client = clients.next();
            client.map_or(Ok(Vec::new()), |client| figures(&client.finish()?))
        };
        Ok([next()?, next()?])
    }

    fn observe(&self, stage: &Stage) -> Result<Vec<Vec<f64>>, Error> {
        let [found, other] = self.play(stage)?;
        let pairs = || found.chunks(2);
        Ok(match self.measurement {
            Measurement::Beside { .. } => {
                assert_eq!(other, [0.0], "the load ran to the end");
                vec![pairs().map(|pair| pair[0] / pair[1]).collect()]
            }
            Measurement::Within { .. } => vec![pairs().map(|pair| pair[0] / pair[1]).collect()],
            Measurement::Part { .. } => {
                let rate = |spans: &[f64]| 1.0 / spans.iter().sum::<f64>();
                let both = pairs().zip(other.chunks(2));
                vec![both.map(|(own, other)| rate(own) / rate(other)).collect()]
            }
            Measurement::TimeSlices => {
                let there = found.iter().step_by(2).copied().collect();
                // The time away is one slice of the other process and two gaps.
                let gaps = pairs().map(|pair| (pair[1] - pair[0]) / 2.0);
                vec![there, gaps.collect()]
            }
            Measurement::Across => {
                assert_eq!(other, [719.0], "the culprit's own");
                vec![vec![f64::from(found == [719.0])]]
            }
            _ => vec![found],
        })
    }

    /// Measures, and compares with the planted values.
    fn check(&self, stage: &Stage, test: &str) -> Result<(), Error> {
        let found = self.observe(stage)?;
        assert_eq!(found.len(), self.want.len());
        for (found, (figure, want)) in found.iter().zip(&self.want) {
            let what = format!("{test}, {figure:?}, {:?}", self.sharing);
            assert!(!found.is_empty(), "{what}: nothing was found");
            match &self.measurement {
                Measurement::Escapes => {
                    let (of, counts) = (TRIALS * VICTIMS, found.iter().map(|&count| count as u64));
                    let counts: Vec<u64> = counts.collect();
                    if self.noise {
                        covered_chance(&counts, of, *want, &what);
                    } else {
                        assert_eq!(counts, [(of as f64 * want) as u64], "{what}");
                    }
                }
                // Noise does not affect these: a comparison of sizes, and a rule.
                Measurement::Cap { .. } | Measurement::Across => {
                    assert!(found.iter().all(|one| one == want), "{what}: {found:?}");
                }
                _ if self.noise => covered(found, *want, &what),
                _ => found.iter().for_each(|one| near(*one, *want, &what)),
            }
        }
        Ok(())
    }
}

/// The values of a client's last output.
fn figures(output: &[String]) -> Result<Vec<f64>, Error> {
    let last = output.last().ok_or("no output")?;
    Ok(last.split(' ').map(str::parse).collect::<Result<_, _>>()?)
}

/// Runs every case on a device of its own.
pub fn check(test: &str, cases: &[Case]) -> Result<(), Error> {
    let machine = |case: &Case| {
        let noise = if case.noise { ALL_NOISE } else { Noise::default() };
        Machine { noise, ..case.machine.clone() }
    };
    let machines: Vec<Machine> = cases.iter().map(machine).collect();
    scenes(test, Virtual, &machines, |stage, index| cases[index].check(stage, test))
}

/// All noise: per operation, call, slice and recovery, per epoch, and per session.
const ALL_NOISE: Noise = Noise {
    request: 0.02,
    epoch: 0.01,
    epoch_ms: 7,
    session: 0.01,
    call: 0.05,
    turn: 0.05,
    recovery: 0.05,
    warm_up: 0.0,
    warm_up_s: 0,
};

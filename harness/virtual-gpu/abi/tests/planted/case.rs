//! A planted figure that clients look at: what they do, and what they must find, without noise and
//! over the seeds.

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;
use gpubench_virtual_gpu_model::machine::{Machine, Noise};

use super::intervals::{EACH, SEEDS, covered, covered_chance, near};
use super::mps_support::mechanisms::Mechanism;
use super::mps_support::ways::{Ground, Under, borrowed};
use super::mps_support::{Error, Stage, scenes};
use super::table::Figure;

/// Figures that a device has under one mechanism, and how they are looked at.
#[derive(Clone)]
pub struct Case {
    pub machine: Machine,
    pub under: Under,
    pub look: Look,
    /// What is found, in the order in which the look finds it.
    pub want: Vec<(Figure, f64)>,
    /// Whether it is looked at over seeds, with noise, or without noise.
    pub noise: bool,
}

/// What two clients do, and what is found by it.
#[derive(Debug, Clone)]
pub enum Look {
    /// One measures its work alone and then beside the other: the part of its rate that it keeps.
    Beside {
        work: [&'static str; 2],
        /// How long the other leans.
        lean_ms: u64,
    },
    /// The same of two streams of one process, made in this way.
    Within {
        streams: &'static str,
        work: [&'static str; 2],
    },
    /// Both work, never at the same time: the first one's rate over the second's.
    Part {
        /// What they do before.
        first: [&'static str; 2],
        /// What they do; of arithmetic, a number of blocks that the SMs of both divide evenly.
        work: String,
    },
    /// The lengths of turns, and of the pauses between them, beside a process that always has work.
    TimeSlices,
    /// What a launch costs (ns), to a stream with a priority or without one, after this step.
    Launch { first: &'static str, priority: u32 },
    /// Memory that a context gets until it is refused (MiB), under this limit on the client.
    Cap { limit: Option<&'static str> },
    /// How long service is refused after a fault (ns).
    Recovery,
    /// The share of others that a fault reaches: contexts of the same client, many times.
    Escapes,
    /// The same of the other client, once.
    Across,
}

/// Faults of a seed, and others that each may reach.
const TRIALS: u64 = 4;
const VICTIMS: u64 = 5;

/// How many seeds.
const fn seeds(noise: bool) -> usize {
    if noise { SEEDS } else { 1 }
}

/// Blocks of two phases; without noise two of them are as good as any number.
fn blocks(noise: bool, begin_ms: u64, lean_ms: u64) -> String {
    let (count, per_seed) = if noise { (EACH * SEEDS, EACH) } else { (2, 0) };
    format!("{count}x{per_seed}@{begin_ms}+{lean_ms}")
}

impl Case {
    /// A case of one figure, with noise.
    pub fn noisy(machine: &Machine, under: Under, look: Look, figure: Figure, want: f64) -> Self {
        Self {
            machine: machine.clone(),
            under,
            look,
            want: vec![(figure, want)],
            noise: true,
        }
    }

    /// The same without noise.
    pub fn quiet(&self) -> Self {
        Self {
            noise: false,
            ..self.clone()
        }
    }

    /// What the two clients do; one of them alone where there is no other.
    fn scripts(&self) -> [Option<String>; 2] {
        let (noise, count) = (self.noise, seeds(self.noise));
        match &self.look {
            Look::Beside { work, lean_ms } => {
                let blocks = blocks(noise, 500, *lean_ms);
                let [measured, other] = work;
                [
                    Some(format!("open; measure {measured} {blocks}")),
                    Some(format!("open; lean {other} {blocks}")),
                ]
            }
            Look::Within { streams, work } => {
                let ([own, other], blocks) = (work, blocks(noise, 500, 40));
                [
                    Some(format!(
                        "{streams}; within {streams} {own} {other} {blocks}"
                    )),
                    None,
                ]
            }
            Look::Part { first, work } => [0, 1].map(|at| {
                let blocks = blocks(noise, 500 + 8 * at as u64, 8);
                Some(format!("{}; measure {work} {blocks}", first[at]))
            }),
            Look::TimeSlices => {
                let scheduler = &self.machine.scheduler;
                let period_us = 2 * (scheduler.slice_us + scheduler.switch_gap_us);
                let span_us = (EACH as u64 + 3) * period_us;
                let until_ms = 600 + 3 * count as u64 * span_us / 1_000;
                [
                    Some(format!("open; at 500; seeds turns {count} {span_us}")),
                    Some(format!("open; at 400; keep chain:9600 {until_ms}")),
                ]
            }
            Look::Launch { first, priority } => {
                let watch = format!("{first}; seeds calls {count} 20 {priority}");
                // Somebody else is there, where there can be.
                let mechanism = self.under.mechanism();
                let is_alone =
                    mechanism == Mechanism::Exclusive || *first != "open" || *priority != 0;
                [
                    Some(watch),
                    (!is_alone).then(|| "at 600; open; at 5000".to_owned()),
                ]
            }
            Look::Cap { .. } => [Some(format!("seeds caps {count}")), None],
            Look::Recovery => {
                let mean_us = self.want[0].1 / 1e3;
                [Some(format!("seeds recoveries {count} {mean_us:.0}")), None]
            }
            Look::Escapes => [
                Some(format!("seeds escapes {count} {TRIALS} {VICTIMS}")),
                None,
            ],
            Look::Across => [
                Some("open; at 1500; sync".to_owned()),
                Some("open; at 1000; trap".to_owned()),
            ],
        }
    }

    /// What each of the two clients says last; nothing where there is none.
    fn play(&self, stage: &Stage) -> Result<[Vec<f64>; 2], Error> {
        let ground = Ground::lay(stage, stage.device.machine(), self.under)?;
        let scripts = self.scripts();
        let mut env = ground.env.each_ref().map(borrowed);
        if let Look::Cap { limit: Some(limit) } = self.look {
            env[0].push(("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limit));
        }
        let both = env.iter().zip(&scripts);
        let cast: Vec<_> = both
            .filter_map(|(env, script)| Some((&env[..], script.as_deref()?)))
            .collect();
        let mut clients = stage.clients(&cast)?.into_iter();
        let mut next = || {
            let client = clients.next();
            client.map_or(Ok(Vec::new()), |client| figures(&client.finish()?))
        };
        Ok([next()?, next()?])
    }

    /// The values of each figure.
    fn observe(&self, stage: &Stage) -> Result<Vec<Vec<f64>>, Error> {
        let [found, other] = self.play(stage)?;
        let pairs = || found.chunks(2);
        Ok(match self.look {
            Look::Beside { .. } => {
                assert_eq!(other, [0.0], "the other leaned to the end");
                vec![pairs().map(|pair| pair[0] / pair[1]).collect()]
            }
            Look::Within { .. } => vec![pairs().map(|pair| pair[0] / pair[1]).collect()],
            Look::Part { .. } => {
                let rate = |spans: &[f64]| 1.0 / spans.iter().sum::<f64>();
                let both = pairs().zip(other.chunks(2));
                vec![both.map(|(own, other)| rate(own) / rate(other)).collect()]
            }
            Look::TimeSlices => {
                let there = found.iter().step_by(2).copied().collect();
                // Away is a turn of the other's and a pause on either side of it.
                let gaps = pairs().map(|pair| (pair[1] - pair[0]) / 2.0);
                vec![there, gaps.collect()]
            }
            Look::Across => {
                assert_eq!(other, [719.0], "the culprit's own");
                vec![vec![f64::from(found == [719.0])]]
            }
            _ => vec![found],
        })
    }

    /// Looks, and holds what is found against what was planted.
    fn prove(&self, stage: &Stage, test: &str) -> Result<(), Error> {
        let found = self.observe(stage)?;
        assert_eq!(found.len(), self.want.len());
        for (found, (figure, want)) in found.iter().zip(&self.want) {
            let what = format!("{test}, {figure:?}, {:?}", self.under);
            assert!(!found.is_empty(), "{what}: nothing was found");
            match &self.look {
                Look::Escapes => {
                    let (of, counts) = (TRIALS * VICTIMS, found.iter().map(|&count| count as u64));
                    let counts: Vec<u64> = counts.collect();
                    if self.noise {
                        covered_chance(&counts, of, *want, &what);
                    } else {
                        assert_eq!(counts, [(of as f64 * want) as u64], "{what}");
                    }
                }
                // Noise does not touch these: numbers that are compared, and a rule.
                Look::Cap { .. } | Look::Across => {
                    assert!(found.iter().all(|one| one == want), "{what}: {found:?}");
                }
                _ if self.noise => covered(found, *want, &what),
                _ => found.iter().for_each(|one| near(*one, *want, &what)),
            }
        }
        Ok(())
    }
}

/// The figures that a client said last.
fn figures(said: &[String]) -> Result<Vec<f64>, Error> {
    let last = said.last().ok_or("it says nothing")?;
    Ok(last.split(' ').map(str::parse).collect::<Result<_, _>>()?)
}

/// Plays every case on a device of its own.
pub fn prove(test: &str, cases: &[Case]) -> Result<(), Error> {
    let machine = |case: &Case| {
        let noise = if case.noise { LOUD } else { Noise::default() };
        Machine {
            noise,
            ..case.machine.clone()
        }
    };
    let machines: Vec<Machine> = cases.iter().map(machine).collect();
    scenes(test, Virtual, &machines, |stage, index| {
        cases[index].prove(stage, test)
    })
}

/// All noise there is: of its own for every operation, call, turn and recovery, for short spans of
/// time, and for the session.
const LOUD: Noise = Noise {
    request: 0.02,
    epoch: 0.01,
    epoch_ms: 7,
    session: 0.01,
    call: 0.05,
    turn: 0.05,
    recovery: 0.05,
};

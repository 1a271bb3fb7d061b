//! 1,000 random machines, one row of each kind: the printed interval holds the planted retention,
//! guarantee, service jitter and proportion as often as it says, and levels are those of the
//! planted figures.
//!
//! The cells are drawn from the model below, without processes, and scored as those of a record.
//! A machine depends on its number alone.

use gpubench_record::{Condition, Estimate, MatrixRow, ProbeFound, ProbeResult};
use gpubench_stats::ScheduleRng;

use super::lab::{Lab, MIG, QUOTA, SLICING, rate};

const MACHINES: u64 = 1_000;
/// Mechanisms of which each machine has two, with equal planted figures and noise of their own.
const VARIANTS: [&str; 4] = [SLICING, QUOTA, MIG, "hami[sm=50]"];
const RETENTION: [f64; 3] = [0.60, 0.80, 0.95];
const GUARANTEE: f64 = 0.80;
const JITTER: [f64; 2] = [0.10, 0.50];
const PROPORTION: [f64; 3] = [0.0, 0.80, 0.95];
/// The normal quantile of 99 %.
const Z99: f64 = 2.326_347_874;

/// What the neighbour does to a lone request, whose native median is 1.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Neighbour {
    /// Every request takes so many times as long.
    Slows,
    /// A request waits for the rest of a slice.
    TakesTurns,
    /// The logarithm of the service time spreads more.
    Spreads,
    /// A small share of requests lasts 200 times as long.
    Stalls,
}

/// The planted figures of a machine and its noise.
struct Machine {
    variants: [&'static str; 2],
    neighbour: Neighbour,
    retention: f64,
    guarantee: f64,
    /// Deviations of the logarithm of lone requests, alone and beside the neighbour.
    spreads: [f64; 2],
    stalls: f64,
    proportion: f64,
    trials: u32,
    blocks: u32,
    requests: u32,
    /// Deviations of the logarithm of rates, of blocks and of cells.
    rate_sd: [f64; 2],
    rng: ScheduleRng,
}

fn normal(rng: &mut ScheduleRng) -> f64 {
    (2.0 * rng.exponential()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
}

impl Machine {
    fn random(seed: u64) -> Self {
        use Neighbour::{Slows, Spreads, Stalls, TakesTurns};
        let mut rng = ScheduleRng::new(seed);
        let mut between = |lo: f64, hi: f64| lo + (hi - lo) * rng.uniform();
        let (retention, efficiency) = (between(0.2, 1.0), between(0.5, 1.5).min(1.0));
        let alone = between(0.0, 0.03);
        let spreads = [alone, alone + between(0.02, 0.25)];
        let (stalls, proportion) = (between(0.001, 0.004), between(0.02, 1.0));
        let rate_sd = [between(0.0, 0.02), between(0.001, 0.015)];
        let mut below = |lo: u32, hi: u32| lo + rng.below(hi - lo);
        let first = below(0, 4);
        let variants = [first, (first + below(1, 4)) % 4].map(|at| VARIANTS[at as usize]);
        let neighbour = [Slows, TakesTurns, Spreads, Stalls][below(0, 4) as usize];
        let (trials, blocks, requests) = (below(17, 401), below(6, 11), below(200, 301));
        Self {
            variants,
            neighbour,
            retention,
            guarantee: retention * efficiency,
            spreads,
            stalls,
            proportion,
            trials,
            blocks,
            requests,
            rate_sd,
            rng,
        }
    }

    /// The service jitter in closed form. A slice lasts what a closed loop waits for each request.
    fn jitter(&self) -> f64 {
        let slow = 1.0 / self.retention;
        match self.neighbour {
            Neighbour::Slows => 0.0,
            Neighbour::TakesTurns => 0.49 * (slow - 1.0),
            Neighbour::Spreads => {
                let [alone, beside] = self.spreads.map(|sd| (Z99 * sd).exp());
                slow * (beside - alone)
            }
            Neighbour::Stalls => slow * 0.01 * 0.49 / (1.0 - self.stalls),
        }
    }

    /// The latency of a lone request.
    fn lone(&mut self, contended: bool) -> f64 {
        let ([alone, beside], slow, rng) = (self.spreads, 1.0 / self.retention, &mut self.rng);
        match (self.neighbour, contended) {
            (Neighbour::Slows, _) => {
                (alone * normal(rng)).exp() * if contended { slow } else { 1.0 }
            }
            (Neighbour::Spreads, false) => (alone * normal(rng)).exp(),
            (Neighbour::Spreads, true) => slow * (beside * normal(rng)).exp(),
            (Neighbour::TakesTurns, true) => 1.0 + (slow - 1.0) * rng.uniform(),
            (Neighbour::Stalls, true) if rng.uniform() < self.stalls => slow * 200.0,
            (Neighbour::Stalls, true) => slow * (1.0 + 0.01 * rng.uniform()),
            (Neighbour::TakesTurns | Neighbour::Stalls, false) => 1.0,
        }
    }

    /// The rows of both variants: of the SMs, of jitter, and of reservations of memory.
    fn score(&mut self) -> [[MatrixRow; 3]; 2] {
        let variants = self.variants.map(|variant| (variant, Some("mps")));
        let mut lab = Lab::new(&variants, self.blocks, |_, _, _| rate(1000.0));
        let speeds: Vec<[f64; 2]> = (0..self.blocks)
            .map(|_| [self.rate_sd[0], 0.005].map(|sd| (sd * normal(&mut self.rng)).exp()))
            .collect();
        for cell in &mut lab.cells {
            let [of_rates, of_requests] = speeds[cell.cell.block as usize];
            let part = match cell.cell.condition {
                Condition::N | Condition::NAgain => 1.0,
                Condition::S | Condition::SAgain => self.guarantee / self.retention,
                Condition::C => self.guarantee,
                Condition::U => 0.3,
            };
            let noise = (self.rate_sd[1] * normal(&mut self.rng)).exp();
            cell.figures.closed_rate_per_s = Some(1000.0 * part * of_rates * noise);
            // No level follows from the tail at the offered load, and its queue takes long.
            cell.figures.offered_per_s = None;
            let contended = cell.cell.condition == Condition::C;
            let requests = 0..self.requests;
            cell.lone_ns =
                requests.map(|_| (1e6 * of_requests * self.lone(contended)) as u64).collect();
        }
        for variant in self.variants {
            let honoured = (0..self.trials).filter(|_| self.rng.uniform() < self.proportion);
            let found = ProbeFound::Capacity {
                reserved_bytes: 1 << 30,
                trials: self.trials,
                honoured: honoured.count() as u32,
                neighbour_bytes: 10 << 30,
                granted_bytes: 0,
            };
            lab.probes.push(ProbeResult { variant: variant.to_owned(), took_ns: None, found });
        }
        let rows = lab.score().matrix;
        let row = |variant: &str, axis: &str| {
            let found = rows.iter().find(|row| row.variant == variant && row.axis == axis);
            found.expect("a row of that variant and axis").clone()
        };
        self.variants.map(|variant| ["compute", "jitter", "memory"].map(|axis| row(variant, axis)))
    }

    /// The levels of the planted figures.
    fn levels(&self) -> [&'static str; 3] {
        const LEVELS: [&str; 4] = ["L0", "L1", "L2", "L3"];
        let reached = RETENTION.iter().filter(|bound| self.retention >= **bound).count();
        let of_rates = if self.guarantee >= GUARANTEE { reached } else { reached.min(1) };
        let of_jitter = JITTER.iter().filter(|bound| self.jitter() > **bound).count();
        let of_trials = PROPORTION.iter().filter(|bound| self.proportion >= **bound).count();
        [LEVELS[of_rates], ["L3", "L2", "L0"][of_jitter], LEVELS[of_trials]]
    }

    /// The distance of the planted figures from the nearest bound of levels, in half-widths of the
    /// printed interval.
    fn distances(&self, [rates, jitter, trials]: &[MatrixRow; 3]) -> [f64; 3] {
        let of = |found: &Option<Estimate>, truth: f64, bounds: &[f64]| {
            let half = found.as_ref().map_or(f64::INFINITY, |found| (found.hi - found.lo) / 2.0);
            bounds.iter().map(|bound| (truth - bound).abs() / half).fold(f64::INFINITY, f64::min)
        };
        let retention = of(&rates.retention, self.retention, &RETENTION);
        // The guarantee decides above the bound of L2.
        let above = self.retention >= RETENTION[1];
        let guarantee = of(&rates.guarantee, self.guarantee, &[GUARANTEE]);
        [
            if above { retention.min(guarantee) } else { retention },
            of(&jitter.jitter, self.jitter(), &JITTER),
            of(&trials.survival, self.proportion, &PROPORTION),
        ]
    }
}

/// Rows of one kind.
#[derive(Debug, Default)]
struct Tally {
    rows: u32,
    covered: u32,
    /// Rows with one level, and those with another than that of the planted figures.
    decided: u32,
    wrong: u32,
    /// Rows more than three half-widths from a bound.
    far: u32,
    far_wrong: u32,
}

impl Tally {
    fn cover(&mut self, found: Option<&Estimate>, truth: f64) {
        let found = found.expect("an interval");
        self.rows += 1;
        self.covered += u32::from((found.lo..=found.hi).contains(&truth));
    }

    fn judge(&mut self, row: &MatrixRow, planted: &str, distance: f64) {
        let (decided, far) = (decided(row), distance > 3.0);
        let is_wrong = decided.is_some_and(|level| level != planted);
        self.decided += u32::from(decided.is_some());
        self.wrong += u32::from(is_wrong);
        self.far += u32::from(far);
        self.far_wrong += u32::from(far && is_wrong);
    }

    fn coverage(&self) -> f64 {
        f64::from(self.covered) / f64::from(self.rows)
    }
}

fn decided(row: &MatrixRow) -> Option<&str> {
    let level = row.level.as_deref().filter(|level| !level.contains(".."));
    level.filter(|_| row.outcome.is_measured())
}

#[test]
#[expect(clippy::print_stdout, reason = "the counts are the result")]
fn random_machines_have_their_planted_figures_and_levels() {
    let mut tallies: [Tally; 5] = Default::default();
    let [mut pairs, mut unequal] = [0, 0];
    for seed in 0..MACHINES {
        let mut machine = Machine::random(seed);
        let [rows, again] = machine.score();
        let levels = machine.levels();
        let [distances, others] = [&rows, &again].map(|rows| machine.distances(rows));
        let [rates, jitter, trials] = &rows;
        let of_jitter = if machine.neighbour == Neighbour::Stalls { 4 } else { 1 };
        tallies[0].cover(rates.retention.as_ref(), machine.retention);
        tallies[of_jitter].cover(jitter.jitter.as_ref(), machine.jitter());
        tallies[2].cover(trials.survival.as_ref(), machine.proportion);
        tallies[3].cover(rates.guarantee.as_ref(), machine.guarantee);
        for (at, (row, other)) in rows.iter().zip(&again).enumerate() {
            tallies[at].judge(row, levels[at], distances[at]);
            let both = decided(row).zip(decided(other));
            let both = both.filter(|_| distances[at].min(others[at]) > 3.0);
            pairs += u32::from(both.is_some());
            unequal += u32::from(both.is_some_and(|(one, two)| one != two));
        }
    }
    let names = ["retention", "jitter", "proportion", "guarantee", "jitter of stalls"];
    for (name, tally) in names.iter().zip(&tallies) {
        println!("{name}: covered {:.3}, {tally:?}", tally.coverage());
    }
    println!("{pairs} pairs with equal planted figures, {unequal} with two levels");
    let [of_values @ .., of_stalls] = &tallies;
    assert!(of_values.iter().all(|tally| (0.93..=0.97).contains(&tally.coverage())));
    assert!(of_stalls.coverage() >= 0.90);
    assert!(tallies.iter().all(|tally| tally.far_wrong == 0 && 40 * tally.wrong <= tally.decided));
    assert!(unequal == 0 && pairs >= 1_500);
}

//! Random machines, and the retention that follows from a machine file by arithmetic.

use gpubench_virtual_gpu::machine::{Machine, Mig, Noise};

use crate::support::Error;

/// SplitMix64, so that a seed means the same machine on every platform.
pub struct Draws(pub u64);

impl Draws {
    /// Uniform between the ends.
    pub fn between(&mut self, lo: f64, hi: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        lo + (hi - lo) * (z >> 11) as f64 / (1u64 << 53) as f64
    }

    fn whole(&mut self, lo: u32, hi: u32) -> u32 {
        self.between(lo.into(), f64::from(hi) + 1.0).floor() as u32
    }

    fn is(&mut self, chance: f64) -> bool {
        self.between(0.0, 1.0) < chance
    }
}

#[derive(Debug, Clone)]
pub struct Planted {
    /// Of the machine, and of the noise: two machines with the same draws would err alike.
    pub seed: u64,
    pub machine: Machine,
    /// `compute/sm` or `bandwidth/dram`.
    pub axis: &'static str,
    /// What shares it, as in a profile, after `exclusive`.
    pub mechanisms: &'static str,
    /// SMs of each client under `mps-quota`, in percent.
    pub quota_pct: u32,
}

/// What a machine without noise shows with the victim alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone {
    pub gpu_us: f64,
    /// From one request to the next.
    pub period_us: f64,
    /// From the issue of a request that finds no other to its completion.
    pub lone_us: f64,
    /// Parameters of the victim and of the aggressor, as calibrated.
    pub victim: Params,
    pub aggressor: Params,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Params {
    pub blocks: f64,
    pub threads: f64,
    /// Iterations of the chain of multiply-adds; 0 for a copy.
    pub iterations: f64,
    /// Bytes that a copy reads; 0 for arithmetic.
    pub bytes: f64,
}

/// The kernel of `compute` and `fma-hog` (`fp32_chain.cu`): threads of a block, multiply-adds of an
/// iteration, and its instructions with those of the loop.
const THREADS: f64 = 256.0;
const MULTIPLY_ADDS: f64 = 256.0;
const INSTRUCTIONS: f64 = 261.0;
const WARP: f64 = 32.0;

const QUOTA: &str = r#", "time-slicing", "mps", "mps-quota""#;
const INSTANCES: &str = r#", "time-slicing", "mps", "mig""#;

impl Planted {
    /// The machine of a seed: other sizes, clocks, bandwidths, time slices, costs, noise and leaks
    /// than those of the built-in machine that it starts from.
    pub fn random(seed: u64) -> Result<Self, Error> {
        let mut draws = Draws(seed);
        let mut machine = Machine::load(if draws.is(0.25) { "turing" } else { "hopper" })?;
        sizes(&mut machine, &mut draws);
        // A request of 1 ms ends within one time slice, or needs two.
        let slice_us =
            if draws.is(0.2) { draws.whole(620, 780) } else { draws.whole(1_300, 4_000) };
        machine.scheduler.slice_us = slice_us.into();
        machine.scheduler.switch_gap_us = draws.whole(0, 200).into();
        machine.host.launch_ns = draws.whole(1_500, 6_000).into();
        machine.host.sync_ns = draws.whole(800, 4_000).into();
        // An epoch is shorter than a cell: one that spans two blocks would correlate them. Noise of
        // a session is left out, because an interval from one session does not cover others.
        machine.noise = Noise {
            request: draws.between(0.0, 0.02),
            epoch: draws.between(0.001, 0.01),
            epoch_ms: 20,
            call: draws.between(0.0, 0.05),
            turn: draws.between(0.0, 0.05),
            ..Noise::default()
        };
        if draws.is(0.6) {
            machine.defects.mig_dram_leak = draws.between(0.0, 0.9);
        }
        let axis = if draws.is(0.5) { "compute/sm" } else { "bandwidth/dram" };
        let quota_pct = draws.whole(45, 90);
        let mechanisms = if machine.mig.is_some() && draws.is(0.6) { INSTANCES } else { QUOTA };
        if draws.is(0.7) {
            machine.defects.fault_escape = draws.between(0.02, 0.9);
        }
        machine.defects.mps_contains_faults = draws.is(0.4);
        Ok(Self { seed, machine, axis, mechanisms, quota_pct })
    }

    /// The same machine without noise.
    pub fn quiet(&self) -> Self {
        let mut quiet = self.clone();
        quiet.machine.noise = Noise::default();
        quiet
    }

    /// The retention of a closed loop at depth 1 beside an aggressor that always has work.
    pub fn retention(&self, mechanism: &str, alone: &Alone) -> Option<f64> {
        let scheduler = &self.machine.scheduler;
        let contended_us = if mechanism == "time-slicing" {
            // The victim has the engine until its request ends or its time slice does. Before each
            // of its turns the neighbour has one, with a gap on either side. The time on the GPU
            // begins before the launch, which then passes in the neighbour's turn.
            let slice_us = scheduler.slice_us as f64;
            let kernel_us = self.kernel_us(alone);
            let turns = (kernel_us / slice_us).ceil();
            kernel_us + turns * (slice_us + 2.0 * scheduler.switch_gap_us as f64)
        } else {
            let stretch = 1.0 / self.speed(mechanism, alone)?;
            alone.period_us + self.stretched_us(alone) * (stretch - 1.0)
        };
        Some(alone.period_us / contended_us)
    }

    /// How long the victim's request keeps the device busy alone.
    pub fn kernel_us(&self, alone: &Alone) -> f64 {
        alone.gpu_us - self.machine.host.launch_ns as f64 / 1e3
    }

    /// The speed of the victim's kernels where kernels run at the same time.
    pub fn speed(&self, mechanism: &str, alone: &Alone) -> Option<f64> {
        let of_device = self.machine.gpu.sm_count;
        let victim = self.victim_wants(alone);
        let fits = match mechanism {
            "mps" => self.beside(alone, of_device),
            // Pairs of SMs, rounded down, and 8 at least.
            "mps-quota" => self.beside(alone, (of_device * self.quota_pct / 100 / 2 * 2).max(8)),
            "mig" if self.is_of_sms() => 1.0,
            "mig" => {
                let left = 1.0 - self.machine.defects.mig_dram_leak;
                half_of_memory(self.machine.mig.as_ref()?) * left / victim
            }
            _ => return None,
        };
        Some(fits.min(1.0))
    }

    /// The speed beside an aggressor, where each client has so many SMs.
    fn beside(&self, alone: &Alone, of_client: u32) -> f64 {
        let of_device = f64::from(self.machine.gpu.sm_count);
        let victim = self.victim_wants(alone);
        if self.is_of_sms() {
            // The clients' SMs overlap where they are more than the device has. A victim that fits
            // on the other SMs has them for itself; else both divide an SM that the aggressor
            // fills.
            let own = of_device - f64::from(of_client);
            let blocks = alone.victim.blocks;
            let full = alone.aggressor.blocks / f64::from(of_client);
            let busy = victim * of_device / blocks + full / full.ceil();
            return if blocks <= own { 1.0 } else { 1.0 / busy };
        }
        // A part of DRAM in proportion to what is in flight, and what the aggressor leaves.
        let wants = self.aggressor_wants(f64::from(of_client));
        let own = alone.victim.blocks * copied_bytes(alone.victim.threads);
        let on_sm = f64::from(self.machine.gpu.max_threads_per_sm) / THREADS;
        let limit = f64::from(self.machine.memory.sm_dram_in_flight_kib) * 1024.0;
        let others = f64::from(of_client) * (on_sm * copied_bytes(THREADS)).min(limit);
        (own / (own + others)).max(1.0 - wants) / victim
    }

    /// The part of a request that contention stretches. Of a copy it is what its bytes take, and
    /// not the latency of its launch.
    pub fn stretched_us(&self, alone: &Alone) -> f64 {
        let Params { blocks, bytes, .. } = alone.victim;
        let moved_per_us = blocks * self.machine.memory.sm_dram_gb_per_s * 1e3;
        if self.is_of_sms() { alone.gpu_us } else { 2.0 * bytes / moved_per_us }
    }

    fn is_of_sms(&self) -> bool {
        self.axis == "compute/sm"
    }

    /// The share of the device's pipes, or of its DRAM bandwidth, that the victim uses alone.
    fn victim_wants(&self, alone: &Alone) -> f64 {
        let Params { blocks, iterations, .. } = alone.victim;
        let (gpu, memory) = (&self.machine.gpu, &self.machine.memory);
        if !self.is_of_sms() {
            return blocks * memory.sm_dram_gb_per_s / memory.dram_gb_per_s;
        }
        // An iteration of a block keeps the lanes or the schedulers of its SM busy, whichever is
        // longer. Dependent instructions make the block last longer than that.
        let of_lanes = THREADS * MULTIPLY_ADDS / f64::from(gpu.fp32_lanes_per_clock);
        let of_issue = THREADS / WARP * INSTRUCTIONS / f64::from(gpu.schedulers_per_sm);
        let busy_us = iterations * of_lanes.max(of_issue) / f64::from(gpu.sm_clock_mhz);
        blocks / f64::from(gpu.sm_count) * busy_us / alone.gpu_us
    }

    /// The share of DRAM bandwidth that the aggressor uses alone on so many SMs.
    fn aggressor_wants(&self, sms: f64) -> f64 {
        let memory = &self.machine.memory;
        (sms * memory.sm_dram_gb_per_s / memory.dram_gb_per_s).min(1.0)
    }
}

/// Bytes that a block of `stream_copy.cu` moves between two waits: each thread loads 64 bytes
/// before it waits, and then stores them.
fn copied_bytes(threads: f64) -> f64 {
    threads * 2.0 * 64.0
}

/// The share of bandwidth of the larger of two equal instances.
fn half_of_memory(mig: &Mig) -> f64 {
    let twice = mig.profile.iter().filter(|profile| profile.max == 2);
    let slots = twice.map(|profile| profile.memory_slots).max().unwrap_or(0);
    f64::from(slots) / f64::from(mig.slots)
}

/// SMs, clocks and bandwidths. Figures that belong together keep their proportion.
fn sizes(machine: &mut Machine, draws: &mut Draws) {
    let before = machine.gpu.sm_count;
    let sms = before * draws.whole(6, 13) / 10 / 8 * 8;
    machine.gpu.sm_count = sms;
    for profile in machine.mig.iter_mut().flat_map(|mig| &mut mig.profile) {
        profile.sm = profile.sm.map(|of_it| of_it * sms / before);
    }
    let clock = draws.between(0.6, 1.2);
    machine.gpu.sm_clock_mhz = (f64::from(machine.gpu.sm_clock_mhz) * clock) as u32;
    let width = draws.between(0.6, 1.3);
    machine.gpu.memory_clock_mhz = (f64::from(machine.gpu.memory_clock_mhz) * width) as u32;
    let memory = &mut machine.memory;
    for rate in [
        &mut memory.dram_gb_per_s,
        &mut memory.l2_gb_per_s,
        &mut memory.translations_per_us,
        &mut memory.sm_translations_per_us,
    ] {
        *rate *= width;
    }
    memory.sm_dram_gb_per_s *= draws.between(0.9, 1.3);
}

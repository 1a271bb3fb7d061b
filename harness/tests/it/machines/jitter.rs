//! The service jitter that a machine file plants.
//!
//! Single requests are simulated by the few lines below, with the noise of the machine file, and
//! the definition is applied to many of them. Without noise the spread between turns has a closed
//! form, with which a test compares the simulation.

use super::planted::{Alone, Draws, Planted};

/// Simulated requests of each condition: the quantiles of so many are known to a thousandth of
/// their spread.
const REQUESTS: usize = 200_000;

/// The jitter of requests with exponential pauses of this mean, beside an aggressor that always has
/// work, in native medians.
pub fn jitter(planted: &Planted, mechanism: &str, alone: &Alone, pause_us: f64) -> Option<f64> {
    let mut requests = Requests { planted, alone, draws: Draws(planted.seed) };
    let native = Spread::of(|| requests.beside_none());
    let contended = if mechanism == "time-slicing" {
        Spread::of(|| requests.between_turns(pause_us))
    } else {
        let stretch = 1.0 / planted.speed(mechanism, alone)?;
        Spread::of(|| requests.stretched(stretch))
    };
    let slowdown = contended.median / native.median;
    Some((contended.tail - slowdown * native.tail) / native.median)
}

struct Spread {
    median: f64,
    /// From the median to the 99th percentile.
    tail: f64,
}

impl Spread {
    fn of(latency_us: impl FnMut() -> f64) -> Self {
        let mut all: Vec<f64> = std::iter::repeat_with(latency_us).take(REQUESTS).collect();
        all.sort_unstable_by(f64::total_cmp);
        let (median, p99) = (all[REQUESTS / 2], all[REQUESTS * 99 / 100]);
        Self { median, tail: p99 - median }
    }
}

/// Latencies of single requests, in microseconds.
struct Requests<'a> {
    planted: &'a Planted,
    alone: &'a Alone,
    draws: Draws,
}

impl Requests<'_> {
    fn beside_none(&mut self) -> f64 {
        self.stretched(1.0)
    }

    /// Kernels of both tenants run at the same time, at a constant speed.
    fn stretched(&mut self, stretch: f64) -> f64 {
        let more_us = self.planted.stretched_us(self.alone) * (stretch - 1.0);
        let kernel_us = self.planted.kernel_us(self.alone) + more_us;
        self.host_us() + kernel_us * self.work()
    }

    /// The aggressor's turn begins a gap after the victim's request has ended. Its time slices
    /// follow one another, and the next request waits for the end of the one in which it arrives.
    fn between_turns(&mut self, pause_us: f64) -> f64 {
        let host_us = self.host_us();
        let into_turn_us = self.pause(pause_us) + host_us - self.gap_us();
        let slice_us = self.slice_us();
        let wait_us = if into_turn_us < 0.0 {
            slice_us - into_turn_us
        } else {
            slice_us - into_turn_us % slice_us
        };
        let mut left_us = self.planted.kernel_us(self.alone) * self.work();
        let mut latency_us = host_us + wait_us + self.gap_us() + left_us;
        loop {
            left_us -= self.slice_us();
            if left_us <= 0.0 {
                return latency_us;
            }
            latency_us += self.gap_us() + self.slice_us() + self.gap_us();
        }
    }

    /// The part of a latency that no kernel runs: mostly the calls of the launch and of the wait.
    fn host_us(&mut self) -> f64 {
        let call = self.planted.machine.noise.call;
        let host = &self.planted.machine.host;
        let calls = [host.launch_ns, host.sync_ns].map(|ns| ns as f64 / 1e3);
        let off_us: f64 = calls.iter().map(|us| us * call * self.normal()).sum();
        self.alone.lone_us - self.planted.kernel_us(self.alone) + off_us
    }

    fn work(&mut self) -> f64 {
        let (request, epoch) = (self.normal(), self.normal());
        let noise = &self.planted.machine.noise;
        1.0 + noise.request * request + noise.epoch * epoch
    }

    fn slice_us(&mut self) -> f64 {
        self.turn(self.planted.machine.scheduler.slice_us)
    }

    fn gap_us(&mut self) -> f64 {
        self.turn(self.planted.machine.scheduler.switch_gap_us)
    }

    fn turn(&mut self, mean_us: u64) -> f64 {
        mean_us as f64 * (1.0 + self.planted.machine.noise.turn * self.normal())
    }

    fn pause(&mut self, mean_us: f64) -> f64 {
        -mean_us * (1.0 - self.draws.between(0.0, 1.0)).ln()
    }

    /// As a machine file plants noise: twelve uniform numbers less six.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.draws.between(0.0, 1.0)).sum::<f64>() - 6.0
    }
}

/// The wait is what is left of the slice, `T - (t mod T)`, and `t mod T` is exponential within the
/// slice: its quantile p is `-m ln(1 - p (1 - exp(-T / m)))`.
#[test]
fn without_noise_the_simulated_jitter_is_the_closed_form() -> crate::support::TestResult {
    let mut planted = Planted::random(1)?.quiet();
    planted.axis = "compute/sm";
    planted.machine.scheduler.switch_gap_us = 0;
    // No part of the latency is the host's.
    let launch_us = planted.machine.host.launch_ns as f64 / 1e3;
    let alone = Alone { gpu_us: 1_000.0 + launch_us, lone_us: 1_000.0, ..Alone::default() };
    for (slice_us, pause_us, of_slice) in
        [(2_000.0, 1_000.0, 0.28), (4_000.0, 8_000.0, 0.43), (2_000.0, 8_000.0, 0.46)]
    {
        planted.machine.scheduler.slice_us = slice_us as u64;
        let of_turn = 1.0 - f64::exp(-slice_us / pause_us);
        let quantile = |p: f64| -pause_us * (1.0 - p * of_turn).ln();
        let closed_us = quantile(0.5) - quantile(0.01);
        assert!((closed_us / slice_us - of_slice).abs() < 0.005, "{closed_us} of {slice_us}");
        let found = jitter(&planted, "time-slicing", &alone, pause_us).ok_or("no jitter")?;
        let off = found * alone.lone_us / closed_us - 1.0;
        assert!(off.abs() < 0.01, "slice {slice_us} us, pause {pause_us} us: {found}");
    }
    Ok(())
}

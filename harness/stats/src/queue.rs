//! What a queue alone makes of service times: the mean wait in closed form, and the tail by a
//! Lindley recursion over resampled service times.

use crate::estimate::NoEstimate;
use crate::quantile::Sorted;
use crate::schedule::ScheduleRng;

/// Requests of the recursion, and those at its start that do not count.
const REQUESTS: usize = 40_000;
const WARM_UP: usize = 2_000;

/// Latencies of a queue with one server, Poisson arrivals and these service times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Queue {
    /// Mean wait before service (Pollaczek and Khinchine): `rate E[S^2] / 2 (1 - rate E[S])`.
    pub mean_wait: f64,
    pub p50: f64,
    /// 99th percentile of wait and service.
    pub p99: f64,
}

/// The queue of service times that are drawn from `services`, at `rate` arrivals per unit of time;
/// `None` where it would grow without end.
///
/// The tail follows Lindley, "The theory of queues with a single server", 1952: each wait is the
/// last one, and its service, less the time between the arrivals, and at least 0.
/// Fails with [`NoEstimate::TooFew`] for no service time.
pub fn queue(services: &[f64], rate: f64, seed: u64) -> Result<Option<Queue>, NoEstimate> {
    let mean = crate::summary::mean(services)?;
    let squares: Vec<f64> = services.iter().map(|service| service * service).collect();
    let load = rate * mean;
    if load >= 1.0 {
        return Ok(None);
    }
    let mut rng = ScheduleRng::new(seed);
    let mut wait = 0.0_f64;
    let mut latencies = Vec::with_capacity(REQUESTS);
    for number in 0..WARM_UP + REQUESTS {
        let service = services[(rng.uniform() * services.len() as f64) as usize];
        if number >= WARM_UP {
            latencies.push(wait + service);
        }
        wait = (wait + service - rng.exponential() / rate).max(0.0);
    }
    let sorted = Sorted::new(latencies)?;
    let mean_wait = rate * crate::summary::mean(&squares)? / (2.0 * (1.0 - load));
    Ok(Some(Queue { mean_wait, p50: sorted.linear(0.5)?, p99: sorted.linear(0.99)? }))
}

#[cfg(test)]
mod tests {
    use super::queue;

    /// A queue of constant service time 1 at half load: mean wait 0.5; its tail from Erlang's
    /// formula for M/D/1 (Franx 2001): P(wait <= 2.647) = 0.99.
    #[test]
    fn a_constant_service_has_the_tail_of_its_closed_form() {
        let found = queue(&[1.0], 0.5, 1).expect("a service").expect("a stable queue");
        assert!((found.mean_wait - 0.5).abs() < 1e-12);
        // P(W <= t) = (1 - rho) sum (-rho (t - k))^k / k! exp(rho (t - k)), k = 0..t.
        let below = |t: f64| {
            let term = |k: f64| {
                let x: f64 = 0.5 * (t - k);
                let factorial: f64 = (1..=k as u32).map(f64::from).product();
                (-x).powf(k) / factorial * x.exp()
            };
            0.5 * (0..=t as u32).map(|k| term(f64::from(k))).sum::<f64>()
        };
        assert!((below(found.p99 - 1.0) - 0.99).abs() < 0.002, "{found:?}");
        assert_eq!(queue(&[1.0], 1.0, 1).expect("a service"), None);
        assert!(queue(&[], 1.0, 1).is_err());
    }
}

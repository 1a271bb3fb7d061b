//! The packing bound: n <= min(memory / m, compute / c), and u <= min(1, n u1).

use std::cmp::Ordering;

use gpubench_record::sample::MISSING;
use serde::{Deserialize, Serialize};

use crate::error::{NOT_NEGATIVE, POSITIVE, PredictError};

/// The resource that limits the number of tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    Memory,
    Compute,
    /// Both, at the same number of tenants.
    Both,
}

impl Binding {
    /// The limiting resource, by how the room in memory compares with that in compute.
    fn of(memory_to_compute: Ordering) -> Self {
        match memory_to_compute {
            Ordering::Less => Self::Memory,
            Ordering::Equal => Self::Both,
            Ordering::Greater => Self::Compute,
        }
    }
}

/// Number of equal tenants on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    pub by_memory: u64,
    pub by_compute: u64,
    /// The smaller of the two.
    pub tenants: u64,
    pub binding: Binding,
    /// Largest utilisation by this number of tenants: min(1, n u1).
    pub utilisation: f64,
}

pub fn bound(gpu_memory_gb: f64, memory_gb: f64, compute: f64, utilisation: f64) -> Bound {
    let by_memory = whole(gpu_memory_gb / memory_gb);
    let by_compute = whole(1.0 / compute);
    let tenants = by_memory.min(by_compute);
    let binding = Binding::of(by_memory.cmp(&by_compute));
    let utilisation = (tenants as f64 * utilisation).min(1.0);
    Bound { by_memory, by_compute, tenants, binding, utilisation }
}

/// The whole part; a quotient within rounding of a whole number counts as that number.
fn whole(quotient: f64) -> u64 {
    let nearest = quotient.round();
    let is_whole = (quotient - nearest).abs() <= 1e-9 * nearest.max(1.0);
    (if is_whole { nearest } else { quotient.floor() }) as u64
}

/// GPUs needed by tenants of several kinds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fill {
    pub memory: f64,
    pub compute: f64,
    /// The resource with the larger demand.
    pub binding: Binding,
    /// GPUs after first fit, in order of falling demand.
    pub gpus_by_first_fit: u64,
    /// Tenants that are too large for a GPU.
    pub unplaceable: u64,
}

/// One tenant's demands as shares of a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    pub memory: f64,
    pub compute: f64,
}

/// Fills GPUs by first fit in order of falling demand: each tenant on the first GPU with enough
/// memory and compute.
pub fn fill(tenants: &[Shares]) -> Fill {
    let memory: f64 = tenants.iter().map(|tenant| tenant.memory).sum();
    let compute: f64 = tenants.iter().map(|tenant| tenant.compute).sum();
    let mut order = tenants.to_vec();
    let larger = |tenant: &Shares| tenant.memory.max(tenant.compute);
    order.sort_by(|a, b| larger(b).total_cmp(&larger(a)));
    let mut gpus: Vec<Shares> = Vec::new();
    let mut unplaceable = 0;
    let fits = |used: f64, needed: f64| used + needed <= 1.0 + 1e-9;
    for tenant in order {
        let room = gpus
            .iter_mut()
            .find(|used| fits(used.memory, tenant.memory) && fits(used.compute, tenant.compute));
        match room {
            Some(used) => {
                used.memory += tenant.memory;
                used.compute += tenant.compute;
            }
            None if larger(&tenant) > 1.0 => unplaceable += 1,
            None => gpus.push(tenant),
        }
    }
    // The larger demand leaves less room.
    let binding = Binding::of(compute.total_cmp(&memory));
    Fill { memory, compute, binding, gpus_by_first_fit: gpus.len() as u64, unplaceable }
}

// Fleet size at a target utilisation, and the share of its cost for idle time.

/// 365 days of 24 hours.
const HOURS_PER_YEAR: f64 = 8760.0;

/// Price of a GPU: rented by the hour, or purchased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Price {
    Rent {
        per_hour: f64,
    },
    Own {
        purchase: f64,
        /// Running costs per year.
        per_year: f64,
        years: f64,
    },
}

impl Price {
    pub fn check(&self) -> Result<(), PredictError> {
        match self {
            Self::Rent { per_hour } => NOT_NEGATIVE.check("price.per_hour", *per_hour),
            Self::Own { purchase, per_year, years } => {
                NOT_NEGATIVE.check("price.purchase", *purchase)?;
                NOT_NEGATIVE.check("price.per_year", *per_year)?;
                POSITIVE.check("price.years", *years)
            }
        }
    }

    pub fn per_hour(&self) -> f64 {
        match self {
            Self::Rent { per_hour } => *per_hour,
            Self::Own { purchase, per_year, years } => {
                (purchase / years + per_year) / HOURS_PER_YEAR
            }
        }
    }
}

/// Cost of a fleet, in the currency of the price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    pub per_gpu_hour: f64,
    /// Share of idle time.
    pub idle_share: f64,
    pub idle_per_gpu_hour: f64,
    pub fleet_per_year: f64,
    pub idle_per_year: f64,
}

/// GPUs for a demand at a target utilisation: ceil(full_gpus / target). `full_gpus` is the number
/// of GPUs filled to the bound, tenants / n.
pub fn fleet(full_gpus: f64, target: f64) -> u64 {
    let gpus = full_gpus / target;
    // A quotient above a whole number by rounding only needs no further GPU.
    (gpus - 1e-9 * gpus.max(1.0)).ceil().max(0.0) as u64
}

pub fn cost(price: &Price, gpus: u64, utilisation: f64) -> Cost {
    let per_gpu_hour = price.per_hour();
    let idle_share = (1.0 - utilisation).max(0.0);
    let fleet_per_year = per_gpu_hour * HOURS_PER_YEAR * gpus as f64;
    Cost {
        per_gpu_hour,
        idle_share,
        idle_per_gpu_hour: per_gpu_hour * idle_share,
        fleet_per_year,
        idle_per_year: fleet_per_year * idle_share,
    }
}

// Chargeback: bills each tenant for its measured GPU time.

/// Measured GPU time of one tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Used {
    pub tenant: String,
    pub gpu_time_s: f64,
}

impl Used {
    /// The GPU time of a tenant's requests in nanoseconds; requests without a measurement add 0.
    pub fn of_requests(tenant: String, gpu_ns: impl Iterator<Item = u64>) -> Self {
        let measured = gpu_ns.filter(|ns| *ns != MISSING);
        let gpu_time_s = measured.map(|ns| ns as f64 / 1e9).sum();
        Self { tenant, gpu_time_s }
    }
}

/// The result of `pack --chargeback`: measured, not predicted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bill {
    /// Always `measurement`.
    pub kind: &'static str,
    /// Measured GPU time of all tenants.
    pub gpu_time_s: f64,
    /// One line for each tenant, the largest first.
    pub tenants: Vec<Charge>,
}

impl Bill {
    /// The bill of these lines.
    pub fn of(tenants: Vec<Charge>) -> Self {
        // The sum of no lines is -0.0, which would be printed with its sign.
        let gpu_time_s = tenants.iter().map(|line| line.gpu_time_s).sum::<f64>() + 0.0;
        Self { kind: "measurement", gpu_time_s, tenants }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Charge {
    pub tenant: String,
    pub gpu_time_s: f64,
    /// Its share of the GPU time of all tenants.
    pub share: f64,
    /// The cost of that time; `None` without a price.
    pub charge: Option<f64>,
}

/// The bill, largest first. Entries of one tenant are added up.
pub fn chargeback(used: &[Used], price: Option<&Price>) -> Vec<Charge> {
    let total_s: f64 = used.iter().map(|used| used.gpu_time_s).sum();
    let mut sums: Vec<(String, f64)> = Vec::new();
    for used in used {
        match sums.iter_mut().find(|(tenant, _)| *tenant == used.tenant) {
            Some((_, sum_s)) => *sum_s += used.gpu_time_s,
            // The sum of no requests is -0.0, which would be printed with its sign; adding 0.0
            // makes it positive.
            None => sums.push((used.tenant.clone(), used.gpu_time_s + 0.0)),
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    let charge = |(tenant, gpu_time_s): (String, f64)| Charge {
        tenant,
        gpu_time_s,
        share: if total_s > 0.0 { gpu_time_s / total_s } else { 0.0 },
        charge: price.map(|price| price.per_hour() * gpu_time_s / 3600.0),
    };
    sums.into_iter().map(charge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_quotient_binds() {
        // The worked case: 80 / 6 = 13, 1 / 0.12 = 8.
        let found = bound(80.0, 6.0, 0.12, 0.12);
        assert_eq!((found.by_memory, found.by_compute, found.tenants), (13, 8, 8));
        assert_eq!(found.binding, Binding::Compute);
        assert!((found.utilisation - 0.96).abs() < 1e-12);
        assert_eq!(bound(24.0, 12.0, 0.1, 0.1).binding, Binding::Memory);
        assert_eq!(bound(24.0, 2.4, 0.1, 0.5).binding, Binding::Both);
        assert_eq!(bound(24.0, 2.4, 0.1, 0.5).utilisation, 1.0);
        // 0.7 / 0.1 is 6.999999999999999 in floating point.
        assert_eq!(bound(0.7, 0.1, 0.01, 0.01).by_memory, 7);
    }

    #[test]
    fn first_fit_places_every_kind() {
        let big = Shares { memory: 0.6, compute: 0.2 };
        let small = Shares { memory: 0.2, compute: 0.4 };
        let found = fill(&[small, big, small, big, small]);
        assert_eq!((found.gpus_by_first_fit, found.unplaceable), (2, 0));
        assert_eq!(found.binding, Binding::Memory);
        assert_eq!(fill(&[Shares { memory: 1.2, compute: 0.1 }]).unplaceable, 1);
    }

    #[test]
    fn fleets_round_up_and_prices_spread() {
        // 100 tenants, 8 to a GPU, 75 %: 16.67 GPUs.
        assert_eq!(fleet(100.0 / 8.0, 0.75), 17);
        assert_eq!(fleet(6.0, 0.75), 8);
        assert_eq!(fleet(0.3 / 0.1, 1.0), 3);
        let own = Price::Own { purchase: 12_000.0, per_year: 4_000.0, years: 4.0 };
        assert!((own.per_hour() - 7000.0 / 8760.0).abs() < 1e-12);
        // An example in S0: 100 GPUs at 30 % and 3 an hour leave 1.84 million a year idle.
        let found = cost(&Price::Rent { per_hour: 3.0 }, 100, 0.30);
        assert!((found.idle_per_year - 1_839_600.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn an_idle_tenant_pays_nothing() {
        let idle = Used::of_requests("idle".to_owned(), [MISSING].into_iter());
        let bill = chargeback(&[idle], Some(&Price::Rent { per_hour: 2.0 }));
        let line = &bill[0];
        let figures = [Some(line.gpu_time_s), Some(line.share), line.charge];
        assert_eq!(figures.map(|figure| figure.map(f64::to_bits)), [Some(0); 3]);
    }

    #[test]
    fn a_bill_of_nobody_is_zero_without_a_sign() {
        assert_eq!(Bill::of(Vec::new()).gpu_time_s.to_bits(), 0);
    }

    #[test]
    fn each_tenant_pays_for_its_own_time() {
        let used = |tenant: &str, gpu_time_s| Used { tenant: tenant.to_owned(), gpu_time_s };
        let price = Price::Rent { per_hour: 3.6 };
        let all = [used("a", 10.0), used("b", 25.0), used("a", 5.0)];
        let bill = chargeback(&all, Some(&price));
        let lines: Vec<(&str, f64, Option<f64>)> =
            bill.iter().map(|line| (line.tenant.as_str(), line.share, line.charge)).collect();
        assert_eq!(lines, [("b", 0.625, Some(0.025)), ("a", 0.375, Some(0.015))]);
        assert!(chargeback(&all, None).iter().all(|line| line.charge.is_none()));
    }
}

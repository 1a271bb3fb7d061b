//! Fleet size at a target utilisation, and what of its price is paid for idle time.

use crate::error::{NOT_NEGATIVE, POSITIVE, PredictError};
use serde::{Deserialize, Serialize};

/// 365 days of 24 hours.
const HOURS_PER_YEAR: f64 = 8760.0;

/// What a GPU costs: rented by the hour, or bought and run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Price {
    /// Rented.
    Rent {
        /// Per GPU-hour.
        per_hour: f64,
    },
    /// Bought.
    Own {
        /// Paid once.
        purchase: f64,
        /// Paid every year to run it.
        per_year: f64,
        /// Over how many years the purchase is spread.
        years: f64,
    },
}

impl Price {
    /// Says what is wrong with the figures.
    pub fn check(&self) -> Result<(), PredictError> {
        match self {
            Self::Rent { per_hour } => NOT_NEGATIVE.check("price.per_hour", *per_hour),
            Self::Own {
                purchase,
                per_year,
                years,
            } => {
                NOT_NEGATIVE.check("price.purchase", *purchase)?;
                NOT_NEGATIVE.check("price.per_year", *per_year)?;
                POSITIVE.check("price.years", *years)
            }
        }
    }

    /// Per GPU-hour.
    pub fn per_hour(&self) -> f64 {
        match self {
            Self::Rent { per_hour } => *per_hour,
            Self::Own {
                purchase,
                per_year,
                years,
            } => (purchase / years + per_year) / HOURS_PER_YEAR,
        }
    }
}

/// What a fleet costs, in the currency of the price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// One GPU for an hour.
    pub per_gpu_hour: f64,
    /// Share of the time that is paid for and not used.
    pub idle_share: f64,
    /// Paid for idle time, per GPU-hour.
    pub idle_per_gpu_hour: f64,
    /// The fleet for a year.
    pub fleet_per_year: f64,
    /// Of that, paid for idle time.
    pub idle_per_year: f64,
}

/// GPUs for a demand: ceil(demand / (n target)), where the demand is counted in GPUs that are full
/// to the bound, which is tenants over n.
pub fn fleet(full_gpus: f64, target: f64) -> u64 {
    let gpus = full_gpus / target;
    // A quotient that misses a whole number by rounding alone needs no further GPU.
    (gpus - 1e-9 * gpus.max(1.0)).ceil().max(0.0) as u64
}

/// The cost of a fleet that is used to a share.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fleets_round_up_and_prices_spread() {
        // 100 tenants, 8 to a GPU, 75 %: 16.67 GPUs.
        assert_eq!(fleet(100.0 / 8.0, 0.75), 17);
        assert_eq!(fleet(6.0, 0.75), 8);
        assert_eq!(fleet(0.3 / 0.1, 1.0), 3);
        let own = Price::Own {
            purchase: 12_000.0,
            per_year: 4_000.0,
            years: 4.0,
        };
        assert!((own.per_hour() - 7000.0 / 8760.0).abs() < 1e-12);
        // An example in S0: 100 GPUs at 30 % and 3 an hour leave 1.84 million a year idle.
        let found = cost(&Price::Rent { per_hour: 3.0 }, 100, 0.30);
        assert!((found.idle_per_year - 1_839_600.0).abs() < 1.0, "{found:?}");
    }
}

//! Fleet size at a target utilisation, and the share of its cost for idle time.

use crate::error::{NOT_NEGATIVE, POSITIVE, PredictError};
use serde::{Deserialize, Serialize};

/// 365 days of 24 hours.
const HOURS_PER_YEAR: f64 = 8760.0;

/// Price of a GPU: rented by the hour, or purchased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Price {
    /// Rented.
    Rent {
        /// Per GPU-hour.
        per_hour: f64,
    },
    /// Purchased.
    Own {
        /// Purchase price.
        purchase: f64,
        /// Running costs per year.
        per_year: f64,
        /// Depreciation period of the purchase.
        years: f64,
    },
}

impl Price {
    /// Checks the figures.
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

    /// Per GPU-hour.
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
    /// One GPU for an hour.
    pub per_gpu_hour: f64,
    /// Share of idle time.
    pub idle_share: f64,
    /// Cost of idle time per GPU-hour.
    pub idle_per_gpu_hour: f64,
    /// The fleet for a year.
    pub fleet_per_year: f64,
    /// Cost of idle time per year.
    pub idle_per_year: f64,
}

/// GPUs for a demand at a target utilisation: ceil(full_gpus / target). `full_gpus` is the number
/// of GPUs filled to the bound, tenants / n.
pub fn fleet(full_gpus: f64, target: f64) -> u64 {
    let gpus = full_gpus / target;
    // A quotient above a whole number by rounding only needs no further GPU.
    (gpus - 1e-9 * gpus.max(1.0)).ceil().max(0.0) as u64
}

/// The cost of a fleet with this utilisation.
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
        let own = Price::Own { purchase: 12_000.0, per_year: 4_000.0, years: 4.0 };
        assert!((own.per_hour() - 7000.0 / 8760.0).abs() < 1e-12);
        // An example in S0: 100 GPUs at 30 % and 3 an hour leave 1.84 million a year idle.
        let found = cost(&Price::Rent { per_hour: 3.0 }, 100, 0.30);
        assert!((found.idle_per_year - 1_839_600.0).abs() < 1.0, "{found:?}");
    }
}

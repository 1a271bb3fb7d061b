//! The figures of one cell. In JSON they are one object, with the unit in each name.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What one aggressor or victim did in a contended cell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TenantFigures {
    /// Completions per second of an aggressor in the closed loop.
    pub rate_per_s: Option<f64>,
    /// GPU time of all its requests.
    pub gpu_time_ns: Option<f64>,
}

/// Suffixes of the names in JSON that follow the name of a tenant.
const RATE: &str = "_rate_per_s";
const GPU_TIME: &str = "_gpu_time_ns";

/// Declares the figures by their names in JSON, in alphabetical order.
macro_rules! figures {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// Figures of one cell, computed from its samples alone. A figure that could not be
        /// computed is `None`, and absent in JSON.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct CellFigures {
            $($(#[$doc])+ pub $name: Option<f64>,)+
            /// By name of the tenant; only in contended cells.
            pub tenants: BTreeMap<String, TenantFigures>,
            /// Figures of other versions, by name.
            pub others: BTreeMap<String, f64>,
        }

        impl CellFigures {
            /// The figures of the cell as a whole, each with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, Option<f64>)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }

            /// The same, to change.
            pub fn named_mut(
                &mut self,
            ) -> impl Iterator<Item = (&'static str, &mut Option<f64>)> {
                [$((stringify!($name), &mut self.$name),)+].into_iter()
            }
        }
    };
}

figures! {
    /// Rate of the aggressor over the rate of one alone on the device.
    achieved_dose_ratio,
    /// Share of the closed loop in which an aggressor at a dose below 1 had work outstanding.
    aggressor_busy_closed_ratio,
    /// Share of the open loop in which the aggressor had work outstanding.
    aggressor_busy_open_ratio,
    /// Share of the closed loop in which an aggressor had no work outstanding for more than 5 us;
    /// only on the wall clock.
    aggressor_idle_closed_ratio,
    /// Completions per second of all aggressors in the closed loop.
    aggressor_rate_per_s,
    /// Growth of the backlog over the second half of the open loop.
    backlog_slope_per_s,
    /// Standard error of `closed_halves_ln`, from the spread within the cell.
    closed_halves_error_ln,
    /// Mean service in the first half of the closed loop over that in the second, as a logarithm.
    closed_halves_ln,
    /// The most by which lost CPU time can have lowered the rate of the closed loop, as the
    /// logarithm of a ratio; absent where it was not observed.
    closed_rate_loss_max_ln,
    /// Completions per second of the closed loop, from its first request to its last completion.
    closed_rate_per_s,
    /// Median time from issue to completion in the closed loop.
    closed_service_p50_ns,
    /// Speed of the device around the cell over its first speed, as a logarithm: the mean of the
    /// check kernel before and after.
    device_speed_ln,
    /// Requests completed within the open loop, per second.
    goodput_per_s,
    /// Median GPU time of a request in the closed loop.
    gpu_p50_ns,
    /// 99th percentile of the lateness of requests that were due while the issuer was busy.
    lateness_busy_p99_ns,
    /// The same while it was idle: the lateness of the harness itself.
    lateness_idle_p99_ns,
    /// Requests due in the open loop, per second.
    offered_per_s,
    /// The least that the median can be without the lateness of the harness; only on the wall
    /// clock.
    open_latency_p50_lower_ns,
    /// Median time from schedule to completion in the open loop.
    open_latency_p50_ns,
    /// 90th percentile of the same.
    open_latency_p90_ns,
    /// 99.9th percentile of the same; absent below 3,688 requests or under overload.
    open_latency_p999_ns,
    /// The least that the 99th percentile can be without the lateness of the harness.
    open_latency_p99_lower_ns,
    /// 99th percentile of the same; absent below 368 requests or under overload.
    open_latency_p99_ns,
    /// Median time from issue to completion in the open loop.
    open_service_p50_ns,
    /// Share of the closed loop in which victim and aggressor had work outstanding together.
    overlap_closed_ratio,
    /// Mean clock of the SMs in the closed loop.
    sm_clock_mhz,
}

impl CellFigures {
    /// The figures of a tenant, to set one: a tenant without any is not in JSON.
    pub fn tenant(&mut self, name: &str) -> &mut TenantFigures {
        self.tenants.entry(name.to_owned()).or_default()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name().is_empty()
    }

    /// Every figure that exists, by its name in JSON.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<String, f64> {
        let tenants = self.tenants.iter().flat_map(|(tenant, figures)| {
            let both = [(RATE, figures.rate_per_s), (GPU_TIME, figures.gpu_time_ns)];
            both.map(|(suffix, value)| (format!("{tenant}{suffix}"), value))
        });
        let named = self.named().map(|(name, value)| (name.to_owned(), value));
        let known = named.chain(tenants).filter_map(|(name, value)| Some((name, value?)));
        self.others.clone().into_iter().chain(known).collect()
    }

    /// Sets a figure by its name in JSON.
    fn put(&mut self, name: String, value: f64) {
        if let Some((_, own)) = self.named_mut().find(|(known, _)| *known == name) {
            *own = Some(value);
        } else if let Some(tenant) = name.strip_suffix(RATE) {
            self.tenant(tenant).rate_per_s = Some(value);
        } else if let Some(tenant) = name.strip_suffix(GPU_TIME) {
            self.tenant(tenant).gpu_time_ns = Some(value);
        } else {
            self.others.insert(name, value);
        }
    }
}

impl Serialize for CellFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.by_name().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CellFigures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut figures = Self::default();
        for (name, value) in BTreeMap::<String, f64>::deserialize(deserializer)? {
            figures.put(name, value);
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::CellFigures;

    /// Names of tenants and of other versions are kept, and the order is that of the names.
    #[test]
    fn json_is_read_and_written_byte_for_byte() -> serde_json::Result<()> {
        let json = concat!(
            r#"{"aggressor_rate_per_s":3.0,"closed_rate_per_s":1.5,"#,
            r#""neighbour-1_gpu_time_ns":8.0,"neighbour-1_rate_per_s":2.0,"zeta":7.0}"#
        );
        let figures: CellFigures = serde_json::from_str(json)?;
        assert_eq!(figures.closed_rate_per_s, Some(1.5));
        assert_eq!(figures.aggressor_rate_per_s, Some(3.0));
        assert_eq!(figures.tenants["neighbour-1"].rate_per_s, Some(2.0));
        assert_eq!(figures.tenants["neighbour-1"].gpu_time_ns, Some(8.0));
        assert_eq!(figures.others["zeta"], 7.0);
        assert_eq!(serde_json::to_string(&figures)?, json);
        assert!(!figures.is_empty() && CellFigures::default().is_empty());
        let mut names: Vec<&str> = figures.named().map(|(name, _)| name).collect();
        let declared = names.clone();
        names.sort_unstable();
        assert_eq!(names, declared, "declared in the order of JSON");
        Ok(())
    }
}

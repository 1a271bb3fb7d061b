//! Chargeback: bills each tenant for its measured GPU time.

use super::cost::Price;
use gpubench_record::sample::MISSING;
use serde::Serialize;

/// Measured GPU time of one tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Used {
    /// The tenant.
    pub tenant: String,
    /// Its GPU time.
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
        let gpu_time_s = tenants.iter().map(|line| line.gpu_time_s).sum();
        Self { kind: "measurement", gpu_time_s, tenants }
    }
}

/// One line of the bill.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Charge {
    /// The tenant.
    pub tenant: String,
    /// Its measured GPU time.
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
    fn an_idle_tenant_pays_nothing() {
        let idle = Used::of_requests("idle".to_owned(), [MISSING].into_iter());
        let bill = chargeback(&[idle], Some(&Price::Rent { per_hour: 2.0 }));
        let line = &bill[0];
        let figures = [Some(line.gpu_time_s), Some(line.share), line.charge];
        assert_eq!(figures.map(|figure| figure.map(f64::to_bits)), [Some(0); 3]);
    }

    #[test]
    fn a_bill_is_an_object_that_says_it_is_measured() {
        let used = ["a", "b"].map(|name| Used { tenant: name.to_owned(), gpu_time_s: 2.0 });
        let bill = serde_json::to_value(Bill::of(chargeback(&used, None))).expect("json");
        assert_eq!(
            (&bill["kind"], &bill["gpu_time_s"], &bill["tenants"][1]["tenant"]),
            (&"measurement".into(), &4.0.into(), &"b".into())
        );
    }

    #[test]
    fn requests_without_a_gpu_time_add_nothing() {
        let used = Used::of_requests("a".to_owned(), [2_000_000_000, MISSING].into_iter());
        assert_eq!(used.gpu_time_s, 2.0);
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

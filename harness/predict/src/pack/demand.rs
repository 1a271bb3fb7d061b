//! Input of `pack`: tenants, GPU, target and price, as written in TOML or flags.

use gpubench_record::run::RunRecord;
use serde::{Deserialize, Serialize};

use super::bound::{Bound, Cost, Fill, Price, Shares, bound, cost, fill, fleet};
use super::layout::{Layout, Tenant, layouts};
use crate::error::{POSITIVE, PredictError, SHARE, from_toml};
use crate::mig;

/// Limit of tenants, for the run time of the packing.
pub const MAX_TENANTS: u64 = 100_000;

/// Tenants and the GPU that they share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Demand {
    /// A GPU of the MIG tables, which gives memory and profiles.
    pub gpu: Option<String>,
    /// Memory of one GPU, in place of that of `gpu`.
    pub memory_gb: Option<f64>,
    pub target: f64,
    pub mps_clients: u32,
    pub price: Option<Price>,
    pub tenant: Vec<Kind>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    pub name: String,
    #[serde(default = "one")]
    pub count: u64,
    /// Memory of one tenant; alternatively `parameters_billion`, `bytes_per_parameter`, `cache_gb`.
    pub memory_gb: Option<f64>,
    pub parameters_billion: Option<f64>,
    /// Bytes of one parameter: 1 for INT8, 2 for FP16.
    pub bytes_per_parameter: Option<f64>,
    pub cache_gb: Option<f64>,
    /// Share of the GPU's compute that one tenant needs.
    pub compute: f64,
    /// Utilisation by one tenant alone; `compute` by default.
    pub utilisation: Option<f64>,
}

const fn one() -> u64 {
    1
}

impl Default for Demand {
    fn default() -> Self {
        Self {
            gpu: None,
            memory_gb: None,
            // The middle of the 70 to 80 % that the overviews S0 and S3 call sustainable.
            target: 0.75,
            // Up to CUDA 13.0; later documentation says 60 (MPS guide, when-to-use-mps).
            mps_clients: 48,
            price: None,
            tenant: Vec::new(),
        }
    }
}

impl Demand {
    /// Reads a demand from TOML; missing keys have their defaults.
    pub fn from_toml(text: &str) -> Result<Self, PredictError> {
        from_toml("demand", text)
    }

    /// Checks the values and returns the first problem.
    pub fn check(&self) -> Result<(), PredictError> {
        SHARE.check("target", self.target)?;
        self.mig_table()?;
        self.gpu_memory_gb()?;
        if self.mps_clients == 0 {
            return Err(PredictError::value("mps_clients", 0, "a whole number of at least 1"));
        }
        self.price.as_ref().map_or(Ok(()), Price::check)?;
        if self.tenant.is_empty() {
            return Err(PredictError::Missing {
                what: "a tenant".to_owned(),
                remedy:
                    "give --tenant-memory-gb with --tenant-compute or --from, or add it to the \
                         file of --config"
                        .to_owned(),
            });
        }
        self.tenant.iter().try_for_each(Kind::check)?;
        let total = self.tenant.iter().fold(0_u64, |sum, kind| sum.saturating_add(kind.count));
        if total > MAX_TENANTS {
            let accepted = format!("at most {MAX_TENANTS} tenants");
            return Err(PredictError::value("count", total, &accepted));
        }
        Ok(())
    }

    /// The MIG profiles of the GPU, if `gpu` is set.
    pub fn mig_table(&self) -> Result<Option<&'static mig::Table>, PredictError> {
        self.gpu.as_deref().map(mig::table).transpose()
    }

    pub fn gpu_memory_gb(&self) -> Result<f64, PredictError> {
        let of_table = self.mig_table()?.map(|table| table.usable_gb());
        let found = self.memory_gb.or(of_table).ok_or_else(|| PredictError::Missing {
            what: "the memory of the GPU".to_owned(),
            remedy: "set gpu or memory_gb".to_owned(),
        })?;
        POSITIVE.check("memory_gb", found).map(|()| found)
    }
}

impl Kind {
    /// One tenant with this memory and share of the compute.
    pub fn new(name: &str, memory_gb: f64, compute: f64) -> Self {
        Self {
            name: name.to_owned(),
            count: 1,
            memory_gb: Some(memory_gb),
            parameters_billion: None,
            bytes_per_parameter: None,
            cache_gb: None,
            compute,
            utilisation: None,
        }
    }

    pub fn memory_gb(&self) -> Result<f64, PredictError> {
        let weights_gb = self.parameters_billion.zip(self.bytes_per_parameter);
        let weights_gb = weights_gb.map(|(billions, bytes)| billions * bytes);
        let parts_gb = weights_gb.map(|weights_gb| weights_gb + self.cache_gb.unwrap_or(0.0));
        match (self.memory_gb, parts_gb) {
            (Some(_), Some(_)) => Err(PredictError::value(
                format!("memory_gb of {}", self.name),
                "set twice",
                "memory_gb, or parameters_billion with bytes_per_parameter",
            )),
            (Some(memory_gb), None) | (None, Some(memory_gb)) => Ok(memory_gb),
            (None, None) => Err(PredictError::Missing {
                what: format!("the memory of {}", self.name),
                remedy: "set memory_gb, or parameters_billion with bytes_per_parameter".to_owned(),
            }),
        }
    }

    /// Utilisation by one tenant alone.
    pub fn utilisation(&self) -> f64 {
        self.utilisation.unwrap_or(self.compute)
    }

    fn check(&self) -> Result<(), PredictError> {
        let named = |key: &str| format!("{key} of {}", self.name);
        if self.count == 0 {
            return Err(PredictError::value(named("count"), 0, "a whole number of at least 1"));
        }
        POSITIVE.check(&named("memory_gb"), self.memory_gb()?)?;
        SHARE.check(&named("compute"), self.compute)?;
        SHARE.check_set(&named("utilisation"), self.utilisation)
    }
}

/// Tenants from a record: the compute share of each victim is its offered rate times its native
/// service time. The record has no memory demand, so the user provides it.
pub fn kinds_of_record(record: &RunRecord, memory_gb: f64) -> Result<Vec<Kind>, PredictError> {
    let mut kinds: Vec<Kind> = Vec::new();
    for (name, entry) in &record.calibration.entries {
        let offered: Vec<f64> = record
            .cells
            .iter()
            .filter(|cell| cell.outcome.is_measured() && cell.cell.victim == *name)
            .filter_map(|cell| cell.figures.offered_per_s)
            .collect();
        let Some([per_s]) = crate::parallel::percentiles(&mut offered.clone(), [50.0]) else {
            continue;
        };
        let compute = per_s * entry.service_ns as f64 / 1e9;
        kinds.push(Kind::new(name, memory_gb, compute));
    }
    if kinds.is_empty() {
        return Err(PredictError::Missing {
            what: "a measured victim with an offered rate".to_owned(),
            remedy: "use a record of `matrix` with a measured victim".to_owned(),
        });
    }
    Ok(kinds)
}

// The result of one call of `pack`, in the form of its JSON output.

/// The result of `pack`: the bound of a model, not a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Always `prediction`.
    pub kind: &'static str,
    /// The input.
    pub demand: Demand,
    pub gpu_memory_gb: f64,
    /// Tenants per GPU for each kind, if all tenants of the GPU are of that kind.
    pub kinds: Vec<KindReport>,
    pub fill: Fill,
    pub fleet_gpus: u64,
    pub fleet_utilisation: f64,
    /// Its cost; `None` without a price.
    pub cost: Option<Cost>,
    /// MIG layouts of one GPU, best first; `None` without MIG.
    pub layouts: Option<Vec<Layout>>,
}

/// One kind of tenant on one GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindReport {
    pub name: String,
    pub count: u64,
    pub memory_gb: f64,
    pub bound: Bound,
    /// Tenants under MPS: the bound, limited by the clients of a server.
    pub by_mps: u64,
    /// Tenants under time-slicing: the bound, because all tenants stay in memory.
    pub by_time_slicing: u64,
    /// Tenants under MIG, one per instance; `None` without a MIG table.
    pub by_mig: Option<u64>,
    pub mig_layout: Option<String>,
}

pub fn report(demand: &Demand) -> Result<Report, PredictError> {
    demand.check()?;
    let gpu_memory_gb = demand.gpu_memory_gb()?;
    let table = demand.mig_table()?;
    let kinds: Result<Vec<KindReport>, PredictError> =
        demand.tenant.iter().map(|kind| kind_report(demand, kind, gpu_memory_gb, table)).collect();
    let kinds = kinds?;
    let tenants = all_tenants(demand, gpu_memory_gb)?;
    let shares: Vec<Shares> = tenants.iter().map(|tenant| tenant.shares).collect();
    let full_gpus: f64 = kinds.iter().map(|kind| full_gpus(kind.count, kind.bound)).sum();
    if !full_gpus.is_finite() {
        return Err(too_large(&kinds, gpu_memory_gb));
    }
    let fleet_gpus = fleet(full_gpus, demand.target);
    let used: f64 = demand.tenant.iter().map(|kind| kind.count as f64 * kind.utilisation()).sum();
    let fleet_utilisation = (used / fleet_gpus as f64).min(1.0);
    Ok(Report {
        kind: "prediction",
        demand: demand.clone(),
        gpu_memory_gb,
        fill: fill(&shares),
        fleet_gpus,
        fleet_utilisation,
        cost: demand.price.as_ref().map(|price| cost(price, fleet_gpus, fleet_utilisation)),
        layouts: table.map(|table| layouts(table, &few_of_each(table, &tenants))),
        kinds,
    })
}

fn full_gpus(count: u64, bound: Bound) -> f64 {
    count as f64 / bound.tenants as f64
}

/// Gigabytes as texts show them: two decimals at most.
pub(super) fn rounded_gb(gb: f64) -> f64 {
    (100.0 * gb).round() / 100.0
}

fn too_large(kinds: &[KindReport], gpu_memory_gb: f64) -> PredictError {
    let largest = kinds.iter().max_by(|a, b| a.memory_gb.total_cmp(&b.memory_gb));
    let (name, memory_gb) = largest.map_or(("", 0.0), |kind| (kind.name.as_str(), kind.memory_gb));
    let accepted = format!("at most the {} GB of the GPU", rounded_gb(gpu_memory_gb));
    PredictError::value(format!("memory_gb of {name}"), memory_gb, &accepted)
}

fn kind_report(
    demand: &Demand,
    kind: &Kind,
    gpu_memory_gb: f64,
    table: Option<&mig::Table>,
) -> Result<KindReport, PredictError> {
    let memory_gb = kind.memory_gb()?;
    let bound = bound(gpu_memory_gb, memory_gb, kind.compute, kind.utilisation());
    let shares = Shares { memory: memory_gb / gpu_memory_gb, compute: kind.compute };
    let one = Tenant { name: kind.name.clone(), memory_gb, shares };
    let best = table.map(|table| {
        let many = vec![one; table.slices as usize];
        layouts(table, &many).into_iter().next()
    });
    Ok(KindReport {
        name: kind.name.clone(),
        count: kind.count,
        memory_gb,
        bound,
        by_mps: bound.tenants.min(u64::from(demand.mps_clients)),
        by_time_slicing: bound.tenants,
        by_mig: best.as_ref().map(|best| best.as_ref().map_or(0, |layout| layout.held)),
        mig_layout: best.flatten().map(|layout| layout.name),
    })
}

fn all_tenants(demand: &Demand, gpu_memory_gb: f64) -> Result<Vec<Tenant>, PredictError> {
    let mut all = Vec::new();
    for kind in &demand.tenant {
        let memory_gb = kind.memory_gb()?;
        let shares = Shares { memory: memory_gb / gpu_memory_gb, compute: kind.compute };
        let one = Tenant { name: kind.name.clone(), memory_gb, shares };
        all.extend(std::iter::repeat_n(one, kind.count as usize));
    }
    Ok(all)
}

/// A GPU has at most as many instances as compute slices, so the matching needs no more tenants of
/// a kind.
fn few_of_each(table: &mig::Table, tenants: &[Tenant]) -> Vec<Tenant> {
    let kinds = tenants.chunk_by(|a, b| a.name == b.name);
    kinds.flat_map(|kind| kind.iter().take(table.slices as usize)).cloned().collect()
}

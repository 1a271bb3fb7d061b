//! Input of `pack`: tenants, GPU, target and price, as written in TOML or flags.

use super::cost::Price;
use crate::error::{POSITIVE, PredictError, SHARE, from_toml};
use crate::mig;
use gpubench_record::run::RunRecord;
use serde::{Deserialize, Serialize};

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
    /// Planned utilisation of the compute.
    pub target: f64,
    /// Limit of clients of one MPS server.
    pub mps_clients: u32,
    /// Price of a GPU.
    pub price: Option<Price>,
    /// The tenants.
    pub tenant: Vec<Kind>,
}

/// Tenants of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Name.
    pub name: String,
    /// Number of tenants.
    #[serde(default = "one")]
    pub count: u64,
    /// Memory of one tenant; alternatively `parameters_billion`, `bytes_per_parameter`, `cache_gb`.
    pub memory_gb: Option<f64>,
    /// Parameters of its model, in billions.
    pub parameters_billion: Option<f64>,
    /// Bytes of one parameter: 1 for INT8, 2 for FP16.
    pub bytes_per_parameter: Option<f64>,
    /// Memory besides the weights.
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

    /// Memory of one GPU.
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

    /// Memory of one tenant.
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
        let Some([per_s]) = crate::percentile::percentiles(&mut offered.clone(), [50.0]) else {
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

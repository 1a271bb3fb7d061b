//! The result of one call of `pack`, in the form of its JSON output.

use super::bound::{Bound, Fill, Shares, bound, fill};
use super::cost::{Cost, cost, fleet};
use super::demand::{Demand, Kind};
use super::layout::{Layout, Tenant, layouts};
use crate::error::PredictError;
use crate::mig;
use serde::Serialize;

/// The result of `pack`: the bound of a model, not a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Always `prediction`.
    pub kind: &'static str,
    /// The input.
    pub demand: Demand,
    /// Memory of one GPU.
    pub gpu_memory_gb: f64,
    /// Tenants per GPU for each kind, if all tenants of the GPU are of that kind.
    pub kinds: Vec<KindReport>,
    /// All tenants on shared GPUs.
    pub fill: Fill,
    /// GPUs at the target utilisation.
    pub fleet_gpus: u64,
    /// Mean utilisation of that fleet.
    pub fleet_utilisation: f64,
    /// Its cost; `None` without a price.
    pub cost: Option<Cost>,
    /// MIG layouts of one GPU, best first; `None` without MIG.
    pub layouts: Option<Vec<Layout>>,
}

/// One kind of tenant on one GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindReport {
    /// Its name.
    pub name: String,
    /// Tenants of this kind.
    pub count: u64,
    /// Memory of one tenant.
    pub memory_gb: f64,
    /// The bound.
    pub bound: Bound,
    /// Tenants under MPS: the bound, limited by the clients of a server.
    pub by_mps: u64,
    /// Tenants under time-slicing: the bound, because all tenants stay in memory.
    pub by_time_slicing: u64,
    /// Tenants under MIG, one per instance; `None` without a MIG table.
    pub by_mig: Option<u64>,
    /// The layout with this number of tenants.
    pub mig_layout: Option<String>,
}

/// Packs a demand.
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

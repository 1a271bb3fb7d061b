//! MIG layouts for the tenants: every legal mix, one tenant per instance, best first.

use super::bound::Shares;
use crate::mig::{Profile, Table};
use crate::mig::{mixes, place};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    pub name: String,
    pub memory_gb: f64,
    pub shares: Shares,
}

/// One instance of a layout with its tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Instance {
    pub profile: String,
    pub start: u32,
    pub tenant: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Layout {
    /// Profiles with their counts, such as `7x1g.10gb`.
    pub name: String,
    pub held: u64,
    /// Memory of the instances that their tenants do not need.
    pub spare_memory_gb: f64,
    /// SMs of the instances that their tenants do not need; `None` if a count is unknown.
    pub spare_sm: Option<f64>,
    /// SMs outside all instances; `None` if a count is unknown.
    pub outside_sm: Option<u32>,
    /// Memory outside all instances.
    pub outside_memory_gb: f64,
    pub instances: Vec<Instance>,
}

/// Every legal layout with a tenant in each instance, best first: by number of tenants, then by
/// unneeded SMs and memory.
pub fn layouts(table: &Table, tenants: &[Tenant]) -> Vec<Layout> {
    let of_mix = |mix: Vec<&Profile>| {
        let matched = matching(table, &mix, tenants);
        let is_full = matched.iter().all(Option::is_some);
        is_full.then(|| describe(table, &mix, &matched, tenants)).flatten()
    };
    let mut found: Vec<Layout> = mixes(table).into_iter().filter_map(of_mix).collect();
    let waste = |layout: &Layout| (layout.spare_sm.unwrap_or(0.0), layout.spare_memory_gb);
    found.sort_by(|a, b| {
        let (a_sm, a_gb) = waste(a);
        let (b_sm, b_gb) = waste(b);
        let by_waste = a_sm.total_cmp(&b_sm).then(a_gb.total_cmp(&b_gb));
        b.held.cmp(&a.held).then(by_waste).then_with(|| a.name.cmp(&b.name))
    });
    found
}

/// Whether a tenant fits an instance. If SM counts are unknown, compute slices are used.
fn fits(table: &Table, profile: &Profile, tenant: &Tenant) -> bool {
    let by_slices = f64::from(profile.slices) / f64::from(table.slices);
    let speed = table.speed(profile).unwrap_or(by_slices);
    tenant.memory_gb <= profile.memory_gb() && tenant.shares.compute <= speed + 1e-9
}

fn matching(table: &Table, mix: &[&Profile], tenants: &[Tenant]) -> Vec<Option<usize>> {
    let mut instance_of = vec![None; tenants.len()];
    for instance in 0..mix.len() {
        let mut visited = vec![false; tenants.len()];
        augment(table, mix, tenants, instance, &mut visited, &mut instance_of);
    }
    let mut tenant_of = vec![None; mix.len()];
    for (tenant, instance) in instance_of.iter().enumerate() {
        if let Some(instance) = *instance {
            tenant_of[instance] = Some(tenant);
        }
    }
    tenant_of
}

fn augment(
    table: &Table,
    mix: &[&Profile],
    tenants: &[Tenant],
    instance: usize,
    visited: &mut [bool],
    instance_of: &mut [Option<usize>],
) -> bool {
    for tenant in 0..tenants.len() {
        if visited[tenant] || !fits(table, mix[instance], &tenants[tenant]) {
            continue;
        }
        visited[tenant] = true;
        let is_free = match instance_of[tenant] {
            None => true,
            Some(other) => augment(table, mix, tenants, other, visited, instance_of),
        };
        if is_free {
            instance_of[tenant] = Some(instance);
            return true;
        }
    }
    false
}

fn describe(
    table: &Table,
    mix: &[&Profile],
    matched: &[Option<usize>],
    tenants: &[Tenant],
) -> Option<Layout> {
    let placed = place(table, mix)?;
    // `place` reorders, so tenants are assigned to instances of the same profile again.
    let mut waiting: Vec<(&str, &Tenant)> = mix
        .iter()
        .zip(matched)
        .filter_map(|(profile, tenant)| Some((profile.name.as_str(), &tenants[(*tenant)?])))
        .collect();
    let mut next_tenant = |profile: &str| {
        let index = waiting.iter().position(|(name, _)| *name == profile)?;
        Some(waiting.remove(index).1.name.clone())
    };
    let instances = placed.iter().map(|placed| Instance {
        profile: placed.profile.name.clone(),
        start: placed.start,
        tenant: next_tenant(&placed.profile.name),
    });
    let instances: Vec<Instance> = instances.collect();
    let held: Vec<&Tenant> = matched.iter().flatten().map(|tenant| &tenants[*tenant]).collect();
    let memory_gb: f64 = mix.iter().map(|profile| profile.memory_gb()).sum();
    let needed_gb: f64 = held.iter().map(|tenant| tenant.memory_gb).sum();
    let needed: f64 = held.iter().map(|tenant| tenant.shares.compute).sum();
    let sm: Option<u32> = mix.iter().map(|profile| profile.sm).sum();
    let spare_sm = sm.zip(table.sm).map(|(sm, all)| f64::from(sm) - needed * f64::from(all));
    Some(Layout {
        name: name(mix),
        held: held.len() as u64,
        spare_memory_gb: memory_gb - needed_gb,
        spare_sm,
        outside_sm: sm.zip(table.sm).map(|(sm, all)| all.saturating_sub(sm)),
        outside_memory_gb: (table.usable_gb() - memory_gb).max(0.0),
        instances,
    })
}

fn name(mix: &[&Profile]) -> String {
    let runs = mix.chunk_by(|a, b| a.name == b.name);
    let parts: Vec<String> = runs
        .map(|run| match run {
            [only] => only.name.clone(),
            several => format!("{}x{}", several.len(), several[0].name),
        })
        .collect();
    parts.join(" + ")
}

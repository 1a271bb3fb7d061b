//! Which MIG layouts hold the tenants: every legal mix, one tenant per instance, best first.

use super::bound::Shares;
use crate::mig::placement::{mixes, place};
use crate::mig::{Profile, Table};
use serde::Serialize;

/// A tenant that wants an instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// What kind of tenant.
    pub name: String,
    /// Memory that it needs.
    pub memory_gb: f64,
    /// Its shares of the whole GPU.
    pub shares: Shares,
}

/// One instance of a layout, and who is in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Instance {
    /// Its profile.
    pub profile: String,
    /// Where it begins in memory.
    pub start: u32,
    /// The tenant in it.
    pub tenant: Option<String>,
}

/// One layout.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Layout {
    /// Profiles with their numbers, as `7x1g.10gb`.
    pub name: String,
    /// Tenants that it holds.
    pub held: u64,
    /// Memory that instances have beyond what their tenants need.
    pub spare_memory_gb: f64,
    /// SMs that instances have beyond what their tenants need; nothing where a count is not known.
    pub spare_sm: Option<f64>,
    /// SMs that belong to no instance; nothing where a count is not known.
    pub outside_sm: Option<u32>,
    /// Memory that belongs to no instance.
    pub outside_memory_gb: f64,
    /// The instances.
    pub instances: Vec<Instance>,
}

/// Every legal layout in which each instance has a tenant, the best first: the most tenants, then
/// the least memory and SMs beyond what they need.
pub fn layouts(table: &Table, tenants: &[Wanted]) -> Vec<Layout> {
    let of_mix = |mix: Vec<&Profile>| {
        let matched = matching(table, &mix, tenants);
        let is_full = matched.iter().all(Option::is_some);
        is_full
            .then(|| describe(table, &mix, &matched, tenants))
            .flatten()
    };
    let mut found: Vec<Layout> = mixes(table).into_iter().filter_map(of_mix).collect();
    let waste = |layout: &Layout| (layout.spare_sm.unwrap_or(0.0), layout.spare_memory_gb);
    found.sort_by(|a, b| {
        let (a_sm, a_gb) = waste(a);
        let (b_sm, b_gb) = waste(b);
        let by_waste = a_sm.total_cmp(&b_sm).then(a_gb.total_cmp(&b_gb));
        b.held
            .cmp(&a.held)
            .then(by_waste)
            .then_with(|| a.name.cmp(&b.name))
    });
    found
}

/// Whether a tenant fits an instance. Where SMs are not known, slices stand for them.
fn fits(table: &Table, profile: &Profile, tenant: &Wanted) -> bool {
    let by_slices = f64::from(profile.slices) / f64::from(table.slices);
    let speed = table.speed(profile).unwrap_or(by_slices);
    tenant.memory_gb <= profile.memory_gb() && tenant.shares.compute <= speed + 1e-9
}

/// The greatest matching of instances to tenants (augmenting paths); the tenant of each instance.
fn matching(table: &Table, mix: &[&Profile], tenants: &[Wanted]) -> Vec<Option<usize>> {
    let mut instance_of = vec![None; tenants.len()];
    for instance in 0..mix.len() {
        let mut seen = vec![false; tenants.len()];
        augment(table, mix, tenants, instance, &mut seen, &mut instance_of);
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
    tenants: &[Wanted],
    instance: usize,
    seen: &mut [bool],
    instance_of: &mut [Option<usize>],
) -> bool {
    for tenant in 0..tenants.len() {
        if seen[tenant] || !fits(table, mix[instance], &tenants[tenant]) {
            continue;
        }
        seen[tenant] = true;
        let is_free = match instance_of[tenant] {
            None => true,
            Some(other) => augment(table, mix, tenants, other, seen, instance_of),
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
    tenants: &[Wanted],
) -> Option<Layout> {
    let placed = place(table, mix)?;
    // `place` reorders, so tenants go to instances of the same profile in turn.
    let mut waiting: Vec<(&str, &Wanted)> = mix
        .iter()
        .zip(matched)
        .filter_map(|(profile, tenant)| Some((profile.name.as_str(), &tenants[(*tenant)?])))
        .collect();
    let mut take = |profile: &str| {
        let place = waiting.iter().position(|(name, _)| *name == profile)?;
        Some(waiting.remove(place).1.name.clone())
    };
    let instances = placed.iter().map(|placed| Instance {
        profile: placed.profile.name.clone(),
        start: placed.start,
        tenant: take(&placed.profile.name),
    });
    let instances: Vec<Instance> = instances.collect();
    let held: Vec<&Wanted> = matched
        .iter()
        .flatten()
        .map(|tenant| &tenants[*tenant])
        .collect();
    let memory_gb: f64 = mix.iter().map(|profile| profile.memory_gb()).sum();
    let needed_gb: f64 = held.iter().map(|tenant| tenant.memory_gb).sum();
    let needed: f64 = held.iter().map(|tenant| tenant.shares.compute).sum();
    let sm: Option<u32> = mix.iter().map(|profile| profile.sm).sum();
    let spare_sm = sm
        .zip(table.sm)
        .map(|(sm, all)| f64::from(sm) - needed * f64::from(all));
    Some(Layout {
        name: name(mix),
        held: held.len() as u64,
        spare_memory_gb: memory_gb - needed_gb,
        spare_sm,
        outside_sm: sm.zip(table.sm).map(|(sm, all)| all.saturating_sub(sm)),
        outside_memory_gb: (table.memory_gb - memory_gb).max(0.0),
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

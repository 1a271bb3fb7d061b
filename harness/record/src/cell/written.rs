//! Cells and tenants as a record writes them: in one piece.
//!
//! `#[serde(flatten)]` reads every part through a buffer of all its fields, and of these a record
//! has thousands. A field of theirs that is missing here does not compile.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::{CellResult, CpuGaps, GateResult, TenantIdentity, TenantResult};
use crate::condition::{Condition, Role, Shape, Sparse, SubAxis};
use crate::exit_code::{Outcome, OutcomeKind};
use crate::figures::CellFigures;
use crate::meter::MeterReading;
use crate::output::OutputCheck;
use crate::plan::{Cell, CellTenant};

#[derive(Deserialize)]
struct WrittenCell {
    id: String,
    block: u32,
    group: String,
    mechanism: String,
    variant: String,
    sub_axis: SubAxis,
    condition: Condition,
    victim: String,
    #[serde(default)]
    aggressor: Option<String>,
    dose: f64,
    tenants: Vec<CellTenant>,
    schedule_seed: u64,
    #[serde(default)]
    closed_only: bool,
    #[serde(default)]
    sparse: Option<Sparse>,
    #[serde(flatten)]
    shape: Shape,
    outcome: OutcomeKind,
    #[serde(default)]
    reason: Option<String>,
    #[serde(rename = "rates")]
    figures: CellFigures,
    #[serde(default)]
    lone_ns: Vec<u64>,
    requests: BTreeMap<String, u64>,
    gates: Vec<GateResult>,
    tenant_results: Vec<TenantResult>,
    #[serde(default)]
    meters: Vec<MeterReading>,
}

impl<'de> Deserialize<'de> for CellResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WrittenCell {
            id,
            block,
            group,
            mechanism,
            variant,
            sub_axis,
            condition,
            victim,
            aggressor,
            dose,
            tenants,
            schedule_seed,
            closed_only,
            sparse,
            shape,
            outcome,
            reason,
            figures,
            lone_ns,
            requests,
            gates,
            tenant_results,
            meters,
        } = WrittenCell::deserialize(deserializer)?;
        let cell = Cell {
            id,
            block,
            group,
            mechanism,
            variant,
            sub_axis,
            condition,
            victim,
            aggressor,
            dose,
            tenants,
            schedule_seed,
            closed_only,
            sparse,
            shape,
        };
        let outcome = Outcome { outcome, reason };
        Ok(Self { cell, outcome, figures, lone_ns, requests, gates, tenant_results, meters })
    }
}

#[derive(Deserialize)]
struct WrittenTenant {
    tenant: String,
    role: Role,
    #[serde(default)]
    workload: Option<String>,
    rows: u64,
    #[serde(default)]
    schedule_hash: Option<String>,
    #[serde(default)]
    identity: Option<TenantIdentity>,
    #[serde(default)]
    death: Option<String>,
    #[serde(default)]
    unlogged: u64,
    #[serde(default)]
    overloaded: bool,
    #[serde(default)]
    sched: Option<String>,
    #[serde(default)]
    reaper_sched: Option<String>,
    #[serde(default)]
    cpu_gaps: Option<CpuGaps>,
    #[serde(default)]
    output: Option<OutputCheck>,
}

impl<'de> Deserialize<'de> for TenantResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WrittenTenant {
            tenant,
            role,
            workload,
            rows,
            schedule_hash,
            identity,
            death,
            unlogged,
            overloaded,
            sched,
            reaper_sched,
            cpu_gaps,
            output,
        } = WrittenTenant::deserialize(deserializer)?;
        let planned = CellTenant { tenant, role, workload };
        Ok(Self {
            planned,
            rows,
            schedule_hash,
            identity,
            death,
            unlogged,
            overloaded,
            sched,
            reaper_sched,
            cpu_gaps,
            output,
        })
    }
}

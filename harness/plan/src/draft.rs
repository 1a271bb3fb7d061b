//! A planned cell before it has its position in the order, and the settings that all cells share.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_catalogue::axis::Pair;
use gpubench_catalogue::mechanism::REFERENCE;
use gpubench_record::plan::PlannedPair;
use gpubench_record::{
    Cell, CellTenant, Condition, Durations, Event, NotPlanned, Plan, Role, Rotation, Shape, Sparse,
    SubAxis,
};

use super::block::{Purpose, derive};
use super::facts::{self, VariantRef};
use crate::profile::{AGGRESSOR, PEER, Profile};

/// A cell without its position in the order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    pub variant: VariantRef,
    pub group: String,
    pub pair: &'static Pair,
    /// The workload in the place of the victim: that of the pair, or its aggressor without a
    /// neighbour.
    pub victim: &'static str,
    pub condition: Condition,
    pub dose: f64,
    /// Whether the victim is the only tenant.
    pub no_neighbours: bool,
    /// Number of tenants, where it is smaller than the plan's.
    pub fewer: Option<u32>,
    /// Where it differs from the usual cell.
    pub shape: Shape,
    /// Whether the group has contended cells, with which its native cells are compared.
    pub contended_group: bool,
}

impl Draft {
    /// Whether it has every neighbour, at full dose, with the usual queues and load.
    fn is_usual(&self) -> bool {
        self.dose >= 1.0 && self.fewer.is_none() && self.shape.is_usual()
    }

    /// Whether a figure comes from the open loop of this cell: that of a load of its own; or the
    /// tail at the offered load, from N of the victim of the pair and from its usual cell C.
    pub(super) fn needs_open_loop(&self, jitter: Option<&Pair>) -> bool {
        if self.shape.load_pct.is_some() {
            return true;
        }
        let Some(jitter) = jitter.filter(|_| !self.is_aggressor_alone()) else {
            return false;
        };
        match self.condition {
            Condition::N => self.contended_group && self.pair.victim == jitter.victim,
            Condition::C => *self.pair == *jitter && self.is_usual(),
            _ => false,
        }
    }

    /// Whether the cell has a sparse phase for the jitter beside one of these pairs: N or N' of the
    /// victim, or C with every neighbour at full dose.
    fn has_sparse_phase(&self, pairs: &[&'static Pair]) -> bool {
        if self.is_aggressor_alone() {
            return false;
        }
        match self.condition {
            Condition::N | Condition::NAgain => {
                self.contended_group && pairs.iter().any(|pair| pair.victim == self.pair.victim)
            }
            Condition::C => pairs.contains(&self.pair) && self.is_usual(),
            _ => false,
        }
    }

    /// Whether the aggressor of the pair stands in the place of the victim.
    pub(super) fn is_aggressor_alone(&self) -> bool {
        self.victim != self.pair.victim
    }

    /// Whether the cell shows a mechanism, or the reference, with all its tenants.
    pub(super) fn proves(&self) -> bool {
        use Condition::{C, N, S};
        self.shape.is_usual()
            && (matches!(self.condition, C | N) || self.condition == S && self.no_neighbours)
    }
}

/// Requests of all sparse phases of a condition: six groups of 200, and a little more, because
/// their
/// number varies.
const LONE: u64 = 1_240;
/// A turn: the default time slice of NVIDIA's driver on data-centre GPUs.
const TURN_NS: u64 = 2_000_000;
/// Mean pause, in turns and in native service times.
const PAUSE_TURNS: u64 = 4;
const PAUSE_SERVICES: u64 = 4;
/// Longest mean latency beside a neighbour without turns that a phase is planned for.
const LATENCY_SERVICES: u64 = 7;

/// The settings that all cells of a plan share.
pub(super) struct Layout<'a> {
    /// Seed of the run.
    pub seed: u64,
    pub blocks: u32,
    /// Tenants in a contended cell.
    pub tenants: u32,
    /// The roles of the neighbours of a contended cell.
    pub neighbours: &'a [String],
    /// Smaller numbers of tenants for contended cells.
    pub sweep: &'a [u32],
    /// Depths of the queues of victim and neighbours, beside the usual ones.
    pub depths: &'a [u32],
    /// Loads of open loops, in percent.
    pub loads: &'a [u32],
    /// What happens to the neighbours in cells of their own.
    pub events: &'a [Event],
    /// Name of the mechanism of native cells.
    pub reference: &'a str,
    /// Pairs of victim and aggressor to run.
    pub pairs: &'a [&'static Pair],
    /// Doses of the aggressor.
    pub doses: &'a [f64],
    /// The part of the doses that this run has.
    pub turn: Turn,
    /// The pair that jitter is scored from, where the profile requests jitter.
    pub jitter: Option<&'static Pair>,
    /// Fewest blocks of the profile.
    pub blocks_min: u32,
    /// The pairs whose cells have a sparse phase.
    pub sparse: &'a [&'static Pair],
    /// The variants whose tenants take turns.
    pub turns: &'a BTreeSet<String>,
    /// Native service time of a request.
    pub service_ns: u64,
    /// Whether every cell has an open loop, or only those that jitter is scored from.
    pub open_everywhere: bool,
    /// What the cells are for.
    pub purpose: Purpose,
    /// Whether each aggressor is also measured alone under each mechanism.
    pub aggressors_alone: bool,
}

impl Layout<'_> {
    /// The unusual shapes of the cells of a pair: every combination of depths, one depth for
    /// tenants that are equal; then every load and every event. Threads of one process
    /// cannot be killed alone.
    pub(super) fn shapes(&self, pair: &Pair, threads: bool) -> Vec<Shape> {
        let beside = |own: u32| -> Vec<Shape> {
            if pair.victim == pair.aggressor {
                return vec![Shape::of_depths(own, None)];
            }
            self.depths.iter().map(|&other| Shape::of_depths(own, Some(other))).collect()
        };
        let depths = self.depths.iter().flat_map(|&own| beside(own));
        let loads = self.loads.iter().map(|&pct| Shape::of_load(pct));
        let events = self.events.iter().filter(|event| !threads || !event.kills());
        let events = events.map(|&event| Shape::of_event(event));
        depths.filter(|shape| !shape.is_usual()).chain(loads).chain(events).collect()
    }

    /// The same of solo cells.
    pub(super) fn solo_shapes(&self) -> Vec<Shape> {
        let depths = self.depths.iter().map(|&own| Shape::of_depths(own, None));
        let loads = self.loads.iter().map(|&pct| Shape::of_load(pct));
        depths.filter(|shape| !shape.is_usual()).chain(loads).collect()
    }

    /// The doses of a pair in this run, rising.
    pub(super) fn doses_of(&self, pair: &Pair) -> &[f64] {
        let index = self.pairs.iter().position(|one| *one == pair);
        if index.is_some_and(|index| self.turn.has(index)) {
            self.doses
        } else {
            &self.doses[self.doses.len().saturating_sub(1)..]
        }
    }

    pub(super) fn cell(&self, block: u32, draft: &Draft) -> Cell {
        let aggressor = draft.condition.has_aggressor().then_some(draft.pair.aggressor);
        Cell {
            id: String::new(),
            block,
            group: draft.group.clone(),
            mechanism: draft.variant.mechanism.clone(),
            variant: draft.variant.variant.clone(),
            sub_axis: draft.pair.sub_axis,
            condition: draft.condition,
            victim: draft.victim.to_owned(),
            aggressor: aggressor.map(str::to_owned),
            dose: draft.dose,
            tenants: self.tenants(draft, aggressor),
            schedule_seed: derive(self.seed, "schedule", block),
            closed_only: self.purpose == Purpose::Prove
                || draft.is_aggressor_alone()
                || draft.shape.event.is_some()
                || !self.open_everywhere && !draft.needs_open_loop(self.jitter),
            sparse: self.sparse_of(draft),
            shape: draft.shape,
        }
    }

    /// The sparse phase of a cell, long enough for [`LONE`] requests in the fewest blocks; `None`
    /// where it has none.
    ///
    /// Pauses are long against what a neighbour does in turns: right after its own request a victim
    /// always meets the start of a turn. Without turns four service times keep the device mostly
    /// the neighbour's, and a request may last seven times its native service.
    ///
    /// An open loop at a quarter of the native rate has `(1 - s / 4) / 4` lone requests for each
    /// native service time beside a neighbour that makes requests `s` times as long, and this phase
    /// `1 / (4 + s)`: 0.19 and 0.20 without an effect, 0.13 and 0.17 at twice, 0.04 and 0.14 at 3.3
    /// times, and none and 0.13 at four times. So all jitter comes from sparse phases.
    pub(super) fn sparse_of(&self, draft: &Draft) -> Option<Sparse> {
        if self.purpose == Purpose::Prove || !draft.has_sparse_phase(self.sparse) {
            return None;
        }
        let beside = draft.condition.has_aggressor();
        let turns = beside && self.turns.contains(&draft.variant.variant);
        let (pause_ns, latency_ns) = match (turns, beside) {
            (true, _) => (PAUSE_TURNS * TURN_NS, 2 * self.service_ns + TURN_NS),
            (false, true) => (PAUSE_SERVICES * self.service_ns, LATENCY_SERVICES * self.service_ns),
            (false, false) => (PAUSE_SERVICES * self.service_ns, self.service_ns),
        };
        let lone = LONE.div_ceil(self.blocks_min.max(1).into());
        let length_ns = (lone * (pause_ns + latency_ns)).next_multiple_of(1_000_000);
        Some(Sparse { length_ns, pause_ns })
    }

    fn tenants(&self, draft: &Draft, aggressor: Option<&str>) -> Vec<CellTenant> {
        let victim = CellTenant {
            tenant: "victim".to_owned(),
            role: Role::Victim,
            workload: Some(draft.victim.to_owned()),
        };
        let neighbours =
            if draft.no_neighbours { 0 } else { draft.fewer.unwrap_or(self.tenants) - 1 };
        let neighbour = |number: u32| {
            let last = self.neighbours.len().saturating_sub(1);
            let planned = self.neighbours.get((number as usize - 1).min(last));
            let (role, workload) = match (aggressor, planned.map(String::as_str)) {
                (None, _) => (Role::Idle, None),
                (Some(_), Some(PEER)) => (Role::Peer, Some(draft.pair.victim)),
                (Some(aggressor), None | Some(AGGRESSOR)) => (Role::Aggressor, Some(aggressor)),
                (Some(_), Some(other)) => (Role::Aggressor, Some(other)),
            };
            CellTenant {
                tenant: format!("neighbour-{number}"),
                role,
                workload: workload.map(str::to_owned),
            }
        };
        std::iter::once(victim).chain((1..=neighbours).map(neighbour)).collect()
    }
}

// The plan of a device check, for `doctor`: native cells of one tenant.

/// The workload of full load on the SMs.
pub const FULL_LOAD: &str = "fma-hog";
/// The workload of full load on the memory.
pub const FULL_COPY: &str = "dram-copy";
/// The victim of the A/A pairs.
pub const PAIR_VICTIM: &str = "compute";
/// A/A pairs: two equal cells each.
pub const PAIRS: u32 = 8;
/// Name of the tenant.
pub const TENANT: &str = "victim";

/// Parts of a cell. They are short, so that `doctor` is quick; the longer cells of a matrix spread
/// less. Only the cell of [`FULL_LOAD`] has an open loop.
const DURATIONS: Durations = Durations {
    warmup_ns: 30_000_000,
    closed_ns: 150_000_000,
    gap_ns: 0,
    open_ns: 500_000_000,
    sparse_ns: 0,
};
/// Open load of the full load: more than the device completes, so that its queue fills. A closed
/// loop has two requests outstanding, and the device is idle while the thread that waits for them
/// has no core; on a busy host no sample of the clocks is then under load.
const LOAD: f64 = 1.5;
/// Time between two readings of the clocks.
const TELEMETRY_PERIOD_NS: u64 = 10_000_000;

/// A device check: one cell of each full load, then the A/A pairs.
pub fn device_check(profile: &Profile) -> Plan {
    let pairs = std::iter::repeat_n(PAIR_VICTIM, 2 * PAIRS as usize);
    let victims = [FULL_LOAD, FULL_COPY].into_iter().chain(pairs);
    let cells = victims.zip(0_u32..).map(|(victim, number)| cell(victim, number));
    Plan {
        profile: profile.name.clone(),
        profile_hash: String::new(),
        decides: false,
        seed: profile.seed,
        tenants: 1,
        share: 1.0,
        load: LOAD,
        bursts: None,
        slo_ns: None,
        slo_share: profile.slo_share,
        neighbours: Vec::new(),
        sweep: Vec::new(),
        service_ns: profile.service.ns,
        telemetry_period_ns: TELEMETRY_PERIOD_NS,
        meters: Vec::new(),
        axes: Vec::new(),
        blocks: 1,
        looks: 1,
        durations: DURATIONS,
        thresholds: profile.thresholds.clone(),
        margins: None,
        mechanisms: Vec::new(),
        // Its tenants run without a mechanism.
        required_proofs: Some(BTreeMap::new()),
        user_victim: None,
        cells: cells.collect(),
        fault_trials: Vec::new(),
        probes: Vec::new(),
        // No workload here has facts that a gate needs.
        workloads: BTreeMap::new(),
        pairs: Vec::new(),
        jitter_from: SubAxis::Sm,
        jitter_pairs: Some(Vec::new()),
        reference: REFERENCE.to_owned(),
        claimed: Vec::new(),
        claims: Vec::new(),
        skips: Vec::new(),
        rotation: None,
        soak: None,
        time: Vec::new(),
        top_up: None,
        frozen: None,
        superseded: Vec::new(),
        superseded_trials: Vec::new(),
    }
}

fn cell(victim: &str, number: u32) -> Cell {
    Cell {
        id: format!("{number:04}-{victim}"),
        block: 0,
        group: REFERENCE.to_owned(),
        mechanism: REFERENCE.to_owned(),
        variant: REFERENCE.to_owned(),
        sub_axis: SubAxis::Sm,
        condition: Condition::N,
        victim: victim.to_owned(),
        aggressor: None,
        dose: 0.0,
        tenants: vec![CellTenant {
            tenant: TENANT.to_owned(),
            role: Role::Victim,
            workload: Some(victim.to_owned()),
        }],
        schedule_seed: 1,
        closed_only: victim != FULL_LOAD,
        sparse: None,
        shape: Shape::default(),
    }
}

// What one run of a rotation measures, and what it leaves to the others of its cycle.

/// The position of a run in its cycle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    run: u32,
    runs: u32,
}

impl Turn {
    pub(super) fn of(profile: &Profile) -> Self {
        let runs = profile.rotation.runs.max(1);
        Self { run: profile.run % runs, runs }
    }

    /// Whether it is the turn of the thing with this index.
    pub(super) const fn has(self, index: usize) -> bool {
        index % self.runs as usize == self.run as usize
    }
}

/// The rotation as it is recorded; `None` for a profile that measures everything in each run.
pub(super) fn recorded(profile: &Profile, layout: &Layout<'_>) -> Option<Rotation> {
    let rotation = &profile.rotation;
    let runs = rotation.runs.max(u32::try_from(rotation.services.len()).unwrap_or(u32::MAX));
    if runs <= 1 {
        return None;
    }
    let left_out = |(pair, named): (&&'static Pair, PlannedPair)| {
        let planned = layout.doses_of(pair);
        let doses = profile.doses.iter().copied();
        let doses: Vec<f64> = doses.filter(|dose| !planned.contains(dose)).collect();
        (!doses.is_empty()).then_some(NotPlanned { pair: named, doses })
    };
    let named = facts::of_pairs(layout.pairs);
    let services = rotation.services.iter();
    Some(Rotation {
        run: profile.run,
        runs,
        not_planned: layout.pairs.iter().zip(named).filter_map(left_out).collect(),
        services_not_planned_ns: services
            .filter(|&&service| service != profile.service)
            .map(|service| service.ns)
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{FULL_LOAD, PAIR_VICTIM, PAIRS, device_check};
    use crate::profile::{Overrides, built_in};

    #[test]
    fn a_device_check_has_full_loads_and_an_even_number_of_equal_cells()
    -> Result<(), crate::profile::ProfileError> {
        let plan = device_check(&built_in("smoke", &Overrides::default())?);
        let count = |name: &str| plan.cells.iter().filter(|cell| cell.victim == name).count();
        assert_eq!(count(PAIR_VICTIM), 2 * PAIRS as usize);
        assert_eq!(count(FULL_LOAD), 1);
        // Only the open loop of the full load keeps the device busy on a busy host.
        assert!(plan.load > 1.0);
        for cell in &plan.cells {
            let open_ns = plan.durations_of(cell).open_ns;
            assert_eq!(open_ns > 0, cell.victim == FULL_LOAD, "{}", cell.id);
        }
        let ids: BTreeSet<&str> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
        assert_eq!(ids.len(), plan.cells.len());
        assert!(plan.cells.iter().all(|cell| cell.tenants.len() == 1));
        Ok(())
    }
}

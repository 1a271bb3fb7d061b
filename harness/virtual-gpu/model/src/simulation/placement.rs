//! Which SMs of a compute engine its kernels have blocks on.
//!
//! The block scheduler puts a block on the SM with the most room. Here a kernel takes the SMs with
//! the fewest slots in use, larger kernels first, so that two kernels that fit beside each other do
//! not meet, and one that needs every SM meets all others. A green context and a static partition
//! have fixed SMs; a client with a percentage keeps to as many SMs, apart from other clients' where
//! there is room. The placement is computed anew at every event: blocks do not stay where they are.

use super::share::Members;
use crate::state::{ComputeEngine, Context, InFlight, NONE, RESOURCES, Resource, State, WHOLE};

#[derive(Debug, Clone, Copy)]
pub struct Running {
    pub stream: usize,
    pub context: u32,
    /// Power above idle at full speed, in milliwatts.
    pub power_mw: u32,
    /// SMs that it has blocks on.
    pub sms: u32,
    /// Share of each resource of the whole device that it uses at full speed, in fixed point.
    pub demand: [u32; RESOURCES],
    pub in_flight: InFlight,
    pub blocks_wait: bool,
    /// Lower numbers go first.
    pub priority: i32,
}

/// SMs next to each other with the same kernels on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmGroup {
    first: u32,
    pub sms: u32,
    pub kernels: Members,
    /// For each client with a percentage, the bit of its first kernel.
    clients: Members,
    /// Share of their slots in use, in fixed point.
    slots: u64,
}

/// SMs of the whole device; 1 where no machine file gave a number.
fn device_sms(state: &State) -> u64 {
    u64::from(state.engines.rows[WHOLE as usize].sm_count.max(1))
}

/// SMs that a kernel has blocks on. One without blocks, such as a fill, uses all that it may use.
fn sms_of(state: &State, running: &Running) -> u32 {
    let context = &state.contexts.rows[running.context as usize];
    let engine = &state.engines.rows[context.engine as usize];
    let usable = match context.sm_count {
        0 => engine.sm_count,
        count => count.min(engine.sm_count),
    };
    match running.sms {
        0 => usable.max(1),
        sms => sms.min(usable).max(1),
    }
}

/// What a kernel uses of each SM that it is on, as a share of what one SM has, in fixed point.
pub fn on_each_sm(state: &State, running: &Running, resource: Resource) -> u64 {
    let demand = u64::from(running.demand[resource as usize]);
    demand * device_sms(state) / u64::from(sms_of(state, running))
}

/// The SMs of an engine, by the kernels on them.
pub fn sm_groups(state: &State, running: &[Running], engine: u32) -> Vec<SmGroup> {
    let row = &state.engines.rows[engine as usize];
    let here = |k: &usize| state.contexts.rows[running[*k].context as usize].engine == engine;
    let mut kernels: Vec<usize> = (0..running.len()).filter(here).collect();
    let mut groups =
        vec![SmGroup { first: 0, sms: row.sm_count.max(1), kernels: 0, clients: 0, slots: 0 }];
    for &k in &kernels {
        reserve(state, running, row, k, &mut groups);
    }
    kernels.sort_by_key(|&k| (std::cmp::Reverse(sms_of(state, &running[k])), k));
    for k in kernels {
        let context = &state.contexts.rows[running[k].context as usize];
        let client = first_of_client(running, context, k);
        let slots = on_each_sm(state, &running[k], Resource::SmSlots);
        let range = fixed_sms(context, row);
        let may_use = |group: &SmGroup| match (range, is_client(context)) {
            (Some((first, end)), _) => (first..end).contains(&group.first),
            (None, true) => group.clients >> client & 1 == 1,
            (None, false) => true,
        };
        let emptiest = |group: &SmGroup| (0, group.slots);
        let sms = sms_of(state, &running[k]);
        take(&mut groups, sms, may_use, emptiest, |group| {
            group.kernels |= 1 << k;
            group.slots += slots;
        });
    }
    groups
}

/// Sets SMs aside: cuts the groups at the ends of a fixed range, and gives a client with a
/// percentage its SMs.
fn reserve(
    state: &State,
    running: &[Running],
    engine: &ComputeEngine,
    k: usize,
    groups: &mut Vec<SmGroup>,
) {
    let context = &state.contexts.rows[running[k].context as usize];
    if let Some((first, end)) = fixed_sms(context, engine) {
        cut(groups, first);
        cut(groups, end);
    } else if is_client(context) && first_of_client(running, context, k) == k {
        let fewest = |group: &SmGroup| (group.clients.count_ones(), 0);
        take(
            groups,
            context.sm_count,
            |_| true,
            fewest,
            |group| {
                group.clients |= 1 << k;
            },
        );
    }
}

/// Whether the context is a client with a percentage: a number of SMs that are not fixed.
const fn is_client(context: &Context) -> bool {
    context.sm_share != 0 && context.server != NONE && context.partition == NONE
}

fn fixed_sms(context: &Context, engine: &ComputeEngine) -> Option<(u32, u32)> {
    let end = context.sm_first + context.sm_count;
    let is_fixed = context.sm_share != 0 && !is_client(context) && context.sm_count != 0;
    (is_fixed && end <= engine.sm_count).then_some((context.sm_first, end))
}

/// The first running kernel of the same context.
fn first_of_client(running: &[Running], context: &Context, k: usize) -> usize {
    let same = |other: &Running| other.context == running[k].context;
    let first = running.iter().position(same).unwrap_or(k);
    if is_client(context) { first } else { k }
}

fn cut(groups: &mut Vec<SmGroup>, at: u32) {
    let inside = |group: &SmGroup| group.first < at && at < group.first + group.sms;
    if let Some(index) = groups.iter().position(inside) {
        split(groups, index, at - groups[index].first);
    }
}

fn split(groups: &mut Vec<SmGroup>, index: usize, keep: u32) {
    let group = groups[index];
    groups[index].sms = keep;
    groups.push(SmGroup { first: group.first + keep, sms: group.sms - keep, ..group });
}

/// Takes so many SMs, those with the lowest key first.
fn take(
    groups: &mut Vec<SmGroup>,
    mut sms: u32,
    may_use: impl Fn(&SmGroup) -> bool,
    key: impl Fn(&SmGroup) -> (u32, u64),
    mut mark: impl FnMut(&mut SmGroup),
) {
    let mut found: Vec<usize> = (0..groups.len()).filter(|&at| may_use(&groups[at])).collect();
    found.sort_by_key(|&at| (key(&groups[at]), groups[at].first));
    for at in found {
        if sms == 0 {
            break;
        }
        if sms < groups[at].sms {
            split(groups, at, sms);
        }
        mark(&mut groups[at]);
        sms -= groups[at].sms;
    }
}

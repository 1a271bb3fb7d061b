//! The capacities that limit the running kernels: those of their SMs, of their memory slices and of
//! the device.

use crate::state::{Context, FRACTION_BITS, Location, NONE, ONE, Resource, State, WHOLE};

use super::Rules;
use super::placement::{Running, on_each_sm, sm_groups};
use super::share::{Limit, Members, User};

/// The capacities that limit these kernels. A capacity that suffices for all its users at full
/// speed is left out, and so is one of SMs with a single kernel, which has its cost from them.
pub fn limits(state: &State, rules: &Rules, running: &[Running]) -> Vec<Limit> {
    let mut found = Limits {
        running,
        best: running.iter().map(|r| r.priority).min().unwrap_or(0),
        limits: Vec::new(),
    };
    for (engine, row) in state.engines.live().iter().enumerate() {
        let here = of_engine(state, running, engine as u32);
        if !row.live || here == 0 {
            continue;
        }
        found.bind(Resource::FrontEnd, ONE, here);
        found.bind(Resource::SmSlots, row.sm_share, here);
        on_sms(&mut found, state, engine as u32, here);
    }
    for (cap, who) in client_caps(state, running) {
        found.bind(Resource::SmSlots, cap, who);
    }
    for (instance, row) in state.instances.live().iter().enumerate() {
        let in_it = of_instance(state, running, instance as u32);
        if !row.live || in_it == 0 {
            continue;
        }
        for resource in [Resource::L2, Resource::Dram, Resource::Atomics] {
            let left = leaked(state, rules, running, resource, instance as u32);
            found.bind(resource, (row.bandwidth * left) >> FRACTION_BITS, in_it);
        }
    }
    found.bind(Resource::Tlb, ONE, members(running, |_| true));
    found.limits
}

struct Limits<'r> {
    running: &'r [Running],
    /// The highest priority of any kernel.
    best: i32,
    limits: Vec<Limit>,
}

impl Limits<'_> {
    /// A capacity of the device or a part of it.
    fn bind(&mut self, resource: Resource, capacity: u64, members: Members) {
        let demand = |k: usize| u64::from(self.running[k].demand[resource as usize]);
        self.add(resource, capacity, members, demand);
    }

    fn add(
        &mut self,
        resource: Resource,
        capacity: u64,
        members: Members,
        demand: impl Fn(usize) -> u64,
    ) {
        let kernels = (0..self.running.len()).filter(|k| members >> k & 1 == 1);
        let users = kernels.map(|kernel| {
            let demand = demand(kernel);
            User {
                kernel,
                demand,
                weight: weight(&self.running[kernel], resource, demand),
                order: order(&self.running[kernel], resource, self.best),
            }
        });
        let users: Vec<User> = users.filter(|user| user.demand > 0).collect();
        if users.iter().map(|user| user.demand).sum::<u64>() > capacity {
            self.limits.push(Limit { capacity, users });
        }
    }
}

/// The weight of a kernel where a resource is full. Memory serves requests in the order in which
/// they arrive, so a kernel gets bandwidth in proportion to what it keeps in flight; all users of
/// any other resource are slowed by the same factor.
fn weight(running: &Running, resource: Resource, demand: u64) -> u64 {
    let weight = match resource {
        Resource::Dram => running.in_flight.dram.into(),
        Resource::L2 => running.in_flight.l2.into(),
        _ => demand,
    };
    weight.max(1)
}

/// The order in which a resource serves a kernel. A priority orders what has not started: the
/// kernels that the front end starts, and the blocks that wait for a slot. Blocks on an SM keep it,
/// whatever the priority of others, and memory knows no priorities (measured on an H100: a stream
/// of the highest priority gets what it gets without one, `reports/examples`).
const fn order(running: &Running, resource: Resource, best: i32) -> i32 {
    match resource {
        Resource::FrontEnd => running.priority,
        Resource::SmSlots if running.blocks_wait => running.priority,
        Resource::SmSlots => best,
        _ => 0,
    }
}

/// The capacities of SMs with several kernels on them: each SM has its own issue slots and pipes,
/// and kernels on other SMs cannot use them. A kernel is as fast as on its slowest SM.
fn on_sms(found: &mut Limits<'_>, state: &State, engine: u32, here: Members) {
    if here.count_ones() < 2 {
        return;
    }
    let running = found.running;
    for group in sm_groups(state, running, engine) {
        if group.kernels.count_ones() < 2 {
            continue;
        }
        let of_sms = |r: &Resource| r.location() == Location::Sm && *r != Resource::SmSlots;
        for resource in Resource::ALL.into_iter().filter(of_sms) {
            let demand = |k: usize| on_each_sm(state, &running[k], resource);
            found.add(resource, ONE, group.kernels, demand);
        }
    }
}

fn members(running: &[Running], wanted: impl Fn(&Running) -> bool) -> Members {
    let hit = running.iter().enumerate().filter(|(_, r)| wanted(r));
    hit.fold(0, |set, (k, _)| set | 1 << k)
}

fn context<'s>(state: &'s State, running: &Running) -> &'s Context {
    &state.contexts.rows[running.context as usize]
}

fn of_engine(state: &State, running: &[Running], engine: u32) -> Members {
    members(running, |r| context(state, r).engine == engine)
}

fn instance_of(state: &State, running: &Running) -> u32 {
    state.engines.rows[context(state, running).engine as usize].instance
}

fn of_instance(state: &State, running: &[Running], instance: u32) -> Members {
    members(running, |r| instance_of(state, r) == instance)
}

/// The share of the slots of each capped context, with its kernels. Contexts in one static
/// partition share its SMs.
fn client_caps(state: &State, running: &[Running]) -> Vec<(u64, Members)> {
    let mut done: Members = 0;
    let mut caps = Vec::new();
    for (k, one) in running.iter().enumerate() {
        let cap = context(state, one);
        if cap.sm_share == 0 || done >> k & 1 == 1 {
            continue;
        }
        let same = members(running, |r| {
            let other = context(state, r);
            let partition = other.partition == cap.partition && other.server == cap.server;
            r.context == one.context || cap.partition != NONE && partition
        });
        done |= same;
        caps.push((cap.sm_share, same));
    }
    caps
}

/// Bandwidth of an instance after the planted leak, in fixed point: all of it, less the planted
/// share in proportion to the load of the busiest neighbour.
fn leaked(
    state: &State,
    rules: &Rules,
    running: &[Running],
    resource: Resource,
    instance: u32,
) -> u64 {
    let leak = match resource {
        Resource::Dram => rules.mig_dram_leak,
        Resource::L2 => rules.mig_l2_leak,
        _ => 0,
    };
    if leak == 0 || instance == WHOLE {
        return ONE;
    }
    let draw = |neighbour: usize| {
        let row = &state.instances.rows[neighbour];
        let sum: u64 = running
            .iter()
            .filter(|r| instance_of(state, r) as usize == neighbour)
            .map(|r| u64::from(r.demand[resource as usize]))
            .sum();
        ((sum << FRACTION_BITS) / row.bandwidth.max(1)).min(ONE)
    };
    let others = 0..state.instances.live().len();
    let busiest = others
        .filter(|&other| other as u32 != instance && state.instances.rows[other].live)
        .map(draw)
        .max()
        .unwrap_or(0);
    ONE - ((leak * busiest) >> FRACTION_BITS)
}

//! The capacities that limit the running kernels: those of their SMs, of their memory slices and of
//! the device.

use crate::state::{Context, FRACTION_BITS, Location, ONE, Resource, State, WHOLE};

use super::Rules;
use super::share::{Limit, Members, Runner};

/// One running kernel.
#[derive(Debug, Clone, Copy)]
pub struct Running {
    /// Its stream.
    pub stream: usize,
    /// Context of the stream.
    pub context: u32,
    /// Power above idle at full speed, in milliwatts.
    pub power_mw: u32,
    /// SMs that it has blocks on.
    pub sms: u32,
    /// What it uses.
    pub runner: Runner,
}

/// The capacities that limit these kernels. A capacity that suffices for all its users at full
/// speed is left out.
pub fn limits(state: &State, rules: &Rules, running: &[Running]) -> Vec<Limit> {
    let all = members(running, |_| true);
    let mut out = Vec::new();
    for resource in Resource::ALL {
        let draws = |k: usize| u64::from(running[k].runner.demand[resource as usize]);
        if (0..running.len()).all(|k| draws(k) == 0) {
            continue;
        }
        let mut bind = |capacity: u64, members: Members| {
            let drawn = (0..running.len()).filter(|k| members >> k & 1 == 1);
            if drawn.map(draws).sum::<u64>() > capacity {
                out.push(Limit {
                    resource: resource as usize,
                    capacity,
                    members,
                });
            }
        };
        match resource.location() {
            Location::Device => bind(ONE, all),
            Location::Engine => {
                for engine in 0..state.engines.live().len() as u32 {
                    bind(ONE, of_engine(state, running, engine));
                }
            }
            Location::Sm => {
                for (engine, row) in state.engines.live().iter().enumerate() {
                    if row.live {
                        bind(row.sm_share, of_engine(state, running, engine as u32));
                    }
                }
                client_caps(state, running).for_each(|(cap, who)| bind(cap, who));
            }
            Location::Memory => {
                for (instance, row) in state.instances.live().iter().enumerate() {
                    let in_it = of_instance(state, running, instance as u32);
                    if row.live && in_it != 0 {
                        let left = leaked(state, rules, running, resource, instance as u32);
                        bind((row.bandwidth * left) >> FRACTION_BITS, in_it);
                    }
                }
            }
        }
    }
    out
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

/// The share of the SMs of each capped context, with its kernels. Contexts in one static partition
/// share its SMs.
fn client_caps(state: &State, running: &[Running]) -> impl Iterator<Item = (u64, Members)> {
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
            r.context == one.context || cap.partition != crate::state::NONE && partition
        });
        done |= same;
        caps.push((cap.sm_share, same));
    }
    caps.into_iter()
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
            .map(|r| u64::from(r.runner.demand[resource as usize]))
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

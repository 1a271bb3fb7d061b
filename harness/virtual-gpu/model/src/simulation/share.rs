//! How concurrent kernels share capacities: weighted max-min fairness, with the speed of a kernel
//! as the quantity that a capacity limits.
//!
//! A full capacity is divided in proportion to weights. A kernel that asks for less than its part
//! keeps what it asks for, and the others divide the rest (Bertsekas and Gallager, *Data Networks*,
//! 2nd ed., section 6.5.2). What a kernel asks of one capacity is what the other capacities let
//! through, so the divisions are repeated until they agree. With the demand as weight, all users
//! of a capacity are slowed by the same factor, as by first-come-first-served queues.

use crate::state::{ONE, STREAMS};

/// A set of kernels, one bit per running kernel.
pub type Members = u128;

const _: () = assert!(STREAMS <= Members::BITS as usize);

/// Repetitions after which the divisions stand as they are. Chains of capacities need one each.
const ROUNDS: usize = 16;

/// A kernel that uses a capacity.
#[derive(Debug, Clone, Copy)]
pub struct User {
    pub kernel: usize,
    /// What it uses at full speed, in fixed point.
    pub demand: u64,
    /// Its weight, above 0.
    pub weight: u64,
    /// Lower numbers are served first.
    pub order: i32,
}

#[derive(Debug, Clone)]
pub struct Limit {
    pub capacity: u64,
    pub users: Vec<User>,
}

/// The speed of each of `count` kernels under these limits, in fixed point.
pub fn fair_speeds(count: usize, limits: &[Limit]) -> Vec<u64> {
    // The speed at which each limit (a row) lets each kernel run.
    let mut levels = vec![ONE; limits.len() * count];
    for _ in 0..ROUNDS {
        let mut changed = false;
        for (row, limit) in limits.iter().enumerate() {
            let offers = offers(limit, row, count, &levels);
            let row = &mut levels[row * count..][..count];
            changed |= divide(limit, &offers, row);
        }
        if !changed {
            break;
        }
    }
    let lowest = |kernel: usize| levels.iter().skip(kernel).step_by(count).min();
    let kernels = 0..count;
    kernels.map(|kernel| lowest(kernel).copied().unwrap_or(ONE)).collect()
}

/// The speed at which the other limits let each user of a limit run.
fn offers(limit: &Limit, row: usize, count: usize, levels: &[u64]) -> Vec<u64> {
    let of = |user: &User| {
        let column = levels.iter().skip(user.kernel).step_by(count).enumerate();
        let others = column.filter(|(other, _)| *other != row);
        others.map(|(_, level)| *level).min().unwrap_or(ONE)
    };
    limit.users.iter().map(of).collect()
}

/// Divides a capacity among its users, in their order. Returns whether a level changed.
fn divide(limit: &Limit, offers: &[u64], levels: &mut [u64]) -> bool {
    let mut left = u128::from(limit.capacity) * u128::from(ONE);
    let mut orders: Vec<i32> = limit.users.iter().map(|user| user.order).collect();
    orders.sort_unstable();
    orders.dedup();
    let mut changed = false;
    for order in orders {
        let users = limit.users.iter().zip(offers);
        let class: Vec<(User, u64)> = users
            .filter(|(user, _)| user.order == order)
            .map(|(user, offer)| (*user, *offer))
            .collect();
        let (level_left, weights) = fill(&class, &mut left);
        for (user, _) in class {
            let demand = u128::from(user.demand) * weights;
            let share = (level_left * u128::from(user.weight)).checked_div(demand);
            let level = share.map_or(ONE, |share| share.min(u128::from(ONE)) as u64);
            changed |= std::mem::replace(&mut levels[user.kernel], level) != level;
        }
    }
    changed
}

/// Gives the users of one class that ask for less than their part what they ask for. Returns what
/// is left for the others and the sum of their weights; 0 if there are none. They use up `left`.
fn fill(class: &[(User, u64)], left: &mut u128) -> (u128, u128) {
    let wants = |(user, offer): &(User, u64)| u128::from(user.demand) * u128::from(*offer);
    let mut limited: Vec<&(User, u64)> = class.iter().collect();
    loop {
        let weights: u128 = limited.iter().map(|(user, _)| u128::from(user.weight)).sum();
        let before = limited.len();
        let level_left = *left;
        limited.retain(|one| {
            let fits = wants(one) * weights <= level_left * u128::from(one.0.weight);
            if fits {
                *left -= wants(one).min(*left);
            }
            !fits
        });
        if limited.len() == before {
            *left = if limited.is_empty() { *left } else { 0 };
            return (level_left, weights);
        }
    }
}

#[cfg(test)]
mod tests;

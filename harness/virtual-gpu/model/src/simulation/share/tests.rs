//! Divisions of capacities against arithmetic.

use super::{Limit, User, fair_speeds};
use crate::state::ONE;

fn fixed(share: f64) -> u64 {
    (share * ONE as f64) as u64
}

fn user(kernel: usize, demand: f64) -> User {
    weighted(kernel, demand, demand)
}

fn weighted(kernel: usize, demand: f64, weight: f64) -> User {
    User { kernel, demand: fixed(demand), weight: fixed(weight), order: 0 }
}

fn limit(capacity: f64, users: &[User]) -> Limit {
    Limit { capacity: fixed(capacity), users: users.to_vec() }
}

fn close(limits: &[Limit], want: &[f64]) {
    let speeds = fair_speeds(want.len(), limits);
    let got: Vec<f64> = speeds.iter().map(|&s| s as f64 / ONE as f64).collect();
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() < 1e-5, "{got:?} is not {want:?}");
    }
}

#[test]
fn a_full_capacity_slows_all_its_users_equally_and_no_others() {
    let users = [user(0, 0.4), user(1, 1.0)];
    close(&[limit(1.0, &users)], &[1.0 / 1.4, 1.0 / 1.4, 1.0]);
}

#[test]
fn capacity_that_a_bottleneck_leaves_is_used() {
    // The first two halve each other and then leave three quarters of the second capacity.
    let one = limit(1.0, &[user(0, 1.0), user(1, 1.0)]);
    let other = limit(1.0, &[user(0, 0.25), user(1, 0.25), user(2, 1.0)]);
    for limits in [[one.clone(), other.clone()], [other, one]] {
        close(&limits, &[0.5, 0.5, 0.75]);
    }
}

#[test]
fn a_user_that_asks_for_less_than_its_part_keeps_what_it_asks_for() {
    // Its part would be 0.8; it asks for 0.3 and leaves 0.7.
    let users = [weighted(0, 0.3, 0.4), weighted(1, 1.0, 0.1)];
    close(&[limit(1.0, &users)], &[1.0, 0.7]);
    // It asks for less because another capacity slows it to a quarter.
    let slow = limit(0.25, &[user(0, 1.0)]);
    let users = [weighted(0, 0.8, 0.9), weighted(1, 1.0, 0.1)];
    close(&[limit(1.0, &users), slow], &[0.25, 0.8]);
}

#[test]
fn what_is_divided_never_exceeds_the_capacity() {
    // Three capacities that depend on each other in a circle.
    let limits = [
        limit(0.7, &[weighted(0, 0.9, 0.1), weighted(1, 0.5, 0.8)]),
        limit(0.6, &[weighted(1, 0.9, 0.2), weighted(2, 0.7, 0.3)]),
        limit(0.5, &[weighted(2, 0.8, 0.9), weighted(0, 0.6, 0.2)]),
    ];
    let speeds = fair_speeds(3, &limits);
    for one in &limits {
        let used = |user: &User| u128::from(user.demand) * u128::from(speeds[user.kernel]);
        let used: u128 = one.users.iter().map(used).sum();
        let full = u128::from(one.capacity) * u128::from(ONE);
        assert!(used <= full + full / 100_000, "{speeds:?}");
    }
}

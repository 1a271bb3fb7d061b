//! Change points of published fixtures, of simulated steps and of quiet series.

use super::*;

fn normal(rng: &mut ScheduleRng) -> f64 {
    (2.0 * rng.exponential()).sqrt() * (std::f64::consts::TAU * rng.uniform()).cos()
}

fn found(values: &[f64]) -> Vec<usize> {
    change_points(values, Search::default()).unwrap()
}

/// The published fixtures of MongoDB's signal-processing-algorithms (tests of `e_divisive`):
/// as many zeros as ones. Of under 13 each, 999 permutations can repeat the step by chance.
#[test]
fn steps_without_noise_are_found_exactly() {
    for length in (13..100).step_by(7).chain([100]) {
        let mut values = vec![0.0; length];
        values.extend(vec![1.0; length]);
        assert_eq!(found(&values), [length]);
    }
    assert_eq!(found(&[3.0; 50]), []);
    assert_eq!(found(&[0.1; 50]), []);
    assert_eq!(found(&[]), []);
    assert_eq!(found(&[0.0, 1.0]), []);
}

/// The values 50 with others from some positions on.
fn fifties(length: usize, changes: &[(std::ops::Range<usize>, f64)]) -> Vec<f64> {
    let mut values = vec![50.0; length];
    for (range, value) in changes {
        values[range.clone()].fill(*value);
    }
    values
}

/// Change points and, where it is published, the energy of the first split, of the tests of the
/// same package (`tests/test_detection.py`).
#[test]
fn published_change_points_and_energies_are_found() {
    // As many permutations as there.
    let published = Search { permutations: 100, ..Search::default() };
    let three_ranges = [
        41, 18, 23, 3, 32, 11, 40, 13, 29, 48, 47, 35, 18, 21, 6, 2, 23, 3, 4, 7, 120, 103, 102,
        81, 71, 62, 115, 61, 108, 63, 70, 98, 65, 96, 64, 74, 70, 113, 90, 114, 208, 196, 153, 150,
        225, 179, 206, 165, 177, 151, 218, 217, 244, 245, 229, 195, 225, 229, 176, 250,
    ];
    let outliers = [(2..3, 100.0), (15..30, 100.0), (32..33, 100.0)];
    let two = [(2..3, 100.0), (15..30, 100.0), (30..45, 150.0)];
    for (values, points, energy) in [
        (three_ranges.map(f64::from).to_vec(), vec![20, 40], Some(2_848.116_959_064_327_6)),
        (fifties(30, &[(15..30, 100.0)]), vec![15], None),
        (fifties(30, &[(14..15, 74.0), (15..30, 100.0)]), vec![15], None),
        (fifties(30, &[(14..15, 76.0), (15..30, 100.0)]), vec![14], None),
        (fifties(30, &[(2..3, 100.0), (15..30, 100.0)]), vec![15], Some(650.0)),
        (fifties(45, &outliers), vec![15, 33], None),
        (fifties(45, &two), vec![15, 30], Some(1_209.195_402_298_850_5)),
        (fifties(30, &[]), vec![], None),
    ] {
        assert_eq!(change_points(&values, published).unwrap(), points, "{values:?}");
        if let Some(energy) = energy {
            let first = best_split(&Ranked::of(&values), 5).map(|(_, energy)| energy);
            let close = first.is_some_and(|first| (first / energy - 1.0).abs() < 1e-12);
            assert!(close, "{first:?}, published {energy}");
        }
    }
}

#[test]
fn two_steps_are_both_found() {
    let mut rng = ScheduleRng::new(4);
    let values: Vec<f64> = (0..90)
        .map(|at| 0.1 * normal(&mut rng) + f64::from(at >= 30) - 2.0 * f64::from(at >= 60))
        .collect();
    assert_eq!(found(&values), [30, 60]);
}

#[test]
fn the_energy_is_that_of_the_definition() {
    let mut rng = ScheduleRng::new(5);
    let values: Vec<f64> = (0..20).map(|_| normal(&mut rng)).collect();
    let sum = |one: &[f64], two: &[f64]| -> f64 {
        one.iter().flat_map(|a| two.iter().map(move |b| (a - b).abs())).sum()
    };
    let of_definition = |split: usize| {
        let (x, y) = values.split_at(split);
        // Sums over ordered pairs count each pair twice.
        energy(sum(x, x) / 2.0, sum(x, y), sum(y, y) / 2.0, x.len(), y.len())
    };
    let best = (5..=15)
        .map(|split| (split, of_definition(split)))
        .reduce(|a, b| if b.1 > a.1 { b } else { a })
        .unwrap();
    let found = best_split(&Ranked::of(&values), 5);
    let (split, energy) = found.unwrap_or((best.0, best.1.min(0.0)));
    assert_eq!(split, best.0);
    assert!((energy - best.1).abs() < 1e-12);
}

#[test]
fn a_step_of_three_deviations_is_located_within_one_value() {
    const SEEDS: u64 = 1000;
    let is_located = |seed: u64| {
        let mut rng = ScheduleRng::new(seed);
        let values: Vec<f64> =
            (0..60).map(|at| normal(&mut rng) + 3.0 * f64::from(at >= 33)).collect();
        matches!(found(&values).as_slice(), [at] if (32..=34).contains(at))
    };
    let located = (0..SEEDS).filter(|seed| is_located(*seed)).count();
    assert!(located >= 900, "{located} of {SEEDS}");
}

#[test]
fn quiet_series_are_left_whole() {
    let alarms = (0..1000_u64)
        .filter(|seed| {
            let mut rng = ScheduleRng::new(1_000 + seed);
            let values: Vec<f64> = (0..60).map(|_| normal(&mut rng)).collect();
            !found(&values).is_empty()
        })
        .count();
    assert!(alarms <= 10, "{alarms} of 1000");
}

//! Adjusted p values for many rows at once: Holm and Benjamini-Hochberg.
//!
//! Adjusted values are returned in the order of the input and are compared directly with the
//! nominal error (5 %). [`crate::Confidence::simultaneous`] gives the matching simultaneous
//! intervals.

use crate::estimate::NoEstimate;

/// Holm, Scand. J. Statist. 6(2), 1979: as strict about false alarms as Bonferroni, never less
/// able to find a change. Step-down from the smallest p.
///
/// # Errors
/// [`NoEstimate::OutOfRange`] unless every p lies in 0 to 1.
pub fn holm(p_values: &[f64]) -> Result<Vec<f64>, NoEstimate> {
    require_p_values(p_values)?;
    let rows = p_values.len();
    let mut adjusted = vec![0.0; rows];
    let mut at_least = 0.0_f64;
    for (rank, row) in ascending(p_values).into_iter().enumerate() {
        at_least = at_least.max((p_values[row] * (rows - rank) as f64).min(1.0));
        adjusted[row] = at_least;
    }
    Ok(adjusted)
}

/// Benjamini and Hochberg, J. R. Stat. Soc. B 57(1), 1995: holds the expected share of false
/// alarms among the alarms. Step-up from the largest p.
///
/// # Errors
/// [`NoEstimate::OutOfRange`] unless every p lies in 0 to 1.
pub fn benjamini_hochberg(p_values: &[f64]) -> Result<Vec<f64>, NoEstimate> {
    require_p_values(p_values)?;
    let rows = p_values.len() as f64;
    let mut adjusted = vec![0.0; p_values.len()];
    let mut at_most = 1.0_f64;
    for (rank, row) in ascending(p_values).into_iter().enumerate().rev() {
        at_most = at_most.min(p_values[row] * rows / (rank + 1) as f64);
        adjusted[row] = at_most;
    }
    Ok(adjusted)
}

/// Row numbers by ascending p; equal ones keep their order.
fn ascending(p_values: &[f64]) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..p_values.len()).collect();
    rows.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    rows
}

fn require_p_values(p_values: &[f64]) -> Result<(), NoEstimate> {
    match p_values.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        Some(&value) => {
            Err(NoEstimate::OutOfRange { what: "a p value", value, accepted: "0 to 1" })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: [f64; 6] = [0.035, 0.001, 0.2, 0.012, 0.03, 0.9];

    fn close(actual: &[f64], expected: &[f64]) {
        assert_eq!(actual.len(), expected.len());
        for (g, w) in actual.iter().zip(expected) {
            assert!((g - w).abs() < 1e-14, "actual {actual:?}, expected {expected:?}");
        }
    }

    #[test]
    fn false_discovery_rate_equals_scipy() {
        // scipy.stats.false_discovery_control(P, method='bh')
        close(&benjamini_hochberg(&P).unwrap(), &[0.0525, 0.006, 0.24, 0.036, 0.0525, 0.9]);
    }

    #[test]
    fn family_wise_corrections_equal_the_hand() {
        // Ascending .001 .012 .03 .035 .2 .9 times 6 5 4 3 2 1, then the running maximum.
        close(&holm(&P).unwrap(), &[0.12, 0.006, 0.4, 0.06, 0.12, 0.9]);
    }

    #[test]
    fn an_empty_family_is_empty_and_bad_p_values_are_refused() {
        assert!(holm(&[]).unwrap().is_empty());
        for bad in [f64::NAN, -0.1, 1.1] {
            assert!(holm(&[0.5, bad]).is_err());
            assert!(benjamini_hochberg(&[0.5, bad]).is_err());
        }
    }
}

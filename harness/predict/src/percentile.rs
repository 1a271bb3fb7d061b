//! Percentiles by linear interpolation between order statistics, equal to NumPy's to the last bit.
//!
//! Hyndman and Fan (1996), definition 7. NumPy interpolates from the nearer order statistic
//! (`_lerp` in `numpy/lib/_function_base_impl.py`), which decides the last bit; this file does the
//! same.

/// Percentiles of the values, in rising order of the percents; `None` without values. Reorders the
/// values by selection, without a full sort.
pub fn percentiles<const N: usize>(values: &mut [f64], percents: [f64; N]) -> Option<[f64; N]> {
    debug_assert!(percents.is_sorted(), "percents must rise");
    if values.is_empty() {
        return None;
    }
    let last = values.len() - 1;
    // Values before this index are smaller than all values after it.
    let mut selected = 0;
    Some(percents.map(|percent| {
        let virtual_index = last as f64 * (percent / 100.0);
        let below = (virtual_index.floor() as usize).min(last);
        let gamma = virtual_index - below as f64;
        let rest = &mut values[selected..];
        let (_, low, above) = rest.select_nth_unstable_by(below - selected, f64::total_cmp);
        let low = *low;
        let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
        selected = below;
        let step = high - low;
        if gamma >= 0.5 { high - step * (1.0 - gamma) } else { low + step * gamma }
    }))
}

/// The mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolates_between_order_statistics() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(percentiles(&mut values, [0.0, 50.0, 100.0]), Some([1.0, 2.5, 4.0]));
        assert_eq!(percentiles(&mut values, [25.0]), Some([1.75]));
        assert_eq!(percentiles(&mut [7.5], [50.0, 99.0]), Some([7.5, 7.5]));
        assert_eq!(percentiles(&mut [], [50.0]), None);
    }

    #[test]
    fn the_last_bit_equals_numpy() {
        // numpy.percentile([4.5, 5.0, 6.5, 7.9], 99); low + step * gamma would differ in the last
        // bit.
        let found = percentiles(&mut [4.5, 5.0, 6.5, 7.9], [99.0]).map(|[value]| value.to_bits());
        assert_eq!(found, Some(LAST));
        let from_below = 6.5 + (7.9 - 6.5) * (3.0 * 0.99_f64 - 2.0);
        assert_ne!(from_below.to_bits(), LAST);
    }

    const LAST: u64 = 0x401f_6e97_8d4f_df3b;
}

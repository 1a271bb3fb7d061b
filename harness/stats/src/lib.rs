//! Interval estimates and tests used by scoring, diffing and prediction: pure functions of numbers.

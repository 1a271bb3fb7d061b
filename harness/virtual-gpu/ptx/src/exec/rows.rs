//! Rows of lane values.

/// `map!(lane => expression)`: a row of the expression's values.
macro_rules! map {
    ($lane:ident => $value:expr) => {{
        let mut out = [Default::default(); 32];
        for $lane in 0..32 {
            out[$lane] = $value;
        }
        out
    }};
}
pub(super) use map;

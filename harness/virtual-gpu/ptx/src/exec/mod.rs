//! Execution of blocks.

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

mod access;
mod alu;
mod atomic;
mod block;
mod call;
mod extrapolate;
mod float;
mod int;
mod l1_tlb;
mod launch;
mod machine;
mod printf;
mod special;
mod spin;
mod spin_state;
mod tensor;
mod texture;
mod warp;
mod watched_loops;

pub use launch::{BlockCounts, Execution, Launch, Limits, Timer, execute, execute_cooperative};

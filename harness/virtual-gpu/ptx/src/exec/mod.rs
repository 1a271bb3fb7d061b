//! Execution of blocks.

mod access;
mod address;
mod alu;
mod alu_rare;
mod atomic;
mod barrier;
mod bits;
mod block;
mod call;
mod convert;
mod cooperative;
mod divergence;
mod extrapolate;
mod float;
mod frame;
mod int;
mod l1_tlb;
mod lane_target;
mod launch;
mod machine;
mod misc;
mod printf;
mod printf_numbers;
mod rows;
mod run;
mod sequential;
mod special;
mod tensor;
mod timing;
mod values;
mod warp;
mod warp_ops;
mod watched_loops;

pub use cooperative::execute_cooperative;
pub use launch::{BlockCounts, Execution, Launch, Limits, Timer};
pub use sequential::execute;

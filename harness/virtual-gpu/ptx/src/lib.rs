//! Parses, decodes and interprets PTX over plain buffers. The virtual GPU runs kernels with it.
//!
//! A text goes through [`parse`] (lexer, grammar, decoder) into a [`Module`]; the caller places
//! the module's symbols and binds it into a [`Program`]; [`execute`] runs blocks of a launch over
//! [`DeviceMemory`] and reports [`Counts`]. [`parse`] refuses every instruction form that is not
//! implemented, with its line: nothing is skipped.
//!
//! Semantics follow NVIDIA's "Parallel Thread Execution ISA" (PTX ISA 7.8 and later); comments name
//! its sections. Blocks run one after the other, so a kernel in which one block waits for another
//! never ends and runs into its budget.
//!
//! The package lacks on purpose: devices, contexts, streams and time. It uses no other package of
//! the workspace; see its `README.md`.

mod analysis;
mod ast;
mod code;
mod cost;
mod counts;
mod decode;
mod error;
mod exec;
mod fault;
mod footprint;
mod inst;
mod lexer;
mod memory;
mod module;
mod operands;
mod ops;
mod parse;
mod program;
mod types;

pub use code::Properties;
pub use cost::CycleModel;
pub use counts::{Class, Counts, HotWord};
pub use error::{PtxError, Refused};
pub use exec::{BlockCounts, Execution, Launch, Limits, Timer, execute, execute_cooperative};
pub use fault::{FaultKind, KernelFault};
pub use footprint::Footprint;
pub use memory::{DeviceMemory, MapError};
pub use module::{Kernel, Module, Param, Relocation, Symbol, Target};
pub use program::Program;
pub use types::{Space, Ty, window};

/// Parses, checks and decodes a PTX text.
pub fn parse(text: &str) -> Result<Module, PtxError> {
    // Drivers take the text with its terminating NUL; it is no part of it.
    decode::module(&parse::module(text.trim_end_matches('\0'))?)
}

//! Parses, decodes and interprets PTX over plain buffers. The virtual GPU runs kernels with it.
//!
//! [`parse`] (lexer, grammar, decoder) turns a text into a [`Module`]. The caller assigns addresses
//! to its symbols and binds it into a [`Program`]. [`execute`] runs blocks of a launch over
//! [`DeviceMemory`] and reports [`Counts`]. The README describes the semantics and what is left
//! out.

/// Defines an enum, with the modifiers or names that PTX has for its forms.
macro_rules! named {
    ($($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $form:ident $(($of:ty))? $($text:literal)|*,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $vis enum $name { $($(#[$doc])* $form $(($of))?),* }

        impl $name {
            /// The form that `name` stands for.
            pub(crate) fn parse(name: &str) -> Option<Self> {
                match name {
                    $($($text => Some(Self::$form),)*)*
                    _ => None,
                }
            }
        }
    )*};
}

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
mod texture;
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
pub use texture::{TEXTURE_BYTES, Texture};
pub use types::{Space, Ty, window};

pub fn parse(text: &str) -> Result<Module, PtxError> {
    // Drivers accept the text with its terminating NUL.
    decode::module(&parse::module(text.trim_end_matches('\0'))?)
}

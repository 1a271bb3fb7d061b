//! A module bound to the addresses of its variables, ready to launch.

use crate::code::{Const64, FuncCode};
use crate::error::PtxError;
use crate::module::{Module, Target};
use crate::types::window;
use std::sync::Arc;

/// One register row of 32-bit lanes.
pub(crate) type Row32 = [u32; 32];

/// One register row of 64-bit lanes.
pub(crate) type Row64 = [u64; 32];

/// Initial register banks of a call: constants filled in, the rest zero.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub r32: Vec<Row32>,
    pub r64: Vec<Row64>,
}

/// A module with addresses for its symbols.
#[derive(Debug, Clone)]
pub struct Program {
    module: Arc<Module>,
    addresses: Vec<u64>,
    pub(crate) templates: Vec<Template>,
}

impl Program {
    /// Binds `module`; `addresses[i]` is the address of `module.symbols[i]`.
    pub fn bind(module: Arc<Module>, addresses: Vec<u64>) -> Result<Self, PtxError> {
        if addresses.len() != module.symbols.len() {
            let (want, have) = (module.symbols.len(), addresses.len());
            return Err(PtxError::new(0, format!("{want} symbols need addresses, {have} given")));
        }
        for (symbol, address) in module.symbols.iter().zip(&addresses) {
            if address % u64::from(symbol.align) != 0 {
                let message = format!("`{}` needs alignment {}", symbol.name, symbol.align);
                return Err(PtxError::new(0, message));
            }
        }
        let mut program = Self { module, addresses, templates: Vec::new() };
        program.templates = program.make_templates();
        Ok(program)
    }

    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The initial bytes of symbol `index`, with pointers filled in; the rest is zero.
    pub fn symbol_bytes(&self, index: usize) -> Vec<u8> {
        let Some(symbol) = self.module.symbols.get(index) else { return Vec::new() };
        let mut bytes = symbol.init.clone();
        for relocation in &symbol.relocations {
            let value = match relocation.target {
                Target::Symbol(target) => self.addresses[target],
                Target::Function(target) => function_pointer(target),
            };
            let value = value.wrapping_add_signed(relocation.addend);
            let at = relocation.offset as usize;
            if let Some(slot) = bytes.get_mut(at..at + 8) {
                slot.copy_from_slice(&value.to_le_bytes());
            }
        }
        bytes
    }

    fn make_templates(&self) -> Vec<Template> {
        let functions = self.module.functions.iter();
        let template = |func: &FuncCode| {
            let mut r32 = vec![[0; 32]; usize::from(func.rows32)];
            let mut r64 = vec![[0; 32]; usize::from(func.rows64)];
            for (row, bits) in &func.const32 {
                r32[usize::from(*row)] = [*bits; 32];
            }
            for (row, value) in &func.const64 {
                let bits = match value {
                    Const64::Bits(bits) => *bits,
                    Const64::Symbol(index, offset) => {
                        self.addresses[*index as usize].wrapping_add_signed(*offset)
                    }
                    Const64::Function(index) => function_pointer(*index as usize),
                };
                r64[usize::from(*row)] = [bits; 32];
            }
            Template { r32, r64 }
        };
        functions.map(template).collect()
    }
}

fn function_pointer(index: usize) -> u64 {
    window::CODE_BASE + index as u64 * window::CODE_STRIDE
}

pub(crate) fn function_of(pointer: u64, functions: usize) -> Option<usize> {
    let distance = pointer.checked_sub(window::CODE_BASE)?;
    let index = (distance / window::CODE_STRIDE) as usize;
    (distance % window::CODE_STRIDE == 0 && index < functions).then_some(index)
}

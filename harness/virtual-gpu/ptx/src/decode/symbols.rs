//! Variables of a module: sizes, layout, initial bytes.

use super::decoder::Globals;
use super::names::Var;
use crate::ast::{RawFunc, RawInit, RawModule, RawVar, Stmt};
use crate::error::{Loaded, PtxError};
use crate::module::{Relocation, Symbol, Target};
use crate::types::{Space, Ty};
use std::collections::HashMap;

/// Larger variables are typing errors: no device has as much memory.
pub(super) const MAX_SYMBOL_BYTES: u64 = 1 << 40;

pub(super) type SymbolIndex<'a> = HashMap<&'a str, u32>;

pub(super) fn symbols<'a>(raw: &RawModule<'a>) -> Loaded<(Vec<Symbol>, SymbolIndex<'a>)> {
    let mut all = Vec::new();
    let mut index = HashMap::new();
    for var in &raw.vars {
        match var.space {
            Space::Global | Space::Const => {}
            Space::Shared => continue,
            _ => {
                let message = format!("`{}`: a module holds .global, .const, .shared", var.name);
                return Err(PtxError::new(var.line, message));
            }
        }
        let given = var.init.len() as u64;
        let bytes = var.elements.unwrap_or(given).checked_mul(u64::from(var.ty.bytes()));
        let Some(bytes) = bytes.filter(|bytes| *bytes <= MAX_SYMBOL_BYTES) else {
            return Err(PtxError::new(var.line, format!("`{}` exceeds 2^40 bytes", var.name)));
        };
        if given > var.elements.unwrap_or(given) {
            let message = format!("`{}` has more initial values than elements", var.name);
            return Err(PtxError::new(var.line, message));
        }
        if index.insert(var.name, all.len() as u32).is_some() {
            return Err(PtxError::new(var.line, format!("`{}` is declared twice", var.name)));
        }
        all.push(Symbol {
            name: var.name.to_owned(),
            space: var.space,
            bytes,
            align: var.align,
            init: Vec::new(),
            relocations: Vec::new(),
        });
    }
    Ok((all, index))
}

/// Initial bytes can refer to any name, so they are resolved after all declarations.
pub(super) fn resolve_inits(
    raw: &RawModule<'_>,
    mut symbols: Vec<Symbol>,
    globals: &Globals<'_>,
) -> Loaded<Vec<Symbol>> {
    for var in raw.vars.iter().filter(|var| var.space != Space::Shared) {
        let Some(index) = globals.symbols.get(var.name) else {
            continue;
        };
        let symbol = &mut symbols[*index as usize];
        for value in &var.init {
            let at = symbol.init.len() as u64;
            let bits = match (value, var.ty) {
                (RawInit::Int(value), ty) if !ty.is_float() => *value,
                (RawInit::F32(bits), Ty::F32 | Ty::B32) => u64::from(*bits),
                (RawInit::F64(bits), Ty::F64 | Ty::B64) => *bits,
                (RawInit::F64(bits), Ty::F32) => {
                    u64::from((f64::from_bits(*bits) as f32).to_bits())
                }
                (RawInit::Symbol(name, addend), Ty::U64 | Ty::B64 | Ty::S64) => {
                    let target = if let Some(index) = globals.symbols.get(name) {
                        Target::Symbol(*index as usize)
                    } else if let Some(index) = globals.functions.get(name) {
                        Target::Function(*index as usize)
                    } else {
                        let message = format!("`{name}` is neither a variable nor a function");
                        return Err(PtxError::new(var.line, message));
                    };
                    symbol.relocations.push(Relocation { offset: at, target, addend: *addend });
                    0
                }
                _ => {
                    let message = format!("an initial value of `{}` has the wrong type", var.name);
                    return Err(PtxError::new(var.line, message));
                }
            };
            symbol.init.extend(&bits.to_le_bytes()[..var.ty.bytes() as usize]);
        }
    }
    Ok(symbols)
}

/// Layout of static shared memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SharedLayout {
    pub(super) bytes: u32,
}

impl SharedLayout {
    pub(super) fn add(&mut self, var: &RawVar<'_>) -> Loaded<Var> {
        let Some(elements) = var.elements else {
            return Ok(Var::DynamicShared);
        };
        let at = self.bytes.next_multiple_of(var.align);
        let size = elements.checked_mul(u64::from(var.ty.bytes()));
        let end = size.and_then(|size| size.checked_add(u64::from(at)));
        match end {
            Some(end) if end <= MAX_STATIC_SHARED_BYTES => {
                self.bytes = end as u32;
                Ok(Var::Shared(at))
            }
            _ => Err(PtxError::new(
                var.line,
                format!("static shared memory exceeds {MAX_STATIC_SHARED_BYTES} bytes"),
            )),
        }
    }

    pub(super) fn add_all<'a>(&mut self, func: &RawFunc<'a>) -> Loaded<Vec<(u32, &'a str, Var)>> {
        let mut all = Vec::new();
        for stmt in func.body.iter().flatten() {
            if let Stmt::Var(var) = stmt
                && var.space == Space::Shared
            {
                all.push((var.line, var.name, self.add(var)?));
            }
        }
        Ok(all)
    }
}

/// CUDA C++ Programming Guide, "Technical Specifications": static shared memory of a block.
pub(super) const MAX_STATIC_SHARED_BYTES: u64 = 48 * 1024;

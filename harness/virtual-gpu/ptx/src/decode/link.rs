//! From a parsed module to a decoded one: functions, kernels, names, and checks over all functions.

use std::collections::HashMap;

use super::decoder::{BANK_64, BANK_P, Decoder, Globals};
use super::names::Var;
use crate::analysis::{dataflow, liveness, loops};
use crate::ast::{RawFunc, RawInit, RawModule, RawVar, Stmt};
use crate::code::{FuncCode, Properties};
use crate::counts::Class;
use crate::error::{Loaded, PtxError};
use crate::inst::Inst;
use crate::module::{Kernel, Module, Param, Relocation, Symbol, Target};
use crate::operands::{Callee, ParamWords};
use crate::types::{Space, Ty};

/// PTX ISA, "Kernel Function Parameter Attributes": 4 KiB of arguments below sm_70's successor.
const MAX_PARAM_BYTES: u32 = 4352;

pub(crate) fn module(raw: &RawModule<'_>) -> Loaded<Module> {
    let (symbols, symbol_index) = symbols(raw)?;
    let bodies: Vec<&RawFunc<'_>> = raw.funcs.iter().filter(|f| f.body.is_some()).collect();
    let mut functions = HashMap::new();
    for (index, func) in bodies.iter().enumerate() {
        if functions.insert(func.name, index as u32).is_some() {
            let message = format!("function `{}` is defined twice", func.name);
            return Err(PtxError::new(func.line, message));
        }
    }
    let mut layout = SharedLayout::default();
    let mut shared = HashMap::new();
    for var in raw.vars.iter().filter(|var| var.space == Space::Shared) {
        shared.insert(var.name, layout.add(var)?);
    }
    let mut globals = Globals { symbols: symbol_index, functions, shared };
    // Variables of device functions come first, so that they have one address in all kernels.
    let mut own = Vec::new();
    for func in bodies.iter().filter(|func| !func.entry) {
        own.push((func.name, layout.add_all(func)?));
    }
    let mut code = Vec::new();
    let mut kernels = Vec::new();
    for func in &bodies {
        let mut kernel_layout = layout;
        let vars = match own.iter().find(|(name, _)| *name == func.name) {
            Some((_, vars)) => vars.clone(),
            None => kernel_layout.add_all(func)?,
        };
        let decoder = Decoder::new(&mut globals, func.name, func.entry);
        let (decoded, params) = function(decoder, func, vars)?;
        if func.entry {
            kernels.push(kernel(func, &decoded, params, kernel_layout.bytes, code.len()));
        }
        code.push(decoded);
    }
    for func in &mut code {
        func.properties.data_dependent = dataflow::data_dependent(func);
        func.loops = loops::loops(func);
    }
    let symbols = resolve_inits(raw, symbols, &globals)?;
    check_calls(&code)?;
    let properties = closed_properties(&code);
    for kernel in &mut kernels {
        kernel.properties = properties[kernel.function];
        kernel.registers = code[kernel.function].registers;
    }
    Ok(Module {
        version: raw.version,
        target: raw.target.to_owned(),
        kernels,
        symbols,
        functions: code,
    })
}

fn function<'a>(
    mut decoder: Decoder<'a, '_>,
    func: &RawFunc<'a>,
    shared: Vec<(u32, &'a str, Var)>,
) -> Loaded<(FuncCode, Vec<Param>)> {
    decoder.set_line(func.line);
    for (line, name, var) in shared {
        if !decoder.names.declare_var(name, var) {
            return Err(PtxError::new(line, format!("`{name}` is declared twice")));
        }
    }
    let mut params = Vec::new();
    let mut offset = 0u32;
    for var in &func.params {
        let bytes = param_bytes(var)?;
        let location = if func.entry {
            offset = offset.next_multiple_of(var.align);
            params.push(Param { name: var.name.to_owned(), offset, bytes, align: var.align });
            let at = offset;
            offset = offset.saturating_add(bytes);
            if offset > MAX_PARAM_BYTES {
                let message = format!("parameters exceed {MAX_PARAM_BYTES} bytes");
                return Err(PtxError::new(var.line, message));
            }
            Var::KernelParam(at)
        } else {
            let words = decoder.new_param(u64::from(bytes))?;
            decoder.out.params.push(words);
            Var::Param(words)
        };
        declare(&mut decoder, var, location)?;
    }
    for var in &func.returns {
        let words = decoder.new_param(u64::from(param_bytes(var)?))?;
        decoder.out.returns.push(words);
        declare(&mut decoder, var, Var::Param(words))?;
    }
    let body = func.body.as_deref().unwrap_or_default();
    let mut code = decoder.body(body, func.line)?;
    code.registers = liveness::registers(&code);
    Ok((code, params))
}

fn declare<'a>(decoder: &mut Decoder<'a, '_>, var: &RawVar<'a>, location: Var) -> Loaded<()> {
    if decoder.names.declare_var(var.name, location) || var.name == "_" {
        return Ok(());
    }
    Err(PtxError::new(var.line, format!("parameter `{}` is declared twice", var.name)))
}

fn param_bytes(var: &RawVar<'_>) -> Loaded<u32> {
    let bytes = var.elements.and_then(|n| n.checked_mul(u64::from(var.ty.bytes())));
    match bytes {
        Some(bytes) if bytes <= u64::from(MAX_PARAM_BYTES) => Ok(bytes as u32),
        _ => Err(PtxError::new(
            var.line,
            format!("parameter `{}` exceeds {MAX_PARAM_BYTES} bytes", var.name),
        )),
    }
}

fn kernel(
    func: &RawFunc<'_>,
    code: &FuncCode,
    params: Vec<Param>,
    static_shared_bytes: u32,
    function: usize,
) -> Kernel {
    Kernel {
        name: func.name.to_owned(),
        param_bytes: params.last().map_or(0, |param| param.offset + param.bytes),
        params,
        static_shared_bytes,
        local_bytes: code.local_bytes,
        registers: 0,
        max_threads: func.max_threads,
        required_threads: func.required_threads,
        properties: Properties::default(),
        function,
    }
}

impl Decoder<'_, '_> {
    /// The return after the last statement of a body.
    pub(super) fn end_of_body(&mut self) {
        self.guard = None;
        self.first_step = false;
        self.reads.clear();
        self.writes.clear();
        self.emit(Class::Control, Inst::Ret);
    }

    /// Converts row numbers of banks into flat ones, once the sizes of the banks are known.
    pub(super) fn flatten_rows(&mut self) {
        let (rows32, rows64) = (u32::from(self.out.rows32), u32::from(self.out.rows64));
        for dep in &mut self.out.deps {
            *dep = match *dep {
                dep if dep >= BANK_P => rows32 + rows64 + (dep - BANK_P),
                dep if dep >= BANK_64 => rows32 + (dep - BANK_64),
                dep => dep,
            };
        }
    }
}

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
        let Some(index) = globals.symbols.get(var.name) else { continue };
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

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SharedLayout {
    pub(super) bytes: u32,
}

impl SharedLayout {
    pub(super) fn add(&mut self, var: &RawVar<'_>) -> Loaded<Var> {
        let Some(elements) = var.elements else { return Ok(Var::DynamicShared) };
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

/// Arguments and results of direct calls must have the callee's shape.
pub(super) fn check_calls(code: &[FuncCode]) -> Loaded<()> {
    let bytes = |all: &[ParamWords]| all.iter().map(|p| p.bytes).collect::<Vec<_>>();
    for func in code {
        for (inst, info) in func.code.iter().zip(&func.info) {
            let Inst::Call { site } = inst else { continue };
            let site = &func.calls[*site as usize];
            let Callee::Direct(target) = site.callee else { continue };
            let callee = &code[target as usize];
            let fits = bytes(&callee.params) == bytes(&site.args)
                && bytes(&callee.returns) == bytes(&site.returns);
            if !fits {
                let message = format!("the call of `{}` does not fit its parameters", callee.name);
                return Err(PtxError::new(info.line, message));
            }
        }
    }
    Ok(())
}

/// Properties including those of all possible callees. An indirect call can reach any function.
pub(super) fn closed_properties(code: &[FuncCode]) -> Vec<Properties> {
    let mut all: Vec<Properties> = code.iter().map(|func| func.properties).collect();
    loop {
        let mut changed = false;
        for (index, func) in code.iter().enumerate() {
            let mut mine = all[index];
            for site in &func.calls {
                match site.callee {
                    Callee::Direct(target) => merge(&mut mine, all[target as usize]),
                    Callee::Indirect(_) => all.iter().for_each(|other| merge(&mut mine, *other)),
                    Callee::Vprintf | Callee::AssertFail => {}
                }
            }
            changed |= mine != all[index];
            all[index] = mine;
        }
        if !changed {
            return all;
        }
    }
}

pub(super) fn merge(mine: &mut Properties, other: Properties) {
    mine.reads_globaltimer |= other.reads_globaltimer;
    mine.calls_printf |= other.calls_printf;
    mine.data_dependent |= other.data_dependent;
}

//! From a parsed module to a decoded one: functions, kernels, names.

use super::check::{check_calls, closed_properties};
use super::decoder::{BANK_64, BANK_P, Decoder, Globals};
use super::names::Var;
use super::symbols::{SharedLayout, resolve_inits, symbols};
use crate::analysis::dataflow;
use crate::analysis::liveness;
use crate::analysis::loops;
use crate::ast::{RawFunc, RawModule, RawVar};
use crate::code::FuncCode;
use crate::code::Properties;
use crate::counts::Class;
use crate::error::{Loaded, PtxError};
use crate::inst::Inst;
use crate::module::{Kernel, Module, Param};
use crate::types::Space;
use std::collections::HashMap;

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

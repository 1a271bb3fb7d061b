//! The decoder of one function: register rows, constants, and the steps that it appends.

use super::names::{Names, Reg, Var};
use crate::code::Properties;
use crate::code::{Const64, FuncCode, Info};
use crate::counts::Class;
use crate::error::{Loaded, PtxError};
use crate::inst::Inst;
use crate::operands::{NO_ROW, ParamWords, PredRef, Row};
use crate::types::Ty;
use std::collections::HashMap;

/// Names shared by all functions.
pub(crate) struct Globals<'a> {
    pub symbols: HashMap<&'a str, u32>,
    pub functions: HashMap<&'a str, u32>,
    pub shared: HashMap<&'a str, Var>,
}

pub(crate) struct Decoder<'a, 'g> {
    pub globals: &'g mut Globals<'a>,
    pub names: Names<'a>,
    pub out: FuncCode,
    /// Whether this is a kernel, with parameters in the argument buffer.
    pub entry: bool,
    /// Labels by scope, and branches to be resolved at the end.
    pub labels: HashMap<(u32, &'a str), u32>,
    pub branches: Vec<(u32, u32, &'a str, u32)>,
    pub tables: HashMap<&'a str, (u32, Vec<&'a str>)>,
    pub table_uses: Vec<(u32, &'a str, u32)>,
    const32: HashMap<u32, Row>,
    const64: HashMap<Const64, Row>,
    pub(super) line: u32,
    class: Class,
    pub(super) guard: Option<PredRef>,
    pub(super) first_step: bool,
    pub(super) reads: Vec<u32>,
    pub(super) writes: Vec<u32>,
}

/// A row in a bank, before the banks' sizes are known.
pub(super) const BANK_64: u32 = 1 << 16;

pub(super) const BANK_P: u32 = 2 << 16;

impl<'a, 'g> Decoder<'a, 'g> {
    pub(crate) fn new(globals: &'g mut Globals<'a>, name: &str, entry: bool) -> Self {
        let out = FuncCode {
            name: name.to_owned(),
            code: Vec::new(),
            info: Vec::new(),
            deps: Vec::new(),
            rows32: 0,
            rows64: 0,
            preds: 0,
            const32: Vec::new(),
            const64: Vec::new(),
            params: Vec::new(),
            returns: Vec::new(),
            local_bytes: 0,
            calls: Vec::new(),
            products: Vec::new(),
            tables: Vec::new(),
            loops: Vec::new(),
            registers: 0,
            properties: Properties::default(),
        };
        Self {
            globals,
            names: Names::new(),
            out,
            entry,
            labels: HashMap::new(),
            branches: Vec::new(),
            tables: HashMap::new(),
            table_uses: Vec::new(),
            const32: HashMap::new(),
            const64: HashMap::new(),
            line: 0,
            class: Class::Other,
            guard: None,
            first_step: true,
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Loaded<T> {
        Err(PtxError::new(self.line, message))
    }

    pub(crate) fn set_line(&mut self, line: u32) {
        self.line = line;
    }

    pub(crate) fn new32(&mut self) -> Loaded<Row> {
        let row = self.out.rows32;
        if row == NO_ROW - 1 {
            return self.fail("a function uses more than 65534 registers of 32 bits");
        }
        self.out.rows32 += 1;
        Ok(row)
    }

    pub(crate) fn new64(&mut self) -> Loaded<Row> {
        let row = self.out.rows64;
        if row == NO_ROW - 1 {
            return self.fail("a function uses more than 65534 registers of 64 bits");
        }
        self.out.rows64 += 1;
        Ok(row)
    }

    pub(crate) fn new_pred(&mut self) -> Loaded<Row> {
        let row = self.out.preds;
        if row == NO_ROW - 1 {
            return self.fail("a function uses more than 65534 predicates");
        }
        self.out.preds += 1;
        Ok(row)
    }

    pub(crate) fn temp(&mut self, ty: Ty) -> Loaded<Row> {
        if ty.is_wide() { self.new64() } else { self.new32() }
    }

    /// Rows for a parameter variable of `bytes`.
    pub(crate) fn new_param(&mut self, bytes: u64) -> Loaded<ParamWords> {
        // PTX ISA, "Kernel Function Parameters": 4352 bytes; device functions get the same.
        if bytes > 4352 {
            return self.fail(format!("a parameter of {bytes} bytes exceeds 4352"));
        }
        let param = ParamWords { row: self.out.rows32, bytes: bytes as u32 };
        for _ in 0..param.words() {
            self.new32()?;
        }
        Ok(param)
    }

    pub(crate) fn const32(&mut self, bits: u32) -> Loaded<Row> {
        if let Some(row) = self.const32.get(&bits) {
            return Ok(*row);
        }
        let row = self.new32()?;
        self.const32.insert(bits, row);
        self.out.const32.push((row, bits));
        Ok(row)
    }

    pub(crate) fn const64(&mut self, value: Const64) -> Loaded<Row> {
        if let Some(row) = self.const64.get(&value) {
            return Ok(*row);
        }
        let row = self.new64()?;
        self.const64.insert(value, row);
        self.out.const64.push((row, value));
        Ok(row)
    }

    pub(crate) fn reads32(&mut self, row: Row) -> Row {
        self.reads.push(u32::from(row));
        row
    }

    pub(crate) fn reads64(&mut self, row: Row) -> Row {
        self.reads.push(BANK_64 | u32::from(row));
        row
    }

    pub(crate) fn reads_pred(&mut self, pred: PredRef) -> PredRef {
        self.reads.push(BANK_P | u32::from(pred.row));
        pred
    }

    pub(crate) fn writes32(&mut self, row: Row) -> Row {
        self.writes.push(u32::from(row));
        row
    }

    pub(crate) fn writes64(&mut self, row: Row) -> Row {
        self.writes.push(BANK_64 | u32::from(row));
        row
    }

    pub(crate) fn writes_pred(&mut self, row: Row) -> Row {
        self.writes.push(BANK_P | u32::from(row));
        row
    }

    /// Records a read of `row` in the bank of `ty`.
    pub(crate) fn reads_row(&mut self, ty: Ty, row: Row) -> Row {
        if ty.is_wide() { self.reads64(row) } else { self.reads32(row) }
    }

    /// Records a write of `row` in the bank of `ty`.
    pub(crate) fn writes_row(&mut self, ty: Ty, row: Row) -> Row {
        if ty.is_wide() { self.writes64(row) } else { self.writes32(row) }
    }

    /// Appends a step with the reads and writes recorded since the last one.
    pub(crate) fn emit(&mut self, class: Class, inst: Inst) {
        self.class = class;
        if let Some(guard) = self.guard {
            self.reads_pred(guard);
        }
        let from = self.out.deps.len() as u32;
        self.out.deps.append(&mut self.reads);
        let middle = self.out.deps.len() as u32;
        self.out.deps.append(&mut self.writes);
        let end = self.out.deps.len() as u32;
        self.out.code.push(inst);
        self.out.info.push(Info {
            class,
            counted: std::mem::replace(&mut self.first_step, false),
            guard: self.guard,
            line: self.line,
            reads: (from, middle),
            writes: (middle, end),
        });
    }

    pub(crate) fn here(&self) -> u32 {
        self.out.code.len() as u32
    }

    pub(crate) fn register(&mut self, name: &'a str) -> Loaded<Option<(Reg, Ty)>> {
        let out = &mut self.out;
        let mut full = false;
        let found = self.names.reg(name, |ty| {
            let (next, make): (&mut u16, fn(Row) -> Reg) = match ty {
                Ty::Pred => (&mut out.preds, Reg::P),
                _ if ty.is_wide() => (&mut out.rows64, Reg::R64),
                _ => (&mut out.rows32, Reg::R32),
            };
            if *next == NO_ROW - 1 {
                full = true;
                return None;
            }
            *next += 1;
            Some(make(*next - 1))
        });
        if full {
            return self.fail("a function uses more than 65534 registers of one width");
        }
        Ok(found)
    }

    pub(crate) fn need_register(&mut self, name: &'a str) -> Loaded<(Reg, Ty)> {
        match self.register(name)? {
            Some(found) => Ok(found),
            None => self.fail(format!("`{name}` is not a declared register")),
        }
    }
}

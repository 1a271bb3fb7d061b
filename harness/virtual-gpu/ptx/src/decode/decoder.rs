//! The decoder of one function: register rows, constants, operands, and the steps that it appends.

use std::collections::HashMap;

use super::names::{Names, Reg, Var};
use crate::ast::Operand;
use crate::code::{Const64, FuncCode, Info, Properties};
use crate::counts::Class;
use crate::error::{Loaded, PtxError};
use crate::inst::Inst;
use crate::operands::{NO_ROW, ParamWords, PredRef, Row};
use crate::types::Ty;

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

    /// Emits what ends the decoding of a statement.
    pub(crate) fn emit_last(&mut self, class: Class, inst: Inst) -> Loaded<()> {
        self.emit(class, inst);
        Ok(())
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

impl<'a> Decoder<'a, '_> {
    /// A source of exactly the size of `ty`. Rows of 8 and 16 bits have undefined upper bits.
    pub(crate) fn read(&mut self, op: &Operand<'a>, ty: Ty) -> Loaded<Row> {
        match op {
            Operand::Name(name, 0) => {
                let (reg, declared) = self.need_register(name)?;
                if declared.bytes() != ty.bytes() {
                    return self.wrong_size(name, declared, ty);
                }
                self.row_of(reg, name)
            }
            _ => self.immediate(op, ty),
        }
    }

    fn row_of(&mut self, reg: Reg, name: &str) -> Loaded<Row> {
        match reg {
            Reg::R32(row) => Ok(self.reads32(row)),
            Reg::R64(row) => Ok(self.reads64(row)),
            Reg::P(_) => self.fail(format!("`{name}` is a predicate, a value is needed")),
        }
    }

    fn wrong_size<T>(&self, name: &str, declared: Ty, ty: Ty) -> Loaded<T> {
        let (have, want) = (declared.bytes() * 8, ty.bytes() * 8);
        self.fail(format!("register `{name}` has {have} bits, the instruction takes {want}"))
    }

    fn immediate(&mut self, op: &Operand<'a>, ty: Ty) -> Loaded<Row> {
        let bits = match (op, ty) {
            (Operand::F32(bits), Ty::F32 | Ty::B32) => u64::from(*bits),
            (Operand::F64(bits), Ty::F64 | Ty::B64) => *bits,
            (Operand::F64(bits), Ty::F32) => u64::from((f64::from_bits(*bits) as f32).to_bits()),
            (Operand::F32(bits), Ty::F64) => f64::from(f32::from_bits(*bits)).to_bits(),
            (Operand::Int(value), _) if !ty.is_float() && ty != Ty::Pred => *value,
            _ => return self.fail("an operand must be a register or a constant of the right type"),
        };
        if ty.is_wide() {
            let row = self.const64(Const64::Bits(bits))?;
            return Ok(self.reads64(row));
        }
        // The literal's low bits count (PTX ISA, "Integer Constants").
        let mask = u32::MAX >> (32 - 8 * ty.bytes());
        let row = self.const32(bits as u32 & mask)?;
        Ok(self.reads32(row))
    }

    /// A 16-bit source extended to 32 bits, or a 32-bit one as it is.
    pub(crate) fn read_extended(&mut self, op: &Operand<'a>, ty: Ty) -> Loaded<Row> {
        let row = self.read(op, ty)?;
        if ty.bytes() >= 4 {
            return Ok(row);
        }
        let wide = self.new32()?;
        self.writes32(wide);
        self.emit(Class::Int, Inst::Extend { d: wide, a: row, ty });
        Ok(wide)
    }

    /// A source at least as wide as `ty`, for `st`, `cvt` and `atom` (PTX ISA, "Operand Size
    /// Exceeding Instruction-Type Size"): the low bits count.
    pub(crate) fn read_relaxed(&mut self, op: &Operand<'a>, ty: Ty) -> Loaded<Row> {
        let Operand::Name(name, 0) = op else { return self.immediate(op, ty) };
        let (reg, declared) = self.need_register(name)?;
        if declared.bytes() < ty.bytes() {
            return self.wrong_size(name, declared, ty);
        }
        match reg {
            Reg::R64(wide) if !ty.is_wide() => {
                self.reads64(wide);
                let narrow = self.new32()?;
                self.writes32(narrow);
                self.emit(Class::Other, Inst::Low { d: narrow, a: wide });
                Ok(self.reads32(narrow))
            }
            _ => self.row_of(reg, name),
        }
    }

    /// A 32-bit source from any integer register, for shift amounts and addresses.
    pub(crate) fn read_u32(&mut self, op: &Operand<'a>) -> Loaded<Row> {
        self.read(op, Ty::B32)
    }

    /// A destination of exactly the size of `ty`; `_` discards the result.
    pub(crate) fn write(&mut self, op: &Operand<'a>, ty: Ty) -> Loaded<Row> {
        let (row, declared) = self.destination(op, ty)?;
        if declared.bytes() != ty.bytes() {
            let (have, want) = (declared.bytes() * 8, ty.bytes() * 8);
            return self.fail(format!("the result has {want} bits, its register {have}"));
        }
        Ok(self.writes_row(ty, row))
    }

    /// A destination register with its declared type.
    pub(crate) fn destination(&mut self, op: &Operand<'a>, ty: Ty) -> Loaded<(Row, Ty)> {
        match op {
            Operand::Name("_", 0) => Ok((self.temp(ty)?, ty)),
            Operand::Name(name, 0) => match self.need_register(name)? {
                (Reg::R32(row) | Reg::R64(row), declared) => Ok((row, declared)),
                (Reg::P(_), _) => {
                    self.fail(format!("`{name}` is a predicate, the result is a value"))
                }
            },
            _ => self.fail("a destination must be a register"),
        }
    }

    /// A destination at least as wide as `ty`: the result goes to the returned row, and `finish`
    /// extends it after the instruction.
    pub(crate) fn write_relaxed(&mut self, op: &Operand<'a>, ty: Ty) -> Loaded<Pending> {
        let (row, declared) = self.destination(op, ty)?;
        if declared.bytes() < ty.bytes() {
            let (have, want) = (declared.bytes() * 8, ty.bytes() * 8);
            return self.fail(format!("the result has {want} bits, its register only {have}"));
        }
        if declared.is_wide() && !ty.is_wide() {
            let narrow = self.new32()?;
            self.writes32(narrow);
            return Ok(Pending { row: narrow, widen: Some(row), ty });
        }
        self.writes_row(ty, row);
        Ok(Pending { row, widen: None, ty })
    }

    /// Extends a relaxed destination.
    pub(crate) fn finish(&mut self, pending: Pending) {
        if let Some(wide) = pending.widen {
            let (d, a) = (self.writes64(wide), self.reads32(pending.row));
            let signed = pending.ty.is_signed();
            let inst =
                if signed { Inst::WidenS { d, a } } else { Inst::WidenU { d, a, offset: 0 } };
            self.emit(Class::Other, inst);
        }
    }

    /// The row of the predicate register `name`.
    pub(crate) fn pred_row(&mut self, name: &'a str) -> Loaded<Row> {
        match self.need_register(name)? {
            (Reg::P(row), _) => Ok(row),
            _ => self.fail(format!("`{name}` is not a predicate")),
        }
    }

    /// A predicate source: `%p`, `!%p` or a constant.
    pub(crate) fn read_pred(&mut self, op: &Operand<'a>) -> Loaded<PredRef> {
        let pred = match op {
            Operand::Name(name, 0) => PredRef { row: self.pred_row(name)?, negated: false },
            Operand::Not(name) => PredRef { row: self.pred_row(name)?, negated: true },
            // A row that nothing writes stays all false.
            Operand::Int(value) => PredRef { row: self.new_pred()?, negated: *value != 0 },
            _ => return self.fail("a predicate is needed"),
        };
        Ok(self.reads_pred(pred))
    }

    pub(crate) fn write_pred(&mut self, name: &'a str) -> Loaded<Row> {
        let row = if name == "_" { self.new_pred()? } else { self.pred_row(name)? };
        Ok(self.writes_pred(row))
    }

    pub(crate) fn write_pred_op(&mut self, op: &Operand<'a>) -> Loaded<Row> {
        match op {
            Operand::Name(name, 0) => self.write_pred(name),
            _ => self.fail("a destination must be a predicate"),
        }
    }
}

/// A destination that `finish` may have to extend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub row: Row,
    widen: Option<Row>,
    ty: Ty,
}

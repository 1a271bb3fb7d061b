//! Operands: registers and immediates as rows, checked against the instruction's type.

use super::decoder::Decoder;
use super::names::Reg;
use crate::ast::Operand;
use crate::code::Const64;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{PredRef, Row};
use crate::types::Ty;

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
        let Operand::Name(name, 0) = op else {
            return self.immediate(op, ty);
        };
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

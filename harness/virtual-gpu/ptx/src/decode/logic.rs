//! Bitwise logic, comparisons, selections and moves.

use super::decoder::Decoder;
use super::mods::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{NO_ROW, PredRef, SetP};
use crate::ops::{BoolOp, Cmp, CmpKind, IntOp, IntUn, TriOp};
use crate::types::Ty;

fn bool_op(name: &str) -> Option<BoolOp> {
    Some(match name {
        "and" => BoolOp::And,
        "or" => BoolOp::Or,
        "xor" => BoolOp::Xor,
        _ => return None,
    })
}

fn comparison(name: &str) -> Option<Cmp> {
    Some(match name {
        "eq" => Cmp::Eq,
        "ne" => Cmp::Ne,
        // `lo`, `ls`, `hi`, `hs` are the unsigned spellings.
        "lt" | "lo" => Cmp::Lt,
        "le" | "ls" => Cmp::Le,
        "gt" | "hi" => Cmp::Gt,
        "ge" | "hs" => Cmp::Ge,
        "equ" => Cmp::Equ,
        "neu" => Cmp::Neu,
        "ltu" => Cmp::Ltu,
        "leu" => Cmp::Leu,
        "gtu" => Cmp::Gtu,
        "geu" => Cmp::Geu,
        "num" => Cmp::Num,
        "nan" => Cmp::Nan,
        _ => return None,
    })
}

impl<'a> Decoder<'a, '_> {
    /// `and`, `or`, `xor`, `not`, `cnot`, on values and predicates.
    pub(crate) fn bitwise(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let ty = mods.ty()?;
        if !matches!(ty, Ty::Pred | Ty::B16 | Ty::B32 | Ty::B64) {
            return mods.unsupported();
        }
        match (mods.base, ty) {
            ("not", Ty::Pred) => {
                let [d, a] = self.take(mods, ops)?;
                let a = self.read_pred(&a)?;
                let d = self.write_pred_op(&d)?;
                let a = PredRef { negated: !a.negated, ..a };
                self.emit(Class::Int, Inst::MovP { d, a });
                Ok(())
            }
            ("cnot", Ty::Pred) => mods.unsupported(),
            ("not", _) => self.int_unary(IntUn::Not, ty, mods, ops),
            ("cnot", _) => self.int_unary(IntUn::Cnot, ty, mods, ops),
            (base, Ty::Pred) => {
                let Some(op) = bool_op(base) else {
                    return mods.unsupported();
                };
                let [d, a, b] = self.take(mods, ops)?;
                let (a, b) = (self.read_pred(&a)?, self.read_pred(&b)?);
                let d = self.write_pred_op(&d)?;
                self.emit(Class::Int, Inst::Logic { op, d, a, b });
                Ok(())
            }
            (base, _) => {
                let op = match base {
                    "and" => IntOp::And,
                    "or" => IntOp::Or,
                    _ => IntOp::Xor,
                };
                let [d, a, b] = self.take(mods, ops)?;
                let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
                let d = self.write(&d, ty)?;
                self.emit_int(op, ty, d, a, b);
                Ok(())
            }
        }
    }

    /// Reads the comparison's modifiers and sources; the caller reads the destinations.
    fn compare(
        &mut self,
        mods: &mut Mods<'a>,
        a: &Operand<'a>,
        b: &Operand<'a>,
        c: Option<&Operand<'a>>,
        ty: Ty,
    ) -> Loaded<SetP> {
        let ftz = mods.take("ftz");
        let Some(cmp) = mods.take_with(comparison) else {
            return mods.unsupported();
        };
        let combine = mods.take_with(bool_op);
        let ordered = !matches!(cmp, Cmp::Eq | Cmp::Ne);
        let float_only = ordered && !matches!(cmp, Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge);
        let untyped = matches!(ty, Ty::B16 | Ty::B32 | Ty::B64);
        if float_only && !ty.is_float() || untyped && ordered || ftz && ty != Ty::F32 {
            return mods.unsupported();
        }
        let kind = match ty {
            Ty::F32 if ftz => CmpKind::F32Ftz,
            Ty::F32 => CmpKind::F32,
            Ty::F64 => CmpKind::F64,
            Ty::S64 => CmpKind::S64,
            Ty::U64 | Ty::B64 => CmpKind::U64,
            Ty::S16 | Ty::S32 => CmpKind::S32,
            Ty::U16 | Ty::B16 | Ty::U32 | Ty::B32 => CmpKind::U32,
            _ => return mods.unsupported(),
        };
        let (a, b) = (self.read_extended(a, ty)?, self.read_extended(b, ty)?);
        self.reads_row(ty, a);
        self.reads_row(ty, b);
        let combine = match (combine, c) {
            (Some(op), Some(c)) => Some((op, self.read_pred(c)?)),
            (None, None) => None,
            (Some(_), None) => return self.fail("a boolean combination needs a predicate operand"),
            (None, Some(_)) => return self.fail("a predicate operand needs .and, .or or .xor"),
        };
        Ok(SetP { cmp, kind, p: NO_ROW, q: NO_ROW, a, b, combine })
    }

    pub(crate) fn setp(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let (d, a, b, c) = match ops {
            [d, a, b] => (d, a, b, None),
            [d, a, b, c] => (d, a, b, Some(c)),
            _ => return self.fail("`setp` takes 3 or 4 operands"),
        };
        let ty = mods.ty()?;
        let mut setp = self.compare(mods, a, b, c, ty)?;
        match d {
            Operand::Pair(p, q) => {
                setp.p = self.write_pred(p)?;
                setp.q = self.write_pred(q)?;
            }
            _ => setp.p = self.write_pred_op(d)?,
        }
        self.emit(Class::Int, Inst::SetP(setp));
        Ok(())
    }

    /// `set`: a comparison with the result all ones or 1.0 instead of a predicate.
    pub(crate) fn set(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let (d, a, b, c) = match ops {
            [d, a, b] => (d, a, b, None),
            [d, a, b, c] => (d, a, b, Some(c)),
            _ => return self.fail("`set` takes 3 or 4 operands"),
        };
        let (to, ty) = (mods.ty()?, mods.ty()?);
        if !matches!(to, Ty::U32 | Ty::S32 | Ty::F32) {
            return mods.unsupported();
        }
        let mut setp = self.compare(mods, a, b, c, ty)?;
        let p = self.new_pred()?;
        setp.p = self.writes_pred(p);
        self.emit(Class::Int, Inst::SetP(setp));
        let yes = if to == Ty::F32 { 1f32.to_bits() } else { u32::MAX };
        let (a, b) = (self.const32(yes)?, self.const32(0)?);
        let p = self.reads_pred(PredRef { row: p, negated: false });
        let d = self.write(d, to)?;
        self.emit(Class::Int, Inst::Sel32 { d, a, b, p });
        Ok(())
    }

    pub(crate) fn select(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let ftz = mods.base == "slct" && mods.take("ftz");
        let ty = mods.ty()?;
        if ty.bytes() < 2 {
            return mods.unsupported();
        }
        let [d, a, b, c] = self.take(mods, ops)?;
        let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
        if mods.base == "selp" {
            let p = self.read_pred(&c)?;
            let d = self.write(&d, ty)?;
            let wide = ty.is_wide();
            let inst = if wide { Inst::Sel64 { d, a, b, p } } else { Inst::Sel32 { d, a, b, p } };
            self.emit(Class::Int, inst);
            return Ok(());
        }
        let selector = mods.ty()?;
        // Flushing a subnormal selector to zero makes it pass `>= 0`; no checked-in kernel compiles
        // to it.
        if ftz || !matches!(selector, Ty::S32 | Ty::F32) {
            return mods.unsupported();
        }
        let c = self.read(&c, selector)?;
        let float = selector == Ty::F32;
        let d = self.write(&d, ty)?;
        let inst = match (ty.is_wide(), float) {
            (true, _) => Inst::Select64 { float, d, a, b, c },
            (false, true) => Inst::Tri32 { op: TriOp::SelectF, d, a, b, c },
            (false, false) => Inst::Tri32 { op: TriOp::SelectS, d, a, b, c },
        };
        self.emit(Class::Int, inst);
        Ok(())
    }
}

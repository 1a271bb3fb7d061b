//! Products of integers, and additions with carry.

use super::decoder::Decoder;
use super::mods::Mods;
use super::names::CARRY;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{PredRef, Row};
use crate::ops::{IntOp, TriOp};
use crate::types::Ty;

pub(super) fn widened(ty: Ty) -> Ty {
    match ty {
        Ty::S16 => Ty::S32,
        Ty::U16 => Ty::U32,
        Ty::S32 => Ty::S64,
        _ => Ty::U64,
    }
}

impl<'a> Decoder<'a, '_> {
    pub(super) fn mul(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>], ty: Ty) -> Loaded<()> {
        match mods.take_any(&["lo", "hi", "wide"]) {
            Some("lo") => self.binary(IntOp::MulLo, ty, mods, ops),
            Some("hi") if ty.bytes() >= 4 => {
                let op = if ty.is_signed() { IntOp::MulHiS } else { IntOp::MulHiU };
                self.binary(op, ty, mods, ops)
            }
            Some("wide") if ty.bytes() <= 4 => {
                let [d, a, b] = self.take(mods, ops)?;
                let product = self.wide_product(ty, &a, &b)?;
                let wide = widened(ty);
                let d = self.write(&d, wide)?;
                self.reads_row(wide, product);
                let inst = match ty.bytes() {
                    4 => Inst::Mov64 { d, a: product },
                    _ => Inst::Mov32 { d, a: product },
                };
                self.emit(Class::Int, inst);
                Ok(())
            }
            _ => mods.unsupported(),
        }
    }

    /// The full product of two sources of `ty`, in a row twice as wide.
    pub(super) fn wide_product(&mut self, ty: Ty, a: &Operand<'a>, b: &Operand<'a>) -> Loaded<Row> {
        let (a, b) = (self.read_extended(a, ty)?, self.read_extended(b, ty)?);
        self.reads32(a);
        self.reads32(b);
        if ty.bytes() == 4 {
            let d = self.new64()?;
            self.writes64(d);
            self.emit(Class::Int, Inst::MulWide { signed: ty.is_signed(), d, a, b });
            return Ok(d);
        }
        let d = self.new32()?;
        self.writes32(d);
        self.emit(Class::Int, Inst::Int32 { op: IntOp::MulLo, d, a, b });
        Ok(d)
    }

    pub(super) fn mad(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>], ty: Ty) -> Loaded<()> {
        let [d, a, b, c] = self.take(mods, ops)?;
        let form = mods.take_any(&["lo", "hi", "wide"]);
        if form == Some("wide") && ty.bytes() <= 4 {
            let product = self.wide_product(ty, &a, &b)?;
            let wide = widened(ty);
            self.reads_row(wide, product);
            let c = self.read(&c, wide)?;
            let d = self.write(&d, wide)?;
            self.emit_int(IntOp::Add, wide, d, product, c);
            return Ok(());
        }
        let op = match (form, ty.is_signed()) {
            (Some("lo"), _) => TriOp::MadLo,
            (Some("hi"), true) if ty.bytes() >= 4 => TriOp::MadHiS,
            (Some("hi"), false) if ty.bytes() >= 4 => TriOp::MadHiU,
            _ => return mods.unsupported(),
        };
        let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
        if !ty.is_wide() {
            let c = self.read(&c, ty)?;
            let d = self.write(&d, ty)?;
            self.emit(Class::Int, Inst::Tri32 { op, d, a, b, c });
            return Ok(());
        }
        let product = self.new64()?;
        self.writes64(product);
        let mul = match op {
            TriOp::MadHiS => IntOp::MulHiS,
            TriOp::MadHiU => IntOp::MulHiU,
            _ => IntOp::MulLo,
        };
        self.emit_int(mul, ty, product, a, b);
        self.reads64(product);
        let c = self.read(&c, ty)?;
        let d = self.write(&d, ty)?;
        self.emit_int(IntOp::Add, ty, d, product, c);
        Ok(())
    }

    pub(crate) fn carry(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let writes = mods.take("cc");
        let ty = mods.ty()?;
        self.carry_of(mods, ops, ty, true, writes)
    }

    pub(super) fn carry_of(
        &mut self,
        mods: &Mods<'a>,
        ops: &[Operand<'a>],
        ty: Ty,
        reads: bool,
        writes: bool,
    ) -> Loaded<()> {
        if ty.bytes() < 4 || ty.is_float() {
            return mods.unsupported();
        }
        let [d, a, b] = self.take(mods, ops)?;
        // The condition code register is a predicate of the function without a name in the text.
        let carry = self.pred_row(CARRY)?;
        let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
        let d = self.write(&d, ty)?;
        self.reads_pred(PredRef { row: carry, negated: false });
        self.writes_pred(carry);
        let (wide, sub) = (ty.is_wide(), mods.base.starts_with("sub"));
        self.emit(Class::Int, Inst::Carry { wide, sub, reads, writes, carry, d, a, b });
        Ok(())
    }
}

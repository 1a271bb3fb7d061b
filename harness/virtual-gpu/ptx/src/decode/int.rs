//! Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions").

use super::decoder::Decoder;
use super::mods::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::Row;
use crate::ops::{IntOp, IntUn};
use crate::types::Ty;

impl<'a> Decoder<'a, '_> {
    /// The operations that exist for integers and floats alike.
    pub(crate) fn arithmetic(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let ty = mods.ty()?;
        if ty.is_float() {
            return self.float(mods, ops, ty);
        }
        if ty.bytes() < 2 || matches!(ty, Ty::B16 | Ty::B32 | Ty::B64) {
            return mods.unsupported();
        }
        if matches!(mods.base, "add" | "sub") && mods.take("cc") {
            return self.carry_of(mods, ops, ty, false, true);
        }
        match mods.base {
            "neg" => self.int_unary(IntUn::Neg, ty, mods, ops),
            "abs" => self.int_unary(IntUn::Abs, ty, mods, ops),
            "mul" => self.mul(mods, ops, ty),
            "mad" => self.mad(mods, ops, ty),
            "fma" => mods.unsupported(),
            base => {
                let op = match (base, ty.is_signed()) {
                    ("add", _) => IntOp::Add,
                    ("sub", _) => IntOp::Sub,
                    ("div", true) => IntOp::DivS,
                    ("div", false) => IntOp::DivU,
                    ("min", true) => IntOp::MinS,
                    ("min", false) => IntOp::MinU,
                    ("max", true) => IntOp::MaxS,
                    _ => IntOp::MaxU,
                };
                self.binary(op, ty, mods, ops)
            }
        }
    }

    fn class_of(op: IntOp) -> Class {
        match op {
            IntOp::DivS | IntOp::DivU | IntOp::RemS | IntOp::RemU => Class::Sfu,
            _ => Class::Int,
        }
    }

    pub(super) fn binary(
        &mut self,
        op: IntOp,
        ty: Ty,
        mods: &Mods<'a>,
        ops: &[Operand<'a>],
    ) -> Loaded<()> {
        let [d, a, b] = self.take(mods, ops)?;
        let (a, b) = (self.read_extended(&a, ty)?, self.read_extended(&b, ty)?);
        self.reads_row(ty, a);
        self.reads_row(ty, b);
        let d = self.write(&d, ty)?;
        self.emit_int(op, ty, d, a, b);
        Ok(())
    }

    pub(crate) fn emit_int(&mut self, op: IntOp, ty: Ty, d: Row, a: Row, b: Row) {
        let class = Self::class_of(op);
        let wide = ty.is_wide();
        let inst = if wide { Inst::Int64 { op, d, a, b } } else { Inst::Int32 { op, d, a, b } };
        self.emit(class, inst);
    }

    pub(crate) fn int_unary(
        &mut self,
        op: IntUn,
        ty: Ty,
        mods: &Mods<'a>,
        ops: &[Operand<'a>],
    ) -> Loaded<()> {
        let [d, a] = self.take(mods, ops)?;
        if ty.bytes() == 2 && op == IntUn::Brev {
            return mods.unsupported();
        }
        let a = self.read_extended(&a, ty)?;
        self.reads_row(ty, a);
        let d = self.write(&d, ty)?;
        let wide = ty.is_wide();
        let inst = if wide { Inst::IntUn64 { op, d, a } } else { Inst::IntUn32 { op, d, a } };
        self.emit(Class::Int, inst);
        Ok(())
    }
}

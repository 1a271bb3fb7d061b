//! Floating arithmetic (PTX ISA, "Floating-Point Instructions").

use super::decoder::Decoder;
use super::mods::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::ops::{FMode, FOp, FUn, Round, TestOp};
use crate::types::Ty;

fn simple_class(ty: Ty) -> Class {
    if ty == Ty::F64 { Class::Fp64 } else { Class::Fp32 }
}

impl<'a> Decoder<'a, '_> {
    /// The floating forms of operations that integers have too.
    pub(crate) fn float(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>], ty: Ty) -> Loaded<()> {
        let base = mods.base;
        let nan = matches!(base, "min" | "max") && mods.take("NaN");
        let approximate = base == "div" && mods.take_any(&["approx", "full"]).is_some();
        let mode = mods.fmode();
        // Directed rounding of doubles needs wider arithmetic than the host has.
        if ty == Ty::F64 && (!mode.is_plain() || approximate || nan) {
            return mods.unsupported();
        }
        let directed = mode.round != Round::Nearest;
        match base {
            "fma" | "mad" => self.fma(mods, ops, ty, mode),
            "neg" if !directed && !mode.sat => self.float_unary(FUn::Neg, mode, mods, ops, ty),
            "abs" if !directed && !mode.sat => self.float_unary(FUn::Abs, mode, mods, ops, ty),
            "add" | "sub" | "mul" => {
                let op = match base {
                    "add" => FOp::Add,
                    "sub" => FOp::Sub,
                    _ => FOp::Mul,
                };
                self.float_binary(op, mode, simple_class(ty), mods, ops, ty)
            }
            "div" if !directed && !mode.sat => {
                self.float_binary(FOp::Div, mode, Class::Sfu, mods, ops, ty)
            }
            "min" | "max" if !directed && !mode.sat => {
                let op = match (base, nan) {
                    ("min", false) => FOp::Min,
                    ("min", true) => FOp::MinNan,
                    (_, false) => FOp::Max,
                    (_, true) => FOp::MaxNan,
                };
                self.float_binary(op, mode, simple_class(ty), mods, ops, ty)
            }
            _ => mods.unsupported(),
        }
    }

    fn fma(&mut self, mods: &Mods<'a>, ops: &[Operand<'a>], ty: Ty, mode: FMode) -> Loaded<()> {
        let [d, a, b, c] = self.take(mods, ops)?;
        let (a, b, c) = (self.read(&a, ty)?, self.read(&b, ty)?, self.read(&c, ty)?);
        let d = self.write(&d, ty)?;
        match ty {
            Ty::F64 => self.emit(Class::Fp64, Inst::Fma64 { d, a, b, c }),
            _ => self.emit(Class::Fp32, Inst::Fma32 { mode, d, a, b, c }),
        }
        Ok(())
    }

    fn float_binary(
        &mut self,
        op: FOp,
        mode: FMode,
        class: Class,
        mods: &Mods<'a>,
        ops: &[Operand<'a>],
        ty: Ty,
    ) -> Loaded<()> {
        let [d, a, b] = self.take(mods, ops)?;
        let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
        let d = self.write(&d, ty)?;
        match ty {
            Ty::F64 => self.emit(class, Inst::F64 { op, d, a, b }),
            _ => self.emit(class, Inst::F32 { op, mode, d, a, b }),
        }
        Ok(())
    }

    fn float_unary(
        &mut self,
        op: FUn,
        mode: FMode,
        mods: &Mods<'a>,
        ops: &[Operand<'a>],
        ty: Ty,
    ) -> Loaded<()> {
        let [d, a] = self.take(mods, ops)?;
        let a = self.read(&a, ty)?;
        let d = self.write(&d, ty)?;
        let class = match op {
            FUn::Neg | FUn::Abs => simple_class(ty),
            _ => Class::Sfu,
        };
        match ty {
            Ty::F64 => self.emit(class, Inst::FUn64 { op, d, a }),
            _ => self.emit(class, Inst::FUn32 { op, mode, d, a }),
        }
        Ok(())
    }

    /// Roots, reciprocals and transcendentals; `copysign` and `testp` besides.
    pub(crate) fn special_function(
        &mut self,
        mods: &mut Mods<'a>,
        ops: &[Operand<'a>],
    ) -> Loaded<()> {
        if mods.base == "testp" {
            return self.testp(mods, ops);
        }
        let ty = mods.ty()?;
        if !ty.is_float() {
            return mods.unsupported();
        }
        let approximate = mods.take("approx");
        let mode = mods.fmode();
        if mods.base == "copysign" && mode.is_plain() && !approximate {
            // PTX: copies the sign of a to b; `FOp::Copysign` is (magnitude, sign).
            let [d, a, b] = self.take(mods, ops)?;
            return self.float_binary(FOp::Copysign, mode, simple_class(ty), mods, &[d, b, a], ty);
        }
        if mode.round != Round::Nearest || mode.sat || ty == Ty::F64 && mode.ftz {
            return mods.unsupported();
        }
        let op = match (mods.base, ty, approximate) {
            ("sqrt", Ty::F32, _) | ("sqrt", Ty::F64, false) => FUn::Sqrt,
            ("rcp", Ty::F32, _) | ("rcp", Ty::F64, false) => FUn::Rcp,
            ("rsqrt", _, true) => FUn::Rsqrt,
            ("sin", Ty::F32, true) => FUn::Sin,
            ("cos", Ty::F32, true) => FUn::Cos,
            ("lg2", Ty::F32, true) => FUn::Lg2,
            ("ex2", Ty::F32, true) => FUn::Ex2,
            ("tanh", Ty::F32, true) => FUn::Tanh,
            _ => return mods.unsupported(),
        };
        self.float_unary(op, mode, mods, ops, ty)
    }

    fn testp(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let names = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
        let what = match mods.take_any(&names) {
            Some("finite") => TestOp::Finite,
            Some("infinite") => TestOp::Infinite,
            Some("number") => TestOp::Number,
            Some("notanumber") => TestOp::NotANumber,
            Some("normal") => TestOp::Normal,
            Some(_) => TestOp::Subnormal,
            None => return mods.unsupported(),
        };
        let ty = mods.ty()?;
        if !ty.is_float() {
            return mods.unsupported();
        }
        let [d, a] = self.take(mods, ops)?;
        let a = self.read(&a, ty)?;
        let d = self.write_pred_op(&d)?;
        self.emit(simple_class(ty), Inst::Testp { wide: ty.is_wide(), what, d, a });
        Ok(())
    }
}

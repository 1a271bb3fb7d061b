//! Floating arithmetic and conversions (PTX ISA, "Floating-Point Instructions" and "cvt").

use super::decoder::Decoder;
use super::dispatch::Mods;
use crate::code::Const64;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::Cvt;
use crate::ops::{FMode, FOp, FUn, IntOp, Round, TestOp};
use crate::types::Ty;

fn simple_class(ty: Ty) -> Class {
    if ty == Ty::F64 { Class::Fp64 } else { Class::Fp32 }
}

impl<'a> Decoder<'a, '_> {
    /// The floating forms of operations that integers have too.
    pub(crate) fn float(&mut self, mods: &mut Mods<'a>, ty: Ty) -> Loaded<()> {
        let base = mods.base;
        let nan = matches!(base, "min" | "max") && mods.take("NaN");
        let approximate = base == "div" && mods.take_any(&["approx", "full"]).is_some();
        let mode = mods.fmode();
        // Directed rounding of doubles needs wider arithmetic than the host has.
        mods.refuse(ty == Ty::F64 && (!mode.is_plain() || approximate || nan))?;
        let directed = mode.round != Round::Nearest;
        match base {
            "fma" | "mad" => self.fma(mods, ty, mode),
            "neg" if !directed && !mode.sat => self.float_unary(FUn::Neg, mode, mods, ty),
            "abs" if !directed && !mode.sat => self.float_unary(FUn::Abs, mode, mods, ty),
            "add" | "sub" | "mul" => {
                let op = match base {
                    "add" => FOp::Add,
                    "sub" => FOp::Sub,
                    _ => FOp::Mul,
                };
                self.float_binary(op, mode, simple_class(ty), mods, ty)
            }
            "div" if !directed && !mode.sat => {
                self.float_binary(FOp::Div, mode, Class::Sfu, mods, ty)
            }
            "min" | "max" if !directed && !mode.sat => {
                let op = match (base, nan) {
                    ("min", false) => FOp::Min,
                    ("min", true) => FOp::MinNan,
                    (_, false) => FOp::Max,
                    (_, true) => FOp::MaxNan,
                };
                self.float_binary(op, mode, simple_class(ty), mods, ty)
            }
            _ => mods.unsupported(),
        }
    }

    fn fma(&mut self, mods: &mut Mods<'a>, ty: Ty, mode: FMode) -> Loaded<()> {
        let [d, a, b, c] = self.take(mods)?;
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
        mods: &mut Mods<'a>,
        ty: Ty,
    ) -> Loaded<()> {
        let [d, a, b] = self.take(mods)?;
        let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
        let d = self.write(&d, ty)?;
        match ty {
            Ty::F64 => self.emit(class, Inst::F64 { op, d, a, b }),
            _ => self.emit(class, Inst::F32 { op, mode, d, a, b }),
        }
        Ok(())
    }

    fn float_unary(&mut self, op: FUn, mode: FMode, mods: &mut Mods<'a>, ty: Ty) -> Loaded<()> {
        let [d, a] = self.take(mods)?;
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
    pub(crate) fn special_function(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        if mods.base == "testp" {
            return self.testp(mods);
        }
        if let Some(ty) = Self::pair(mods) {
            return self.half(mods, ty, true);
        }
        let ty = mods.ty()?;
        if ty.is_half() {
            return self.half(mods, ty, false);
        }
        mods.refuse(!ty.is_float())?;
        let approximate = mods.take("approx");
        let mode = mods.fmode();
        if mods.base == "copysign" && mode.is_plain() && !approximate {
            // PTX: copies the sign of a to b; `FOp::Copysign` is (magnitude, sign).
            mods.swap_sources();
            return self.float_binary(FOp::Copysign, mode, simple_class(ty), mods, ty);
        }
        // PTX ISA, "rcp.approx.ftz.f64": the lower word of the result is 0.
        let gross = ty == Ty::F64 && mode.ftz && approximate;
        if mode.round != Round::Nearest || mode.sat || ty == Ty::F64 && mode.ftz && !gross {
            return mods.unsupported();
        }
        let op = match (mods.base, ty, approximate) {
            ("sqrt", Ty::F32, _) | ("sqrt", Ty::F64, false) => FUn::Sqrt,
            ("rcp", Ty::F32, _) | ("rcp", Ty::F64, false) => FUn::Rcp,
            ("rcp" | "rsqrt", Ty::F64, true) if gross => {
                let op = if mods.base == "rcp" { FUn::Rcp } else { FUn::Rsqrt };
                return self.gross(op, mods);
            }
            ("rsqrt", _, true) => FUn::Rsqrt,
            ("sin", Ty::F32, true) => FUn::Sin,
            ("cos", Ty::F32, true) => FUn::Cos,
            ("lg2", Ty::F32, true) => FUn::Lg2,
            ("ex2", Ty::F32, true) => FUn::Ex2,
            ("tanh", Ty::F32, true) => FUn::Tanh,
            _ => return mods.unsupported(),
        };
        self.float_unary(op, mode, mods, ty)
    }

    /// A function of doubles with the upper word of its result alone.
    fn gross(&mut self, op: FUn, mods: &mut Mods<'a>) -> Loaded<()> {
        let [d, a] = self.take(mods)?;
        let a = self.read(&a, Ty::F64)?;
        let d = self.write(&d, Ty::F64)?;
        self.emit(Class::Sfu, Inst::FUn64 { op, d, a });
        let mask = self.const64(Const64::Bits(!0 << 32))?;
        let (a, b) = (self.reads64(d), self.reads64(mask));
        self.writes64(d);
        self.emit_last(Class::Other, Inst::Int64 { op: IntOp::And, d, a, b })
    }

    fn testp(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let what = mods.need(TestOp::parse)?;
        let ty = mods.ty()?;
        mods.refuse(!ty.is_float() || ty.is_half())?;
        let [d, a] = self.take(mods)?;
        let a = self.read(&a, ty)?;
        let d = self.write_pred_op(&d)?;
        self.emit_last(simple_class(ty), Inst::Testp { wide: ty.is_wide(), what, d, a })
    }

    pub(crate) fn cvt(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        if let Some(ty) = Self::pair(mods) {
            return self.cvt_pair(mods, ty);
        }
        let (to, from) = (mods.ty()?, mods.ty()?);
        mods.refuse(to == Ty::Pred || from == Ty::Pred || to.bytes() == 1 && from.is_float())?;
        let integral = mods.take_any(&["rni", "rzi", "rmi", "rpi"]);
        let mut mode = mods.fmode();
        match integral {
            Some("rzi") => mode.round = Round::Zero,
            Some("rmi") => mode.round = Round::Down,
            Some("rpi") => mode.round = Round::Up,
            _ => {}
        }
        if from.is_float() && !to.is_float() && integral.is_none() {
            return self.fail(format!("`{}` needs .rni, .rzi, .rmi or .rpi", mods.opcode));
        }
        mods.refuse(integral.is_some() && !from.is_float())?;
        let [d, a] = self.take(mods)?;
        let a = self.special_or(a)?;
        let a = self.read_relaxed(&a, from)?;
        let pending = self.write_relaxed(&d, to)?;
        let d = pending.row;
        let class = if from.is_float() || to.is_float() { Class::Convert } else { Class::Int };
        let plain_ints = !from.is_float() && !to.is_float() && !mode.sat;
        let inst = match (from.bytes(), to.bytes()) {
            (4, 8) if plain_ints && from.is_signed() => Inst::WidenS { d, a },
            (4, 8) if plain_ints => Inst::WidenU { d, a, offset: 0 },
            (8, 4) if plain_ints => Inst::Low { d, a },
            (4, 4) if plain_ints => Inst::Mov32 { d, a },
            (8, 8) if plain_ints => Inst::Mov64 { d, a },
            _ => Inst::Cvt(Cvt {
                from,
                to,
                round: mode.round,
                integral: integral.is_some(),
                ftz: mode.ftz,
                sat: mode.sat,
                d,
                a,
            }),
        };
        self.emit(class, inst);
        self.finish(pending);
        Ok(())
    }
}

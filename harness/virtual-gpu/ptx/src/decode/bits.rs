//! Shifts, bit fields and bit counts (PTX ISA, "Integer Arithmetic Instructions" and "Logic and
//! Shift Instructions").

use super::decoder::Decoder;
use super::mods::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::ops::{CountOp, IntOp, IntUn, PrmtMode, TriOp};
use crate::types::Ty;

impl<'a> Decoder<'a, '_> {
    /// The operations that only integers have.
    pub(crate) fn integer(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let shift_amount = mods.take("shiftamt");
        if matches!(mods.base, "dp4a") {
            return self.dp4a(mods, ops);
        }
        let lop_table = mods.base == "lop3";
        let ty = mods.ty()?;
        let bytes = ty.bytes();
        if ty.is_float() || ty == Ty::Pred || bytes < 2 {
            return mods.unsupported();
        }
        if shift_amount && mods.base != "bfind" {
            return mods.unsupported();
        }
        match (mods.base, bytes) {
            ("rem", _) if ty != Ty::B16 && ty != Ty::B32 && ty != Ty::B64 => {
                let op = if ty.is_signed() { IntOp::RemS } else { IntOp::RemU };
                self.binary(op, ty, mods, ops)
            }
            ("shl" | "shr", _) => self.shift(mods, ops, ty),
            ("mul24" | "mad24", 4) => self.mul24(mods, ops, ty),
            ("brev", 4 | 8) => self.int_unary(IntUn::Brev, ty, mods, ops),
            ("popc", 4 | 8) => self.count(CountOp::Popc, ty, mods, ops),
            ("clz", 4 | 8) => self.count(CountOp::Clz, ty, mods, ops),
            ("bfind", 4 | 8) => {
                let op = match (shift_amount, ty.is_signed()) {
                    (false, false) => CountOp::BfindU,
                    (false, true) => CountOp::BfindS,
                    (true, false) => CountOp::BfindShiftU,
                    (true, true) => CountOp::BfindShiftS,
                };
                self.count(op, ty, mods, ops)
            }
            ("sad", 4) => {
                let op = if ty.is_signed() { TriOp::SadS } else { TriOp::SadU };
                self.ternary(op, mods, ops)
            }
            ("bfe", 4) => {
                let op = if ty.is_signed() { TriOp::BfeS } else { TriOp::BfeU };
                self.ternary(op, mods, ops)
            }
            ("shf", 4) => self.funnel(mods, ops),
            ("bfe", 8) => {
                let [d, a, start, len] = self.take(mods, ops)?;
                let a = self.read(&a, ty)?;
                let (start, len) = (self.read_u32(&start)?, self.read_u32(&len)?);
                let d = self.write(&d, ty)?;
                let signed = ty.is_signed();
                self.emit(Class::Int, Inst::Bfe64 { signed, d, a, start, len });
                Ok(())
            }
            ("bfi", 4 | 8) => self.bfi(mods, ops, ty),
            ("prmt", 4) => self.prmt(mods, ops),
            ("lop3", 4) if lop_table => self.lop3(mods, ops),
            _ => mods.unsupported(),
        }
    }

    pub(super) fn shift(&mut self, mods: &Mods<'a>, ops: &[Operand<'a>], ty: Ty) -> Loaded<()> {
        let op = match (mods.base, ty.is_signed()) {
            ("shl", _) => IntOp::Shl,
            (_, true) => IntOp::ShrS,
            _ => IntOp::ShrU,
        };
        let [d, a, b] = self.take(mods, ops)?;
        let a = self.read_extended(&a, ty)?;
        self.reads_row(ty, a);
        let b = self.read_u32(&b)?;
        let d = self.write(&d, ty)?;
        self.emit_int(op, ty, d, a, b);
        Ok(())
    }

    pub(super) fn count(
        &mut self,
        op: CountOp,
        ty: Ty,
        mods: &Mods<'a>,
        ops: &[Operand<'a>],
    ) -> Loaded<()> {
        let [d, a] = self.take(mods, ops)?;
        let a = self.read(&a, ty)?;
        let d = self.write(&d, Ty::U32)?;
        let wide = ty.is_wide();
        let inst = if wide { Inst::Count64 { op, d, a } } else { Inst::Count32 { op, d, a } };
        self.emit(Class::Int, inst);
        Ok(())
    }

    pub(crate) fn ternary(
        &mut self,
        op: TriOp,
        mods: &Mods<'a>,
        ops: &[Operand<'a>],
    ) -> Loaded<()> {
        let [d, a, b, c] = self.take(mods, ops)?;
        let (a, b, c) = (self.read_u32(&a)?, self.read_u32(&b)?, self.read_u32(&c)?);
        let d = self.write(&d, Ty::B32)?;
        self.emit(Class::Int, Inst::Tri32 { op, d, a, b, c });
        Ok(())
    }

    pub(super) fn funnel(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let side = mods.take_any(&["l", "r"]);
        let op = match (side, mods.take_any(&["wrap", "clamp"])) {
            (Some("l"), Some("wrap")) => TriOp::ShfLeftWrap,
            (Some("l"), Some("clamp")) => TriOp::ShfLeftClamp,
            (Some("r"), Some("wrap")) => TriOp::ShfRightWrap,
            (Some("r"), Some("clamp")) => TriOp::ShfRightClamp,
            _ => return mods.unsupported(),
        };
        self.ternary(op, mods, ops)
    }

    pub(super) fn bfi(&mut self, mods: &Mods<'a>, ops: &[Operand<'a>], ty: Ty) -> Loaded<()> {
        let [d, a, b, start, len] = self.take(mods, ops)?;
        let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
        let (start, len) = (self.read_u32(&start)?, self.read_u32(&len)?);
        let d = self.write(&d, ty)?;
        let inst = match ty.is_wide() {
            true => Inst::Bfi64 { d, a, b, start, len },
            false => Inst::Bfi32 { d, a, b, start, len },
        };
        self.emit(Class::Int, inst);
        Ok(())
    }

    pub(super) fn prmt(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let mode = match mods.take_any(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]) {
            Some("f4e") => PrmtMode::F4e,
            Some("b4e") => PrmtMode::B4e,
            Some("rc8") => PrmtMode::Rc8,
            Some("ecl") => PrmtMode::Ecl,
            Some("ecr") => PrmtMode::Ecr,
            Some(_) => PrmtMode::Rc16,
            None => PrmtMode::Index,
        };
        let [d, a, b, c] = self.take(mods, ops)?;
        let (a, b, c) = (self.read_u32(&a)?, self.read_u32(&b)?, self.read_u32(&c)?);
        let d = self.write(&d, Ty::B32)?;
        self.emit(Class::Int, Inst::Prmt { mode, d, a, b, c });
        Ok(())
    }

    pub(super) fn lop3(&mut self, mods: &Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let [d, a, b, c, table] = self.take(mods, ops)?;
        let Operand::Int(table @ 0..=255) = table else {
            return self.fail("the table of `lop3` must be a constant from 0 to 255");
        };
        let (a, b, c) = (self.read_u32(&a)?, self.read_u32(&b)?, self.read_u32(&c)?);
        let d = self.write(&d, Ty::B32)?;
        self.emit(Class::Int, Inst::Lop3 { table: table as u8, d, a, b, c });
        Ok(())
    }

    pub(super) fn mul24(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>], ty: Ty) -> Loaded<()> {
        let op = match (mods.take_any(&["lo", "hi"]), ty.is_signed()) {
            (Some("lo"), true) => IntOp::Mul24LoS,
            (Some("lo"), false) => IntOp::Mul24LoU,
            (Some("hi"), true) => IntOp::Mul24HiS,
            (Some("hi"), false) => IntOp::Mul24HiU,
            _ => return mods.unsupported(),
        };
        if mods.base == "mul24" {
            return self.binary(op, ty, mods, ops);
        }
        let [d, a, b, c] = self.take(mods, ops)?;
        let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
        let product = self.new32()?;
        self.writes32(product);
        self.emit_int(op, ty, product, a, b);
        self.reads32(product);
        let c = self.read(&c, ty)?;
        let d = self.write(&d, ty)?;
        self.emit_int(IntOp::Add, ty, d, product, c);
        Ok(())
    }

    pub(super) fn dp4a(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let op = match (mods.ty()?, mods.ty()?) {
            (Ty::S32, Ty::S32) => TriOp::Dp4aSS,
            (Ty::S32, Ty::U32) => TriOp::Dp4aSU,
            (Ty::U32, Ty::S32) => TriOp::Dp4aUS,
            (Ty::U32, Ty::U32) => TriOp::Dp4aUU,
            _ => return mods.unsupported(),
        };
        self.ternary(op, mods, ops)
    }
}

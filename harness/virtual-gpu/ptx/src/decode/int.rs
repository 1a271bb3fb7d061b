//! Integers: arithmetic, products, shifts, bit fields and bit counts (PTX ISA, "Integer Arithmetic
//! Instructions" and "Logic and Shift Instructions").

use super::decoder::Decoder;
use super::dispatch::Mods;
use super::names::CARRY;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{PredRef, Row};
use crate::ops::{CountOp, IntOp, IntUn, PrmtMode, TriOp};
use crate::types::Ty;

impl<'a> Decoder<'a, '_> {
    /// The operations that exist for integers and floats alike.
    pub(crate) fn arithmetic(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        if let Some(ty) = Self::pair(mods) {
            return self.half(mods, ty, true);
        }
        let ty = mods.ty()?;
        if ty.is_half() {
            return self.half(mods, ty, false);
        }
        if ty.is_float() {
            return self.float(mods, ty);
        }
        mods.refuse(ty.bytes() < 2 || matches!(ty, Ty::B16 | Ty::B32 | Ty::B64))?;
        if matches!(mods.base, "add" | "sub" | "mad") && mods.take("cc") {
            return self.carry_of(mods, ty, false, true);
        }
        match mods.base {
            "neg" => self.int_unary(IntUn::Neg, ty, mods),
            "abs" => self.int_unary(IntUn::Abs, ty, mods),
            "mul" => self.mul(mods, ty),
            "mad" => self.mad(mods, ty),
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
                self.binary(op, ty, mods)
            }
        }
    }

    fn class_of(op: IntOp) -> Class {
        match op {
            IntOp::DivS | IntOp::DivU | IntOp::RemS | IntOp::RemU => Class::Sfu,
            _ => Class::Int,
        }
    }

    pub(super) fn binary(&mut self, op: IntOp, ty: Ty, mods: &mut Mods<'a>) -> Loaded<()> {
        let [d, a, b] = self.take(mods)?;
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

    pub(crate) fn int_unary(&mut self, op: IntUn, ty: Ty, mods: &mut Mods<'a>) -> Loaded<()> {
        let [d, a] = self.take(mods)?;
        mods.refuse(ty.bytes() == 2 && op == IntUn::Brev)?;
        let a = self.read_extended(&a, ty)?;
        self.reads_row(ty, a);
        let d = self.write(&d, ty)?;
        let wide = ty.is_wide();
        let inst = if wide { Inst::IntUn64 { op, d, a } } else { Inst::IntUn32 { op, d, a } };
        self.emit_last(Class::Int, inst)
    }

    pub(super) fn mul(&mut self, mods: &mut Mods<'a>, ty: Ty) -> Loaded<()> {
        match mods.take_any(&["lo", "hi", "wide"]) {
            Some("lo") => self.binary(IntOp::MulLo, ty, mods),
            Some("hi") if ty.bytes() >= 4 => {
                let op = if ty.is_signed() { IntOp::MulHiS } else { IntOp::MulHiU };
                self.binary(op, ty, mods)
            }
            Some("wide") if ty.bytes() <= 4 => {
                let [d, a, b] = self.take(mods)?;
                let product = self.wide_product(ty, &a, &b)?;
                let wide = widened(ty);
                let d = self.write(&d, wide)?;
                self.reads_row(wide, product);
                let inst = match ty.bytes() {
                    4 => Inst::Mov64 { d, a: product },
                    _ => Inst::Mov32 { d, a: product },
                };
                self.emit_last(Class::Int, inst)
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

    pub(super) fn mad(&mut self, mods: &mut Mods<'a>, ty: Ty) -> Loaded<()> {
        let [d, a, b, c] = self.take(mods)?;
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

    /// `addc`, `subc` and `madc`.
    pub(crate) fn carry(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let writes = mods.take("cc");
        let ty = mods.ty()?;
        self.carry_of(mods, ty, true, writes)
    }

    /// The product of the first two sources of `mad` or `madc`, read already.
    fn product(&mut self, mods: &mut Mods<'a>, ty: Ty, a: Row, b: Row) -> Loaded<Row> {
        let op = match (mods.take_any(&["lo", "hi"]), ty.is_signed()) {
            (Some("lo"), _) => IntOp::MulLo,
            (Some(_), true) => IntOp::MulHiS,
            (Some(_), false) => IntOp::MulHiU,
            (None, _) => return mods.unsupported(),
        };
        let d = self.temp(ty)?;
        self.writes_row(ty, d);
        self.emit_int(op, ty, d, a, b);
        Ok(self.reads_row(ty, d))
    }

    pub(super) fn carry_of(
        &mut self,
        mods: &mut Mods<'a>,
        ty: Ty,
        reads: bool,
        writes: bool,
    ) -> Loaded<()> {
        mods.refuse(ty.bytes() < 4 || ty.is_float())?;
        // The condition code register is a predicate of the function without a name in the text.
        let carry = self.pred_row(CARRY)?;
        let (d, a, b) = if mods.base.starts_with("mad") {
            let [d, a, b, c] = self.take(mods)?;
            let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
            let product = self.product(mods, ty, a, b)?;
            (d, product, self.read(&c, ty)?)
        } else {
            let [d, a, b] = self.take(mods)?;
            (d, self.read(&a, ty)?, self.read(&b, ty)?)
        };
        let d = self.write(&d, ty)?;
        self.reads_pred(PredRef { row: carry, negated: false });
        self.writes_pred(carry);
        let (wide, sub) = (ty.is_wide(), mods.base.starts_with("sub"));
        self.emit_last(Class::Int, Inst::Carry { wide, sub, reads, writes, carry, d, a, b })
    }

    // Shifts, bit fields and bit counts (PTX ISA, "Integer Arithmetic Instructions" and "Logic and
    // Shift Instructions").

    pub(crate) fn integer(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let shift_amount = mods.take("shiftamt");
        if matches!(mods.base, "dp4a") {
            return self.dp4a(mods);
        }
        let lop_table = mods.base == "lop3";
        let ty = mods.ty()?;
        let bytes = ty.bytes();
        mods.refuse(ty.is_float() || ty == Ty::Pred || bytes < 2)?;
        mods.refuse(shift_amount && mods.base != "bfind")?;
        match (mods.base, bytes) {
            ("rem", _) if ty != Ty::B16 && ty != Ty::B32 && ty != Ty::B64 => {
                let op = if ty.is_signed() { IntOp::RemS } else { IntOp::RemU };
                self.binary(op, ty, mods)
            }
            ("shl" | "shr", _) => self.shift(mods, ty),
            ("mul24" | "mad24", 4) => self.mul24(mods, ty),
            ("brev", 4 | 8) => self.int_unary(IntUn::Brev, ty, mods),
            ("popc", 4 | 8) => self.count(CountOp::Popc, ty, mods),
            ("clz", 4 | 8) => self.count(CountOp::Clz, ty, mods),
            ("bfind", 4 | 8) => {
                let op = match (shift_amount, ty.is_signed()) {
                    (false, false) => CountOp::BfindU,
                    (false, true) => CountOp::BfindS,
                    (true, false) => CountOp::BfindShiftU,
                    (true, true) => CountOp::BfindShiftS,
                };
                self.count(op, ty, mods)
            }
            ("sad", 4) => {
                let op = if ty.is_signed() { TriOp::SadS } else { TriOp::SadU };
                self.ternary(op, mods)
            }
            ("bfe", 4) => {
                let op = if ty.is_signed() { TriOp::BfeS } else { TriOp::BfeU };
                self.ternary(op, mods)
            }
            ("shf", 4) => self.funnel(mods),
            ("bfe", 8) => {
                let [d, a, start, len] = self.take(mods)?;
                let a = self.read(&a, ty)?;
                let (start, len) = (self.read_u32(&start)?, self.read_u32(&len)?);
                let d = self.write(&d, ty)?;
                let signed = ty.is_signed();
                self.emit_last(Class::Int, Inst::Bfe64 { signed, d, a, start, len })
            }
            ("bfi", 4 | 8) => self.bfi(mods, ty),
            ("prmt", 4) => self.prmt(mods),
            ("lop3", 4) if lop_table => self.lop3(mods),
            _ => mods.unsupported(),
        }
    }

    pub(super) fn shift(&mut self, mods: &mut Mods<'a>, ty: Ty) -> Loaded<()> {
        let op = match (mods.base, ty.is_signed()) {
            ("shl", _) => IntOp::Shl,
            (_, true) => IntOp::ShrS,
            _ => IntOp::ShrU,
        };
        let [d, a, b] = self.take(mods)?;
        let a = self.read_extended(&a, ty)?;
        self.reads_row(ty, a);
        let b = self.read_u32(&b)?;
        let d = self.write(&d, ty)?;
        self.emit_int(op, ty, d, a, b);
        Ok(())
    }

    pub(super) fn count(&mut self, op: CountOp, ty: Ty, mods: &mut Mods<'a>) -> Loaded<()> {
        let [d, a] = self.take(mods)?;
        let a = self.read(&a, ty)?;
        let d = self.write(&d, Ty::U32)?;
        let wide = ty.is_wide();
        let inst = if wide { Inst::Count64 { op, d, a } } else { Inst::Count32 { op, d, a } };
        self.emit_last(Class::Int, inst)
    }

    pub(crate) fn ternary(&mut self, op: TriOp, mods: &mut Mods<'a>) -> Loaded<()> {
        let [d, a, b, c] = self.take(mods)?;
        let (a, b, c) = (self.read_u32(&a)?, self.read_u32(&b)?, self.read_u32(&c)?);
        let d = self.write(&d, Ty::B32)?;
        self.emit_last(Class::Int, Inst::Tri32 { op, d, a, b, c })
    }

    pub(super) fn funnel(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let side = mods.take_any(&["l", "r"]);
        let op = match (side, mods.take_any(&["wrap", "clamp"])) {
            (Some("l"), Some("wrap")) => TriOp::ShfLeftWrap,
            (Some("l"), Some("clamp")) => TriOp::ShfLeftClamp,
            (Some("r"), Some("wrap")) => TriOp::ShfRightWrap,
            (Some("r"), Some("clamp")) => TriOp::ShfRightClamp,
            _ => return mods.unsupported(),
        };
        self.ternary(op, mods)
    }

    pub(super) fn bfi(&mut self, mods: &mut Mods<'a>, ty: Ty) -> Loaded<()> {
        let [d, a, b, start, len] = self.take(mods)?;
        let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
        let (start, len) = (self.read_u32(&start)?, self.read_u32(&len)?);
        let d = self.write(&d, ty)?;
        let inst = match ty.is_wide() {
            true => Inst::Bfi64 { d, a, b, start, len },
            false => Inst::Bfi32 { d, a, b, start, len },
        };
        self.emit_last(Class::Int, inst)
    }

    pub(super) fn prmt(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let mode = mods.take_with(PrmtMode::parse).unwrap_or(PrmtMode::Index);
        let [d, a, b, c] = self.take(mods)?;
        let (a, b, c) = (self.read_u32(&a)?, self.read_u32(&b)?, self.read_u32(&c)?);
        let d = self.write(&d, Ty::B32)?;
        self.emit_last(Class::Int, Inst::Prmt { mode, d, a, b, c })
    }

    pub(super) fn lop3(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let [d, a, b, c, table] = self.take(mods)?;
        let Operand::Int(table @ 0..=255) = table else {
            return self.fail("the table of `lop3` must be a constant from 0 to 255");
        };
        let (a, b, c) = (self.read_u32(&a)?, self.read_u32(&b)?, self.read_u32(&c)?);
        let d = self.write(&d, Ty::B32)?;
        self.emit_last(Class::Int, Inst::Lop3 { table: table as u8, d, a, b, c })
    }

    pub(super) fn mul24(&mut self, mods: &mut Mods<'a>, ty: Ty) -> Loaded<()> {
        let op = match (mods.take_any(&["lo", "hi"]), ty.is_signed()) {
            (Some("lo"), true) => IntOp::Mul24LoS,
            (Some("lo"), false) => IntOp::Mul24LoU,
            (Some("hi"), true) => IntOp::Mul24HiS,
            (Some("hi"), false) => IntOp::Mul24HiU,
            _ => return mods.unsupported(),
        };
        if mods.base == "mul24" {
            return self.binary(op, ty, mods);
        }
        let [d, a, b, c] = self.take(mods)?;
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

    pub(super) fn dp4a(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let op = match (mods.ty()?, mods.ty()?) {
            (Ty::S32, Ty::S32) => TriOp::Dp4aSS,
            (Ty::S32, Ty::U32) => TriOp::Dp4aSU,
            (Ty::U32, Ty::S32) => TriOp::Dp4aUS,
            (Ty::U32, Ty::U32) => TriOp::Dp4aUU,
            _ => return mods.unsupported(),
        };
        self.ternary(op, mods)
    }
}

pub(super) fn widened(ty: Ty) -> Ty {
    match ty {
        Ty::S16 => Ty::S32,
        Ty::U16 => Ty::U32,
        Ty::S32 => Ty::S64,
        _ => Ty::U64,
    }
}

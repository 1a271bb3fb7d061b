//! Bitwise logic, comparisons, selections and moves.

use super::decoder::Decoder;
use super::dispatch::Mods;
use super::names::SPECIAL;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{NO_ROW, PredRef, Row, SetP};
use crate::ops::{BoolOp, Cmp, CmpKind, IntOp, IntUn, Special, TriOp};
use crate::types::Ty;

impl<'a> Decoder<'a, '_> {
    /// `and`, `or`, `xor`, `not`, `cnot`, on values and predicates.
    pub(crate) fn bitwise(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let ty = mods.ty()?;
        mods.refuse(!matches!(ty, Ty::Pred | Ty::B16 | Ty::B32 | Ty::B64))?;
        match (mods.base, ty) {
            ("not", Ty::Pred) => {
                let [d, a] = self.take(mods)?;
                let a = self.read_pred(&a)?;
                let d = self.write_pred_op(&d)?;
                let a = PredRef { negated: !a.negated, ..a };
                self.emit_last(Class::Int, Inst::MovP { d, a })
            }
            ("cnot", Ty::Pred) => mods.unsupported(),
            ("not", _) => self.int_unary(IntUn::Not, ty, mods),
            ("cnot", _) => self.int_unary(IntUn::Cnot, ty, mods),
            (base, Ty::Pred) => {
                let Some(op) = BoolOp::parse(base) else { return mods.unsupported() };
                let [d, a, b] = self.take(mods)?;
                let (a, b) = (self.read_pred(&a)?, self.read_pred(&b)?);
                let d = self.write_pred_op(&d)?;
                self.emit_last(Class::Int, Inst::Logic { op, d, a, b })
            }
            (base, _) => {
                let op = match base {
                    "and" => IntOp::And,
                    "or" => IntOp::Or,
                    _ => IntOp::Xor,
                };
                let [d, a, b] = self.take(mods)?;
                let (a, b) = (self.read(&a, ty)?, self.read(&b, ty)?);
                let d = self.write(&d, ty)?;
                self.emit_int(op, ty, d, a, b);
                Ok(())
            }
        }
    }

    /// Reads the comparison's modifiers and sources; the caller reads the destination.
    fn compare(&mut self, mods: &mut Mods<'a>, ty: Ty) -> Loaded<(Operand<'a>, SetP)> {
        let ops = mods.operands();
        let (d, a, b, c) = match &ops[..] {
            [d, a, b] => (d, a, b, None),
            [d, a, b, c] => (d, a, b, Some(c)),
            _ => return self.fail(format!("`{}` takes 3 or 4 operands", mods.base)),
        };
        let ftz = mods.take("ftz");
        let cmp = mods.need(Cmp::parse)?;
        let combine = mods.take_with(BoolOp::parse);
        let ordered = !matches!(cmp, Cmp::Eq | Cmp::Ne);
        let float_only = ordered && !matches!(cmp, Cmp::Lt | Cmp::Le | Cmp::Gt | Cmp::Ge);
        let untyped = matches!(ty, Ty::B16 | Ty::B32 | Ty::B64);
        mods.refuse(float_only && !ty.is_float() || untyped && ordered || ftz && ty != Ty::F32)?;
        let kind = match ty {
            Ty::F16 | Ty::Bf16 => CmpKind::F32,
            Ty::F32 if ftz => CmpKind::F32Ftz,
            Ty::F32 => CmpKind::F32,
            Ty::F64 => CmpKind::F64,
            Ty::S64 => CmpKind::S64,
            Ty::U64 | Ty::B64 => CmpKind::U64,
            Ty::S16 | Ty::S32 => CmpKind::S32,
            Ty::U16 | Ty::B16 | Ty::U32 | Ty::B32 => CmpKind::U32,
            _ => return mods.unsupported(),
        };
        let [a, b] = match ty.is_half() {
            true => [self.widened(a, ty)?, self.widened(b, ty)?],
            false => [self.read_extended(a, ty)?, self.read_extended(b, ty)?],
        };
        self.reads_row(ty, a);
        self.reads_row(ty, b);
        let combine = match (combine, c) {
            (Some(op), Some(c)) => Some((op, self.read_pred(c)?)),
            (None, None) => None,
            (Some(_), None) => return self.fail("a boolean combination needs a predicate operand"),
            (None, Some(_)) => return self.fail("a predicate operand needs .and, .or or .xor"),
        };
        Ok((d.clone(), SetP { cmp, kind, p: NO_ROW, q: NO_ROW, a, b, combine }))
    }

    /// A number of half precision in single precision.
    fn widened(&mut self, a: &Operand<'a>, ty: Ty) -> Loaded<Row> {
        let a = self.read(a, ty)?;
        self.convert((ty, a), Ty::F32, false)
    }

    pub(crate) fn setp(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let ty = mods.ty()?;
        let (d, mut setp) = self.compare(mods, ty)?;
        match d {
            Operand::Pair(p, q) => {
                setp.p = self.write_pred(p)?;
                setp.q = self.write_pred(q)?;
            }
            _ => setp.p = self.write_pred_op(&d)?,
        }
        self.emit_last(Class::Int, Inst::SetP(setp))
    }

    /// `set`: a comparison with the result all ones or 1.0 instead of a predicate.
    pub(crate) fn set(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let (to, ty) = (mods.ty()?, mods.ty()?);
        mods.refuse(!matches!(to, Ty::U32 | Ty::S32 | Ty::F32 | Ty::F16))?;
        let (d, mut setp) = self.compare(mods, ty)?;
        let p = self.new_pred()?;
        setp.p = self.writes_pred(p);
        self.emit(Class::Int, Inst::SetP(setp));
        let yes = match to {
            Ty::F32 => 1f32.to_bits(),
            Ty::F16 => 0x3C00,
            _ => u32::MAX,
        };
        let (a, b) = (self.const32(yes)?, self.const32(0)?);
        let p = self.reads_pred(PredRef { row: p, negated: false });
        let d = self.write(&d, to)?;
        self.emit_last(Class::Int, Inst::Sel32 { d, a, b, p })
    }

    pub(crate) fn select(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let ftz = mods.base == "slct" && mods.take("ftz");
        let ty = mods.ty()?;
        mods.refuse(ty.bytes() < 2)?;
        let [d, a, b, c] = self.take(mods)?;
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
        mods.refuse(ftz || !matches!(selector, Ty::S32 | Ty::F32))?;
        let c = self.read(&c, selector)?;
        let float = selector == Ty::F32;
        let d = self.write(&d, ty)?;
        let inst = match (ty.is_wide(), float) {
            (true, _) => Inst::Select64 { float, d, a, b, c },
            (false, true) => Inst::Tri32 { op: TriOp::SelectF, d, a, b, c },
            (false, false) => Inst::Tri32 { op: TriOp::SelectS, d, a, b, c },
        };
        self.emit_last(Class::Int, inst)
    }

    pub(crate) fn mov(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let ty = mods.ty()?;
        let [d, a] = self.take(mods)?;
        match (&d, &a) {
            _ if ty == Ty::Pred => {
                let a = self.read_pred(&a)?;
                let d = self.write_pred_op(&d)?;
                self.emit_last(Class::Other, Inst::MovP { d, a })
            }
            _ if ty.bytes() < 2 => mods.unsupported(),
            (_, Operand::Vector(parts)) => self.pack(mods, &d, parts, ty),
            (Operand::Vector(parts), _) => self.unpack(mods, parts, &a, ty),
            (_, Operand::Name(name, offset)) => match self.register(name)? {
                Some(_) => self.mov_row(&d, &a, ty),
                None => self.mov_name(&d, name, *offset, ty),
            },
            _ => self.mov_row(&d, &a, ty),
        }
    }

    pub(super) fn mov_row(&mut self, d: &Operand<'a>, a: &Operand<'a>, ty: Ty) -> Loaded<()> {
        let a = self.read(a, ty)?;
        let d = self.write(d, ty)?;
        let inst = if ty.is_wide() { Inst::Mov64 { d, a } } else { Inst::Mov32 { d, a } };
        self.emit_last(Class::Other, inst)
    }

    /// `mov` from a special register or of an address.
    pub(super) fn mov_name(
        &mut self,
        d: &Operand<'a>,
        name: &'a str,
        offset: i64,
        ty: Ty,
    ) -> Loaded<()> {
        if let Some(which) = special(name) {
            if offset != 0 {
                return self.fail(format!("`{name}` takes no offset"));
            }
            return self.mov_special(d, which, ty);
        }
        let a = self.address_of(name, offset)?;
        if ty.is_wide() {
            let d = self.write(d, ty)?;
            self.emit(Class::Other, Inst::Mov64 { d, a });
        } else {
            // A 32-bit address is meaningful within the windows of shared and local memory.
            let d = self.write(d, ty)?;
            self.emit(Class::Other, Inst::Low { d, a });
        }
        Ok(())
    }

    /// The operand itself, or the value of the special register that it names. Of those, programs
    /// of PTX 1 convert 16 bits.
    pub(super) fn special_or(&mut self, a: Operand<'a>) -> Loaded<Operand<'a>> {
        let Operand::Name(name, 0) = a else { return Ok(a) };
        let (None, Some(which)) = (self.register(name)?, special(name)) else { return Ok(a) };
        let value = Operand::Name(SPECIAL, 0);
        self.mov_special(&value, which, Ty::U32)?;
        Ok(value)
    }

    fn mov_special(&mut self, d: &Operand<'a>, which: Special, ty: Ty) -> Loaded<()> {
        let wide = matches!(which, Special::Gridid | Special::Clock64 | Special::Globaltimer);
        if matches!(which, Special::Globaltimer | Special::GlobaltimerLo | Special::GlobaltimerHi) {
            self.out.properties.reads_globaltimer = true;
        }
        if wide != ty.is_wide() || ty.bytes() < 4 || ty.is_float() {
            let bits = if wide { 64 } else { 32 };
            return self.fail(format!("this special register is moved as {bits} bits"));
        }
        let d = self.write(d, ty)?;
        let inst = if wide { Inst::Special64 { d, which } } else { Inst::Special32 { d, which } };
        self.emit_last(Class::Other, inst)
    }

    /// `mov.b64 %rd, {a, b}`.
    pub(super) fn pack(
        &mut self,
        mods: &mut Mods<'a>,
        d: &Operand<'a>,
        parts: &[Operand<'a>],
        ty: Ty,
    ) -> Loaded<()> {
        let part = match (ty.bytes(), parts.len()) {
            (8, 2) => {
                let low = self.read(&parts[0], Ty::B32)?;
                let high = self.read(&parts[1], Ty::B32)?;
                let d = self.write(d, ty)?;
                self.emit(Class::Other, Inst::Pack64 { d, low, high });
                return Ok(());
            }
            (4, 2) | (8, 4) => Ty::B16,
            (4, 4) => Ty::B8,
            _ => return mods.unsupported(),
        };
        let per_word = (4 / part.bytes()) as usize;
        let mut words = Vec::new();
        for group in parts.chunks(per_word) {
            let word = self.new32()?;
            for (index, one) in group.iter().enumerate() {
                let a = self.read(one, part)?;
                self.reads32(word);
                self.writes32(word);
                let shift = (index as u32 * 8 * part.bytes()) as u8;
                self.emit(Class::Other, Inst::Insert { d: word, a, ty: part, shift });
            }
            words.push(word);
        }
        let low = self.reads32(words[0]);
        let inst = match words.get(1) {
            Some(high) => {
                let high = self.reads32(*high);
                Inst::Pack64 { d: self.write(d, ty)?, low, high }
            }
            None => Inst::Mov32 { d: self.write(d, ty)?, a: low },
        };
        self.emit_last(Class::Other, inst)
    }

    /// `mov.b64 {a, b}, %rd`.
    pub(super) fn unpack(
        &mut self,
        mods: &mut Mods<'a>,
        parts: &[Operand<'a>],
        a: &Operand<'a>,
        ty: Ty,
    ) -> Loaded<()> {
        let part = match (ty.bytes(), parts.len()) {
            (8, 2) => Ty::B32,
            (4, 2) | (8, 4) => Ty::B16,
            (4, 4) => Ty::B8,
            _ => return mods.unsupported(),
        };
        let a = self.read(a, ty)?;
        // The words are copied first: a destination may be the source itself.
        let mut words = Vec::new();
        for half in 0..ty.bytes() / 4 {
            self.reads_row(ty, a);
            let d = self.new32()?;
            self.writes32(d);
            words.push(d);
            let inst = match (ty.is_wide(), half) {
                (false, _) => Inst::Mov32 { d, a },
                (true, 0) => Inst::Low { d, a },
                (true, _) => Inst::High { d, a },
            };
            self.emit(Class::Other, inst);
        }
        for (index, one) in parts.iter().enumerate() {
            if *one == Operand::Name("_", 0) {
                continue;
            }
            let bit = index as u32 * 8 * part.bytes();
            let a = self.reads32(words[(bit / 32) as usize]);
            let d = self.write(one, part)?;
            let inst = match part {
                Ty::B32 => Inst::Mov32 { d, a },
                _ => Inst::Extract { d, a, ty: part, shift: (bit % 32) as u8 },
            };
            self.emit(Class::Other, inst);
        }
        Ok(())
    }
}

fn special(name: &str) -> Option<Special> {
    let (vector, component) = name.split_once('.').unwrap_or((name, ""));
    let axis = match component {
        "x" => 0,
        "y" => 1,
        "z" => 2,
        _ => return Special::parse(name),
    };
    match vector {
        "%tid" => Some(Special::Tid(axis)),
        "%ntid" => Some(Special::Ntid(axis)),
        "%ctaid" => Some(Special::Ctaid(axis)),
        "%nctaid" => Some(Special::Nctaid(axis)),
        _ => None,
    }
}

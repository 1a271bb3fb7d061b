//! Moves: registers, special registers, addresses, vectors.

use super::decoder::Decoder;
use super::mods::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::ops::Special;
use crate::types::Ty;

/// The special register of a name, and whether it has 64 bits (PTX ISA, "Special Registers").
pub(super) fn special(name: &str) -> Option<(Special, bool)> {
    let axis = |suffix: &str| match suffix {
        "x" => Some(0u8),
        "y" => Some(1),
        "z" => Some(2),
        _ => None,
    };
    let (vector, component) = name.split_once('.').unwrap_or((name, ""));
    if let Some(axis) = axis(component) {
        let which = match vector {
            "%tid" => Special::Tid(axis),
            "%ntid" => Special::Ntid(axis),
            "%ctaid" => Special::Ctaid(axis),
            "%nctaid" => Special::Nctaid(axis),
            _ => return None,
        };
        return Some((which, false));
    }
    Some(match name {
        "%laneid" => (Special::Laneid, false),
        "%warpid" => (Special::Warpid, false),
        "%nwarpid" => (Special::Nwarpid, false),
        "%smid" => (Special::Smid, false),
        "%nsmid" => (Special::Nsmid, false),
        "%gridid" => (Special::Gridid, true),
        "%lanemask_eq" => (Special::LanemaskEq, false),
        "%lanemask_le" => (Special::LanemaskLe, false),
        "%lanemask_lt" => (Special::LanemaskLt, false),
        "%lanemask_ge" => (Special::LanemaskGe, false),
        "%lanemask_gt" => (Special::LanemaskGt, false),
        "%clock" => (Special::Clock, false),
        "%clock_hi" => (Special::ClockHi, false),
        "%clock64" => (Special::Clock64, true),
        "%globaltimer" => (Special::Globaltimer, true),
        "%globaltimer_lo" => (Special::GlobaltimerLo, false),
        "%globaltimer_hi" => (Special::GlobaltimerHi, false),
        "%dynamic_smem_size" => (Special::DynamicSharedBytes, false),
        "%total_smem_size" => (Special::TotalSharedBytes, false),
        _ => return None,
    })
}

impl<'a> Decoder<'a, '_> {
    pub(crate) fn mov(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let ty = mods.ty()?;
        let [d, a] = self.take(mods, ops)?;
        match (&d, &a) {
            _ if ty == Ty::Pred => {
                let a = self.read_pred(&a)?;
                let d = self.write_pred_op(&d)?;
                self.emit(Class::Other, Inst::MovP { d, a });
                Ok(())
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
        self.emit(Class::Other, inst);
        Ok(())
    }

    /// `mov` from a special register or of an address.
    pub(super) fn mov_name(
        &mut self,
        d: &Operand<'a>,
        name: &'a str,
        offset: i64,
        ty: Ty,
    ) -> Loaded<()> {
        if let Some((which, wide)) = special(name) {
            if offset != 0 {
                return self.fail(format!("`{name}` takes no offset"));
            }
            return self.mov_special(d, which, wide, ty);
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

    pub(super) fn mov_special(
        &mut self,
        d: &Operand<'a>,
        which: Special,
        wide: bool,
        ty: Ty,
    ) -> Loaded<()> {
        if matches!(which, Special::Globaltimer | Special::GlobaltimerLo | Special::GlobaltimerHi) {
            self.out.properties.reads_globaltimer = true;
        }
        if wide != ty.is_wide() || ty.bytes() < 4 || ty.is_float() {
            let bits = if wide { 64 } else { 32 };
            return self.fail(format!("this special register is moved as {bits} bits"));
        }
        let d = self.write(d, ty)?;
        let inst = if wide { Inst::Special64 { d, which } } else { Inst::Special32 { d, which } };
        self.emit(Class::Other, inst);
        Ok(())
    }

    /// `mov.b64 %rd, {a, b}`.
    pub(super) fn pack(
        &mut self,
        mods: &Mods<'a>,
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
        self.emit(Class::Other, inst);
        Ok(())
    }

    /// `mov.b64 {a, b}, %rd`.
    pub(super) fn unpack(
        &mut self,
        mods: &Mods<'a>,
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

//! Moves and conversions (PTX ISA, "Data Movement and Conversion Instructions").

use super::super::ast::Operand;
use super::super::counts::Class;
use super::super::error::Loaded;
use super::super::inst::{Cvt, Inst, IntOp, Round, Row, Special};
use super::super::module::Const64;
use super::super::types::{Space, Ty, window};
use super::Decoder;
use super::mods::Mods;
use super::names::{Reg, Var};

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

    fn mov_row(&mut self, d: &Operand<'a>, a: &Operand<'a>, ty: Ty) -> Loaded<()> {
        let a = self.read(a, ty)?;
        let d = self.write(d, ty)?;
        let inst = if ty.is_wide() {
            Inst::Mov64 { d, a }
        } else {
            Inst::Mov32 { d, a }
        };
        self.emit(Class::Other, inst);
        Ok(())
    }

    /// `mov` from a special register or of an address.
    fn mov_name(&mut self, d: &Operand<'a>, name: &'a str, offset: i64, ty: Ty) -> Loaded<()> {
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

    fn mov_special(&mut self, d: &Operand<'a>, which: Special, wide: bool, ty: Ty) -> Loaded<()> {
        if matches!(
            which,
            Special::Globaltimer | Special::GlobaltimerLo | Special::GlobaltimerHi
        ) {
            self.out.properties.reads_globaltimer = true;
        }
        if wide != ty.is_wide() || ty.bytes() < 4 || ty.is_float() {
            let bits = if wide { 64 } else { 32 };
            return self.fail(format!("this special register is moved as {bits} bits"));
        }
        let d = self.write(d, ty)?;
        let inst = if wide {
            Inst::Special64 { d, which }
        } else {
            Inst::Special32 { d, which }
        };
        self.emit(Class::Other, inst);
        Ok(())
    }

    /// A 64-bit row, noted as read, holding the address of a variable or function.
    pub(crate) fn address_of(&mut self, name: &'a str, offset: i64) -> Loaded<Row> {
        let var = self
            .names
            .var(name)
            .or_else(|| self.globals.shared.get(name).copied());
        let row = match var {
            Some(Var::Shared(at)) => {
                self.const64(Const64::Bits(u64::from(at).wrapping_add_signed(offset)))?
            }
            Some(Var::KernelParam(at)) => {
                self.const64(Const64::Bits(u64::from(at).wrapping_add_signed(offset)))?
            }
            Some(Var::Local(at)) => {
                let at = i64::from(at)
                    .checked_add(offset)
                    .and_then(|at| u32::try_from(at).ok());
                let Some(at) = at else {
                    return self.fail(format!("offset {offset} leaves local variable `{name}`"));
                };
                let d = self.new64()?;
                self.writes64(d);
                self.emit(Class::Other, Inst::LocalAddr { d, offset: at });
                d
            }
            Some(Var::DynamicShared) => {
                let d = self.new64()?;
                self.writes64(d);
                self.emit(Class::Other, Inst::DynSharedAddr { d });
                if offset == 0 {
                    d
                } else {
                    self.reads64(d);
                    let b = self.const64(Const64::Bits(offset as u64))?;
                    let sum = self.new64()?;
                    self.writes64(sum);
                    self.emit(
                        Class::Other,
                        Inst::Int64 {
                            op: IntOp::Add,
                            d: sum,
                            a: d,
                            b,
                        },
                    );
                    sum
                }
            }
            Some(Var::Param(_)) => {
                return self.fail(format!("the address of parameter `{name}` cannot be taken"));
            }
            None => {
                if let Some(symbol) = self.globals.symbols.get(name) {
                    self.const64(Const64::Symbol(*symbol, offset))?
                } else if let Some(function) = self.globals.functions.get(name) {
                    if offset != 0 {
                        return self.fail(format!("function `{name}` takes no offset"));
                    }
                    self.const64(Const64::Function(*function))?
                } else {
                    return self.fail(format!("`{name}` is not declared"));
                }
            }
        };
        Ok(self.reads64(row))
    }

    /// `mov.b64 %rd, {a, b}` and its kin.
    fn pack(
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
                self.emit(
                    Class::Other,
                    Inst::Insert {
                        d: word,
                        a,
                        ty: part,
                        shift,
                    },
                );
            }
            words.push(word);
        }
        let low = self.reads32(words[0]);
        let inst = match words.get(1) {
            Some(high) => {
                let high = self.reads32(*high);
                Inst::Pack64 {
                    d: self.write(d, ty)?,
                    low,
                    high,
                }
            }
            None => Inst::Mov32 {
                d: self.write(d, ty)?,
                a: low,
            },
        };
        self.emit(Class::Other, inst);
        Ok(())
    }

    /// `mov.b64 {a, b}, %rd` and its kin.
    fn unpack(
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
        // The words are copied first: a part may be the source itself.
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
                _ => Inst::Extract {
                    d,
                    a,
                    ty: part,
                    shift: (bit % 32) as u8,
                },
            };
            self.emit(Class::Other, inst);
        }
        Ok(())
    }

    pub(crate) fn cvt(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let (to, from) = (mods.ty()?, mods.ty()?);
        if to == Ty::Pred || from == Ty::Pred || to.bytes() == 1 && from.is_float() {
            return mods.unsupported();
        }
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
        if integral.is_some() && !from.is_float() {
            return mods.unsupported();
        }
        let [d, a] = self.take(mods, ops)?;
        let a = self.read_relaxed(&a, from)?;
        let pending = self.write_relaxed(&d, to)?;
        let d = pending.row;
        let class = if from.is_float() || to.is_float() {
            Class::Convert
        } else {
            Class::Int
        };
        let plain_ints = !from.is_float() && !to.is_float() && !mode.sat;
        let inst = match (from.bytes(), to.bytes()) {
            (4, 8) if plain_ints && from.is_signed() => Inst::WidenS { d, a },
            (4, 8) if plain_ints => Inst::WidenU { d, a },
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

    /// `cvta`: between generic addresses and those of a space.
    pub(crate) fn cvta(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let to = mods.take("to");
        let space = mods.space();
        if !mods.take("u64") {
            return mods.unsupported();
        }
        let base = match space {
            Space::Shared => window::SHARED_BASE,
            Space::Local => window::LOCAL_BASE,
            Space::Global | Space::Const => 0,
            _ => return mods.unsupported(),
        };
        let [d, a] = self.take(mods, ops)?;
        let a = match &a {
            Operand::Name(name, offset) if self.register(name)?.is_none() => {
                self.address_of(name, *offset)?
            }
            _ => self.read(&a, Ty::U64)?,
        };
        let d = self.write(&d, Ty::U64)?;
        if base == 0 {
            self.emit(Class::Int, Inst::Mov64 { d, a });
            return Ok(());
        }
        let b = self.const64(Const64::Bits(base))?;
        let op = if to { IntOp::Sub } else { IntOp::Add };
        self.emit(Class::Int, Inst::Int64 { op, d, a, b });
        Ok(())
    }

    pub(crate) fn isspacep(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let space = mods.space();
        if matches!(space, Space::Generic | Space::Param) {
            return mods.unsupported();
        }
        let [d, a] = self.take(mods, ops)?;
        let a = self.read(&a, Ty::U64)?;
        let d = self.write_pred_op(&d)?;
        self.emit(Class::Int, Inst::IsSpace { space, d, a });
        Ok(())
    }

    /// Whether `name` is a 64-bit register.
    pub(crate) fn is_wide_register(&mut self, name: &'a str) -> Loaded<bool> {
        Ok(matches!(self.need_register(name)?.0, Reg::R64(_)))
    }
}

/// The special register of a name, and whether it has 64 bits (PTX ISA, "Special Registers").
fn special(name: &str) -> Option<(Special, bool)> {
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

//! Memory: loads, stores, atomics, addresses, and the locations that they name.

use super::decoder::Decoder;
use super::dispatch::Mods;
use super::names::{Reg, Var};
use crate::ast::Operand;
use crate::code::Const64;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{Access, Atom, NO_ROW, ParamWords, Row};
use crate::ops::{AtomOp, IntOp};
use crate::types::{Space, Ty, window};

/// Cache and ordering hints without effect: one thread at a time runs on coherent memory.
const HINTS: [&str; 28] = [
    "weak",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "sc",
    "volatile",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "nc",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "mmio",
];

/// Hints with which a load bypasses L1 (PTX ISA, "Cache Operators"), since L1 is not coherent.
const BYPASS_L1: [&str; 7] =
    ["relaxed", "acquire", "volatile", "cg", "cv", "L1::no_allocate", "mmio"];

fn class_of(space: Space, load: bool) -> Class {
    match (space, load) {
        (Space::Shared, _) => Class::Shared,
        (Space::Local, _) => Class::Local,
        (Space::Const | Space::Param, _) => Class::Other,
        (Space::Global | Space::Generic, true) => Class::LoadGlobal,
        (Space::Global | Space::Generic, false) => Class::StoreGlobal,
    }
}

impl<'a> Decoder<'a, '_> {
    /// Consumes all hints; false if one of them bypasses L1.
    pub(super) fn hints(&mut self, mods: &mut Mods<'a>) -> bool {
        let mut cached = true;
        while let Some(hint) = mods.take_any(&HINTS) {
            cached &= !BYPASS_L1.contains(&hint);
        }
        cached
    }

    /// Consumes the vector length and the type of an access.
    fn shape(&mut self, mods: &mut Mods<'a>) -> Loaded<(u8, Ty)> {
        let vector = match mods.take_any(&["v2", "v4"]) {
            Some("v2") => 2u8,
            Some(_) => 4,
            None => 1,
        };
        let ty = mods.ty()?;
        mods.refuse(ty == Ty::Pred || ty.bytes() * u32::from(vector) > 16)?;
        Ok((vector, ty))
    }

    fn elements(&self, op: &Operand<'a>, vector: u8) -> Loaded<Vec<Operand<'a>>> {
        let parts = match (op, vector) {
            (Operand::Vector(parts), 2 | 4) => parts.clone(),
            (Operand::Vector(_), _) => return self.fail("a vector operand needs .v2 or .v4"),
            (single, 1) => vec![single.clone()],
            _ => return self.fail("`.v2` and `.v4` take their registers in braces"),
        };
        if parts.len() != usize::from(vector) {
            return self.fail(format!("a vector of {vector} takes {vector} registers"));
        }
        Ok(parts)
    }

    pub(crate) fn load(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let cached = self.hints(mods);
        let space = mods.space();
        let (vector, ty) = self.shape(mods)?;
        let [d, address] = self.take(mods)?;
        let parts = self.elements(&d, vector)?;
        match self.location(&address, space)? {
            AccessLocation::Words(words, at) => {
                for (index, part) in parts.iter().enumerate() {
                    self.load_words(words, at + index as u32 * ty.bytes(), ty, part)?;
                }
            }
            AccessLocation::Address { space, base, offset } => {
                if base != NO_ROW {
                    self.reads64(base);
                }
                let mut rows = [NO_ROW; 4];
                let mut pending = Vec::new();
                for (row, part) in rows.iter_mut().zip(&parts) {
                    let one = self.write_relaxed(part, ty)?;
                    *row = one.row;
                    pending.push(one);
                }
                let access =
                    Access { space, ty, cached, lanes_of_vector: vector, rows, base, offset };
                self.emit(class_of(space, true), Inst::Load(access));
                for one in pending {
                    self.finish(one);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn store(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        self.hints(mods);
        let space = mods.space();
        let (vector, ty) = self.shape(mods)?;
        mods.refuse(space == Space::Const)?;
        let [address, a] = self.take(mods)?;
        let parts = self.elements(&a, vector)?;
        match self.location(&address, space)? {
            AccessLocation::Words(words, at) => {
                for (index, part) in parts.iter().enumerate() {
                    self.store_words(words, at + index as u32 * ty.bytes(), ty, part)?;
                }
            }
            AccessLocation::Address { space: Space::Param, .. } => {
                return self.fail("a kernel cannot store to its parameters");
            }
            AccessLocation::Address { space, base, offset } => {
                let mut rows = [NO_ROW; 4];
                for (row, part) in rows.iter_mut().zip(&parts) {
                    *row = self.read_relaxed(part, ty)?;
                }
                for row in rows.iter().take(parts.len()) {
                    self.reads_row(ty, *row);
                }
                if base != NO_ROW {
                    self.reads64(base);
                }
                let access = Access {
                    space,
                    ty,
                    // Stores write through to L2.
                    cached: false,
                    lanes_of_vector: vector,
                    rows,
                    base,
                    offset,
                };
                self.emit(class_of(space, false), Inst::Store(access));
            }
        }
        Ok(())
    }

    /// Resolves `[base+offset]` of an access to `space`.
    pub(super) fn location(&mut self, op: &Operand<'a>, space: Space) -> Loaded<AccessLocation> {
        let Operand::Memory(base, offset) = *op else {
            return self.fail("an address in square brackets is needed");
        };
        let Some(name) = base else {
            return Ok(AccessLocation::Address { space, base: NO_ROW, offset });
        };
        if self.register(name)?.is_some() {
            let (base, offset) = if self.is_wide_register(name)? {
                (self.read(&Operand::Name(name, 0), Ty::U64)?, offset)
            } else {
                // PTX ISA, "Addresses as Operands": an address is computed in the width of its
                // register and then zero-extended.
                let a = self.read(&Operand::Name(name, 0), Ty::U32)?;
                let d = self.new64()?;
                self.writes64(d);
                let offset = offset as u32;
                self.emit(Class::Other, Inst::WidenU { d, a, offset });
                (self.reads64(d), 0)
            };
            if space == Space::Param && !self.entry {
                return self.fail("a device function's parameters are addressed by name only");
            }
            return Ok(AccessLocation::Address { space, base, offset });
        }
        match (self.names.var(name), space) {
            (Some(Var::Param(words)), Space::Param) => match u32::try_from(offset) {
                Ok(at) => Ok(AccessLocation::Words(words, at)),
                Err(_) => self.fail(format!("offset {offset} leaves parameter `{name}`")),
            },
            (Some(Var::KernelParam(at)), Space::Param) => {
                Ok(AccessLocation::Address { space, base: NO_ROW, offset: i64::from(at) + offset })
            }
            (Some(Var::Local(_)), Space::Local)
            | (Some(Var::Shared(_) | Var::DynamicShared) | None, Space::Shared)
            | (None, Space::Global | Space::Const) => {
                let base = self.address_of(name, offset)?;
                Ok(AccessLocation::Address { space, base, offset: 0 })
            }
            _ => self.fail(format!("`{name}` is not declared in the space of this instruction")),
        }
    }

    /// The word that holds byte `at` of a parameter, once the access is known to fit.
    pub(super) fn word_of(&self, words: ParamWords, at: u32, ty: Ty) -> Loaded<Row> {
        let bytes = ty.bytes();
        if !at.is_multiple_of(bytes) || at.checked_add(bytes).is_none_or(|end| end > words.bytes) {
            return self.fail(format!(
                "an access of {bytes} bytes at {at} does not fit a parameter of {} bytes",
                words.bytes
            ));
        }
        Ok(words.row + (at / 4) as u16)
    }

    pub(super) fn load_words(
        &mut self,
        words: ParamWords,
        at: u32,
        ty: Ty,
        d: &Operand<'a>,
    ) -> Loaded<()> {
        let word = self.word_of(words, at, ty)?;
        self.reads32(word);
        if ty.is_wide() {
            self.reads32(word + 1);
        }
        let pending = self.write_relaxed(d, ty)?;
        let d = pending.row;
        let shift = (at % 4 * 8) as u8;
        let inst = match ty.bytes() {
            8 => Inst::Pack64 { d, low: word, high: word + 1 },
            4 => Inst::Mov32 { d, a: word },
            _ => Inst::Extract { d, a: word, ty, shift },
        };
        self.emit(Class::Other, inst);
        self.finish(pending);
        Ok(())
    }

    pub(super) fn store_words(
        &mut self,
        words: ParamWords,
        at: u32,
        ty: Ty,
        a: &Operand<'a>,
    ) -> Loaded<()> {
        let word = self.word_of(words, at, ty)?;
        let a = self.read_relaxed(a, ty)?;
        if ty.is_wide() {
            self.writes32(word);
            self.emit(Class::Other, Inst::Low { d: word, a });
            self.reads64(a);
            self.writes32(word + 1);
            self.emit(Class::Other, Inst::High { d: word + 1, a });
            return Ok(());
        }
        if ty.bytes() < 4 {
            self.reads32(word);
        }
        self.writes32(word);
        let inst = match ty.bytes() {
            4 => Inst::Mov32 { d: word, a },
            _ => Inst::Insert { d: word, a, ty, shift: (at % 4 * 8) as u8 },
        };
        self.emit_last(Class::Other, inst)
    }

    pub(crate) fn atom(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        self.hints(mods);
        let space = mods.space();
        let op = mods.need(AtomOp::parse)?;
        let ty = mods.ty()?;
        let reduction = mods.base == "red";
        if !atom_type_fits(op, ty, reduction)
            || !matches!(space, Space::Generic | Space::Global | Space::Shared)
        {
            return mods.unsupported();
        }
        let ops = mods.operands();
        let (d, address, b, c) = match (&ops[..], reduction, op == AtomOp::Cas) {
            ([address, b], true, false) => (None, address, b, None),
            ([d, address, b], false, false) => (Some(d), address, b, None),
            ([d, address, b, c], false, true) => (Some(d), address, b, Some(c)),
            _ => return self.fail(format!("`{}` has the wrong number of operands", mods.opcode)),
        };
        let AccessLocation::Address { space, base, offset } = self.location(address, space)? else {
            return mods.unsupported();
        };
        let b = self.read_relaxed(b, ty)?;
        let c = match c {
            Some(c) => self.read_relaxed(c, ty)?,
            None => NO_ROW,
        };
        self.reads_row(ty, b);
        if base != NO_ROW {
            self.reads64(base);
        }
        let pending = match d {
            Some(d) => Some(self.write_relaxed(d, ty)?),
            None => None,
        };
        let row = pending.map_or(NO_ROW, |pending| pending.row);
        self.emit(Class::Atomic, Inst::Atom(Atom { op, ty, space, d: row, base, offset, b, c }));
        if let Some(pending) = pending {
            self.finish(pending);
        }
        Ok(())
    }

    /// A 64-bit row, recorded as read, that holds the address of a variable or function.
    pub(crate) fn address_of(&mut self, name: &'a str, offset: i64) -> Loaded<Row> {
        let var = self.names.var(name).or_else(|| self.globals.shared.get(name).copied());
        let row = match var {
            Some(Var::Shared(at)) => {
                self.const64(Const64::Bits(u64::from(at).wrapping_add_signed(offset)))?
            }
            Some(Var::KernelParam(at)) => {
                self.const64(Const64::Bits(u64::from(at).wrapping_add_signed(offset)))?
            }
            Some(Var::Local(at)) => {
                let at = i64::from(at).checked_add(offset).and_then(|at| u32::try_from(at).ok());
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
                    self.emit(Class::Other, Inst::Int64 { op: IntOp::Add, d: sum, a: d, b });
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

    /// `cvta`: between generic addresses and those of a space.
    pub(crate) fn cvta(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
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
        let [d, a] = self.take(mods)?;
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
        self.emit_last(Class::Int, Inst::Int64 { op, d, a, b })
    }

    pub(crate) fn isspacep(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        let space = mods.space();
        mods.refuse(matches!(space, Space::Generic | Space::Param))?;
        let [d, a] = self.take(mods)?;
        let a = self.read(&a, Ty::U64)?;
        let d = self.write_pred_op(&d)?;
        self.emit_last(Class::Int, Inst::IsSpace { space, d, a })
    }

    /// Whether `name` is a 64-bit register.
    pub(crate) fn is_wide_register(&mut self, name: &'a str) -> Loaded<bool> {
        Ok(matches!(self.need_register(name)?.0, Reg::R64(_)))
    }
}

pub(super) enum AccessLocation {
    Address {
        space: Space,
        base: Row,
        offset: i64,
    },
    /// Inside a parameter variable, at a constant offset.
    Words(ParamWords, u32),
}

/// The combinations of PTX ISA, "atom", up to 64 bits.
pub(super) fn atom_type_fits(op: AtomOp, ty: Ty, reduction: bool) -> bool {
    match op {
        AtomOp::Add => {
            matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::F32 | Ty::F64)
        }
        AtomOp::Min | AtomOp::Max => matches!(ty, Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64),
        AtomOp::Inc | AtomOp::Dec => ty == Ty::U32,
        AtomOp::And | AtomOp::Or | AtomOp::Xor => matches!(ty, Ty::B32 | Ty::B64),
        AtomOp::Exch => !reduction && matches!(ty, Ty::B32 | Ty::B64),
        AtomOp::Cas => !reduction && matches!(ty, Ty::B16 | Ty::B32 | Ty::B64),
    }
}

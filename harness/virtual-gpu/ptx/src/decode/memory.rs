//! Loads and stores.

use super::decoder::Decoder;
use super::location::AccessLocation;
use super::mods::Mods;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{Access, NO_ROW};
use crate::types::{Space, Ty};

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
        if ty == Ty::Pred || ty.bytes() * u32::from(vector) > 16 {
            return mods.unsupported();
        }
        Ok((vector, ty))
    }

    /// The registers of an access: one operand or the elements of a vector.
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

    pub(crate) fn load(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        let cached = self.hints(mods);
        let space = mods.space();
        let (vector, ty) = self.shape(mods)?;
        let [d, address] = self.take(mods, ops)?;
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

    pub(crate) fn store(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        self.hints(mods);
        let space = mods.space();
        let (vector, ty) = self.shape(mods)?;
        if space == Space::Const {
            return mods.unsupported();
        }
        let [address, a] = self.take(mods, ops)?;
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
}

//! The location of an access: an address, or the words of a parameter variable.

use super::decoder::Decoder;
use super::names::Var;
use crate::ast::Operand;
use crate::counts::Class;
use crate::error::Loaded;
use crate::inst::Inst;
use crate::operands::{NO_ROW, ParamWords, Row};
use crate::types::{Space, Ty};

pub(super) enum AccessLocation {
    /// Run-time address in a space.
    Address { space: Space, base: Row, offset: i64 },
    /// Inside a parameter variable, at a constant offset.
    Words(ParamWords, u32),
}

impl<'a> Decoder<'a, '_> {
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
        self.emit(Class::Other, inst);
        Ok(())
    }
}

//! Variables and their initial values.

use super::cursor::Parser;
use crate::ast::{RawInit, RawVar};
use crate::error::Loaded;
use crate::lexer::Kind;
use crate::types::{Space, Ty};

impl<'a> Parser<'a> {
    /// `.space [.align N] .type name[dims] [= init] {, ...};`
    pub(super) fn variables(&mut self, space: Space) -> Loaded<Vec<RawVar<'a>>> {
        self.step();
        let (align, ty) = self.align_and_type()?;
        let all = self.commas(|p| p.one_variable(space, ty, align))?;
        self.need(';')?;
        Ok(all)
    }

    pub(super) fn align_and_type(&mut self) -> Loaded<(Option<u32>, Ty)> {
        let mut align = None;
        loop {
            let word = self.word("a type")?;
            match word {
                ".align" => {
                    let value = self.small("an alignment")?;
                    if !value.is_power_of_two() || value > 512 {
                        return self.fail("an alignment is a power of two of at most 512");
                    }
                    align = Some(value);
                }
                // `.param .u64 .ptr .global .align 8 name`: a hint about the pointee.
                ".ptr" | ".global" | ".const" | ".shared" | ".local" => {}
                _ => match Ty::parse(word.trim_start_matches('.')) {
                    Some(ty) if word.starts_with('.') => return Ok((align, ty)),
                    _ => {
                        self.at -= 1;
                        return self.fail(format!("type `{word}` is not supported"));
                    }
                },
            }
        }
    }

    pub(super) fn one_variable(
        &mut self,
        space: Space,
        ty: Ty,
        align: Option<u32>,
    ) -> Loaded<RawVar<'a>> {
        let line = self.line();
        if ty == Ty::Pred {
            return self.fail("a predicate cannot be a variable in memory");
        }
        while let Kind::Word(".ptr" | ".global" | ".const" | ".shared" | ".local") = self.kind() {
            self.step();
        }
        if self.take_word(".align") {
            self.small("an alignment")?; // Of the pointee, after `.ptr`.
        }
        let name = self.word("a variable's name")?;
        let mut elements = Some(1u64);
        while self.take('[') {
            if self.take(']') {
                elements = None;
                continue;
            }
            let count = self.integer("an array size")?;
            self.need(']')?;
            elements = match elements {
                Some(so_far) => match so_far.checked_mul(count) {
                    Some(product) if product <= 1 << 40 => Some(product),
                    _ => return self.fail(format!("array `{name}` exceeds 2^40 elements")),
                },
                None => None,
            };
        }
        let init = if self.take('=') { self.initialiser(0)? } else { Vec::new() };
        Ok(RawVar { line, space, ty, align: align.unwrap_or(ty.bytes()), name, elements, init })
    }

    pub(super) fn initialiser(&mut self, depth: u32) -> Loaded<Vec<RawInit<'a>>> {
        if depth > 8 {
            return self.fail("an initialiser is nested more than 8 deep");
        }
        if self.take('{') {
            if self.take('}') {
                return Ok(Vec::new());
            }
            let nested = self.commas(|p| p.initialiser(depth + 1))?;
            self.need('}')?;
            return Ok(nested.into_iter().flatten().collect());
        }
        Ok(vec![self.init_element()?])
    }

    pub(super) fn init_element(&mut self) -> Loaded<RawInit<'a>> {
        let negative = self.take('-');
        let element = match self.kind() {
            Kind::Int(value) if negative => RawInit::Int(value.wrapping_neg()),
            Kind::Int(value) => RawInit::Int(value),
            Kind::F32(bits) => RawInit::F32(bits ^ (u32::from(negative) << 31)),
            Kind::F64(bits) => RawInit::F64(bits ^ (u64::from(negative) << 63)),
            Kind::Word("generic") => {
                self.step();
                self.need('(')?;
                let symbol = self.symbol_plus()?;
                self.need(')')?;
                return Ok(symbol);
            }
            Kind::Word(_) if !negative => return self.symbol_plus(),
            _ => return self.expected("an initial value"),
        };
        self.step();
        Ok(element)
    }

    pub(super) fn symbol_plus(&mut self) -> Loaded<RawInit<'a>> {
        let name = self.word("a symbol")?;
        let offset = self.signed_offset()?;
        Ok(RawInit::Symbol(name, offset))
    }

    /// `+N`, `-N`, `+-N` or nothing.
    pub(super) fn signed_offset(&mut self) -> Loaded<i64> {
        let plus = self.take('+');
        let minus = self.take('-');
        if !plus && !minus {
            return Ok(0);
        }
        let value = self.integer("a byte offset")? as i64;
        Ok(if minus { value.wrapping_neg() } else { value })
    }
}

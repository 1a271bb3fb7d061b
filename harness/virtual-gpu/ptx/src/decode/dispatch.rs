//! One instruction: its guard, its modifiers, and the function that decodes it. A modifier that no
//! decoder consumes makes the form unsupported.

use super::decoder::Decoder;
use crate::ast::{Operand, RawInst};
use crate::error::{Loaded, PtxError};
use crate::operands::PredRef;
use crate::ops::{FMode, Round};
use crate::types::{Space, Ty};

impl<'a, 'g> Decoder<'a, 'g> {
    pub(crate) fn instruction(&mut self, raw: &RawInst<'a>) -> Loaded<()> {
        self.line = raw.line;
        self.first_step = true;
        self.reads.clear();
        self.writes.clear();
        self.guard = None;
        if let Some((name, negated)) = raw.guard {
            self.guard = Some(PredRef { row: self.pred_row(name)?, negated });
        }
        let mut mods = Mods::new(raw);
        self.dispatch(&mut mods)?;
        mods.end()
    }

    pub(super) fn dispatch(&mut self, mods: &mut Mods<'a>) -> Loaded<()> {
        match mods.base {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "min" | "max" | "neg" | "abs" => {
                self.arithmetic(mods)
            }
            "addc" | "subc" | "madc" => self.carry(mods),
            "rem" | "mul24" | "mad24" | "sad" | "popc" | "clz" | "bfind" | "brev" | "bfe"
            | "bfi" | "prmt" | "shf" | "shl" | "shr" | "lop3" | "dp4a" => self.integer(mods),
            "sqrt" | "rsqrt" | "rcp" | "sin" | "cos" | "lg2" | "ex2" | "tanh" | "copysign"
            | "testp" => self.special_function(mods),
            "and" | "or" | "xor" | "not" | "cnot" => self.bitwise(mods),
            "setp" => self.setp(mods),
            "set" => self.set(mods),
            "selp" | "slct" => self.select(mods),
            "mov" => self.mov(mods),
            "cvt" => self.cvt(mods),
            "cvta" => self.cvta(mods),
            "ld" | "ldu" => self.load(mods),
            "st" => self.store(mods),
            "atom" | "red" => self.atom(mods),
            "tex" => self.fetch(mods),
            "isspacep" => self.isspacep(mods),
            "shfl" | "vote" | "match" | "activemask" => self.warp_wide(mods),
            "wmma" => self.wmma(mods),
            "bar" | "barrier" => self.barrier(mods),
            "membar" | "fence" | "prefetch" | "prefetchu" | "discard" | "applypriority" => {
                self.no_effect(mods)
            }
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" => {
                self.control(mods)
            }
            _ => mods.unsupported(),
        }
    }

    /// The operands as an array of exactly `N`.
    pub(crate) fn take<const N: usize>(&self, mods: &mut Mods<'a>) -> Loaded<[Operand<'a>; N]> {
        <[Operand<'a>; N]>::try_from(mods.operands()).or_else(|ops| {
            self.fail(format!("`{}` takes {N} operands, found {}", mods.opcode, ops.len()))
        })
    }
}

/// An opcode, split into its base and its modifiers.
pub(crate) struct Mods<'a> {
    pub line: u32,
    pub opcode: &'a str,
    pub base: &'a str,
    rest: Vec<&'a str>,
    operands: Vec<Operand<'a>>,
}

impl<'a> Mods<'a> {
    pub(crate) fn new(raw: &RawInst<'a>) -> Self {
        let mut parts = raw.opcode.split('.');
        let base = parts.next().unwrap_or(raw.opcode);
        let operands = raw.operands.clone();
        Self { line: raw.line, opcode: raw.opcode, base, rest: parts.collect(), operands }
    }

    /// Exchanges the second operand and the third.
    pub(crate) fn swap_sources(&mut self) {
        if let [_, a, b] = &mut self.operands[..] {
            std::mem::swap(a, b);
        }
    }

    pub(crate) fn operands(&mut self) -> Vec<Operand<'a>> {
        std::mem::take(&mut self.operands)
    }

    /// Consumes `name` if present.
    pub(crate) fn take(&mut self, name: &str) -> bool {
        let found = self.rest.iter().position(|part| *part == name);
        if let Some(at) = found {
            self.rest.remove(at);
        }
        found.is_some()
    }

    /// Consumes the first of `names` that is present.
    pub(crate) fn take_any(&mut self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().find(|name| self.take(name)).copied()
    }

    /// Consumes the first modifier that `read` accepts.
    pub(crate) fn take_with<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, value) =
            self.rest.iter().enumerate().find_map(|(at, part)| Some((at, read(part)?)))?;
        self.rest.remove(at);
        Some(value)
    }

    /// Consumes the first modifier that `read` accepts, which must be there.
    pub(crate) fn need<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Loaded<T> {
        self.take_with(read).map_or_else(|| self.unsupported(), Ok)
    }

    /// Consumes the first type.
    pub(crate) fn ty(&mut self) -> Loaded<Ty> {
        self.need(Ty::parse)
    }

    /// Consumes the state space; generic without one.
    pub(crate) fn space(&mut self) -> Space {
        if self.take("shared::cta") {
            return Space::Shared;
        }
        self.take_with(Space::parse).unwrap_or(Space::Generic)
    }

    /// Consumes rounding, flush to zero and saturation.
    pub(crate) fn fmode(&mut self) -> FMode {
        let round = self.take_with(Round::parse).unwrap_or(Round::Nearest);
        FMode { round, ftz: self.take("ftz"), sat: self.take("sat") }
    }

    /// Fails unless every modifier was consumed.
    pub(crate) fn end(&self) -> Loaded<()> {
        if self.rest.is_empty() { Ok(()) } else { self.unsupported() }
    }

    pub(crate) fn refuse(&self, refused: bool) -> Loaded<()> {
        if refused { self.unsupported() } else { Ok(()) }
    }

    pub(crate) fn unsupported<T>(&self) -> Loaded<T> {
        Err(PtxError::new(self.line, format!("instruction `{}` is not supported", self.opcode)))
    }
}

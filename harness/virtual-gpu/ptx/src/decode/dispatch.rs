//! One instruction: its guard, its modifiers, and the function that decodes it.

use super::decoder::Decoder;
use super::mods::Mods;
use crate::ast::{Operand, RawInst};
use crate::error::Loaded;
use crate::operands::PredRef;

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
        let mut mods = Mods::new(raw.line, raw.opcode);
        self.dispatch(&mut mods, &raw.operands)?;
        mods.end()
    }

    pub(super) fn dispatch(&mut self, mods: &mut Mods<'a>, ops: &[Operand<'a>]) -> Loaded<()> {
        match mods.base {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "min" | "max" | "neg" | "abs" => {
                self.arithmetic(mods, ops)
            }
            "addc" | "subc" => self.carry(mods, ops),
            "rem" | "mul24" | "mad24" | "sad" | "popc" | "clz" | "bfind" | "brev" | "bfe"
            | "bfi" | "prmt" | "shf" | "shl" | "shr" | "lop3" | "dp4a" => self.integer(mods, ops),
            "sqrt" | "rsqrt" | "rcp" | "sin" | "cos" | "lg2" | "ex2" | "tanh" | "copysign"
            | "testp" => self.special_function(mods, ops),
            "and" | "or" | "xor" | "not" | "cnot" => self.bitwise(mods, ops),
            "setp" => self.setp(mods, ops),
            "set" => self.set(mods, ops),
            "selp" | "slct" => self.select(mods, ops),
            "mov" => self.mov(mods, ops),
            "cvt" => self.cvt(mods, ops),
            "cvta" => self.cvta(mods, ops),
            "ld" | "ldu" => self.load(mods, ops),
            "st" => self.store(mods, ops),
            "atom" | "red" => self.atom(mods, ops),
            "isspacep" => self.isspacep(mods, ops),
            "shfl" | "vote" | "match" | "activemask" => self.warp_wide(mods, ops),
            "wmma" => self.wmma(mods, ops),
            "bar" | "barrier" => self.barrier(mods, ops),
            "membar" | "fence" | "prefetch" | "prefetchu" | "discard" | "applypriority" => {
                self.no_effect(mods, ops)
            }
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" => {
                self.control(mods, ops)
            }
            _ => mods.unsupported(),
        }
    }

    /// The operands as an array of exactly `N`.
    pub(crate) fn take<const N: usize>(
        &self,
        mods: &Mods<'a>,
        ops: &[Operand<'a>],
    ) -> Loaded<[Operand<'a>; N]> {
        match <[Operand<'a>; N]>::try_from(ops.to_vec()) {
            Ok(array) => Ok(array),
            Err(_) => {
                self.fail(format!("`{}` takes {N} operands, found {}", mods.opcode, ops.len()))
            }
        }
    }
}

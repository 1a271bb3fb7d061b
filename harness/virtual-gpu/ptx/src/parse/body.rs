//! The grammar of function bodies: declarations, labels, instructions, operands.

use super::cursor::Parser;
use crate::ast::{Operand, RawInst, Stmt};
use crate::error::Loaded;
use crate::lexer::Kind;
use crate::types::{Space, Ty};

/// Bodies nest for call sequences and inline assembly only; no compiler nests deeper.
const MAX_SCOPES: u32 = 64;

impl<'a> Parser<'a> {
    /// Everything up to the brace that closes the function.
    pub(super) fn body(&mut self) -> Loaded<Vec<Stmt<'a>>> {
        let mut all = Vec::new();
        let mut open = 0u32;
        loop {
            match self.kind() {
                Kind::End => return self.expected("`}` at the end of a function"),
                Kind::Punct('{') => {
                    open += 1;
                    if open > MAX_SCOPES {
                        return self.fail(format!("scopes nest more than {MAX_SCOPES} deep"));
                    }
                    self.step();
                    all.push(Stmt::Open);
                }
                Kind::Punct('}') => {
                    self.step();
                    if open == 0 {
                        return Ok(all);
                    }
                    open -= 1;
                    all.push(Stmt::Close);
                }
                Kind::Punct(';') => self.step(),
                Kind::Punct('@') => all.push(Stmt::Inst(self.instruction()?)),
                Kind::Word(word) => self.statement(word, &mut all)?,
                _ => return self.expected("an instruction, a declaration or a label"),
            }
        }
    }

    fn statement(&mut self, word: &'a str, all: &mut Vec<Stmt<'a>>) -> Loaded<()> {
        match word {
            ".reg" => all.push(self.registers()?),
            ".pragma" | ".loc" | ".file" => self.skip_line_directive(),
            _ if word.starts_with('.') => match Space::parse(&word[1..]) {
                Some(space) => all.extend(self.variables(space)?.into_iter().map(Stmt::Var)),
                None => return self.fail(format!("directive `{word}` is not supported here")),
            },
            _ => {
                let line = self.line();
                self.step();
                if self.take(':') {
                    return self.after_label(line, word, all);
                }
                all.push(Stmt::Inst(self.instruction_body(line, None, word)?));
            }
        }
        Ok(())
    }

    /// A plain label, or the name of a table of branch targets or of a call prototype.
    fn after_label(&mut self, line: u32, name: &'a str, all: &mut Vec<Stmt<'a>>) -> Loaded<()> {
        if self.take_word(".branchtargets") {
            let targets = self.commas(|p| p.word("a label"))?;
            self.need(';')?;
            all.push(Stmt::Targets(name, targets));
        } else if self.take_word(".callprototype") {
            // The arguments of each indirect call define its shape.
            while !self.take(';') {
                if self.kind() == Kind::End {
                    return self.expected("`;` after a prototype");
                }
                self.step();
            }
        } else {
            all.push(Stmt::Label(line, name));
        }
        Ok(())
    }

    fn registers(&mut self) -> Loaded<Stmt<'a>> {
        let line = self.line();
        self.step();
        let word = self.word("a register type")?;
        let Some(ty) = word.strip_prefix('.').and_then(Ty::parse) else {
            return self.fail(format!("register type `{word}` is not supported"));
        };
        let names = self.commas(|p| {
            let name = p.word("a register's name")?;
            if !p.take('<') {
                return Ok((name, None));
            }
            let count = p.integer("a register count")?;
            p.need('>')?;
            Ok((name, Some(count)))
        })?;
        self.need(';')?;
        Ok(Stmt::Reg(line, ty, names))
    }

    fn instruction(&mut self) -> Loaded<RawInst<'a>> {
        let line = self.line();
        self.need('@')?;
        let negated = self.take('!');
        let guard = self.word("a guard predicate")?;
        let opcode = self.word("an opcode")?;
        self.instruction_body(line, Some((guard, negated)), opcode)
    }

    fn instruction_body(
        &mut self,
        line: u32,
        guard: Option<(&'a str, bool)>,
        opcode: &'a str,
    ) -> Loaded<RawInst<'a>> {
        let operands = if self.is(';') { Vec::new() } else { self.commas(Self::operand)? };
        self.need(';')?;
        Ok(RawInst { line, guard, opcode, operands })
    }

    fn operand(&mut self) -> Loaded<Operand<'a>> {
        match self.kind() {
            Kind::Punct('[') => self.address(),
            Kind::Punct('{') => {
                self.step();
                let parts = self.commas(Self::scalar)?;
                self.need('}')?;
                Ok(Operand::Vector(parts))
            }
            Kind::Punct('(') => {
                self.step();
                if self.take(')') {
                    return Ok(Operand::List(Vec::new()));
                }
                let names = self.commas(|p| p.word("a parameter"))?;
                self.need(')')?;
                Ok(Operand::List(names))
            }
            _ => self.scalar(),
        }
    }

    fn scalar(&mut self) -> Loaded<Operand<'a>> {
        if self.take('!') {
            return Ok(Operand::Not(self.word("a predicate")?));
        }
        let negative = self.take('-');
        let operand = match self.kind() {
            Kind::Int(value) if negative => Operand::Int(value.wrapping_neg()),
            Kind::Int(value) => Operand::Int(value),
            Kind::F32(bits) => Operand::F32(bits ^ (u32::from(negative) << 31)),
            Kind::F64(bits) => Operand::F64(bits ^ (u64::from(negative) << 63)),
            Kind::Word(name) if !negative => {
                self.step();
                if self.take('|') {
                    return Ok(Operand::Pair(name, self.word("a predicate")?));
                }
                return Ok(Operand::Name(name, self.signed_offset()?));
            }
            _ => return self.expected("an operand"),
        };
        self.step();
        Ok(operand)
    }

    fn address(&mut self) -> Loaded<Operand<'a>> {
        self.need('[')?;
        let base = match self.kind() {
            Kind::Word(name) => {
                self.step();
                Some(name)
            }
            _ => None,
        };
        let offset = match (base, self.kind()) {
            (None, Kind::Int(value)) => {
                self.step();
                value as i64
            }
            (None, _) => return self.expected("an address"),
            (Some(object), Kind::Punct(',')) => {
                self.step();
                self.need('{')?;
                let position = self.commas(Self::scalar)?;
                self.need('}')?;
                self.need(']')?;
                return Ok(Operand::Texel(object, position));
            }
            _ => self.signed_offset()?,
        };
        self.need(']')?;
        Ok(Operand::Memory(base, offset))
    }
}

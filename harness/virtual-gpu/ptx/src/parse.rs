//! The grammar of modules: directives, variables, function headers.

use super::ast::{RawFunc, RawInit, RawModule, RawVar};
use super::error::{Loaded, PtxError, Refused};
use super::lexer::{Kind, Token, tokens};
use super::types::{Space, Ty};

/// Newest ISA whose text is read; NVRTC 13.5 writes 9.5 and older texts keep their meaning.
const NEWEST_VERSION: (u32, u32) = (9, 5);

/// Reads a whole text.
pub(crate) fn module(text: &str) -> Loaded<RawModule<'_>> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
    };
    parser.module()
}

/// Chips that PTX can be written for (PTX ISA 9.0, `.target`), by the number after `sm_`.
const TARGETS: &[u32] = &[
    10, 11, 12, 13, 20, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90,
    100, 101, 103, 110, 120, 121,
];

/// Whether a chip of that name exists; `a` and `f` stand for what is its own or its family's.
fn is_target(name: &str) -> bool {
    let number = name.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    number.parse().is_ok_and(|number| TARGETS.contains(&number))
}

pub(super) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
}

/// Linkage words say who sees a name; one module is all there is here.
fn is_linkage(word: &str) -> bool {
    matches!(word, ".visible" | ".extern" | ".weak" | ".common")
}

impl<'a> Parser<'a> {
    pub(super) fn kind(&self) -> Kind<'a> {
        self.tokens[self.at.min(self.tokens.len() - 1)].kind
    }

    pub(super) fn line(&self) -> u32 {
        self.tokens[self.at.min(self.tokens.len() - 1)].line
    }

    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Loaded<T> {
        Err(PtxError::new(self.line(), message))
    }

    fn shown(&self) -> String {
        match self.kind() {
            Kind::Word(word) => format!("`{word}`"),
            Kind::Int(value) => format!("`{value}`"),
            Kind::F32(_) | Kind::F64(_) => "a floating number".into(),
            Kind::Text(_) => "quoted text".into(),
            Kind::Punct(mark) => format!("`{mark}`"),
            Kind::End => "the end of the text".into(),
        }
    }

    pub(super) fn expected<T>(&self, what: &str) -> Loaded<T> {
        self.fail(format!("expected {what}, found {}", self.shown()))
    }

    pub(super) fn is(&self, mark: char) -> bool {
        self.kind() == Kind::Punct(mark)
    }

    pub(super) fn take(&mut self, mark: char) -> bool {
        let found = self.is(mark);
        if found {
            self.step();
        }
        found
    }

    pub(super) fn need(&mut self, mark: char) -> Loaded<()> {
        if self.take(mark) {
            Ok(())
        } else {
            self.expected(&format!("`{mark}`"))
        }
    }

    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.kind() == Kind::Word(word);
        if found {
            self.step();
        }
        found
    }

    pub(super) fn word(&mut self, what: &str) -> Loaded<&'a str> {
        match self.kind() {
            Kind::Word(word) => {
                self.step();
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    pub(super) fn integer(&mut self, what: &str) -> Loaded<u64> {
        match self.kind() {
            Kind::Int(value) => {
                self.step();
                Ok(value)
            }
            _ => self.expected(what),
        }
    }

    fn small(&mut self, what: &str) -> Loaded<u32> {
        let value = self.integer(what)?;
        u32::try_from(value).or_else(|_| self.fail(format!("{what} {value} exceeds 32 bits")))
    }

    /// `a, b, ...` with at least one element.
    pub(super) fn commas<T>(
        &mut self,
        mut one: impl FnMut(&mut Self) -> Loaded<T>,
    ) -> Loaded<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.take(',') {
            all.push(one(self)?);
        }
        Ok(all)
    }

    fn module(&mut self) -> Loaded<RawModule<'a>> {
        if !self.take_word(".version") {
            let found = self.expected("`.version` as the first directive");
            return found.map_err(|error| error.of(Refused::NoPtx));
        }
        let version = self.version()?;
        if !self.take_word(".target") {
            return self.expected("`.target` after `.version`");
        }
        let target = self.commas(|p| p.word("a target"))?[0];
        if !target.starts_with("sm_") {
            return self.fail(format!("target `{target}` is not accepted: use sm_NN"));
        }
        if !is_target(target) {
            return self.fail(format!("target `{target}` is not known"));
        }
        let mut module = RawModule {
            version,
            target,
            vars: Vec::new(),
            funcs: Vec::new(),
        };
        loop {
            let line = self.line();
            match self.kind() {
                Kind::End => return Ok(module),
                Kind::Word(".address_size") => {
                    self.step();
                    if self.integer("the address size")? != 64 {
                        return Err(PtxError::new(line, "only `.address_size 64` is accepted"));
                    }
                }
                Kind::Word(".file" | ".pragma") => self.skip_line_directive(),
                Kind::Word(word) if is_linkage(word) => self.step(),
                Kind::Word(".entry" | ".func") => module.funcs.push(self.function()?),
                Kind::Word(word) => match Space::parse(word.trim_start_matches('.')) {
                    Some(space) if word.starts_with('.') => {
                        module.vars.append(&mut self.variables(space)?);
                    }
                    _ => return self.fail(format!("`{word}` is no module directive")),
                },
                _ => return self.expected("a module directive"),
            }
        }
    }

    fn version(&mut self) -> Loaded<(u32, u32)> {
        // `7.8` lexes as one decimal number.
        let Kind::F64(bits) = self.kind() else {
            return self.expected("a version such as 7.8");
        };
        let tenths = (f64::from_bits(bits) * 10.0).round();
        if !(10.0..1000.0).contains(&tenths) {
            return self.fail("the version is not accepted: use 1.0 to 9.5");
        }
        let version = (tenths as u32 / 10, tenths as u32 % 10);
        if version > NEWEST_VERSION {
            let (major, minor) = version;
            let message = format!("version {major}.{minor} is newer than 9.5, the last known");
            return self
                .fail(message)
                .map_err(|error| error.of(Refused::TooNew));
        }
        self.step();
        Ok(version)
    }

    /// `.file`, `.loc`, `.pragma` carry nothing that runs; each ends with its line or a semicolon.
    pub(super) fn skip_line_directive(&mut self) {
        let line = self.line();
        while self.kind() != Kind::End && self.line() == line {
            if self.take(';') {
                return;
            }
            self.step();
        }
    }

    /// `.space [.align N] .type name[dims] [= init] {, ...};`
    pub(super) fn variables(&mut self, space: Space) -> Loaded<Vec<RawVar<'a>>> {
        self.step();
        let (align, ty) = self.align_and_type()?;
        let all = self.commas(|p| p.one_variable(space, ty, align))?;
        self.need(';')?;
        Ok(all)
    }

    fn align_and_type(&mut self) -> Loaded<(Option<u32>, Ty)> {
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

    fn one_variable(&mut self, space: Space, ty: Ty, align: Option<u32>) -> Loaded<RawVar<'a>> {
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
        let init = if self.take('=') {
            self.initialiser(0)?
        } else {
            Vec::new()
        };
        Ok(RawVar {
            line,
            space,
            ty,
            align: align.unwrap_or(ty.bytes()),
            name,
            elements,
            init,
        })
    }

    fn initialiser(&mut self, depth: u32) -> Loaded<Vec<RawInit<'a>>> {
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

    fn init_element(&mut self) -> Loaded<RawInit<'a>> {
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

    fn symbol_plus(&mut self) -> Loaded<RawInit<'a>> {
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

    fn parameters(&mut self) -> Loaded<Vec<RawVar<'a>>> {
        if !self.take('(') {
            return Ok(Vec::new());
        }
        if self.take(')') {
            return Ok(Vec::new());
        }
        let all = self.commas(|p| {
            if !p.take_word(".param") {
                return p.expected("`.param`");
            }
            let (align, ty) = p.align_and_type()?;
            p.one_variable(Space::Param, ty, align)
        })?;
        self.need(')')?;
        Ok(all)
    }

    fn function(&mut self) -> Loaded<RawFunc<'a>> {
        let line = self.line();
        let entry = self.word("a function")? == ".entry";
        let returns = if entry {
            Vec::new()
        } else {
            self.parameters()?
        };
        let name = self.word("a function's name")?;
        let params = self.parameters()?;
        let mut func = RawFunc {
            line,
            name,
            entry,
            returns,
            params,
            max_threads: None,
            required_threads: None,
            min_blocks_per_sm: None,
            body: None,
        };
        loop {
            match self.kind() {
                Kind::Word(".maxntid") => func.max_threads = Some(self.triple()?),
                Kind::Word(".reqntid") => func.required_threads = Some(self.triple()?),
                Kind::Word(".minnctapersm") => func.min_blocks_per_sm = Some(self.triple()?[0]),
                Kind::Word(".maxnreg" | ".maxnctapersm") => {
                    self.triple()?;
                }
                Kind::Word(".noreturn") => self.step(),
                Kind::Word(".pragma") => self.skip_line_directive(),
                Kind::Punct(';') => {
                    self.step();
                    return Ok(func);
                }
                Kind::Punct('{') => {
                    self.step();
                    func.body = Some(self.body()?);
                    return Ok(func);
                }
                _ => return self.expected("a performance directive, `;` or a body"),
            }
        }
    }

    fn triple(&mut self) -> Loaded<[u32; 3]> {
        self.step();
        let given = self.commas(|p| p.small("a count"))?;
        let mut all = [1; 3];
        if given.len() > 3 {
            return self.fail("at most three counts are accepted");
        }
        all[..given.len()].copy_from_slice(&given);
        Ok(all)
    }
}

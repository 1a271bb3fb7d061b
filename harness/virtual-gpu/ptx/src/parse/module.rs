//! The grammar of modules: directives, variables, function headers.

use super::cursor::Parser;
use crate::ast::{RawFunc, RawModule, RawVar};
use crate::error::{Loaded, PtxError, Refused};
use crate::lexer::{Kind, tokens};
use crate::types::Space;

/// Newest accepted ISA version; NVRTC 13.5 writes 9.5, and older versions keep their meaning.
const NEWEST_VERSION: (u32, u32) = (9, 5);

/// Reads a whole text.
pub(crate) fn module(text: &str) -> Loaded<RawModule<'_>> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    parser.module()
}

/// Targets of PTX (PTX ISA 9.0, `.target`), by the number after `sm_`.
const TARGETS: &[u32] = &[
    10, 11, 12, 13, 20, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90,
    100, 101, 103, 110, 120, 121,
];

/// Whether a target exists; `a` and `f` mark the chip-specific and family variants.
fn is_target(name: &str) -> bool {
    let number = name.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    number.parse().is_ok_and(|number| TARGETS.contains(&number))
}

/// Linkage words have no effect: modules are not linked.
fn is_linkage(word: &str) -> bool {
    matches!(word, ".visible" | ".extern" | ".weak" | ".common")
}

impl<'a> Parser<'a> {
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
        let mut module = RawModule { version, target, vars: Vec::new(), funcs: Vec::new() };
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
                    _ => return self.fail(format!("`{word}` is not a module directive")),
                },
                _ => return self.expected("a module directive"),
            }
        }
    }

    fn version(&mut self) -> Loaded<(u32, u32)> {
        // `7.8` lexes as one decimal number.
        let Kind::F64(bits) = self.kind() else { return self.expected("a version such as 7.8") };
        let tenths = (f64::from_bits(bits) * 10.0).round();
        if !(10.0..1000.0).contains(&tenths) {
            return self.fail("the version is not accepted: use 1.0 to 9.5");
        }
        let version = (tenths as u32 / 10, tenths as u32 % 10);
        if version > NEWEST_VERSION {
            let (major, minor) = version;
            let message = format!("version {major}.{minor} is newer than 9.5, the newest accepted");
            return self.fail(message).map_err(|error| error.of(Refused::TooNew));
        }
        self.step();
        Ok(version)
    }

    /// `.file`, `.loc`, `.pragma` have no effect; each ends with its line or a semicolon.
    pub(super) fn skip_line_directive(&mut self) {
        let line = self.line();
        while self.kind() != Kind::End && self.line() == line {
            if self.take(';') {
                return;
            }
            self.step();
        }
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
        let returns = if entry { Vec::new() } else { self.parameters()? };
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
            body: None,
        };
        loop {
            match self.kind() {
                Kind::Word(".maxntid") => func.max_threads = Some(self.triple()?),
                Kind::Word(".reqntid") => func.required_threads = Some(self.triple()?),
                Kind::Word(".maxnreg" | ".minnctapersm" | ".maxnctapersm") => {
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
        let counts = self.commas(|p| p.small("a count"))?;
        let mut all = [1; 3];
        if counts.len() > 3 {
            return self.fail("at most three counts are accepted");
        }
        all[..counts.len()].copy_from_slice(&counts);
        Ok(all)
    }
}

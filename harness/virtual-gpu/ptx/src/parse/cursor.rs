//! The parser's position in the tokens, with basic operations.

use crate::error::{Loaded, PtxError};
use crate::lexer::{Kind, Token};

pub(super) struct Parser<'a> {
    pub(super) tokens: Vec<Token<'a>>,
    pub(super) at: usize,
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

    pub(super) fn shown(&self) -> String {
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
        if self.take(mark) { Ok(()) } else { self.expected(&format!("`{mark}`")) }
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

    pub(super) fn small(&mut self, what: &str) -> Loaded<u32> {
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
}

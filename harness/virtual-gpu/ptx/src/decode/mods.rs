//! The modifiers of an opcode. A modifier that no decoder consumes makes the form unsupported.

use crate::error::{Loaded, PtxError};
use crate::ops::{FMode, Round};
use crate::types::{Space, Ty};

/// An opcode, split into its base and its modifiers.
pub(crate) struct Mods<'a> {
    pub line: u32,
    pub opcode: &'a str,
    pub base: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> Mods<'a> {
    pub(crate) fn new(line: u32, opcode: &'a str) -> Self {
        let mut parts = opcode.split('.');
        let base = parts.next().unwrap_or(opcode);
        Self { line, opcode, base, rest: parts.collect() }
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

    /// Consumes the first type.
    pub(crate) fn ty(&mut self) -> Loaded<Ty> {
        match self.take_with(Ty::parse) {
            Some(ty) => Ok(ty),
            None => self.unsupported(),
        }
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
        let round = match self.take_any(&["rn", "rz", "rm", "rp"]) {
            Some("rz") => Round::Zero,
            Some("rm") => Round::Down,
            Some("rp") => Round::Up,
            _ => Round::Nearest,
        };
        FMode { round, ftz: self.take("ftz"), sat: self.take("sat") }
    }

    /// Fails unless every modifier was consumed.
    pub(crate) fn end(&self) -> Loaded<()> {
        if self.rest.is_empty() { Ok(()) } else { self.unsupported() }
    }

    /// The error of an unsupported opcode.
    pub(crate) fn unsupported<T>(&self) -> Loaded<T> {
        Err(PtxError::new(self.line, format!("instruction `{}` is not supported", self.opcode)))
    }
}

//! Splits PTX text into tokens with line numbers.
//!
//! Opcodes and directives are single words (`ld.global.v4.u32`, `.reg`), because dots have no
//! meaning in the grammar (PTX ISA, "Syntax").

use crate::error::{Loaded, PtxError};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind<'a> {
    /// Identifier, opcode, register, directive.
    Word(&'a str),
    /// Integer literal, as its 64 bits.
    Int(u64),
    /// `0f` literal, as its bits.
    F32(u32),
    /// `0d` or decimal floating literal, as its bits.
    F64(u64),
    /// Quoted text without its quotes.
    Text(&'a str),
    Punct(char),
    /// After the last token.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Token<'a> {
    pub kind: Kind<'a>,
    pub line: u32,
}

/// All tokens of `text`, ended by one `End`.
pub(crate) fn tokens(text: &str) -> Loaded<Vec<Token<'_>>> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut out = Vec::with_capacity(text.len() / 4);
    loop {
        lexer.skip_blank()?;
        let line = lexer.line;
        let kind = lexer.next_kind()?;
        out.push(Token { kind, line });
        if kind == Kind::End {
            return Ok(out);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

fn in_word(byte: u8) -> bool {
    starts_word(byte) || byte.is_ascii_digit()
}

impl<'a> Lexer<'a> {
    fn peek(&self, ahead: usize) -> u8 {
        // A NUL ends the text in the driver's C interface; here it is an invalid token.
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Loaded<T> {
        Err(PtxError::new(self.line, message))
    }

    fn skip_blank(&mut self) -> Loaded<()> {
        while self.at < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                (b'\n', _) => {
                    self.line += 1;
                    self.at += 1;
                }
                (b' ' | b'\t' | b'\r', _) => self.at += 1,
                (b'/', b'/') => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                (b'/', b'*') => {
                    let rest = &self.text[self.at + 2..];
                    let Some(end) = rest.find("*/") else {
                        return self.fail("comment is not closed by */");
                    };
                    self.line += rest[..end].matches('\n').count() as u32;
                    self.at += 2 + end + 2;
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn next_kind(&mut self) -> Loaded<Kind<'a>> {
        if self.at >= self.text.len() {
            return Ok(Kind::End);
        }
        let first = self.peek(0);
        if first == b'"' {
            return self.quoted();
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        if starts_word(first) {
            return Ok(Kind::Word(self.word()));
        }
        if !first.is_ascii_graphic() {
            return self.fail("only printable ascii is accepted in ptx");
        }
        self.at += 1;
        Ok(Kind::Punct(char::from(first)))
    }

    fn word(&mut self) -> &'a str {
        let start = self.at;
        loop {
            if in_word(self.peek(0)) {
                self.at += 1;
            } else if self.peek(0) == b':' && self.peek(1) == b':' {
                self.at += 2; // Modifiers such as `.L2::128B`.
            } else {
                break;
            }
        }
        &self.text[start..self.at]
    }

    fn quoted(&mut self) -> Loaded<Kind<'a>> {
        let rest = &self.text[self.at + 1..];
        let Some(end) = rest.find('"') else { return self.fail("text is not closed by a quote") };
        self.line += rest[..end].matches('\n').count() as u32;
        self.at += end + 2;
        Ok(Kind::Text(&rest[..end]))
    }

    /// Literals of PTX ISA, "Constants": integers in four bases, `0f`/`0d` bit patterns, decimals.
    fn number(&mut self) -> Loaded<Kind<'a>> {
        let start = self.at;
        while in_word(self.peek(0)) {
            self.at += 1;
        }
        if matches!(self.peek(0), b'+' | b'-') {
            let digits = &self.text[start..self.at];
            if digits.contains('.') && digits.ends_with(['e', 'E']) {
                self.at += 1;
                while self.peek(0).is_ascii_digit() {
                    self.at += 1;
                }
            }
        }
        let word = &self.text[start..self.at];
        let lower = word.to_ascii_lowercase();
        let parsed = if let Some(hex) = lower.strip_prefix("0f").filter(|h| h.len() == 8) {
            u32::from_str_radix(hex, 16).ok().map(Kind::F32)
        } else if let Some(hex) = lower.strip_prefix("0d").filter(|h| h.len() == 16) {
            u64::from_str_radix(hex, 16).ok().map(Kind::F64)
        } else if lower.contains('.') {
            lower.parse::<f64>().ok().map(|value| Kind::F64(value.to_bits()))
        } else {
            integer(lower.strip_suffix('u').unwrap_or(&lower)).map(Kind::Int)
        };
        match parsed {
            Some(kind) => Ok(kind),
            None => self.fail(format!("`{word}` is not a number of at most 64 bits")),
        }
    }
}

fn integer(digits: &str) -> Option<u64> {
    let (body, radix) = if let Some(hex) = digits.strip_prefix("0x") {
        (hex, 16)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        (binary, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (&digits[1..], 8)
    } else {
        (digits, 10)
    };
    // `from_str_radix` accepts a sign; in PTX the sign is an operator.
    if body.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(body, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind<'_>> {
        tokens(text).expect("lexes").into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn literals_keep_their_bits() {
        let want = [
            Kind::Int(255),
            Kind::Int(8),
            Kind::Int(5),
            Kind::Int(u64::MAX),
            Kind::F32(0x3F80_0000),
            Kind::F64(0x3FF0_0000_0000_0000),
            Kind::F64(1.5e3f64.to_bits()),
            Kind::Int(7),
            Kind::End,
        ];
        let text = "0xFF 010 0b101 18446744073709551615 0f3F800000 0d3FF0000000000000 1.5e+3 7U";
        assert_eq!(kinds(text), want);
    }

    #[test]
    fn words_keep_dots_and_tokens_have_lines() {
        let all = tokens("/* a\nb */ ld.global.v4.u32 // c\n%r1|%p2").expect("lexes");
        assert_eq!(all[0], Token { kind: Kind::Word("ld.global.v4.u32"), line: 2 });
        assert_eq!(all[1], Token { kind: Kind::Word("%r1"), line: 3 });
        assert_eq!(all[2], Token { kind: Kind::Punct('|'), line: 3 });
    }

    #[test]
    fn errors_name_the_line() {
        for text in ["\n\n18446744073709551616", "\n\n\"open", "\n\n/* open", "\n\né", "\n\n0xZZ"]
        {
            assert_eq!(tokens(text).expect_err(text).line, 3, "{text}");
        }
    }
}

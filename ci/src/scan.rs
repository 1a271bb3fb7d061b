//! A scanner of Rust source: words, punctuation, literals and comments with their lines.
//!
//! The house rules match tokens and not text: a banned call in a string or a comment is not a call.
//! There is no parser; rules match short sequences of tokens. The compiler reports malformed
//! source.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Word,
    /// One punctuation character, or `::`.
    Punct,
    /// A string, byte string, character or number.
    Literal,
    Lifetime,
    /// A line or block comment, documentation included.
    Comment,
}

/// One token of a source file.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
    pub kind: Kind,
}

/// The tokens of `source` without comments.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = with_comments(source);
    found.retain(|token| token.kind != Kind::Comment);
    found
}

pub fn with_comments(source: &str) -> Vec<Token<'_>> {
    let mut scanner = Scanner { source, at: 0, line: 1 };
    let mut found = Vec::new();
    while let Some(token) = scanner.next_token() {
        found.push(token);
    }
    found
}

/// Index of the bracket that closes the one at `open`, or the end of `tokens`.
pub fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        if token.kind != Kind::Punct {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len()
}

/// Whether the tokens at `at` read exactly as `words`, which are separated by spaces.
pub fn reads(tokens: &[Token<'_>], at: usize, words: &str) -> bool {
    words.split(' ').enumerate().all(|(offset, word)| {
        tokens
            .get(at + offset)
            .is_some_and(|token| token.kind != Kind::Literal && token.text == word)
    })
}

struct Scanner<'a> {
    source: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Scanner<'a> {
    fn next_token(&mut self) -> Option<Token<'a>> {
        let rest = self.rest();
        self.advance(rest.len() - rest.trim_start().len());
        let rest = self.rest();
        let first = rest.chars().next()?;
        let (length, kind) = measure(rest, first);
        let token = Token { text: &rest[..length], line: self.line, kind };
        self.advance(length);
        Some(token)
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn advance(&mut self, length: usize) {
        let passed = &self.source[self.at..self.at + length];
        self.line += passed.matches('\n').count();
        self.at += length;
    }
}

fn measure(rest: &str, first: char) -> (usize, Kind) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), Kind::Comment);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), Kind::Comment);
    }
    if let Some(length) = string(rest) {
        return (length, Kind::Literal);
    }
    if first == '\'' {
        return quote(rest);
    }
    if first.is_ascii_digit() {
        return (number(rest), Kind::Literal);
    }
    if is_word(first) {
        let body = rest.strip_prefix("r#").map_or(0, |_| 2);
        return (body + word(&rest[body..]), Kind::Word);
    }
    if rest.starts_with("::") {
        return (2, Kind::Punct);
    }
    (first.len_utf8(), Kind::Punct)
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn word(rest: &str) -> usize {
    rest.find(|c| !is_word(c)).unwrap_or(rest.len())
}

/// Block comments nest in Rust.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of the plain, byte, C or raw string that `rest` starts with.
fn string(rest: &str) -> Option<usize> {
    let body = rest.trim_start_matches(['b', 'c', 'r']);
    let prefix = rest.len() - body.len();
    if prefix > 2 {
        return None;
    }
    if rest[..prefix].contains('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let inside = body[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
        return Some(prefix + hashes + 1 + length);
    }
    let inside = body.strip_prefix('"')?;
    Some(prefix + 1 + escaped_until(inside, b'"'))
}

/// Bytes up to and including the first unescaped `end`.
fn escaped_until(inside: &str, end: u8) -> usize {
    let mut escaped = false;
    for (index, byte) in inside.bytes().enumerate() {
        if escaped {
            escaped = false;
        } else if byte == b'\\' {
            escaped = true;
        } else if byte == end {
            return index + 1;
        }
    }
    inside.len()
}

/// A character literal or a lifetime: only a literal has a second quote.
fn quote(rest: &str) -> (usize, Kind) {
    let inside = &rest[1..];
    let first = inside.chars().next().unwrap_or(' ');
    if first == '\\' {
        return (1 + escaped_until(inside, b'\''), Kind::Literal);
    }
    if inside[first.len_utf8().min(inside.len())..].starts_with('\'') {
        return (2 + first.len_utf8(), Kind::Literal);
    }
    (1 + word(inside), Kind::Lifetime)
}

fn number(rest: &str) -> usize {
    let whole = word(rest);
    match rest[whole..].strip_prefix('.') {
        Some(after) if after.starts_with(|c: char| c.is_ascii_digit()) => whole + 1 + word(after),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_strings_hide_their_content() {
        let cases: [(&str, &[&str]); 8] = [
            ("a // b\nc", &["a", "c"]),
            ("a /* b /* c */ d */ e", &["a", "e"]),
            ("f(\"x // y\")", &["f", "(", "\"x // y\"", ")"]),
            ("r#\"a \"b\"# c", &["r#\"a \"b\"#", "c"]),
            ("b\"\\\"\" 'x' '\\'' 'a", &["b\"\\\"\"", "'x'", "'\\''", "'a"]),
            ("a::b 1.5 0..2", &["a", "::", "b", "1.5", "0", ".", ".", "2"]),
            ("r#type br\"q\"", &["r#type", "br\"q\""]),
            ("crate break x", &["crate", "break", "x"]),
        ];
        for (source, expected) in cases {
            assert_eq!(texts(source), expected, "{source}");
        }
    }

    #[test]
    fn lines_count_through_comments_and_strings() {
        let found = tokens("/* \n */ a \"\n\" b");
        assert_eq!((found[0].line, found[2].line), (2, 3));
    }

    #[test]
    fn comments_are_kept_on_request() {
        let found = with_comments("/// a\nfn b() {} /* c */");
        let comments = found.iter().filter(|token| token.kind == Kind::Comment);
        let texts: Vec<&str> = comments.map(|token| token.text).collect();
        assert_eq!(texts, ["/// a", "/* c */"]);
    }

    #[test]
    fn unfinished_source_does_not_panic() {
        for source in ["\"abc", "r##\"abc", "/* abc", "'", "'\\", "b", "r#", "é'é"] {
            tokens(source);
        }
    }

    #[test]
    fn brackets_pair_up() {
        let found = tokens("f({ [a] }) b");
        assert_eq!(closing(&found, 1), 7);
        assert!(reads(&found, 7, ") b"));
        assert!(!reads(&found, 7, ") c"));
    }
}

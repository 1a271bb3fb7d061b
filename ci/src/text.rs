//! The words of a file: identifiers split into parts, comments, strings and prose, with lines.
//!
//! `HostAction`, `host_action` and "host action" are the same two words, so that one entry of
//! `ci/retired-words.txt` covers a type, a function, a file and a sentence.

use crate::scan::{Kind, with_comments};
use crate::tree::SourceFile;

/// One word and its line, from 1. An empty word ends a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub line: usize,
}

/// Every word of a file. Line 0 holds the words of its path.
pub fn words(file: &SourceFile) -> Vec<Word> {
    let mut found = Vec::new();
    add(&file.path, 0, &mut found);
    end_sentence(&mut found);
    if file.has_extension(&["rs"]) {
        add_rust(&file.text, &mut found);
    } else {
        add(&file.text, 1, &mut found);
    }
    found
}

/// Consecutive comments are one text; every other token is separate.
fn add_rust(source: &str, found: &mut Vec<Word>) {
    let scanned = with_comments(source);
    let mut last = (0, Kind::Punct);
    for (at, token) in scanned.iter().enumerate() {
        let is_old_name = token.kind == Kind::Literal
            && at > 1
            && scanned[at - 1].text == "="
            && scanned[at - 2].text == "alias";
        if token.kind == Kind::Punct || is_old_name {
            continue;
        }
        let continues = token.kind == Kind::Comment && last == (token.line - 1, Kind::Comment);
        if !continues {
            end_sentence(found);
        }
        add(token.text, token.line, found);
        last = (token.line, token.kind);
    }
}

fn end_sentence(found: &mut Vec<Word>) {
    if found.last().is_some_and(|last| !last.text.is_empty()) {
        found.push(Word { text: String::new(), line: 0 });
    }
}

fn add(text: &str, first_line: usize, found: &mut Vec<Word>) {
    for (index, line) in text.lines().enumerate() {
        let mut rest = line;
        while let Some(start) = rest.find(char::is_alphanumeric) {
            if ends_sentence(&rest[..start]) {
                end_sentence(found);
            }
            let length =
                rest[start..].find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len() - start);
            for part in camel_parts(&rest[start..start + length]) {
                found.push(Word { text: part.to_lowercase(), line: first_line + index });
            }
            rest = &rest[start + length..];
        }
        if ends_sentence(rest) {
            end_sentence(found);
        }
    }
}

fn ends_sentence(between: &str) -> bool {
    between.contains(['.', '?', '!', ';', ':', '|'])
}

/// `HTTPServer` is `HTTP` and `Server`.
fn camel_parts(word: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let mut cuts = vec![0];
    for at in 1..chars.len() {
        let (before, here) = (chars[at - 1].1, chars[at].1);
        let after = chars.get(at + 1).map(|next| next.1);
        let rises = before.is_lowercase() && here.is_uppercase();
        let falls =
            before.is_uppercase() && here.is_uppercase() && after.is_some_and(char::is_lowercase);
        if rises || falls {
            cuts.push(chars[at].0);
        }
    }
    cuts.push(word.len());
    cuts.windows(2).map(|cut| &word[cut[0]..cut[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(path: &str, text: &str) -> Vec<String> {
        let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
        words(&file).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn identifiers_and_prose_are_split_alike() {
        let cases: [(&str, &[&str]); 7] = [
            ("HostAction", &["host", "action"]),
            ("HOST_ACTION", &["host", "action"]),
            ("NVMLFacts", &["nvml", "facts"]),
            ("h100", &["h100"]),
            ("a b. c", &["a", "b", "", "c"]),
            ("a\nb", &["a", "b"]),
            ("it's", &["it", "s"]),
        ];
        for (text, expected) in cases {
            let found = texts("", text);
            let kept: Vec<&str> = found.iter().map(String::as_str).collect();
            assert_eq!(kept, expected, "{text}");
        }
    }

    #[test]
    fn rust_comments_join_and_tokens_do_not() {
        for (source, expected) in [
            (
                "// old\n// phrase\nfn old() {} let phrase = \"old\";",
                "a  rs  old phrase  fn  old  let  phrase  old",
            ),
            // An alias may keep an old name.
            ("#[serde(alias = \"wagon\")] b", "a  rs  serde  alias  b"),
        ] {
            assert_eq!(texts("a.rs", source).join(" "), expected);
        }
    }
}

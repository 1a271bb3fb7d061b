//! Text of the user in a message: one line of at most 200 bytes, however long the input is.

/// Longest part of an input in a message.
pub const EXCERPT_BYTES_MAX: usize = 200;

/// What is kept of a longer text before and behind the gap; the note between them has the rest.
const HEAD_BYTES: usize = 110;
const TAIL_BYTES: usize = 50;

/// What a parser writes behind the part of the input that it quotes.
const EXPECTED: &str = ", expected ";

/// The text on one line; of a long text its beginning, its end, and its length.
pub fn excerpt(text: &str) -> String {
    // Of a long text only the parts that can remain are escaped.
    if text.len() > EXCERPT_BYTES_MAX {
        return cut(text);
    }
    let shown = on_one_line(text);
    if shown.len() > EXCERPT_BYTES_MAX {
        return cut(text);
    }
    shown
}

/// The text with its control characters escaped.
pub fn on_one_line(text: &str) -> String {
    if !text.contains(acts) {
        return text.to_owned();
    }
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// The message of a parser, in which the part that it quotes from the input is an excerpt.
pub fn parser_message(message: &str) -> String {
    let is_position = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ');
    let at = message.rfind(" at line ").filter(|&at| is_position(&message[at..]));
    let (message, position) = message.split_at(at.unwrap_or(message.len()));
    if message.starts_with("data did not match any variant") {
        return "it has none of the accepted forms".to_owned();
    }
    if message == "expected value" {
        return format!("no JSON{position}");
    }
    // The input may contain the same words; the parser's own come last.
    let end = message.rfind(EXPECTED).unwrap_or(message.len());
    let begin = message[..end].find(['`', '"']).unwrap_or(0);
    let (own, rest) = (on_one_line(&message[..begin]), &message[end..]);
    let expected = rest.strip_prefix(EXPECTED).map(|what| format!("{EXPECTED}{}", in_words(what)));
    let expected = on_one_line(&expected.unwrap_or_default());
    own + &excerpt(&message[begin..end]) + &expected + position
}

/// What serde expected, without the names of our types.
fn in_words(expected: &str) -> &str {
    match expected {
        text if text.starts_with("struct ") => "an object",
        "map" | "a map" => "an object",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, not negative",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "string or map" => "a text or an object",
        text => text,
    }
}

/// A count with its noun: `1 row`, `2 rows`.
pub fn counted(n: impl std::fmt::Display, noun: &str) -> String {
    let n = n.to_string();
    if n == "1" {
        return format!("{n} {noun}");
    }
    let vowel_before_y = || ["ay", "ey", "oy"].iter().any(|end| noun.ends_with(end));
    match noun.strip_suffix('y') {
        _ if noun.ends_with("series") => format!("{n} {noun}"),
        Some(stem) if !vowel_before_y() => format!("{n} {stem}ies"),
        None if ["x", "ch", "sh", "ss"].iter().any(|end| noun.ends_with(end)) => {
            format!("{n} {noun}es")
        }
        _ => format!("{n} {noun}s"),
    }
}

/// The error of a parser, as its message.
pub fn parser_error(error: &impl std::fmt::Display) -> String {
    parser_message(&error.to_string())
}

/// A message in which every word is an excerpt: what is longer is no word of ours.
pub fn with_short_words(message: &str) -> String {
    let words = message
        .split_inclusive(' ')
        .map(|word| if word.len() > EXCERPT_BYTES_MAX { excerpt(word) } else { word.to_owned() });
    words.collect()
}

/// Characters that end or overwrite a line, on a terminal or in a log.
/// Whether a character acts on what shows it: controls, ends of lines, and those that reverse the
/// direction of text (Unicode's `Bidi_Control`) or are not seen.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn cut(text: &str) -> String {
    let head = escaped(text.chars(), HEAD_BYTES);
    let tail = escaped(text.chars().rev(), TAIL_BYTES);
    let (head, tail) = (head.concat(), tail.into_iter().rev().collect::<String>());
    format!("{head}... ({} bytes) ...{tail}", text.len())
}

/// Characters in their escaped form, as many as fit.
fn escaped(chars: impl Iterator<Item = char>, bytes_max: usize) -> Vec<String> {
    let mut left = bytes_max;
    chars
        .map(|c| on_one_line(c.encode_utf8(&mut [0; 4])))
        .take_while(|shown| {
            let fits = shown.len() <= left;
            left = left.saturating_sub(shown.len());
            fits
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{EXCERPT_BYTES_MAX, counted, excerpt, parser_message, with_short_words};

    #[test]
    fn a_short_text_is_kept_on_one_line() {
        assert_eq!(excerpt("mig 1g.10gb"), "mig 1g.10gb");
        assert_eq!(excerpt("a\nb\u{1b}[2J"), "a\\nb\\u{1b}[2J");
        assert_eq!(excerpt(&"x".repeat(200)), "x".repeat(200));
    }

    #[test]
    fn a_long_text_is_cut_to_its_ends() {
        for part in ["x", "\n", "\u{10ffff}", "é", "\0 "] {
            for count in [101, 201, 10_000] {
                let shown = excerpt(&part.repeat(count));
                assert!(shown.len() <= EXCERPT_BYTES_MAX, "{part:?}: {shown}");
                assert!(!shown.contains('\n'), "{shown:?}");
            }
        }
        let shown = excerpt(&format!("/first{}last.toml", "/deep".repeat(100)));
        assert!(shown.starts_with("/first/deep") && shown.ends_with("last.toml"));
        assert!(shown.contains("(516 bytes)") || shown.contains(" bytes)"));
    }

    #[test]
    fn a_parser_names_what_it_expected_and_little_of_the_input() {
        let known = "one of `a`, `b`";
        let short = format!("unknown field `x`, expected {known}");
        assert_eq!(parser_message(&short), short);
        for input in ["x".repeat(5_000), "`, expected words ".repeat(500)] {
            let shown = parser_message(&format!("unknown field `{input}`, expected {known}"));
            assert!(shown.starts_with("unknown field `"), "{shown}");
            assert!(shown.ends_with(", expected one of `a`, `b`"), "{shown}");
            assert!(shown.len() < 270, "{shown}");
            let shown = parser_message(&format!("duplicate key \"{input}\""));
            assert!(shown.len() < 270, "{shown}");
        }
    }

    #[test]
    fn a_parser_s_types_are_named_in_words() {
        let shown = parser_message("invalid length 0, expected struct VersionOnly with 1 element");
        assert_eq!(shown, "invalid length 0, expected an object");
        let shown = parser_message("invalid type: string \", expected map\", expected u32");
        assert_eq!(
            shown,
            "invalid type: string \", expected map\", expected a whole number from 0 to 4294967295"
        );
        assert_eq!(parser_message("no end of line"), "no end of line");
        for (message, shown) in [
            (
                "invalid type: string \"x\", expected f64 at line 1 column 9",
                "\"x\", expected a number at line 1 column 9",
            ),
            ("expected value at line 1 column 1", "no JSON at line 1 column 1"),
            ("data did not match any variant of untagged enum File", "none of the accepted forms"),
        ] {
            assert!(parser_message(message).ends_with(shown), "{}", parser_message(message));
        }
    }

    #[test]
    fn only_long_words_of_a_message_are_cut() {
        let words = "a few words ".repeat(50);
        assert_eq!(with_short_words(&words), words);
        let shown = with_short_words(&format!("no {} here", "x".repeat(999)));
        assert!(shown.starts_with("no xxx") && shown.ends_with(" here"), "{shown}");
        assert!(shown.len() < 230, "{shown}");
    }

    #[test]
    fn counts_read_as_english() {
        assert_eq!([counted(1, "row"), counted(0, "row")], ["1 row", "0 rows"]);
        let many = ["primary row", "mismatch", "entry", "key", "series"].map(|one| counted(2, one));
        let expected = ["2 primary rows", "2 mismatches", "2 entries", "2 keys", "2 series"];
        assert_eq!(many, expected);
    }
}

//! From the bytes of the fuzzer to an input: a text of its own, or an edited sample. Random bytes
//! alone never get past the first check of a format.

/// Values that a reader must refuse or bound.
const HOSTILE: [&[u8]; 16] = [
    b"0",
    b"-1",
    b"1e308",
    b"-1e308",
    b"1e-308",
    b"18446744073709551615",
    b"9223372036854775807",
    b"4294967295",
    b"1e999",
    b"nan",
    b"inf",
    b"null",
    b"\"\"",
    b"[]",
    b"{}",
    b"\xff\xfe",
];

/// The bytes themselves where they begin with a printable character; else one of the samples, with
/// the edits that they describe.
pub fn input(bytes: &[u8], samples: &[&[u8]]) -> Vec<u8> {
    match bytes.first() {
        Some(first) if (b' '..=b'~').contains(first) => return bytes.to_vec(),
        None => return Vec::new(),
        Some(_) => {}
    }
    let mut script = Script(&bytes[1..]);
    let mut text = samples[script.below(samples.len())].to_vec();
    while !script.0.is_empty() {
        edit(&mut text, &mut script);
    }
    text
}

fn edit(text: &mut Vec<u8>, script: &mut Script<'_>) {
    let operation = script.below(8);
    let at = script.below(text.len() + 1);
    let end = (at + script.below(64)).min(text.len());
    match operation {
        0 => text.truncate(at),
        1 => drop(text.drain(at..end)),
        2 => {
            let part = text[at..end].to_vec();
            text.splice(at..at, part);
        }
        3 => {
            if let Some(byte) = text.get_mut(at) {
                *byte ^= 1 << script.below(8);
            }
        }
        4 | 5 => with_number(text, at, HOSTILE[script.below(HOSTILE.len())]),
        6 => {
            let word = HOSTILE[script.below(HOSTILE.len())].repeat(1 + script.below(300));
            text.splice(at..at, word);
        }
        _ => {
            let line = |byte: &u8| *byte == b'\n';
            let from = text[..at].iter().rposition(line).map_or(0, |end| end + 1);
            let to = text[at..].iter().position(line);
            text.drain(from..to.map_or(text.len(), |to| at + to + 1));
        }
    }
}

fn with_number(text: &mut Vec<u8>, at: usize, value: &[u8]) {
    let Some(start) = text[at..].iter().position(u8::is_ascii_digit) else { return };
    let start = at + start;
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
    let length = text[start..].iter().take_while(|b| is_part(b)).count();
    text.splice(start..start + length, value.iter().copied());
}

/// Numbers from bytes; zeros behind their end.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn below(&mut self, limit: usize) -> usize {
        let mut number = 0;
        let bytes = if limit > 256 { 3 } else { 1 };
        for _ in 0..bytes {
            let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
            self.0 = rest;
            number = number << 8 | usize::from(*first);
        }
        number % limit.max(1)
    }
}

#[test]
fn edits_are_those_of_the_bytes() {
    let samples: [&[u8]; 1] = [b"a = 12\nb = 3\n"];
    assert_eq!(input(b"text", &samples), b"text");
    assert_eq!(input(&[0], &samples), samples[0]);
    // A number replaced, at the beginning.
    assert_eq!(input(&[0, 0, 4, 0, 0, 1], &samples), b"a = -1\nb = 3\n");
    // A line removed.
    assert_eq!(input(&[0, 0, 7, 0, 0], &samples), b"b = 3\n");
}

//! Damage of files, drawn from a seed: what a failing disk, a torn copy or a hostile author leaves.

use std::path::Path;
use std::process::Command;

use super::Draw;

/// Values that a reader must refuse or bound.
const HOSTILE: [&str; 14] = [
    "0",
    "-1",
    "1e308",
    "-1e308",
    "1e-308",
    "18446744073709551615",
    "9223372036854775807",
    "4294967295",
    "1e999",
    "nan",
    "inf",
    "null",
    "\"\"",
    "[]",
];
/// Longest text that is put into a file.
const LONG_BYTES: usize = 100_000;
/// Deepest nesting of lists that is put into a file.
const DEEP: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Bytes,
    /// Nothing.
    Missing,
    Folder,
    Pipe,
    /// A device without end.
    Endless,
}

const PLACES: [Place; 16] = [
    Place::Bytes,
    Place::Bytes,
    Place::Bytes,
    Place::Bytes,
    Place::Bytes,
    Place::Bytes,
    Place::Bytes,
    Place::Bytes,
    Place::Bytes,
    Place::Bytes,
    Place::Bytes,
    Place::Bytes,
    Place::Missing,
    Place::Folder,
    Place::Pipe,
    Place::Endless,
];

/// Damages a file. Returns what was done to it.
pub fn damage(path: &Path, draw: &mut Draw) -> Result<String, String> {
    let place = draw.one_of(&PLACES);
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if place == Place::Bytes {
        let bytes = std::fs::read(path).map_err(failed)?;
        let (what, changed) = changed(&bytes, draw);
        std::fs::write(path, changed).map_err(failed)?;
        return Ok(what);
    }
    std::fs::remove_file(path).map_err(failed)?;
    match place {
        Place::Folder => std::fs::create_dir(path).map_err(failed)?,
        Place::Pipe => {
            let made = Command::new("mkfifo").arg(path).status().map_err(failed)?;
            if !made.success() {
                return Err(format!("mkfifo {}: {made}", path.display()));
            }
        }
        Place::Endless => std::os::unix::fs::symlink("/dev/zero", path).map_err(failed)?,
        Place::Bytes | Place::Missing => {}
    }
    Ok(format!("{place:?}").to_lowercase())
}

/// Other bytes than these, and what was done.
pub fn changed(bytes: &[u8], draw: &mut Draw) -> (String, Vec<u8>) {
    for _ in 0..20 {
        let (what, changed) = one_change(bytes, draw);
        if changed != bytes {
            return (what.to_owned(), changed);
        }
    }
    ("a byte more".to_owned(), [bytes, b"x"].concat())
}

fn one_change(bytes: &[u8], draw: &mut Draw) -> (&'static str, Vec<u8>) {
    let mut changed = bytes.to_vec();
    let at = index(bytes.len() + 1, draw);
    match draw.below(11) {
        0 => {
            for _ in 0..=draw.below(8) {
                if let Some(byte) = changed.get_mut(index(bytes.len().max(1), draw)) {
                    *byte ^= 1 << draw.below(8);
                }
            }
            ("bits flipped", changed)
        }
        1 => {
            changed.truncate(at);
            ("cut off", changed)
        }
        2 => {
            let end = (at + index(4096, draw)).min(bytes.len());
            changed.drain(at..end);
            ("a part removed", changed)
        }
        3 => {
            let end = (at + index(4096, draw)).min(bytes.len());
            let part = bytes[at..end].to_vec();
            changed.splice(at..at, part);
            ("a part repeated", changed)
        }
        4 => {
            let end = (at + index(64, draw)).min(bytes.len());
            changed[at..end].fill(draw.below(256) as u8);
            ("a part overwritten", changed)
        }
        5 | 6 => ("a number replaced", with_number(bytes, draw)),
        7 => {
            let count = LONG_BYTES >> draw.below(8);
            let word = draw.one_of(&["x", "many words ", "\u{1b}[2J", "é", "\n", "\0"]);
            changed.splice(at..at, word.repeat(count).into_bytes());
            ("a long text put in", changed)
        }
        8 => {
            let bracket = draw.one_of(&["[", "{\"a\":", "[[a]]\n"]);
            changed.splice(at..at, bracket.repeat(DEEP).into_bytes());
            ("deep nesting put in", changed)
        }
        9 => ("a line removed", without_line(bytes, draw)),
        _ => {
            let random = (0..draw.below(4096)).map(|_| draw.below(256) as u8);
            ("other bytes", random.collect())
        }
    }
}

fn index(below: usize, draw: &mut Draw) -> usize {
    usize::try_from(draw.below(below.max(1) as u64)).unwrap_or_default()
}

/// The text with one of its numbers replaced by a hostile value.
fn with_number(bytes: &[u8], draw: &mut Draw) -> Vec<u8> {
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let from = index(bytes.len(), draw);
    let start = (from..bytes.len()).find(|&at| is_digit(at) && (at == 0 || !is_digit(at - 1)));
    let Some(start) = start else { return bytes.to_vec() };
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
    let length = bytes[start..].iter().take_while(|byte| is_part(byte)).count();
    let value = draw.one_of(&HOSTILE).as_bytes();
    [&bytes[..start], value, &bytes[start + length..]].concat()
}

fn without_line(bytes: &[u8], draw: &mut Draw) -> Vec<u8> {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let out = index(lines.len(), draw);
    let kept = lines.iter().enumerate().filter(|(at, _)| *at != out);
    kept.flat_map(|(_, line)| line.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Draw, changed, with_number};

    #[test]
    fn a_seed_gives_one_damage_that_changes_something() {
        let text = b"a = 12\nb = [3.5e6, 4]\n";
        for seed in 0..500 {
            let once = changed(text, &mut Draw::new(seed));
            assert_eq!(once, changed(text, &mut Draw::new(seed)));
            assert_ne!(once.1, text, "{}", once.0);
        }
        assert_ne!(changed(b"", &mut Draw::new(1)).1, b"");
    }

    #[test]
    fn a_whole_number_is_replaced() {
        for seed in 0..100 {
            let text = with_number(b"a = 3.5e6 # end", &mut Draw::new(seed));
            let text = String::from_utf8_lossy(&text).into_owned();
            assert!(text.starts_with("a = ") && text.ends_with(" # end") || text.contains("3."));
        }
    }
}

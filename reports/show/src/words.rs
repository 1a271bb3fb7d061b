//! Text made safe to print, and lists as English.

/// Replaces control characters, so that text of a record cannot control a terminal.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// `a`, `a and b`, `a, b and c`; with `or` as the last word likewise.
#[must_use]
pub fn list<T: AsRef<str>>(items: &[T], last_word: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} {last_word} {}", first.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn lists_read_as_english() {
        assert_eq!(list::<&str>(&[], "and"), "");
        assert_eq!(list(&["DRAM"], "or"), "DRAM");
        assert_eq!(list(&["DRAM", "L2"], "or"), "DRAM or L2");
        assert_eq!(list(&["DRAM", "L2", "PCIe"], "and"), "DRAM, L2 and PCIe");
    }
}

//! Text of fixed width: lines broken at spaces.

/// Columns of a terminal for which text is laid out.
pub const COLUMNS: usize = 80;

/// Keeps a number and its `%` on one line.
const TIED: &str = "\u{a0}%";

/// The text in lines of at most [`COLUMNS`], each after the first one indented. Leading spaces
/// stay, and a word that is longer than a line stays whole.
#[must_use]
pub fn wrap(text: &str, indent: usize) -> String {
    let tied = text.replace(" %", TIED);
    let words = tied.trim_start();
    let mut line = " ".repeat(tied.chars().count() - words.chars().count());
    let mut lines = Vec::new();
    let mut is_new = true;
    for word in words.split(' ') {
        let needed = line.chars().count() + usize::from(!is_new) + word.chars().count();
        if !is_new && needed > COLUMNS {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            is_new = true;
        }
        if !is_new {
            line.push(' ');
        }
        line.push_str(word);
        is_new = false;
    }
    lines.push(line);
    lines.join("\n").replace(TIED, " %")
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, wrap};

    #[test]
    fn lines_fit_and_nothing_is_lost() {
        let text = "one   two ".repeat(40);
        let wrapped = wrap(&text, 4);
        assert!(wrapped.lines().all(|line| line.chars().count() <= COLUMNS));
        assert!(wrapped.lines().skip(1).all(|line| line.starts_with("    ")));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&wrapped), words(&text));
        assert_eq!(wrap("short", 4), "short");
        assert_eq!(wrap("    short", 2), "    short");
        let tied = wrap(&format!("{} 4 % is", "x".repeat(COLUMNS - 2)), 2);
        assert_eq!(tied.lines().last(), Some("  4 % is"));
    }
}

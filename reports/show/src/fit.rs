//! Fits tables and text to the width of a terminal by breaking lines.

use unicode_width::UnicodeWidthStr;

/// Minimum width of a column, also in a narrow terminal.
const COLUMN_MIN: usize = 3;

/// Keeps a number and its `%` on one line.
const TIED: &str = "\u{a0}%";

/// A longer word may break at its joints without harm to the reader; the longest name of a
/// mechanism does not.
const WORD_MAX: usize = 17;

/// Breaks lines inside the cells so that a row takes at most `limit` columns, with `border` columns
/// for each cell and one more. Every row has a cell for every column, and `solid` says whose cells
/// never break.
pub(crate) fn fit(rows: &mut [Vec<String>], limit: usize, border: usize, solid: &[bool]) {
    let columns = rows.first().map_or(0, Vec::len);
    let natural = widest(rows, columns, |cell| cell.lines().map(width).max());
    let mut unbroken = widest(rows, columns, |cell| {
        cell.lines()
            .flat_map(|line| pieces(line).into_iter().map(|piece| width(piece.trim_end())))
            .max()
    });
    let mut least = vec![COLUMN_MIN; columns];
    for at in (0..columns).filter(|&at| solid[at]) {
        let whole = whole(rows, at);
        (unbroken[at], least[at]) = (whole, whole);
    }
    let room = limit.saturating_sub(columns * border + 1);
    let widths = shrink(&shrink(&natural, &unbroken, room), &least, room);
    for row in rows {
        for (cell, width) in row.iter_mut().zip(&widths) {
            let lines: Vec<String> = cell.lines().flat_map(|line| wrap(line, *width)).collect();
            *cell = lines.join("\n");
        }
    }
}

/// Whether the table fits without breaking inside a word or a number.
pub(crate) fn fits(rows: &[Vec<String>], limit: usize, border: usize, solid: &[bool]) -> bool {
    let columns = rows.first().map_or(0, Vec::len);
    let words = widest(rows, columns, |cell| {
        cell.lines().flat_map(pieces).map(|piece| width(piece.trim_end())).max()
    });
    let needed = (0..columns).map(|at| if solid[at] { whole(rows, at) } else { words[at] });
    needed.sum::<usize>() + columns * border < limit
}

/// Columns that the cells of a column of numbers need in one piece; its heading may break between
/// words.
fn whole(rows: &[Vec<String>], column: usize) -> usize {
    let (heading, cells) = rows.split_first().map_or((&[][..], rows), |(a, b)| (a.as_slice(), b));
    let words = heading.iter().skip(column).take(1).flat_map(|text| text.split_whitespace());
    let lines = cells.iter().flat_map(|row| row[column].lines());
    words.chain(lines).map(width).max().unwrap_or(0)
}

/// Breaks a text between words into lines of at most `limit` characters, behind the margin of the
/// first line and that of the others. A longer word breaks at its joints.
pub fn wrap_words(text: &str, limit: usize, [first, rest]: [&str; 2]) -> Vec<String> {
    let tied = text.replace(" %", TIED);
    let mut lines: Vec<String> = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in tied.split(' ').filter(|word| !word.is_empty()) {
        let gap = usize::from(!is_empty);
        if !is_empty && width(&line) + gap + width(word) > limit {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            is_empty = true;
        }
        let room = limit.saturating_sub(width(rest)).max(1);
        let mut pieces = match width(word) > room {
            true => wrap(word, room),
            false => vec![word.to_owned()],
        };
        let last = pieces.pop().unwrap_or_default();
        for piece in pieces {
            lines.push(std::mem::replace(&mut line, rest.to_owned()) + &piece);
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&last);
        is_empty = false;
    }
    if !is_empty {
        lines.push(line);
    }
    lines.into_iter().map(|line| line.replace(TIED, " %")).collect()
}

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

fn widest(rows: &[Vec<String>], columns: usize, of: impl Fn(&str) -> Option<usize>) -> Vec<usize> {
    let of_column = |column: usize| rows.iter().filter_map(|row| of(&row[column])).max();
    (0..columns).map(|column| of_column(column).unwrap_or(0)).collect()
}

/// Narrows the widest column by one character until all fit or every column is at its floor.
fn shrink(widths: &[usize], floors: &[usize], room: usize) -> Vec<usize> {
    let mut widths = widths.to_vec();
    while widths.iter().sum::<usize>() > room {
        let shrinkable = (0..widths.len()).filter(|&i| widths[i] > floors[i]);
        let Some(widest) = shrinkable.max_by_key(|&i| widths[i]) else {
            break;
        };
        widths[widest] -= 1;
    }
    widths
}

/// Breaks a line into lines of at most `limit` characters, between pieces if possible.
fn wrap(line: &str, limit: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in pieces(line) {
        let last = lines.last().map_or(0, |last| width(last));
        if last > 0 && last + width(piece.trim_end()) > limit {
            lines.push(String::new());
        }
        let mut rest: Vec<char> = piece.chars().collect();
        while width(rest.iter().collect::<String>().trim_end()) > limit.max(1) {
            let head: String = rest.drain(..limit.max(1)).collect();
            push(&mut lines, &head);
            lines.push(String::new());
        }
        push(&mut lines, &rest.into_iter().collect::<String>());
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

fn push(lines: &mut [String], text: &str) {
    if let Some(last) = lines.last_mut() {
        last.push_str(text);
    }
}

/// Splits a line where it may break: between words, and inside a word that is longer than
/// [`WORD_MAX`] at its joints.
fn pieces(line: &str) -> Vec<&str> {
    let words = line.split_inclusive(' ');
    words
        .flat_map(|word| match width(word.trim_end()) > WORD_MAX {
            true => joints(word),
            false => vec![word],
        })
        .collect()
}

/// Splits a word after a slash, hyphen or comma, and before an opening bracket, so that
/// `time-slicing[slice=default]` breaks at its options.
fn joints(word: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let (mut before, mut two_before) = (' ', ' ');
    for (at, c) in word.char_indices() {
        let after_break = match before {
            '/' | ',' => c != ' ',
            // Without a word before it, the hyphen is a minus.
            '-' => c != ' ' && two_before.is_alphanumeric(),
            _ => c == '[' && before.is_alphanumeric(),
        };
        if after_break {
            pieces.push(&word[start..at]);
            start = at;
        }
        (two_before, before) = (before, c);
    }
    pieces.push(&word[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{fit, fits, pieces, wrap, wrap_words};

    #[test]
    fn names_break_at_joints_and_intervals_between_bounds() {
        assert_eq!(pieces("time-slicing[slice=default]"), ["time-", "slicing", "[slice=default]"]);
        assert_eq!(pieces("[-0.011, 0.017]"), ["[-0.011, ", "0.017]"]);
        assert_eq!(pieces("-0.5 ratio"), ["-0.5 ", "ratio"]);
        assert_eq!(wrap("time-slicing[slice=default]", 16), ["time-slicing", "[slice=default]"]);
        assert_eq!(wrap("[0.493, 0.501]", 8), ["[0.493,", "0.501]"]);
        assert_eq!(wrap("inconclusive", 8), ["inconclu", "sive"]);
    }

    #[test]
    fn leaves_a_table_that_fits_unchanged() {
        let mut rows = vec![vec!["a b c".to_owned(), "x\ny z".to_owned()]];
        let before = rows.clone();
        fit(&mut rows, 5 + 3 + 7, 3, &[false; 2]);
        assert_eq!(rows, before);
        fit(&mut rows, 5 + 3 + 6, 3, &[false; 2]);
        assert_eq!(rows, [["a b\nc", "x\ny z"]]);
    }

    #[test]
    fn words_stay_whole_and_the_margins_differ() {
        let lines = wrap_words("not run: mig-mps, mps (it needs driver 615)", 20, ["", "  "]);
        assert_eq!(lines, ["not run: mig-mps,", "  mps (it needs", "  driver 615)"]);
        assert_eq!(wrap_words("", 20, ["", ""]), [""; 0]);
        let path = wrap_words("record: /var/tmp/aaaaaaaaaaaa/bbbb", 14, ["", " "]);
        assert!(path.iter().all(|line| line.chars().count() <= 14), "{path:?}");
    }

    #[test]
    fn a_table_fits_where_no_short_word_breaks() {
        let rows = vec![vec!["inconclusive".to_owned(), "0.493 ratio".to_owned()]];
        assert!(fits(&rows, 12 + 5 + 2 * 3 + 1, 3, &[false; 2]));
        assert!(!fits(&rows, 12 + 5 + 2 * 3, 3, &[false; 2]));
        let mut rows =
            vec![vec!["level".to_owned(), "jitter (medians)".to_owned()], rows[0].clone()];
        assert!(!fits(&rows, 12 + 5 + 2 * 3 + 1, 3, &[false, true]));
        fit(&mut rows, 12 + 11 + 2 * 3 + 1, 3, &[false, true]);
        assert_eq!([&rows[0][1], &rows[1][1]], ["jitter\n(medians)", "0.493 ratio"]);
    }

    proptest! {
        #[test]
        fn no_character_is_lost_and_no_line_too_long(
            line in "[a-z0-9 /,\\-\\[\\]äß]{0,60}",
            limit in 1..30usize,
        ) {
            let lines = wrap(&line, limit);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= limit), "{lines:?}");
            let solid = |text: &str| text.replace(' ', "");
            prop_assert_eq!(solid(&lines.concat()), solid(&line));
        }
    }
}

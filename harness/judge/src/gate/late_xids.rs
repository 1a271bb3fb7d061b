//! Assigns each Xid to the cell in which it happened, by the stamp of its line in the kernel's log.
//!
//! NVML's events have no time. An event that arrives late is read at the end of a later cell, and
//! its line was logged before. An Xid without a stamp, or with one between two cells, can be of
//! either, and counts in both.

use std::collections::VecDeque;

use gpubench_record::{CellSpan, XidLine};

/// What one cell has read of Xids. Cells are in the order in which they ran.
#[derive(Debug, Clone, Copy)]
pub struct XidReading<'a> {
    pub cell: &'a str,
    /// Its start and end; absent in records of older versions and for a cell that did not start.
    pub span: Option<CellSpan>,
    /// Numbers that NVML reported, read at the end of the cell; `None` if NVML reports none.
    pub numbers: Option<&'a [u32]>,
    /// Lines of the kernel's log, read at the same time.
    pub lines: &'a [XidLine],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellXid {
    pub number: u32,
    /// Why the cell has it although another cell read it, or may have it too.
    pub note: Option<String>,
}

/// The Xids of each cell; `None` where NVML reported none.
pub fn assign_xids(readings: &[XidReading<'_>]) -> Vec<Option<Vec<CellXid>>> {
    let mut found: Vec<Option<Vec<CellXid>>> =
        readings.iter().map(|reading| reading.numbers.map(|_| Vec::new())).collect();
    // Lines whose event has not arrived, each with the cell that read it.
    let mut waiting: VecDeque<(usize, &XidLine)> = VecDeque::new();
    for (at, reading) in readings.iter().enumerate() {
        waiting.extend(reading.lines.iter().map(|line| (at, line)));
        // Without an event at the next reading a line belongs to an event that was lost.
        waiting.retain(|(read, _)| read + 1 >= at);
        for &number in reading.numbers.unwrap_or_default() {
            let line = waiting.iter().position(|(_, line)| line.number == number);
            let line = line.and_then(|line| waiting.remove(line));
            for cell in cells_of(readings, at, line) {
                let xid = CellXid { number, note: note(readings, cell, at, line) };
                found[cell].get_or_insert_default().push(xid);
            }
        }
    }
    found
}

/// The cells that an Xid can be of, which cell `at` read.
fn cells_of(readings: &[XidReading<'_>], at: usize, line: Option<(usize, &XidLine)>) -> Vec<usize> {
    // A record of an older version: the cell that read the Xid has it.
    let start = |cell: usize| readings[cell].span.map(|span| span.start_ns);
    if at == 0 || start(at).is_none() {
        return vec![at];
    }
    let Some((read, t_ns)) = line.and_then(|(read, line)| Some((read, line.t_ns?))) else {
        // A line that the cell before read was logged in that cell or earlier.
        let logged_before = line.is_some_and(|(read, _)| read < at);
        return match logged_before {
            true => vec![at - 1],
            false => vec![at - 1, at],
        };
    };
    let begun = (0..=read).rev().find(|cell| start(*cell).is_some_and(|start_ns| start_ns <= t_ns));
    match begun {
        // Before the first cell: calibration and the first cell are read together.
        None => vec![0],
        Some(cell) => {
            let is_in = readings[cell].span.is_some_and(|span| t_ns <= span.end_ns);
            match is_in || cell == read {
                true => vec![cell],
                false => vec![cell, cell + 1],
            }
        }
    }
}

/// What the gate of a cell says beside the number.
fn note(
    readings: &[XidReading<'_>],
    cell: usize,
    at: usize,
    line: Option<(usize, &XidLine)>,
) -> Option<String> {
    let cells = cells_of(readings, at, line);
    match cells.as_slice() {
        [one] if *one == at => None,
        [_] => Some(format!("read late, at the end of {}", readings[at].cell)),
        all => {
            let mut others = all.iter().filter(|other| **other != cell);
            let other = others.next().map_or("", |other| readings[*other].cell);
            Some(format!("of this cell or of {other}: {}", why(line)))
        }
    }
}

fn why(line: Option<(usize, &XidLine)>) -> &'static str {
    match line.and_then(|(_, line)| line.t_ns) {
        Some(_) => "its stamp lies between them",
        None => "it has no stamp",
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::{CellSpan, XidLine};

    use super::{CellXid, XidReading, assign_xids};

    const CELLS: [&str; 3] = ["a", "b", "c"];

    fn line(number: u32, t_ns: Option<u64>) -> XidLine {
        XidLine { number, t_ns, ..XidLine::default() }
    }

    /// Cells of 100 ns every 200 ns from 1000 on; numbers and lines that each read.
    fn assigned(read: &[(&[u32], &[XidLine]); 3]) -> Vec<Vec<CellXid>> {
        let reading = |(at, (numbers, lines)): (usize, &(&'static [u32], &'static [XidLine]))| {
            let start_ns = 1000 + 200 * at as u64;
            XidReading {
                cell: CELLS[at],
                span: Some(CellSpan { start_ns, end_ns: start_ns + 100 }),
                numbers: Some(numbers),
                lines,
            }
        };
        let leak = |(numbers, lines): &(&[u32], &[XidLine])| {
            let numbers: &'static [u32] = numbers.to_vec().leak();
            let lines: &'static [XidLine] = lines.to_vec().leak();
            (numbers, lines)
        };
        let read: Vec<_> = read.iter().map(leak).collect();
        let readings: Vec<_> = read.iter().enumerate().map(reading).collect();
        let found = assign_xids(&readings);
        found.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn own(number: u32) -> CellXid {
        CellXid { number, note: None }
    }

    fn noted(number: u32, note: &str) -> CellXid {
        CellXid { number, note: Some(note.to_owned()) }
    }

    #[test]
    fn an_xid_belongs_to_the_cell_of_its_stamp() {
        let none: (&[u32], &[XidLine]) = (&[], &[]);
        // In cell b, also after its planned end.
        for t_ns in [1200, 1290, 1350] {
            let found = assigned(&[none, (&[13], &[line(13, Some(t_ns))]), none]);
            assert_eq!(found, [vec![], vec![own(13)], vec![]], "{t_ns}");
        }
        // Line and event are late.
        let late = "read late, at the end of b";
        let found = assigned(&[none, (&[13], &[line(13, Some(1050))]), none]);
        assert_eq!(found, [vec![noted(13, late)], vec![], vec![]]);
        // The event alone is late, also beside one of the cell itself.
        let found =
            assigned(&[(&[], &[line(13, Some(1050))]), (&[13, 13], &[line(13, Some(1250))]), none]);
        assert_eq!(found, [vec![noted(13, late)], vec![own(13)], vec![]]);
        let found = assigned(&[(&[], &[line(13, None)]), (&[13], &[]), none]);
        assert_eq!(found, [vec![noted(13, late)], vec![], vec![]]);
        let before = assigned(&[(&[13], &[line(13, Some(3))]), none, none]);
        assert_eq!(before, [vec![own(13)], vec![], vec![]]);
    }

    #[test]
    fn an_xid_that_can_be_of_two_cells_counts_in_both() {
        let none: (&[u32], &[XidLine]) = (&[], &[]);
        let found = assigned(&[none, (&[31], &[line(31, Some(1150))]), none]);
        let between = "its stamp lies between them";
        let of = |other: &str, why: &str| format!("of this cell or of {other}: {why}");
        assert_eq!(
            found,
            [vec![noted(31, &of("b", between))], vec![noted(31, &of("a", between))], vec![]]
        );
        for lines in [&[line(31, None)][..], &[], &[line(45, Some(1250))]] {
            let found = assigned(&[none, (&[31], lines), none]);
            let both = [
                vec![noted(31, &of("b", "it has no stamp"))],
                vec![noted(31, &of("a", "it has no stamp"))],
                vec![],
            ];
            assert_eq!(found, both, "{lines:?}");
        }
    }

    #[test]
    fn cells_of_old_records_have_what_they_read() {
        let reading = |cell, numbers| XidReading { cell, span: None, numbers, lines: &[] };
        let found = assign_xids(&[reading("a", None), reading("b", Some(&[13][..]))]);
        assert_eq!(found, [None, Some(vec![own(13)])]);
    }
}

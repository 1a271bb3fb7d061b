//! The same document through every writer.

use crate::{Block, Cell, Chart, Column, Line, Look, Notes, Page, Paint, Table, trimmed};

fn sample() -> Page {
    let mut notes = Notes::default();
    let mut page = Page::new("gpubench: a <GPU>");
    page.notice("INCOMPLETE: 4 % of the cells");
    page.push(Line::new("mps, retention falls").indented(0, 14).marked("REGRESSED", Paint::Bad));
    let columns = [Column::text("mechanism"), Column::number("retention"), Column::text("outcome")];
    let row = |name: &str, notes: Vec<usize>| {
        let word = Cell::text("failed").painted(Paint::Bad, "failed").with_notes(notes);
        vec![Cell::text(name), Cell::lines(["0.5", "[0.4, 0.6]"]), word]
    };
    let rows = [row("mps", vec![notes.number("no\u{7} proof")]), row("time-slicing", Vec::new())];
    page.push(Table::new("matrix", "Isolation", columns, rows));
    page.push(Block::Notes(notes.into_texts()));
    page.push(Chart { caption: "a".to_owned(), svg: "<svg></svg>".to_owned() });
    page
}

#[test]
fn every_width_holds_and_no_line_ends_in_a_space() {
    for width in [20, 30, 60, 80, 120] {
        for color in [false, true] {
            let look = Look { width, color };
            for line in sample().text(look).lines() {
                let plain: String =
                    line.split('\u{1b}').enumerate().fold(String::new(), |text, (at, part)| {
                        let part = if at == 0 { part } else { part.split_once('m').unwrap().1 };
                        text + part
                    });
                assert!(plain.chars().count() <= width, "{width}: {line}");
                assert!(!plain.ends_with(' '), "{width}: {line:?}");
            }
        }
    }
}

#[test]
fn colours_mark_words_and_only_where_they_are_wanted() {
    let text = sample().text(Look { width: 80, color: true });
    assert!(text.contains("\u{1b}[31mREGRESSED\u{1b}[0m     mps, retention"), "{text}");
    assert!(text.contains("\u{1b}[31mfailed"), "{text}");
    assert!(!sample().text(Look::PIPED).contains('\u{1b}'));
    assert_eq!(trimmed("a \u{1b}[31mb  \u{1b}[39m  "), "a \u{1b}[31mb\u{1b}[39m");
    assert_eq!(trimmed("a  "), "a");
}

#[test]
fn numbers_are_right_aligned_and_whole() {
    let columns = [Column::text("name"), Column::number("rate")];
    let table = Table::plain(columns, [["a", "1.0"], ["b c d e f g h", "10000.0 /s"]]);
    let expected = " name            rate\n a                1.0\n b c d e   10000.0 /s\n f g h\n";
    assert_eq!(table.text(Look { width: 25, color: false }), expected);
}

#[test]
fn pages_escape_once_and_hold_charts() {
    let html = sample().html();
    assert!(html.contains("<h1>gpubench: a &lt;GPU&gt;</h1>"), "{html}");
    assert!(html.contains("<td class=\"figure\">0.5 <i>[0.4, 0.6]</i></td>"), "{html}");
    assert!(html.contains("<span class=\"reason\">no\u{fffd} proof</span>"), "{html}");
    assert!(html.contains("<svg></svg>"), "{html}");
    let markdown = sample().markdown();
    assert!(markdown.contains("| mps | 0.5 \\[0.4, 0.6\\] | failed (note 1) |"), "{markdown}");
    assert!(markdown.starts_with("# gpubench: a &lt;GPU&gt;\n\n**INCOMPLETE"), "{markdown}");
    assert!(!markdown.contains("svg"));
    let csv = sample().csv();
    assert!(csv.starts_with("mechanism,retention,outcome\r\nmps,\"0.5 [0.4, 0.6]\",failed\r\n"));
}

#[test]
fn lists_read_as_english() {
    assert_eq!(crate::list::<&str>(&[], "and"), "");
    assert_eq!(crate::list(&["DRAM"], "or"), "DRAM");
    assert_eq!(crate::list(&["DRAM", "L2"], "or"), "DRAM or L2");
    assert_eq!(crate::list(&["DRAM", "L2", "PCIe"], "and"), "DRAM, L2 and PCIe");
}

#[test]
fn lines_of_a_listed_cell_are_items_and_figures_keep_their_intervals() {
    let names = ["a", "b", "c", "d", "e"].map(|name| name.repeat(12));
    let cells = [
        Cell::lines(["bandwidth/l2", "l2 beside l2-stream"]),
        Cell::lines(["8", "1987 requests"]),
        Cell::lines(["0.288", "[0.287, 0.290]", "ratio"]),
        Cell::lines(["0.288", "[0.2, 0.3]", "0.627", "[0.6, 0.7]"]),
        Cell::lines(["x, y: Partial", "z: None"]),
    ];
    let table = Table::plain(names.map(Column::number), [cells.to_vec()]);
    let text = table.text(Look { width: 60, color: false });
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in [
        "bandwidth/l2, l2 beside l2-stream ",
        ": 8, 1987 requests",
        ": 0.288 [0.287, 0.290] ratio",
        ": 0.288 [0.2, 0.3]; 0.627 [0.6, 0.7] ",
        ": x, y: Partial; z: None",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

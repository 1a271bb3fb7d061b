//! The words of a comparison of two sides, and its documents: lines for a terminal, a table for
//! pages.

use gpubench_record::{DeviceKind, counted};
use gpubench_show::{Block, Cell, Line, Look, Page, Paint, Table};

use super::figures::{figure_or_bound, of_change};
use super::{Detail, Format, RenderError, VIRTUAL_TITLE, intervals, junit, summary, written};
use crate::diff::{DiffRow, Difference, Doubt, Figures, KeyDifference, Report, Treatment, Verdict};

/// A comparison as words.
pub(super) struct Document {
    /// The conclusion.
    pub title: String,
    /// What a reader needs before any figure, one sentence each.
    pub notices: Vec<String>,
    /// Those that changed first, then those that are open, each by its size.
    pub rows: Vec<RowWords>,
    /// How many of them changed, and of the doubts those of these rows.
    pub changed: usize,
    changed_doubts: usize,
    /// How many rows are unchanged, and what is known of them.
    unchanged: Option<String>,
    /// What the star of a verdict says, where one has it.
    star: Option<String>,
    /// What reports print beside these rows, numbered as in their notes.
    pub doubts: Vec<String>,
    /// Counts and what was left out, one sentence each.
    pub summary: Vec<String>,
}

pub(super) struct RowWords {
    pub verdict: String,
    pub mechanism: String,
    pub axis: String,
    pub metric: &'static str,
    /// Before and after.
    pub figures: [String; 2],
    /// With its interval.
    pub change: String,
    pub margin: String,
    pub detectable: String,
    pub sessions: String,
    /// Hint or reason.
    pub note: String,
}

/// The headings of a table of rows.
const COLUMNS: [&str; 11] = [
    "verdict",
    "mechanism",
    "axis",
    "metric",
    "before",
    "after",
    "change [interval]",
    "margin",
    "detectable",
    "sessions",
    "hint or reason",
];

impl RowWords {
    fn paint(&self) -> Paint {
        match self.verdict.trim_end_matches('*') {
            "REGRESSED" => Paint::Bad,
            "improved" => Paint::Good,
            "inconclusive" => Paint::Weak,
            "unchanged" => Paint::Plain,
            _ => Paint::Faint,
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let class = match self.paint() {
            Paint::Bad => "regressed",
            Paint::Good => "improved",
            _ => "",
        };
        let [before, after] = &self.figures;
        let texts: [&str; COLUMNS.len() - 1] = [
            &self.mechanism,
            &self.axis,
            self.metric,
            before,
            after,
            &self.change,
            &self.margin,
            &self.detectable,
            &self.sessions,
            &self.note,
        ];
        let verdict = Cell::text(&self.verdict).painted(self.paint(), class);
        std::iter::once(verdict).chain(texts.map(Cell::text)).collect()
    }

    fn what(&self) -> String {
        format!("{} {}, {}", self.mechanism, self.metric, self.axis)
    }

    /// The row in one sentence, which holds the change or the reason why there is none.
    fn line(&self) -> Line {
        let found = if self.change == "-" { &self.note } else { &self.change };
        let line = Line::new(format!("{}: {found}", self.what())).indented(0, VERDICT);
        line.marked(&self.verdict, self.paint())
    }

    /// Three lines at most, whatever the lengths of the names.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines =
            vec![Line::new(self.what()).indented(0, VERDICT).marked(&self.verdict, self.paint())];
        let mut below = |text: String| lines.push(Line::new(text).indented(VERDICT, VERDICT));
        let [before, after] = &self.figures;
        if self.change != "-" {
            below(format!(
                "{before} -> {after}, {}; margin {}, detectable {}, {} sessions",
                self.change, self.margin, self.detectable, self.sessions
            ));
        }
        if !self.note.is_empty() {
            below(self.note.clone());
        }
        lines
    }
}

/// Width of the column of verdicts.
const VERDICT: usize = 14;

/// The comparison in one of the formats.
/// Fails when JSON or XML cannot represent it.
pub fn diff(
    report: &Report,
    format: Format,
    detail: Detail,
    look: Look,
) -> Result<String, RenderError> {
    let document = |format| match format {
        Format::Text => Document::of(report, detail).lines(detail),
        Format::Html => with_charts(report),
        _ => page(report, detail),
    };
    match format {
        Format::Junit => junit::diff(report),
        _ => {
            written(document, report.rows.iter().map(|row| &*row.key.variant), report, format, look)
        }
    }
}

/// The comparison with one table.
pub fn page(report: &Report, detail: Detail) -> Page {
    let document = Document::of(report, detail);
    let heading = match detail {
        Detail::Changes => "Rows that changed or are undecided",
        Detail::Full => "Every row, those that changed first",
    };
    let rows = document.rows.iter().map(RowWords::cells);
    let numbers = ["before", "after", "margin", "detectable", "sessions"];
    let table = Table::new("", heading, COLUMNS, rows).numbers(&numbers);
    let mut page = Page::new(document.title);
    document.notices.into_iter().for_each(|notice| page.notice(notice));
    if !table.rows.is_empty() {
        page.push(table);
    }
    document
        .star
        .into_iter()
        .chain(document.doubts)
        .chain(document.summary)
        .for_each(|line| page.say(line));
    page
}

/// Rows that changed which the page names before its charts.
const LEAD_MAX: usize = 12;

/// The page: what changed, the intervals of all rows, then everything.
fn with_charts(report: &Report) -> Page {
    let mut page = page(report, Detail::Full);
    page.title = summary::page_title(report, &title(report));
    let document = Document::of(report, Detail::Changes);
    let mut lead = vec![Block::Notice(summary::conclusion(report))];
    let changed = document.rows[..document.changed].iter();
    lead.extend(changed.clone().take(LEAD_MAX).map(|row| row.line().into()));
    let more = changed.len().saturating_sub(LEAD_MAX);
    lead.extend((more > 0).then(|| Line::new(format!("and {more} more, in the table")).into()));
    lead.extend(intervals::charts(report).into_iter().map(Block::Chart));
    // The first notice is the title, which a page has already.
    page.blocks.remove(0);
    let at = usize::from(report.kind == DeviceKind::Virtual);
    page.blocks.splice(at..at, lead);
    page
}

/// Open rows that a terminal shows where there are several, each in one sentence.
const OPEN_MAX: usize = 3;

impl Document {
    /// The document for a terminal: one screen of rows that did not change, unless all are wanted.
    pub(super) fn lines(mut self, detail: Detail) -> Page {
        let mut page = Page::new(self.title);
        self.notices.into_iter().for_each(|notice| page.notice(notice));
        page.push(Block::Gap);
        let (changed, others) = self.rows.split_at(self.changed);
        changed.iter().flat_map(RowWords::lines).for_each(|line| page.push(line));
        if detail == Detail::Full || others.len() <= 1 {
            others.iter().flat_map(RowWords::lines).for_each(|line| page.push(line));
        } else {
            others.iter().take(OPEN_MAX).for_each(|row| page.push(row.line()));
            self.doubts.truncate(self.changed_doubts);
        }
        let more = others.len().saturating_sub(OPEN_MAX);
        if detail == Detail::Changes && more > 0 {
            let more = counted(more, "more row");
            page.push(Line::new(format!("{more} without a verdict: --full")).indented(VERDICT, 0));
        }
        let unchanged = self.unchanged.map(|text| {
            Line::new(text).indented(0, VERDICT).marked(Verdict::Unchanged.as_str(), Paint::Plain)
        });
        unchanged.into_iter().for_each(|line| page.push(line));
        page.push(Block::Gap);
        let notes = self.star.into_iter().chain(self.doubts);
        notes.for_each(|text| page.push(Line::new(text).indented(0, 4)));
        page.push(Block::Gap);
        self.summary.into_iter().for_each(|text| page.say(text));
        page
    }

    pub(super) fn of(report: &Report, detail: Detail) -> Self {
        let shown = |row: &&DiffRow| match row.verdict {
            _ if detail == Detail::Full => true,
            Verdict::Regressed | Verdict::Improved => true,
            Verdict::Unchanged => false,
            Verdict::Inconclusive => row.primary,
            Verdict::Invalid | Verdict::NotMeasured => {
                row.primary && row.sessions.iter().any(|n| *n > 0)
            }
        };
        let mut rows: Vec<&DiffRow> = report.rows.iter().filter(shown).collect();
        rows.sort_by(|a, b| {
            let order = |row: &DiffRow| {
                let rank = Verdict::ALL.iter().position(|one| *one == row.verdict);
                (!row.is_change(), !row.primary, rank)
            };
            order(a).cmp(&order(b)).then(b.size().total_cmp(&a.size()))
        });
        let changed = rows.iter().filter(|row| row.is_change()).count();
        let mut numbers = Numbers::default();
        let mut words: Vec<RowWords> =
            rows[..changed].iter().map(|row| row_words(row, &mut numbers)).collect();
        let changed_doubts = numbers.0.len();
        words.extend(rows[changed..].iter().map(|row| row_words(row, &mut numbers)));
        Self {
            title: summary::verdict(report),
            notices: notices(report),
            rows: words,
            changed,
            changed_doubts,
            unchanged: if detail == Detail::Full { None } else { unchanged(report) },
            star: rows.iter().any(|row| is_starred(row)).then(|| STAR.to_owned()),
            doubts: numbers.lines(),
            summary: summary::lines(report),
        }
    }
}

/// The rows that are shown to be equal, with the one that is least so.
fn unchanged(report: &Report) -> Option<String> {
    let is_unchanged = |row: &&DiffRow| row.primary && row.verdict == Verdict::Unchanged;
    let ends = |f: &Figures| f.equivalence_hi.max(-f.equivalence_lo) / f.margin;
    let rows = report.rows.iter().filter(is_unchanged);
    let rows: Vec<_> = rows.filter_map(|row| Some((row, row.figures.as_ref()?))).collect();
    let (widest, figures) = rows.iter().max_by(|a, b| ends(a.1).total_cmp(&ends(b.1)))?;
    let [lo, hi] = [figures.equivalence_lo, figures.equivalence_hi]
        .map(|end| of_change(widest.key.metric, end));
    Some(format!(
        "{} shown to be equal: at most [{lo}, {hi}] (90 %), in {} {}, {}",
        counted(rows.len(), "row"),
        widest.key.variant,
        widest.key.metric.as_str(),
        widest.key.axis
    ))
}

/// What was compared.
fn title(report: &Report) -> String {
    let varied: Vec<String> = report
        .differences
        .iter()
        .filter(|one| one.treatment == Treatment::Varied)
        .map(|one| format!("{} {}", one.fact, arrow(&one.before, &one.after)))
        .collect();
    let varied = if varied.is_empty() { String::new() } else { varied.join(", ") + " | " };
    let days = [report.before.first(), report.after.last()];
    let mut days: Vec<&str> =
        days.into_iter().flatten().filter_map(|one| one.started_at.get(..10)).collect();
    days.dedup();
    let days = days.join(" -> ");
    format!(
        "{varied}{} | {} + {} sessions | {days}",
        report.product,
        report.before.len(),
        report.after.len()
    )
}

fn arrow(before: &[String], after: &[String]) -> String {
    let side = |values: &[String]| match values {
        [] => "(not recorded)".to_owned(),
        [one, two, _, ..] => format!("{} different ({one}, {two}...)", values.len()),
        values => values.join(", "),
    };
    let [before, after] = [before, after].map(|values| {
        let short: Vec<String> = values.iter().map(|value| shortened(value)).collect();
        side(&short)
    });
    format!("{before} -> {after}")
}

/// Characters of a hash that tell it from others of one comparison; formats for programs have all.
const HASH_CHARS: usize = 12;

/// The value, with a hash cut to its first characters.
fn shortened(value: &str) -> String {
    let is_hash = value.len() >= 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { value[..HASH_CHARS].to_owned() } else { value.to_owned() }
}

fn notices(report: &Report) -> Vec<String> {
    let mut notices = vec![title(report)];
    if report.kind == DeviceKind::Virtual {
        notices.push(VIRTUAL_TITLE.to_owned());
    }
    notices.push(report.attribution.clone());
    let listed = |treatment| match treatment {
        Treatment::Varied => None,
        Treatment::Refused => Some("differs, and must not"),
        Treatment::Forced => Some("differs, compared by force"),
        Treatment::Confounds => Some("also differs"),
        Treatment::Noted => Some("noted"),
    };
    for one in &report.differences {
        let what = listed(one.treatment);
        notices.extend(
            what.map(|what| format!("{what}: {} {}", one.fact, arrow(&one.before, &one.after))),
        );
        notices.extend(keys(one));
    }
    let sessions = report.before.iter().chain(&report.after);
    notices.extend(sessions.flat_map(|session| {
        let losses = session.losses.iter();
        losses.map(|loss| format!("{}: {loss}", session.name))
    }));
    notices.extend(report.repetition.widened.iter().map(|one| {
        format!(
            "the repeated cell of {} differs from itself in {}: {:.1} % within a session widen \
             the rows of this cell that show less between sessions",
            one.cell,
            one.sessions.join(", "),
            100.0 * one.sd
        )
    }));
    notices
}

/// Keys of the profile that are named; formats for programs have all.
const KEYS_MAX: usize = 4;

/// In what profiles differ.
fn keys(profile: &Difference) -> Option<String> {
    if profile.fact != "profile" {
        return None;
    }
    let of_key = |one: &KeyDifference| format!("{} {}", one.key, arrow(&one.before, &one.after));
    let named: Vec<String> = profile.keys.iter().take(KEYS_MAX).map(of_key).collect();
    Some(match profile.keys.len().saturating_sub(KEYS_MAX) {
        _ if named.is_empty() => "no key of the profile that records keep differs".to_owned(),
        0 => format!("keys of the profile: {}", named.join("; ")),
        more => format!("keys of the profile: {}; and {more} more", named.join("; ")),
    })
}

/// The texts that reports print beside rows, each kind once.
#[derive(Default)]
struct Numbers(Vec<String>);

impl Numbers {
    fn of(&mut self, text: &str) -> usize {
        let same = |known: &String| Doubt::kind(known) == Doubt::kind(text);
        let known = self.0.iter().position(same);
        let at = known.unwrap_or_else(|| {
            self.0.push(text.to_owned());
            self.0.len() - 1
        });
        at + 1
    }

    fn lines(self) -> Vec<String> {
        let numbered = self.0.into_iter().zip(1..);
        numbered.map(|(text, number)| format!("[{number}] {text}")).collect()
    }
}

/// The numbers of what reports print beside a row: `doubts: [1] [2] on both sides, [4] after`.
fn doubts(row: &DiffRow, numbers: &mut Numbers) -> Option<String> {
    let places =
        [("on both sides", [true, true]), ("before", [true, false]), ("after", [false, true])];
    let found: Vec<([bool; 2], usize)> =
        row.doubts.iter().map(|one| (one.sessions.map(|n| n > 0), numbers.of(&one.text))).collect();
    let of_place = |(name, sides): (&str, [bool; 2])| {
        let here = found.iter().filter(|(of, _)| *of == sides);
        let here: Vec<String> = here.map(|(_, number)| format!("[{number}]")).collect();
        (!here.is_empty()).then(|| format!("{} {name}", here.join(" ")))
    };
    let parts: Vec<String> = places.into_iter().filter_map(of_place).collect();
    (!parts.is_empty()).then(|| format!("doubts: {}", parts.join(", ")))
}

/// What the star of a verdict says.
const STAR: &str = "* the whole interval lies beyond the margin";

const fn is_starred(row: &DiffRow) -> bool {
    row.confirmed && matches!(row.verdict, Verdict::Regressed | Verdict::Improved)
}

fn row_words(row: &DiffRow, numbers: &mut Numbers) -> RowWords {
    let name = match row.verdict {
        Verdict::Regressed => "REGRESSED",
        other => other.as_str(),
    };
    let verdict = format!("{name}{}", if is_starred(row) { "*" } else { "" });
    let metric = row.key.metric;
    let none = || "-".to_owned();
    let figures = row.figures.as_ref();
    let text =
        |f: fn(&Figures) -> f64| figures.map_or_else(none, |figures| of_change(metric, f(figures)));
    let mut note: Vec<String> = Vec::new();
    note.extend(row.cause());
    note.extend(row.reason.clone());
    if row.verdict == Verdict::Inconclusive && row.reason.is_none() {
        note.push(match figures.and_then(|figures| figures.sessions_needed) {
            Some(needed) => format!("about {needed} sessions a side decide"),
            None => "more than 1,000 sessions a side are needed".to_owned(),
        });
    }
    note.extend(doubts(row, numbers));
    let victim = row.key.beside().map_or_else(
        || format!("{}, {}", row.key.axis, row.key.victim),
        |beside| format!("{}, {} beside {beside}", row.key.axis, row.key.victim),
    );
    RowWords {
        verdict,
        mechanism: row.key.variant.clone(),
        axis: victim,
        metric: metric.as_str(),
        figures: shown(row),
        change: figures.map_or_else(none, |f| {
            if row.bounds {
                return "both are bounds".to_owned();
            }
            format!(
                "{} [{}, {}]",
                of_change(metric, f.change),
                of_change(metric, f.lo),
                of_change(metric, f.hi)
            )
        }),
        margin: text(|f| f.margin).replace('+', ""),
        detectable: figures
            .and_then(|figures| figures.detectable)
            .map_or_else(none, |change| of_change(metric, change).replace('+', "")),
        sessions: format!("{}+{}", row.sessions[0], row.sessions[1]),
        note: note.join("; "),
    }
}

/// The figures before and after.
fn shown(row: &DiffRow) -> [String; 2] {
    if let Some(sides) = row.trials {
        return sides.map(|side| format!("{} of {}", side.good, side.trials));
    }
    let of = |value: fn(&Figures) -> f64| {
        let figures = row.figures.as_ref();
        figures.map_or_else(
            || "-".to_owned(),
            |f| figure_or_bound(row.key.metric, value(f), row.bounds),
        )
    };
    [of(|f| f.before), of(|f| f.after)]
}

//! The matrix on one screen: who is isolated from whom, in what, and how sure that is.

pub(super) mod facts;
mod grid;

pub(super) use facts::figures;

use std::borrow::Cow;

use gpubench_record::{DeviceKind, RunRecord};

use super::document::{self, left_out, urgent};
use super::tables::counts;
use super::{RenderOptions, VIRTUAL_TITLE};
use crate::matrix::faults::HARMED_BY;
use crate::matrix::{Glance, NotRun, ReasonGroup, Selection, Standing};
use gpubench_record::counted;
use gpubench_show::fit::{width as columns_of, wrap_words};
use gpubench_show::{Block, Page, bold, clean, list};

/// Rows of the matrix; with more variants each mechanism has one row.
pub(super) const ROWS_MAX: usize = 12;

/// Characters of a reason without a level; of a longer one the screen has the beginning.
const REASON_MAX: usize = 320;

/// Faults that harmed a victim that the screen names.
const FAULTS_MAX: usize = 5;

/// Lines that the sentences keep while others can be cut, and in the end.
const SENTENCES_LEAST: [usize; 2] = [7, 3];

pub(super) fn text(record: &RunRecord, options: &RenderOptions) -> String {
    let glance = Glance::of(record, &options.selection, ROWS_MAX);
    let screen = Screen { width: options.look.width, options };
    screen.lines(record, &glance).into_iter().map(|line| line + "\n").collect()
}

/// The same as a document: the answer, then the matrix with its intervals, and nothing cut.
pub(super) fn page(record: &RunRecord, options: &RenderOptions) -> Page {
    let glance = Glance::of(record, &options.selection, usize::MAX);
    let screen = Screen { width: usize::MAX, options };
    let mut page = Page::new(document::title(record));
    screen.notices(record).into_iter().for_each(|notice| page.notice(notice));
    page.say(facts::run(record));
    page.push(Block::Heading("Answer".to_owned()));
    page.say(screen.sentences(&glance));
    let matrix = match glance.rows.is_empty() {
        true => screen.figures(record, &glance),
        false => {
            page.push(Block::Heading("Matrix".to_owned()));
            page.say(facts::figures(record, &glance));
            page.push(grid::table(&glance));
            [screen.legend(record, &glance), screen.claims(&glance)].concat()
        }
    };
    let rest = [screen.not_run(&glance.not_run), screen.open(&glance.open)].concat();
    matrix.into_iter().chain(rest).for_each(|line| page.say(line));
    screen.foot(record, &glance).into_iter().for_each(|line| page.say(line));
    page
}

/// Lines that may be cut: to the first least ones, and where that does not do, to the second.
struct Part {
    lines: Vec<String>,
    least: [usize; 2],
}

/// Cuts the longest parts until all have at most `max` lines.
fn fit(mut parts: Vec<Part>, max: usize, width: usize) -> Vec<Vec<String>> {
    let mut kept: Vec<usize> = parts.iter().map(|part| part.lines.len()).collect();
    for pass in 0..2 {
        while kept.iter().sum::<usize>() > max {
            let able = kept.iter_mut().zip(&parts).filter(|(kept, part)| **kept > part.least[pass]);
            match able.map(|(kept, _)| kept).max() {
                Some(longest) => *longest -= 1,
                None => break,
            }
        }
    }
    let cut = parts.iter_mut().zip(kept);
    cut.map(|(part, kept)| cut_at(std::mem::take(&mut part.lines), kept, width)).collect()
}

/// Ends a part that goes on. The last line of the screen names the flag that shows all.
const GOES_ON: &str = " ...";

/// The first lines.
fn cut_at(mut lines: Vec<String>, max: usize, width: usize) -> Vec<String> {
    if lines.len() > max {
        lines.truncate(max);
        if let Some(last) = lines.last_mut() {
            let room = width.saturating_sub(GOES_ON.len());
            // A word is whole, or is left out.
            while columns_of(last) > room {
                let end = last.trim_end().rfind(' ').unwrap_or(0);
                last.truncate(end);
            }
            last.push_str(GOES_ON);
        }
    }
    lines
}

struct Screen<'a> {
    width: usize,
    options: &'a RenderOptions,
}

impl Screen<'_> {
    /// All of it: what may be cut gets the lines that the rest leaves.
    fn lines(&self, record: &RunRecord, glance: &Glance) -> Vec<String> {
        let virtual_title = match record.device.kind {
            DeviceKind::Virtual => self.wrap(VIRTUAL_TITLE),
            DeviceKind::Real => Vec::new(),
        };
        let grid = grid::lines(glance, self.width, self.options.look);
        let foot = self.foot(record, glance);
        let gaps = usize::from(!glance.rows.is_empty());
        let fixed = virtual_title.len() + grid.len() + foot.len() + gaps;
        let part = |lines: Vec<String>, least| Part { lines, least };
        let parts = vec![
            part(self.wrap(&facts::run(record)), [1; 2]),
            part(self.notices(record), [1; 2]),
            part(self.figures(record, glance), [1; 2]),
            part(self.claims(glance), [2, 1]),
            part(self.not_run(&glance.not_run), [1; 2]),
            part(self.legend(record, glance), [2; 2]),
            part(wrap_words(&self.sentences(glance), self.width, ["", ""]), SENTENCES_LEAST),
            part(self.open(&glance.open), [1; 2]),
        ];
        let max = self.options.lines_max.unwrap_or(usize::MAX);
        let parts = fit(parts, max.saturating_sub(fixed), self.width);
        let [run, notices, figures, claims, not_run, legend, sentences, open] = &parts[..] else {
            return virtual_title;
        };
        let bold = |lines: &[String]| -> Vec<String> {
            lines.iter().map(|line| bold(line, self.options.look)).collect()
        };
        let before_grid = vec![String::new(); usize::from(!grid.is_empty())];
        let all = [
            &bold(&virtual_title),
            &bold(run),
            &bold(notices),
            &bold(sentences),
            figures,
            &before_grid,
            &grid,
            claims,
            not_run,
            legend,
            open,
            &foot,
        ];
        all.into_iter().flatten().cloned().collect()
    }

    /// What is isolated and what is not. A part of a record says nothing of the rest.
    fn sentences(&self, glance: &Glance) -> String {
        let all = glance.sentences.join(" ");
        let is_part = self.options.selection != Selection::default() && !all.is_empty();
        if is_part { format!("Of the rows shown: {all}") } else { all }
    }

    fn wrap(&self, text: &str) -> Vec<String> {
        wrap_words(text, self.width, ["", "  "])
    }

    fn figures(&self, record: &RunRecord, glance: &Glance) -> Vec<String> {
        let text = match glance.rows.is_empty() {
            true if !self.options.selection.mechanisms.is_empty() => {
                let names = self.options.selection.mechanisms.iter().map(|one| clean(one));
                let names = list(&names.collect::<Vec<_>>(), "or");
                let text = format!("The record has no figure of {names} with a neighbour.");
                gpubench_show::Labels::of_records(&[record]).relabel(&text)
            }
            true if self.options.selection.axes.is_empty() => {
                "No mechanism ran with a neighbour: there is no figure.".to_owned()
            }
            true => {
                let axes = self.options.selection.axes.iter().map(|axis| clean(axis));
                let axes: Vec<String> = axes.collect();
                let run = axes.join(",");
                let axes = list(&axes, "or");
                format!("The record has no figure of {axes}: matrix --axis {run} measures it.")
            }
            false => facts::figures(record, glance),
        };
        wrap_words(&text, self.width, ["", ""])
    }

    /// What limits the levels.
    fn notices(&self, record: &RunRecord) -> Vec<String> {
        let mut notices = urgent(record);
        notices.extend(left_out(record, self.options));
        notices.iter().flat_map(|text| self.wrap(text)).collect()
    }

    fn claims(&self, glance: &Glance) -> Vec<String> {
        self.wrap(&starred(glance))
    }

    /// What did not run: by the flag that would run it, else by the reason.
    fn not_run(&self, groups: &[NotRun]) -> Vec<String> {
        let mut by_flag: Vec<(&str, Vec<String>)> = Vec::new();
        let mut others: Vec<String> = Vec::new();
        for group in groups {
            let what = what_of(group);
            let flag = group.remedy.as_deref().filter(|one| one.starts_with("--"));
            match flag {
                Some(flag) => match by_flag.iter_mut().find(|(known, _)| *known == flag) {
                    Some((_, whats)) => whats.push(what),
                    None => by_flag.push((flag, vec![what])),
                },
                None => others.push(format!("{what} ({})", in_short(&group.reason))),
            }
        }
        let by_flag = by_flag.iter();
        let by_flag = by_flag.map(|(flag, whats)| format!("{} (add {flag})", whats.join(", ")));
        let all: Vec<String> = by_flag.chain(others).collect();
        if all.is_empty() {
            return all;
        }
        self.wrap(&format!("not run: {}", all.join("; ")))
    }

    /// The signs, and how wide the intervals are.
    fn legend(&self, record: &RunRecord, glance: &Glance) -> Vec<String> {
        if glance.rows.is_empty() {
            return Vec::new();
        }
        let cells = || glance.rows.iter().flat_map(|row| row.cells.iter().flatten());
        let has = |standing| {
            let is_empty = || glance.rows.iter().any(|row| row.cells.iter().any(Option::is_none));
            cells().any(|cell| cell.standing == standing)
                || (standing == Standing::Waived && is_empty())
        };
        let signs = Standing::LEGEND.into_iter().chain([Standing::Waived]);
        let signs = signs
            .filter(|one| !matches!(one, Standing::Failed | Standing::Waived) || has(*one))
            .map(|one| format!("{} {}", one.sign(), one.word()));
        let signs: Vec<String> = signs.collect();
        let mut lines = self.wrap(&signs.join("  "));
        let folded = glance.rows.iter().any(|row| row.more > 0);
        lines.extend(folded.then(|| {
            "+N: the weakest of N + 1 variants; 'report --mechanism NAME' shows each".to_owned()
        }));
        lines.extend(self.wrap(&facts::widths(record, glance)));
        lines.extend(facts::open_overall(record, glance).iter().flat_map(|text| self.wrap(text)));
        lines
    }

    /// Why cells have no level.
    fn open(&self, groups: &[ReasonGroup]) -> Vec<String> {
        let lines = groups.iter().flat_map(|group| {
            let such_as = if group.differs { ", for example" } else { "" };
            let reason = match self.width {
                usize::MAX => Cow::Borrowed(&*group.reason),
                _ => in_few(&group.reason),
            };
            self.wrap(&format!("? {}{such_as}: {reason}", places(group)))
        });
        lines.collect()
    }

    /// How many claims have each verdict, how many cells count, and how to see more.
    fn foot(&self, record: &RunRecord, glance: &Glance) -> Vec<String> {
        let cells = glance.cells;
        let mut parts =
            vec![format!("{} of {} measured", cells.measured, counted(cells.planned, "cell"))];
        let others = [
            (cells.inconclusive, "inconclusive"),
            (cells.failed, "failed"),
            (cells.waived, "waived"),
            (cells.not_run, "not run"),
        ];
        let others = others.into_iter().filter(|(count, _)| *count > 0);
        let gate = glance.gate_of_most_lost_cells();
        parts.extend(others.map(|(count, word)| match gate {
            Some(gate) if ["inconclusive", "failed"].contains(&word) => {
                format!("{count} {word} (gate {gate})")
            }
            _ => format!("{count} {word}"),
        }));
        let more = |dir: &String| format!("gpubench report {} --full, or --why", clean(dir));
        let more = self.options.record_dir.as_ref().map(more);
        let mut lines = self.ledger(record);
        lines.extend(self.with_command(parts.join(", "), ". More: ", more));
        lines
    }

    /// The text and a command, which stays on one line so that it can be copied.
    fn with_command(&self, text: String, between: &str, command: Option<String>) -> Vec<String> {
        let Some(command) = command else {
            return self.wrap(&text);
        };
        let whole = format!("{text}{between}{command}");
        if columns_of(&whole) <= self.width {
            return vec![whole];
        }
        let mut lines = self.wrap(&format!("{text}{}", between.trim_end()));
        lines.push(format!("  {command}"));
        lines
    }

    /// The claims of the literature by verdict: those of the whole record.
    fn ledger(&self, record: &RunRecord) -> Vec<String> {
        if record.claims.is_empty() || self.options.selection != Selection::default() {
            return Vec::new();
        }
        let command = |dir: &String| format!("gpubench claims {}", clean(dir));
        let command = self.options.record_dir.as_ref().map(command);
        self.with_command(format!("claims: {}", counts(&record.claims)), ": ", command)
    }
}

/// What a star says; empty without one.
fn starred(glance: &Glance) -> String {
    if glance.claims.is_empty() { String::new() } else { format!("* {}", glance.claims.join("; ")) }
}

/// The sentences of the screen, for the view with all tables: what a screen cuts is there.
pub(super) fn answer(record: &RunRecord, options: &RenderOptions) -> Vec<String> {
    let glance = Glance::of(record, &options.selection, usize::MAX);
    let screen = Screen { width: usize::MAX, options };
    let mut lines = vec![facts::run(record), screen.sentences(&glance)];
    if !glance.rows.is_empty() {
        lines.push(facts::figures(record, &glance));
    }
    lines.push(starred(&glance));
    lines.extend(screen.not_run(&glance.not_run));
    lines.extend(screen.legend(record, &glance));
    lines.extend(screen.open(&glance.open));
    lines.retain(|line| !line.is_empty());
    lines
}

/// The reason without its details.
fn in_short(reason: &str) -> &str {
    let end = [": ", " ("].iter().filter_map(|mark| reason.find(mark)).min();
    end.map_or(reason, |end| &reason[..end])
}

/// A reason as the screen has it: of many faults the first ones, of a long reason the beginning.
fn in_few(reason: &str) -> Cow<'_, str> {
    let names = reason.strip_prefix(HARMED_BY).map(|names| names.split(", "));
    match names.map(Iterator::collect::<Vec<_>>) {
        Some(names) if names.len() > FAULTS_MAX => {
            let (first, more) = (names[..FAULTS_MAX - 1].join(", "), names.len() - FAULTS_MAX + 1);
            Cow::Owned(format!("{HARMED_BY}{first} and {more} more (all: --why)"))
        }
        _ if reason.len() > REASON_MAX => first_of(reason),
        _ => Cow::Borrowed(reason),
    }
}

/// The first statement of a long reason, with the names of what its parentheses explain.
fn first_of(reason: &str) -> Cow<'_, str> {
    let Some((statement, details)) = reason.split_once(" (") else {
        let end = reason.find("; ").unwrap_or(reason.len());
        return Cow::Owned(format!("{} ... (all: --why)", &reason[..end]));
    };
    let end = details.find([':', ')']).unwrap_or(details.len());
    Cow::Owned(format!("{statement} ({} ...; all: --why)", &details[..end]))
}

fn what_of(group: &NotRun) -> String {
    let mechanisms = list(&group.mechanisms, "and");
    match (&group.axis, mechanisms.is_empty()) {
        (None, _) => mechanisms,
        (Some(axis), true) => plural_of(axis).to_owned(),
        (Some(axis), false) => format!("{} of {mechanisms}", plural_of(axis)),
    }
}

fn plural_of(axis: &str) -> &str {
    match axis {
        "fault" => "faults",
        other => other,
    }
}

/// `jitter of mps and hami 50%; memory of mps`. Places of the same mechanisms share their names.
pub(super) fn places(group: &ReasonGroup) -> String {
    let mut by_labels: Vec<(&[String], Vec<&str>)> = Vec::new();
    for (place, labels) in &group.places {
        match by_labels.iter_mut().find(|(known, _)| *known == labels.as_slice()) {
            Some((_, places)) => places.push(place),
            None => by_labels.push((labels, vec![place])),
        }
    }
    let places = by_labels.iter();
    let places = places
        .map(|(labels, places)| format!("{} of {}", list(places, "and"), list(labels, "and")));
    places.collect::<Vec<_>>().join("; ")
}

//! The matrix on one screen: who is isolated from whom, in what, and how sure that is.

pub(super) mod facts;
mod grid;

pub(super) use facts::figures;

use gpubench_record::{DeviceKind, RunRecord};

use super::document::{self, left_out, urgent};
use super::tables::counts;
use super::{RenderOptions, VIRTUAL_TITLE};
use crate::matrix::{Glance, NotRun, ReasonGroup, Standing};
use gpubench_record::counted;
use gpubench_show::fit::wrap_words;
use gpubench_show::{Block, Page, bold, clean, list};

/// Rows of the matrix; with more variants each mechanism has one row.
pub(super) const ROWS_MAX: usize = 12;

/// Lines that the sentences keep. They lead, so they are cut last.
const SENTENCES_LEAST: usize = 7;

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
    page.say(glance.sentences.join(" "));
    let matrix = match glance.rows.is_empty() {
        true => screen.grid(record, &glance),
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

/// Lines that may be cut to the least ones, and the flag that shows all.
struct Part {
    lines: Vec<String>,
    least: usize,
    flag: &'static str,
}

/// Cuts the longest parts until all have at most `max` lines.
fn fit(mut parts: Vec<Part>, max: usize) -> Vec<Vec<String>> {
    let mut kept: Vec<usize> = parts.iter().map(|part| part.lines.len()).collect();
    while kept.iter().sum::<usize>() > max {
        let able = kept.iter_mut().zip(&parts).filter(|(kept, part)| **kept > part.least);
        match able.map(|(kept, _)| kept).max() {
            Some(longest) => *longest -= 1,
            None => break,
        }
    }
    let cut = parts.iter_mut().zip(kept);
    cut.map(|(part, kept)| cut_at(std::mem::take(&mut part.lines), kept, part.flag)).collect()
}

/// The first lines, how many follow, and where.
fn cut_at(mut lines: Vec<String>, max: usize, flag: &str) -> Vec<String> {
    if lines.len() > max {
        let more = format!("({} more: {flag})", counted(lines.len() - max, "line"));
        lines.truncate(max);
        if let Some(last) = lines.last_mut() {
            let kept = last.chars().count().saturating_sub(more.len() + 4);
            let short: String = last.chars().take(kept).collect();
            // A word is whole, or is left out.
            let rest = &last[short.len()..];
            let is_whole = rest.is_empty() || rest.starts_with(' ');
            let end = if is_whole { None } else { short.rfind(' ') }.unwrap_or(short.len());
            let short = format!("{}... {more}", short[..end].trim_end());
            *last = short.trim_end().to_owned();
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
        let head = self.head(record);
        let grid = self.grid(record, glance);
        let legend = self.legend(record, glance);
        let sentences = wrap_words(&glance.sentences.join(" "), self.width, ["", ""]);
        let foot = self.foot(record, glance);
        let fixed = [&head, &grid, &legend, &foot];
        let fixed: usize = fixed.iter().map(|lines| lines.len()).sum();
        let part = |lines, least, flag| Part { lines, least, flag };
        let parts = vec![
            part(self.notices(record), 1, "--full"),
            part(self.claims(glance), 1, "--full"),
            part(self.not_run(&glance.not_run), 1, "--full"),
            part(sentences, SENTENCES_LEAST, "--format md"),
            part(self.open(&glance.open), 1, "--why"),
        ];
        // The empty line between figures and sentences.
        let max = self.options.lines_max.unwrap_or(usize::MAX);
        let parts = fit(parts, max.saturating_sub(fixed + 1));
        let [notices, claims, not_run, sentences, open] = &parts[..] else {
            return head;
        };
        let bold = |lines: &[String]| -> Vec<String> {
            lines.iter().map(|line| bold(line, self.options.look)).collect()
        };
        let empty = vec![String::new()];
        let all = [
            &bold(&head),
            &bold(notices),
            &grid,
            claims,
            not_run,
            &empty,
            &legend,
            &bold(sentences),
            open,
            &foot,
        ];
        all.into_iter().flatten().cloned().collect()
    }

    fn wrap(&self, text: &str) -> Vec<String> {
        wrap_words(text, self.width, ["", "  "])
    }

    fn grid(&self, record: &RunRecord, glance: &Glance) -> Vec<String> {
        if glance.rows.is_empty() {
            return self.wrap("No mechanism ran with a neighbour: there is no figure.");
        }
        let mut lines = wrap_words(&facts::figures(record, glance), self.width, ["", ""]);
        lines.push(String::new());
        lines.extend(grid::lines(glance, self.width, self.options.look));
        lines
    }

    fn head(&self, record: &RunRecord) -> Vec<String> {
        let mut lines = Vec::new();
        if record.device.kind == DeviceKind::Virtual {
            lines.extend(self.wrap(VIRTUAL_TITLE));
        }
        lines.extend(self.wrap(&facts::run(record)));
        lines
    }

    /// What limits the levels.
    fn notices(&self, record: &RunRecord) -> Vec<String> {
        let mut notices = urgent(record);
        notices.extend(left_out(record, self.options));
        notices.iter().flat_map(|text| self.wrap(text)).collect()
    }

    fn claims(&self, glance: &Glance) -> Vec<String> {
        let lines = glance.claims.iter();
        lines.flat_map(|text| self.wrap(&format!("* {text}"))).collect()
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
        let has = |standing| cells().any(|cell| cell.standing == standing);
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
            self.wrap(&format!("? {}{such_as}: {}", places(group), group.reason))
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
        let mut text = parts.join(", ");
        if let Some(dir) = &self.options.record_dir {
            text += &format!(". More: gpubench report {} --full, or --why", clean(dir));
        }
        let mut lines = self.ledger(record);
        lines.extend(self.wrap(&text));
        lines
    }

    /// The claims of the literature by verdict.
    fn ledger(&self, record: &RunRecord) -> Vec<String> {
        if record.claims.is_empty() {
            return Vec::new();
        }
        let mut text = format!("claims: {}", counts(&record.claims));
        if let Some(dir) = &self.options.record_dir {
            text += &format!(": gpubench claims {}", clean(dir));
        }
        self.wrap(&text)
    }
}

/// The reason without its details.
fn in_short(reason: &str) -> &str {
    let end = [": ", " ("].iter().filter_map(|mark| reason.find(mark)).min();
    end.map_or(reason, |end| &reason[..end])
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

/// `jitter of mps and hami 50%; memory of mps`.
pub(super) fn places(group: &ReasonGroup) -> String {
    let places = group.places.iter();
    let places = places.map(|(place, labels)| format!("{place} of {}", list(labels, "and")));
    places.collect::<Vec<_>>().join("; ")
}

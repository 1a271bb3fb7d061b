//! What is isolated and what is not, in sentences that follow from the levels alone.

use super::cell::Standing;
use super::{Column, Row};
use gpubench_show::list;

/// The levels of one mechanism: for each column its noun and its standing, if it has a cell.
pub(super) type Standings = (String, Vec<(String, Option<Standing>)>);

/// The levels of every mechanism.
pub(super) fn standings(columns: &[Column], rows: &[Row]) -> Vec<Standings> {
    let of = |row: &Row| {
        let cells = columns.iter().zip(&row.cells);
        let cells = cells.map(|(column, cell)| {
            let standing = cell.as_ref().map(|cell| cell.standing);
            let ran = standing.filter(|one| *one != Standing::Waived);
            (column.noun.clone(), ran)
        });
        (row.label.clone(), cells.collect())
    };
    rows.iter().map(of).collect()
}

/// First what nothing isolates, then what each mechanism isolates, the most first, then those that
/// isolate nothing. Strong isolates, bounded bounds; partial isolates nothing and is named where
/// a mechanism has nothing better.
pub(super) fn sentences(all: &[Standings]) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let mut sentences: Vec<String> = nothing_isolates(all).into_iter().collect();
    let mut groups: Vec<(Achieved<'_>, Vec<&str>)> = Vec::new();
    let undecided = undecided_everywhere(all);
    for (label, cells) in all {
        let mut achieved = Achieved::of(cells);
        let open = achieved.open.len();
        achieved.open.retain(|noun| !undecided.contains(noun));
        achieved.lacks |= achieved.isolates() && achieved.open.len() < open;
        match groups.iter_mut().find(|(known, _)| *known == achieved) {
            Some((_, labels)) => labels.push(label),
            None => groups.push((achieved, vec![label])),
        }
    }
    groups.sort_by_key(|(achieved, _)| achieved.rank());
    if let [(achieved, labels)] = &groups[..]
        && achieved.is_undecided()
        && labels.len() > 1
    {
        return vec!["Nothing is decided for any mechanism.".to_owned()];
    }
    let predicates = groups.iter().map(|(achieved, labels)| achieved.sentence(labels));
    sentences.extend(predicates.flatten());
    let is_decided = |one: &Achieved<'_>| one.isolates() || one.lacks || !one.partial.is_empty();
    let any_decided = groups.iter().any(|(achieved, _)| is_decided(achieved));
    if !undecided.is_empty() && any_decided {
        sentences.push(format!("Undecided for all: {}.", list(&undecided, "and")));
    }
    sentences
}

/// The resources that are open for every mechanism that was measured in them, of several.
fn undecided_everywhere(all: &[Standings]) -> Vec<&str> {
    let nouns = all.first().map_or(&[][..], |(_, cells)| cells).iter().enumerate();
    let is_open = |at: usize| {
        let cells: Vec<Standing> = all.iter().filter_map(|(_, cells)| cells[at].1).collect();
        cells.len() > 1 && cells.iter().all(|one| matches!(one, Standing::Open | Standing::Failed))
    };
    nouns.filter(|(at, _)| is_open(*at)).map(|(_, (noun, _))| noun.as_str()).collect()
}

/// The resources that no mechanism isolates or bounds, where every mechanism has a level.
fn nothing_isolates(all: &[Standings]) -> Option<String> {
    let (_, first) = all.first()?;
    let is_lost = |at: usize| {
        let mut cells = all.iter().filter_map(|(_, cells)| cells[at].1).peekable();
        cells.peek().is_some() && cells.all(|one| matches!(one, Standing::None | Standing::Partial))
    };
    let nouns = first.iter().enumerate();
    let nouns: Vec<&str> =
        nouns.filter(|(at, _)| is_lost(*at)).map(|(_, (noun, _))| noun.as_str()).collect();
    (!nouns.is_empty()).then(|| format!("Nothing here isolates {}.", list(&nouns, "or")))
}

/// What one mechanism achieves, as nouns.
#[derive(Debug, Default, PartialEq, Eq)]
struct Achieved<'a> {
    strong: Vec<&'a str>,
    bounded: Vec<&'a str>,
    partial: Vec<&'a str>,
    /// Whether there is a resource that it does not isolate.
    lacks: bool,
    open: Vec<&'a str>,
}

impl<'a> Achieved<'a> {
    fn of(cells: &'a [(String, Option<Standing>)]) -> Self {
        let mut achieved = Self::default();
        for (noun, standing) in cells {
            match standing {
                Some(Standing::Strong) => achieved.strong.push(noun),
                Some(Standing::Bounded) => achieved.bounded.push(noun),
                Some(Standing::Partial) => achieved.partial.push(noun),
                Some(Standing::None) => achieved.lacks = true,
                Some(Standing::Open | Standing::Failed) => achieved.open.push(noun),
                Some(Standing::Waived) | None => {}
            }
        }
        // Mechanisms that isolate something read alike whatever they do not isolate.
        let isolates = achieved.isolates();
        achieved.lacks = achieved.lacks || (isolates && !achieved.partial.is_empty());
        if isolates {
            achieved.partial.clear();
        }
        // What is undecided is not named where nothing else is: such mechanisms read alike.
        if achieved.is_undecided() {
            achieved.open.truncate(1);
            achieved.open.fill("everything");
        }
        achieved
    }

    const fn isolates(&self) -> bool {
        !self.strong.is_empty() || !self.bounded.is_empty()
    }

    /// Whether something was measured and nothing decided.
    fn is_undecided(&self) -> bool {
        let decided = self.strong.len() + self.bounded.len() + self.partial.len();
        decided == 0 && !self.lacks && !self.open.is_empty()
    }

    fn is_all(&self) -> bool {
        !self.lacks && self.partial.is_empty() && self.open.is_empty()
    }

    /// The most isolating first.
    fn rank(&self) -> (usize, usize, usize) {
        let isolated = self.strong.len() + self.bounded.len();
        let most = usize::MAX;
        (most - isolated, most - self.strong.len(), most - self.partial.len())
    }

    fn sentence(&self, labels: &[&str]) -> Option<String> {
        let verb = |one: &'static str, many: &'static str| match labels.len() {
            1 => one,
            _ => many,
        };
        let isolate = verb("isolates", "isolate");
        let (strong, bounded) = (list(&self.strong, "and"), list(&self.bounded, "and"));
        let limit = verb("limits interference in", "limit interference in");
        let what = match (self.strong.len(), self.bounded.len(), self.partial.len()) {
            _ if self.is_undecided() => {
                let who = list(labels, "and");
                return Some(format!("Nothing is decided for {who}."));
            }
            (0, 0, 0) if !self.lacks => return None,
            (0, 0, 0) => format!("{isolate} nothing"),
            (0, 0, _) => {
                format!("{isolate} {} in part only", list(&self.partial, "and"))
            }
            (2.., 0, _) if self.is_all() => format!("{isolate} everything that was measured"),
            (_, 0, _) => format!("{isolate} {strong}"),
            (0, _, _) => format!("{limit} {bounded}"),
            (..) => format!("{isolate} {strong}, and {limit} {bounded}"),
        };
        let undecided = match self.open.as_slice() {
            [] => String::new(),
            open => format!("; undecided: {}", list(open, "and")),
        };
        Some(format!("{} {what}{undecided}.", list(labels, "and")))
    }
}

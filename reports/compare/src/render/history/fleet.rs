//! Many series in a line for each row: where its last figures lie, and on how many GPUs it changed.

use std::collections::BTreeMap;

use gpubench_record::counted;
use gpubench_show::{Line, Page};

use super::{Night, rank, row_words, shown};
use crate::diff::Verdict;
use crate::history::SeriesReport;
use crate::session::RowKey;

pub(super) fn push(series: &[SeriesReport], page: &mut Page) {
    let mut rows: BTreeMap<&RowKey, Vec<&SeriesReport>> = BTreeMap::new();
    for one in series {
        rows.entry(&one.key).or_default().push(one);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_cached_key(|(_, of)| of.iter().map(|one| rank(one)).min());
    for (key, of) in rows {
        page.push(Line::new(figures(key, &of)).indented(0, 2));
        let changes = changes(&of);
        if !changes.is_empty() {
            page.push(Line::new(changes.join(", ")).indented(2, 4));
        }
    }
    page.say(format!("--full has the nights and changes of each of {} series", series.len()));
}

fn figures(key: &RowKey, of: &[&SeriesReport]) -> String {
    let mut last: Vec<&Night> = of.iter().filter_map(|one| one.nights.last()).collect();
    last.sort_by(|a, b| a.value.total_cmp(&b.value));
    let words = row_words(key);
    let count = format!("{} series", of.len());
    let (Some(low), Some(high)) = (last.first(), last.last()) else {
        return format!("{words}: {count}, no night has figures");
    };
    let [low, middle, high] =
        [low, last[last.len() / 2], high].map(|night| shown(key.metric, night));
    if of.len() == 1 {
        return format!("{words}: {}, last {middle}", counted(of[0].nights.len(), "night"));
    }
    format!("{words}: {count}, last {middle} (median), {low} to {high}")
}

/// In how many series it changed, and how.
fn changes(of: &[&SeriesReport]) -> Vec<String> {
    let across = |verdict: Verdict| {
        let count = of.iter().filter(|one| one.crossings.iter().any(|of| of.verdict == verdict));
        (count.count(), format!("{} across an event", verdict.as_str()))
    };
    let with = |has: fn(&SeriesReport) -> bool, what: &str| {
        (of.iter().filter(|one| has(one)).count(), what.to_owned())
    };
    let found = [
        across(Verdict::Regressed),
        across(Verdict::Improved),
        across(Verdict::Unchanged),
        across(Verdict::Inconclusive),
        with(|one| !one.changes.is_empty(), "with a change inside a segment"),
        with(|one| !one.deviations.is_empty(), "with a deviation"),
        with(|one| one.detectable.is_none(), "too short to show a change"),
    ];
    let of_all = |count: usize| match count {
        all if all == of.len() && all > 1 => "all".to_owned(),
        some => some.to_string(),
    };
    let found = found.into_iter().filter(|(count, _)| *count > 0);
    found.map(|(count, what)| format!("{} {what}", of_all(count))).collect()
}

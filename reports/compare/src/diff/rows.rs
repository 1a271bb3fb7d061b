//! Every row of both sides: paired by key, judged, and corrected for their number.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::{Margins, counted};
use gpubench_stats::summary::mean;
use gpubench_stats::two_sample::{benjamini_hochberg, holm};
use gpubench_stats::{Confidence, Effect, NoEstimate};

use super::change::{Basis, Change, unattributable};
use super::hint::Sides;
use super::options::{ALPHA, Options, margin_of};
use super::repetition::Evidence;
use super::report::{DiffRow, Family, Figures};
use super::verdict::{Judged, Rule, Verdict};
use super::{hint, proportions};
use crate::diff::Doubt;
use crate::session::{Count, Row, RowKey, Series, Session};

/// Why a row of bounds has no verdict.
const BOUNDS: &str = "the victim starved on both sides: both figures are the most that they can be";

/// A row with what its correction and its hint need.
struct Draft<'a> {
    row: DiffRow,
    judged: Option<(Judged, Change, f64)>,
    series: Both<'a>,
}

/// What the verdict of a row depends on besides its figures.
#[derive(Clone, Copy)]
struct Frame<'a> {
    sides: [&'a [Session]; 2],
    options: &'a Options,
    margins: Margins,
    /// Of the interval that must exclude zero.
    confidence: Confidence,
    /// What repeated cells say about the rows of their variant and victim.
    evidence: &'a Evidence<'a>,
}

/// The rows, primary ones first, and the family of the primary ones.
///
/// The family is what either side planned: a row that is missing on one side changes neither the
/// confidence nor a p value of another. It has as many parts of equal error as there are primary
/// rows of rates and latencies, and groups of proportions.
pub(super) fn all(
    sides: [&[Session]; 2],
    options: &Options,
    margins: Margins,
) -> Result<(Vec<DiffRow>, Family), NoEstimate> {
    let sessions = sides.into_iter().flatten();
    let keys: BTreeSet<&RowKey> = sessions.flat_map(Session::keys).collect();
    let groups = proportions::groups(keys.iter().copied());
    let primary = keys.iter().filter(|key| key.metric.is_primary()).count();
    let parts = u32::try_from(primary + groups.len()).unwrap_or(u32::MAX);
    let alpha = ALPHA / f64::from(parts.max(1)) / options.families.max(1) as f64;
    let evidence = Evidence::of(sides);
    let frame = |confidence| Frame { sides, options, margins, confidence, evidence: &evidence };
    let confidence = Confidence::from_alpha(alpha)?;
    let drafts_of = |wanted: &dyn Fn(&RowKey) -> bool, confidence| {
        let family = keys.iter().filter(|key| wanted(key));
        let drafts = family.map(|key| rate(key, frame(confidence)));
        drafts.collect::<Result<Vec<_>, NoEstimate>>()
    };
    let mut drafts = drafts_of(&|key| key.metric.is_primary(), confidence)?;
    adjust(&mut drafts, Correction::Holm, groups.len())?;
    for key in keys.iter().filter(|key| key.metric.is_proportion()) {
        let rows = groups.get(&proportions::group_of(key)).copied().unwrap_or(1);
        let confidence = Confidence::from_alpha(alpha / f64::from(rows))?;
        drafts.push(proportion(key, frame(confidence))?);
    }
    let is_other = |key: &RowKey| !key.metric.is_primary() && !key.metric.is_proportion();
    let mut others = drafts_of(&is_other, Confidence::P95)?;
    adjust(&mut others, Correction::BenjaminiHochberg, 0)?;
    drafts.extend(others);
    for draft in &mut drafts {
        explain(draft, sides);
        draft.row.doubts = of(&draft.row.key, sides);
    }
    let family = Family { rows: parts, alpha: ALPHA, coverage: confidence.coverage() };
    Ok((drafts.into_iter().map(|draft| draft.row).collect(), family))
}

fn rate<'a>(key: &RowKey, frame: Frame<'a>) -> Result<Draft<'a>, NoEstimate> {
    let series = frame.sides.map(|side| series_of(side, key));
    let blocks = |side: &Vec<&Series>| side.iter().map(|one| one.blocks.len()).sum();
    let mut draft =
        Draft { row: empty(key, [&series[0], &series[1]].map(Vec::len)), judged: None, series };
    draft.row.blocks = [&draft.series[0], &draft.series[1]].map(|side| number(blocks(side)));
    if draft.series.iter().any(Vec::is_empty) {
        (draft.row.verdict, draft.row.reason) = missing(key, frame.sides);
        return Ok(draft);
    }
    let mut found = compared(key, &draft.series, frame, &[])?;
    if found.judged.verdict == Verdict::Inconclusive
        && let Some((series, without)) = without_odd(key, &found, frame)?
    {
        draft.row.sessions = [&series[0], &series[1]].map(|side| number(side.len()));
        (draft.series, found) = (series, without);
    }
    let known = frame.options.history.get(key).map(|known| known.from);
    let Compared { mut means, mut judged, change, margin } = found;
    if draft.series.iter().flatten().all(|series| series.is_bound) {
        (draft.row.bounds, draft.row.primary) = (true, false);
        means = [most(&draft.series[0])?, most(&draft.series[1])?];
        judged = Judged { reason: Some(BOUNDS.to_owned()), ..judged.without_verdict() };
    }
    draft.judge(means, judged, change, margin);
    if let Some(figures) = &mut draft.row.figures {
        figures.spread_from = known.filter(|_| change.basis == Basis::KnownSpread);
    }
    Ok(draft)
}

/// The series of a row before and after.
type Both<'a> = [Vec<&'a Series>; 2];

/// A row of rates or latencies, judged by itself.
struct Compared {
    means: [f64; 2],
    judged: Judged,
    change: Change,
    margin: f64,
}

impl Compared {
    /// The change with its interval, for a metric on a log scale.
    fn words(&self) -> String {
        let [lo, hi] = self.judged.family;
        let [value, lo, hi] = [self.change.effect.value, lo, hi].map(|x| 100.0 * x.exp_m1());
        format!("{value:+.1} % [{lo:+.1}, {hi:+.1}]")
    }
}

/// Compares two sides of series; `without` are the sessions that were left out of them.
fn compared(
    key: &RowKey,
    [one, two]: &Both<'_>,
    frame: Frame<'_>,
    without: &[&str],
) -> Result<Compared, NoEstimate> {
    let repeatability = frame.options.history.get(key);
    let spread = repeatability.map(|repeatability| repeatability.spread);
    let mut change = Change::between(one, two, spread)?;
    if key.metric.is_log() {
        let excess = frame.evidence.excess(key, without);
        change = change.widened(excess, [one.len(), two.len()])?;
    }
    let mean_of = |side: &[&Series]| {
        let means: Result<Vec<f64>, _> = side.iter().map(|one| one.mean()).collect();
        mean(&means?)
    };
    let (before, after) = (mean_of(one)?, mean_of(two)?);
    let size = f64::midpoint(before.abs(), after.abs());
    let margin = margin_of(frame.margins, key.metric, size);
    let margin = margin.max(repeatability.map_or(0.0, |repeatability| repeatability.change_q95));
    let rule = Rule { worse: key.metric.worse(), margin, family: frame.confidence };
    let mut judged = Judged::of(&change, rule)?;
    if let (Some(reason), Some(room)) = (&mut judged.reason, room(&judged.family, &change, margin))
    {
        let [margin, room] = [margin, room].map(|by| match key.metric.is_log() {
            true => format!("{:.1} %", 100.0 * by.exp_m1()),
            false => format!("{by:.2} native medians"),
        });
        reason.push_str(&format!(
            "; changed by at least {margin} if two sessions differ by less than {room}"
        ));
    }
    Ok(Compared { means: [before, after], judged, change, margin })
}

/// The most that the figure of a starved victim can be in any of these sessions: the upper end that
/// the report of the session prints.
fn most(side: &[&Series]) -> Result<f64, NoEstimate> {
    let mut most = f64::NEG_INFINITY;
    for series in side {
        let of_blocks = Effect::of_mean(&series.blocks)?.interval(Confidence::P95)?;
        most = most.max(of_blocks.hi + series.bounds.up);
    }
    Ok(most)
}

/// By how much two sessions may differ without a cause before the change of two single ones can be
/// less than the margin; `None` where it can be already, or the spread between sessions is known.
fn room([lo, hi]: &[f64; 2], change: &Change, margin: f64) -> Option<f64> {
    let nearest = lo.max(-hi);
    let is_single = change.basis == Basis::Blocks;
    is_single.then_some(nearest - margin).filter(|room| *room > 0.0)
}

/// An undecided row without the session of a side whose repeated cell lies far from all others.
///
/// It decides where its whole interval lies beyond the margin and all sessions together have the
/// same sign: leaving a session out turns no row around, and the reason prints both.
fn without_odd<'a>(
    key: &RowKey,
    all: &Compared,
    frame: Frame<'a>,
) -> Result<Option<(Both<'a>, Compared)>, NoEstimate> {
    let odd = frame.evidence.odd(key, all.margin);
    let names: Vec<&str> = odd.iter().flatten().map(|(name, _)| *name).collect();
    if names.is_empty() || !key.metric.is_log() {
        return Ok(None);
    }
    let series = frame.sides.map(|side| {
        let kept = side.iter().filter(|session| !names.contains(&session.name.as_str()));
        kept.filter_map(|session| session.rows.get(key)?.series()).collect::<Vec<_>>()
    });
    if series.iter().any(Vec::is_empty) {
        return Ok(None);
    }
    let mut found = compared(key, &series, frame, &names)?;
    let same_sign = found.change.effect.value * all.change.effect.value > 0.0;
    if !(found.judged.confirmed && same_sign) {
        return Ok(None);
    }
    let left_out = odd.iter().flatten().map(|(name, by)| {
        let by = 100.0 * by;
        format!("{name}, whose repeated cell differs from itself by {by:+.1} %")
    });
    let left_out = left_out.collect::<Vec<_>>().join(" and ");
    found.judged.reason = Some(format!("without {left_out}; with it {}", all.words()));
    Ok(Some((series, found)))
}

fn proportion<'a>(key: &RowKey, frame: Frame<'a>) -> Result<Draft<'a>, NoEstimate> {
    let counts = frame.sides.map(|side| counts_of(side, key));
    let mut draft = Draft {
        row: empty(key, [&counts[0], &counts[1]].map(Vec::len)),
        judged: None,
        series: Default::default(),
    };
    if counts.iter().any(Vec::is_empty) {
        // Fault trials are requested by a flag: a row that one side never planned is not lost.
        let has = |side: &[Session]| side.iter().any(|session| session.rows.contains_key(key));
        draft.row.primary = frame.sides.into_iter().all(has);
        (draft.row.verdict, draft.row.reason) = missing(key, frame.sides);
        return Ok(draft);
    }
    let [one, two] = &counts;
    let rule = Rule {
        worse: key.metric.worse(),
        margin: margin_of(frame.margins, key.metric, 1.0),
        family: frame.confidence,
    };
    let why = unattributable(one.len(), two.len(), Basis::Trials);
    let (mut judged, change) = proportions::judge([one, two], why, rule)?;
    let error = frame.confidence.alpha() / ALPHA;
    draft.row.trials = Some([one, two].map(|side| sum(side)));
    draft.row.primary = judged.verdict != Verdict::Inconclusive || change.effect.value != 0.0;
    if !draft.row.primary && judged.reason.is_none() {
        let needed = judged.sessions_needed.take();
        let more = needed.map_or("more than 1,000".to_owned(), |n| format!("about {n}"));
        judged.reason = Some(format!(
            "equal; {} a side would show it within the margin",
            counted(more, "session")
        ));
    }
    let (p, shares) = (judged.p, [one, two].map(|side| proportions::share(side)));
    draft.judge(shares, judged, change, rule.margin);
    if let Some(figures) = &mut draft.row.figures {
        figures.p_adjusted = (p / error).min(1.0);
    }
    Ok(draft)
}

impl Draft<'_> {
    fn judge(&mut self, means: [f64; 2], judged: Judged, change: Change, margin: f64) {
        let row = &mut self.row;
        (row.verdict, row.confirmed, row.differs) =
            (judged.verdict, judged.confirmed, judged.differs);
        row.reason.clone_from(&judged.reason);
        row.figures = Some(figures(&row.key, means, &change, &judged, margin));
        self.judged = Some((judged, change, margin));
    }
}

/// A row without figures.
fn empty(key: &RowKey, sessions: [usize; 2]) -> DiffRow {
    DiffRow {
        key: key.clone(),
        primary: key.metric.is_primary(),
        verdict: Verdict::NotMeasured,
        confirmed: false,
        differs: false,
        bounds: false,
        reason: None,
        doubts: Vec::new(),
        hint: None,
        moved: BTreeMap::new(),
        sessions: sessions.map(number),
        blocks: [0, 0],
        trials: None,
        figures: None,
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn counts_of(side: &[Session], key: &RowKey) -> Vec<Count> {
    side.iter()
        .filter_map(|session| session.rows.get(key)?.count())
        .filter(|count| count.trials > 0)
        .collect()
}

fn sum(side: &[Count]) -> Count {
    Count {
        good: side.iter().map(|one| one.good).sum(),
        trials: side.iter().map(|one| one.trials).sum(),
    }
}

fn series_of<'a>(side: &'a [Session], key: &RowKey) -> Vec<&'a Series> {
    side.iter().filter_map(|session| session.rows.get(key)?.series()).collect()
}

/// Why a row has no figures: of each side without any, the first session that says why.
fn missing(key: &RowKey, sides: [&[Session]; 2]) -> (Verdict, Option<String>) {
    let (mut verdict, mut reasons) = (None, Vec::new());
    for (side, name) in sides.into_iter().zip(["before", "after"]) {
        let rows = || side.iter().filter_map(|session| session.rows.get(key));
        if rows().any(Row::is_measured) {
            continue;
        }
        let (found, reason) = rows()
            .find_map(|row| match row {
                Row::Invalid(why) => Some((Verdict::Invalid, why.as_str())),
                Row::NotMeasured(why) => Some((Verdict::NotMeasured, why.as_str())),
                Row::Measured(_) | Row::Counted(_) => None,
            })
            .unwrap_or((Verdict::NotMeasured, "not planned"));
        verdict = verdict.or(Some(found));
        reasons.push((name, reason));
    }
    let reason = match reasons.as_slice() {
        [(_, one), (_, two)] if one == two => format!("before and after: {one}"),
        named => {
            let named = named.iter().map(|(name, reason)| format!("{name}: {reason}"));
            named.collect::<Vec<_>>().join("; ")
        }
    };
    (verdict.unwrap_or(Verdict::NotMeasured), Some(reason))
}

fn figures(
    key: &RowKey,
    [before, after]: [f64; 2],
    change: &Change,
    judged: &Judged,
    margin: f64,
) -> Figures {
    let metric = key.metric;
    let unit_of = |value| Figures::unit_of(metric, value);
    Figures {
        before: metric.shown(before),
        after: metric.shown(after),
        unit: metric.unit().to_owned(),
        change: unit_of(change.effect.value),
        lo: unit_of(judged.family[0]),
        hi: unit_of(judged.family[1]),
        equivalence_lo: unit_of(judged.equivalence[0]),
        equivalence_hi: unit_of(judged.equivalence[1]),
        margin: unit_of(margin),
        detectable: judged.detectable.map(unit_of),
        sessions_needed: judged.sessions_needed,
        basis: change.basis,
        spread_from: None,
        df: change.effect.df,
        p: judged.p,
        p_adjusted: judged.p,
    }
}

// What changes verdicts of rows after each is judged by itself: their number.

/// How p values are corrected for their number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Correction {
    /// Of primary rows, whose verdicts rest on intervals.
    Holm,
    /// Of the others.
    BenjaminiHochberg,
}

/// Corrects p values for their number, with `further` ones that are corrected elsewhere; these and
/// rows without one count as p = 1. A change of a row that is not primary needs an adjusted p below
/// 5 %.
fn adjust(
    drafts: &mut [Draft<'_>],
    correction: Correction,
    further: usize,
) -> Result<(), NoEstimate> {
    let p_of = |draft: &Draft<'_>| draft.judged.as_ref().map_or(1.0, |(judged, ..)| judged.p);
    let further = std::iter::repeat_n(1.0, further);
    let p_values: Vec<f64> = drafts.iter().map(p_of).chain(further).collect();
    let adjusted = match correction {
        Correction::Holm => holm(&p_values)?,
        Correction::BenjaminiHochberg => benjamini_hochberg(&p_values)?,
    };
    for (draft, p) in drafts.iter_mut().zip(adjusted) {
        let Some(figures) = &mut draft.row.figures else { continue };
        figures.p_adjusted = p;
        let row = &mut draft.row;
        let is_change =
            row.differs || matches!(row.verdict, Verdict::Regressed | Verdict::Improved);
        if correction == Correction::BenjaminiHochberg && is_change && p >= ALPHA {
            (row.verdict, row.confirmed, row.differs) = (Verdict::Inconclusive, false, false);
            row.reason = Some("may be chance among so many rows".to_owned());
        }
    }
    Ok(())
}

/// Adds a hint to a change of rates.
fn explain(draft: &mut Draft<'_>, sessions: [&[Session]; 2]) {
    let row = &mut draft.row;
    let Some((judged, change, margin)) = &draft.judged else { return };
    if row.key.metric.is_proportion() || row.bounds {
        return;
    }
    let moved = match row.verdict {
        Verdict::Regressed | Verdict::Improved => true,
        // Where the interval holds no change, no cause of one is named.
        Verdict::Inconclusive => {
            let [lo, hi] = judged.family;
            change.effect.value.abs() >= *margin && (lo > 0.0 || hi < 0.0)
        }
        _ => false,
    };
    if moved {
        let sides = Sides {
            sessions,
            series: [&draft.series[0], &draft.series[1]],
            key: &row.key,
            is_rate: !row.key.metric.is_latency(),
        };
        row.hint = hint::of(&sides, change, *margin);
        row.moved = hint::moved_of(&sides);
    }
}

// What the reports of both sides print beside a row.

/// Each kind of text once, in alphabetical order, with the sessions of each side that have it.
fn of(key: &RowKey, sides: [&[Session]; 2]) -> Vec<Doubt> {
    let mut found: BTreeMap<&str, Doubt> = BTreeMap::new();
    for (side, sessions) in sides.into_iter().enumerate() {
        for session in sessions {
            let mut counted = BTreeSet::new();
            for text in session.doubts_of(key) {
                let kind = Doubt::kind(text);
                let first = || Doubt { text: text.to_owned(), sessions: [0, 0] };
                let doubt = found.entry(kind).or_insert_with(first);
                doubt.sessions[side] += u32::from(counted.insert(kind));
            }
        }
    }
    found.into_values().collect()
}

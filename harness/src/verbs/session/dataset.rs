//! Sessions as figures of a dataset, and back.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use gpubench_compare::session::{self, Bounds, Keys};
use gpubench_compare::{Dose, Metric, Row, RowKey, Series, Session};
use gpubench_record::{DeviceKind, Margins};
use gpubench_stats::{Confidence, Effect};
use gpubench_store::dataset::{self, Figure, TEXTS};
use serde::{Deserialize, Serialize};

use crate::error::ExpectedError;
use crate::verbs::verdict::from_store;

/// What a session is beside its rows.
#[derive(Clone, Serialize, Deserialize)]
struct Head {
    kind: DeviceKind,
    #[serde(with = "session::shared")]
    facts: Arc<BTreeMap<String, String>>,
    labels: BTreeMap<String, String>,
    margins: Option<Margins>,
}

/// The facts, labels and margins of a session as JSON.
pub fn head_of(session: &Session) -> Result<String, ExpectedError> {
    let head = Head {
        kind: session.kind,
        facts: session.facts.clone(),
        labels: session.labels.clone(),
        margins: session.margins,
    };
    serde_json::to_string(&head).map_err(|error| ExpectedError::internal(error.to_string()))
}

fn fact<'a>(session: &'a Session, name: &str) -> &'a str {
    session.facts.get(name).map_or("", String::as_str)
}

/// One for each record, wherever its folder is.
pub fn id(session: &Session) -> String {
    let of = |name| fact(session, name);
    dataset::record_id([of("uuid"), &session.started_at, of("profile"), of("calibration")])
}

/// Its figures, with the text of [`head_of`].
pub fn figures_of<'a>(
    id: &'a str,
    head: &'a str,
    session: &'a Session,
) -> Result<Vec<Figure<'a>>, ExpectedError> {
    let of_session = head;
    let host = fact(session, "hostname");
    let node = session.labels.get("node").map_or("", String::as_str);
    let of_run = ["product", "device", "profile", "calibration", "scoring", "gpubench", "clock"];
    let of_run = of_run.map(|name| fact(session, name));
    let head = [host, fact(session, "uuid"), fact(session, "driver"), &session.started_at, id];
    let measured = session.rows.iter().filter_map(|(key, row)| match row {
        Row::Measured(series) => Some((key, series)),
        _ => None,
    });
    let figures = measured.enumerate().map(|(at, (key, series))| {
        // A text of kilobytes, which readers expand for each row.
        let of_session = if at == 0 { of_session } else { "" };
        let beside = key.aggressor.as_deref().unwrap_or_default();
        let row = [key.variant.as_str(), &key.axis, &key.victim, beside, key.metric.as_str()];
        let texts =
            head.iter().chain(&of_run).chain([&node]).chain(&row).chain([&of_session]).copied();
        let texts: Vec<&str> = texts.collect();
        let own = Effect::of_mean(&series.blocks).and_then(|one| one.interval(Confidence::P95));
        let own = own.map_err(|error| ExpectedError::internal(error.to_string()))?;
        let (bounds, shown) = (series.bounds, |value| key.metric.shown(value));
        Ok(Figure {
            texts: texts
                .try_into()
                .map_err(|_| ExpectedError::internal("a row of a dataset".to_owned()))?,
            dose: key.dose.map_or(1.0, |dose| dose.0),
            value: shown(own.value),
            moved: [bounds.down, bounds.up],
            ends: [shown(own.lo - bounds.down), shown(own.hi + bounds.up)],
            blocks: u32::try_from(series.blocks.len()).unwrap_or(u32::MAX),
            is_bound: series.is_bound,
        })
    });
    figures.collect()
}

/// The texts of a figure that make a session and its rows.
const READ: [&str; 5] = ["started_at", "variant", "axis", "victim", "aggressor"];

/// The sessions of a dataset, with the mean of each row to keep. Rows without figures are not in a
/// dataset.
pub(super) fn sessions_of(
    dir: &Path,
    keep: impl Fn(Metric) -> bool + Sync,
) -> Result<Vec<Session>, ExpectedError> {
    let (shared, mut found) = (Shared::default(), Vec::new());
    // A metric that is not known is kept for the error that names it.
    let is_kept = |name: &str| metric_of(name).is_none_or(&keep);
    let parts = |figures: &[Figure<'_>]| shared.parts(figures, &keep);
    dataset::each_record(dir, &READ, is_kept, parts, |parts| found.push(session_of(dir, parts)))
        .map_err(|error| from_store(dir, error))?;
    found.into_iter().collect()
}

fn metric_of(name: &str) -> Option<Metric> {
    Metric::ALL.into_iter().find(|one| one.as_str() == name)
}

fn text<'a>(figure: &Figure<'a>, column: &str) -> &'a str {
    TEXTS.iter().position(|name| *name == column).map_or("", |at| figure.texts[at])
}

fn text_of(figures: &[Figure<'_>], column: &str) -> String {
    figures.first().map_or_else(String::new, |first| text(first, column).to_owned())
}

/// What some rows have of a record.
struct Part {
    record: String,
    started_at: String,
    head: Option<Head>,
    rows: Vec<(Arc<RowKey>, Row)>,
}

/// What records have in common, made once for all: the keys of their rows, and their facts, which
/// most nights of a GPU share.
#[derive(Default)]
struct Shared {
    keys: Keys,
    heads: Mutex<HashMap<String, Head>>,
}

impl Shared {
    /// What the figures have of each record, or why they cannot be read.
    fn parts(
        &self,
        figures: &[Figure<'_>],
        keep: impl Fn(Metric) -> bool,
    ) -> Vec<(String, Result<Part, String>)> {
        let mut keys = HashMap::new();
        let of_record = figures.chunk_by(|a, b| text(a, "record") == text(b, "record"));
        let part = |figures: &_| (text_of(figures, "record"), self.part(figures, &keep, &mut keys));
        of_record.map(part).collect()
    }

    fn part<'a>(
        &self,
        figures: &[Figure<'a>],
        keep: impl Fn(Metric) -> bool,
        keys: &mut HashMap<([&'a str; 5], u64), Arc<RowKey>>,
    ) -> Result<Part, String> {
        let [record, started_at] = ["record", "started_at"].map(|name| text_of(figures, name));
        let mut part = Part { record, started_at, head: None, rows: Vec::new() };
        for one in figures {
            if let Some(session) = Some(text(one, "session")).filter(|text| !text.is_empty()) {
                part.head = Some(self.head(session)?);
            }
            let name = text(one, "metric");
            let metric = metric_of(name).ok_or_else(|| format!("unknown metric {name:?}"))?;
            if keep(metric) {
                let columns = ["metric", "variant", "axis", "victim", "aggressor"];
                let of_row = (columns.map(|name| text(one, name)), one.dose.to_bits());
                let key = keys.entry(of_row).or_insert_with(|| self.key(one, metric));
                part.rows.push((Arc::clone(key), row_of(one, metric)));
            }
        }
        Ok(part)
    }

    fn head(&self, text: &str) -> Result<Head, String> {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(head) = heads.get(text) {
            return Ok(head.clone());
        }
        let head: Head = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(heads.entry(text.to_owned()).or_insert(head).clone())
    }

    fn key(&self, figure: &Figure<'_>, metric: Metric) -> Arc<RowKey> {
        let of = |name| text(figure, name).to_owned();
        self.keys.of(RowKey {
            variant: of("variant"),
            axis: of("axis"),
            victim: of("victim"),
            aggressor: Some(of("aggressor")).filter(|name| !name.is_empty()),
            dose: Dose::below_1(figure.dose),
            metric,
        })
    }
}

fn row_of(figure: &Figure<'_>, metric: Metric) -> Row {
    let mean = if metric.is_log() { figure.value.ln() } else { figure.value };
    let [down, up] = figure.moved;
    let (bounds, is_bound) = (Bounds { down, up }, figure.is_bound);
    Row::Measured(Series { blocks: vec![mean], bounds, is_bound, ..Series::default() })
}

fn session_of(dir: &Path, parts: Vec<Result<Part, String>>) -> Result<Session, ExpectedError> {
    let unreadable = |what: String| {
        ExpectedError::unreadable_record(dir, format!("a record of the dataset: {what}"))
    };
    let parts: Result<Vec<Part>, String> = parts.into_iter().collect();
    let (mut rows, mut head, mut names) = (Vec::new(), None, None);
    for part in parts.map_err(unreadable)? {
        rows.extend(part.rows);
        head = head.or(part.head);
        names.get_or_insert((part.record, part.started_at));
    }
    let (record, started_at) = names.unwrap_or_default();
    let head = head.ok_or_else(|| unreadable(format!("{record} has no text of its session")))?;
    Ok(Session {
        name: format!("{}/{record}", dir.display()),
        started_at,
        kind: head.kind,
        facts: head.facts,
        labels: head.labels,
        margins: head.margins,
        levels: BTreeMap::new(),
        rows: rows.into_iter().collect(),
        doubts: Vec::new(),
        repeats: BTreeMap::new(),
        work: BTreeMap::new(),
        losses: Vec::new(),
        is_doubtful: false,
    })
}

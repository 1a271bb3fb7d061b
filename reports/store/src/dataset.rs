//! A dataset of the figures of many records: Parquet in folders `month=2026-01`, for engines that
//! read many files at once. Each export is a file of each month that it has, written under another
//! name until it is whole; readers see no part of one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::parquet::{self, Kind, Table, Values};
use super::parquet_reader::{Reader, Rows};

/// Columns of text, those that files are sorted by first.
pub const TEXTS: [&str; 19] = [
    "host",
    "gpu",
    "driver",
    "started_at",
    "record",
    "product",
    "device",
    "profile",
    "calibration",
    "scoring",
    "gpubench",
    "clock",
    "node",
    "variant",
    "axis",
    "victim",
    "aggressor",
    "metric",
    "session",
];
const STARTED_AT: usize = 3;
const RECORD: usize = 4;
const METRIC: &str = "metric";
const SESSION: &str = "session";

const COLUMNS: [(&str, Kind); TEXTS.len() + 8] = {
    let mut all = [("", Kind::Text); TEXTS.len() + 8];
    let mut at = 0;
    while at < TEXTS.len() {
        all[at].0 = TEXTS[at];
        at += 1;
    }
    all[at] = ("dose", Kind::F64);
    all[at + 1] = ("value", Kind::F64);
    all[at + 2] = ("lo", Kind::F64);
    all[at + 3] = ("hi", Kind::F64);
    all[at + 4] = ("down", Kind::F64);
    all[at + 5] = ("up", Kind::F64);
    all[at + 6] = ("blocks", Kind::U32);
    all[at + 7] = ("bound", Kind::Bool);
    all
};

const TABLE: Table = Table {
    columns: &COLUMNS,
    legends: &[
        ("record", "hash of GPU, start, profile and calibration: one for each record"),
        ("value", "mean over blocks, of ratios and rates the geometric one"),
        ("lo", "lower end of the 95 % interval, widened by what disturbances can have moved"),
        ("hi", "upper end of the same interval"),
        (
            "down",
            "by how much disturbances can have lowered the mean: of its logarithm, or as it is",
        ),
        ("up", "by how much they can have raised it"),
        (
            "session",
            "JSON of all facts, labels and margins of the run, as history reads them; on one row \
             of each record",
        ),
        ("dose", "of the aggressor; 1 is full"),
        ("bound", "whether the value is the most that it can be, because the victim starved"),
    ],
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure<'a> {
    /// In the order of [`TEXTS`].
    pub texts: [&'a str; TEXTS.len()],
    pub dose: f64,
    pub value: f64,
    /// The ends of its interval.
    pub ends: [f64; 2],
    /// What disturbances can have moved, down and up, on the scale of its blocks.
    pub moved: [f64; 2],
    pub blocks: u32,
    pub is_bound: bool,
}

/// The month of a time, as `2026-01`.
fn month_of<'a>(dir: &Path, time: &'a str) -> Result<&'a str, StoreError> {
    let month = time.get(..7).filter(|month| {
        let is = |at: usize, byte: u8| if at == 4 { byte == b'-' } else { byte.is_ascii_digit() };
        month.bytes().enumerate().all(|(at, byte)| is(at, byte))
    });
    month.ok_or_else(|| StoreError::Unstorable {
        what: "a figure",
        path: dir.to_owned(),
        reason: format!("{time:?} is no time"),
    })
}

/// Adds the figures of records that the dataset lacks. Returns how many records it had already.
/// Fails when a file cannot be read or written; what was written before stays and is whole.
pub fn add(dir: &Path, figures: Vec<Figure<'_>>) -> Result<usize, StoreError> {
    let mut months: BTreeMap<&str, Vec<Figure<'_>>> = BTreeMap::new();
    for figure in figures {
        months.entry(month_of(dir, figure.texts[STARTED_AT])?).or_default().push(figure);
    }
    let mut known = BTreeSet::new();
    for (month, mut figures) in months {
        let folder = dir.join(format!("month={month}"));
        let mut there = BTreeSet::new();
        for path in files(&folder)? {
            let reader = Reader::open(&path, &TABLE)?;
            let rows = reader.read(0..reader.row_count(), &[TEXTS[RECORD]])?;
            there.extend(rows.text(TEXTS[RECORD])?.into_iter().map(str::to_owned));
        }
        figures.retain(|one| {
            let is_new = !there.contains(one.texts[RECORD]);
            if !is_new {
                known.insert(one.texts[RECORD]);
            }
            is_new
        });
        write(&folder, "export", figures)?;
    }
    Ok(known.len())
}

/// Makes one file of each month that has several, with each record once.
/// Fails as [`add`].
pub fn compact(dir: &Path) -> Result<(), StoreError> {
    let folders = std::fs::read_dir(dir).map_err(StoreError::io("list", dir))?;
    for folder in folders.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let paths = files(&folder)?;
        if paths.len() < 2 {
            continue;
        }
        let readers: Result<Vec<Reader>, _> =
            paths.iter().map(|path| Reader::open(path, &TABLE)).collect();
        let readers = readers?;
        let names = TABLE.names();
        let rows: Result<Vec<Rows<'_>>, _> =
            readers.iter().map(|one| one.read(0..one.row_count(), &names)).collect();
        let rows = rows?;
        let (mut known, mut kept) = (BTreeSet::new(), Vec::new());
        for rows in &rows {
            let figures = figures_of(rows, &TEXTS, |_| true)?;
            let new: BTreeSet<&str> = figures.iter().map(|one| one.texts[RECORD]).collect();
            kept.extend(figures.into_iter().filter(|one| !known.contains(one.texts[RECORD])));
            known.extend(new);
        }
        let written = write(&folder, "compact", kept)?;
        for path in paths.into_iter().filter(|path| written.as_ref() != Some(path)) {
            std::fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
        }
    }
    Ok(())
}

/// Whether a folder is a dataset: it has the folder of a month.
pub fn is_dataset(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .into_iter()
        .any(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with("month=")))
}

/// Reads the figures of each record, once, file by file. Of the texts only `texts` are read, and
/// the record; the others are empty. `parts` makes of rows that stand together, some of which can
/// be of a record that began before them or goes on behind them, what each of their records has
/// there; it runs on several threads, and gets the rows whose metric is to `keep` and those with
/// the text of their session. `each` gets all that was made of a record.
/// Fails when a file cannot be read.
pub fn each_record<T: Send>(
    dir: &Path,
    texts: &[&str],
    keep: impl Fn(&str) -> bool + Sync,
    parts: impl Fn(&[Figure<'_>]) -> Vec<(String, T)> + Sync,
    mut each: impl FnMut(Vec<T>),
) -> Result<(), StoreError> {
    let texts = [texts, &[TEXTS[RECORD], METRIC, SESSION]].concat();
    let numbers = COLUMNS[TEXTS.len()..].iter().map(|(name, _)| *name);
    let names: Vec<&str> = texts.iter().copied().chain(numbers).collect();
    let folders = std::fs::read_dir(dir).map_err(StoreError::io("list", dir))?;
    let mut known = BTreeSet::new();
    for folder in folders.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        for path in files(&folder)? {
            let decode = |rows: &Rows<'_>, _| Ok(parts(&figures_of(rows, &texts, &keep)?));
            let mut last: Option<(String, Vec<T>)> = None;
            let mut end = |(record, all): (String, Vec<T>)| {
                if known.insert(record) {
                    each(all);
                }
            };
            Reader::open(&path, &TABLE)?.for_each_chunk(&names, decode, |found| {
                for (record, part) in found {
                    match &mut last {
                        Some((same, all)) if *same == record => all.push(part),
                        _ => last.replace((record, vec![part])).into_iter().for_each(&mut end),
                    }
                }
                Ok(())
            })?;
            last.into_iter().for_each(end);
        }
    }
    Ok(())
}

/// The figures of rows whose metric is to keep, and of those with the text of their session.
fn figures_of<'a>(
    rows: &'a Rows<'_>,
    read: &[&str],
    keep: impl Fn(&str) -> bool,
) -> Result<Vec<Figure<'a>>, StoreError> {
    let column = |name: &&str| read.contains(name).then(|| rows.text(name)).transpose();
    let texts: Result<Vec<Option<Vec<&str>>>, _> = TEXTS.iter().map(column).collect();
    let texts = texts?;
    let (metrics, sessions) = (rows.text(METRIC)?, rows.text(SESSION)?);
    let numbers = |name| rows.f64(name);
    let (dose, value, lo, hi) =
        (numbers("dose")?, numbers("value")?, numbers("lo")?, numbers("hi")?);
    let (down, up) = (numbers("down")?, numbers("up")?);
    let (blocks, bound) = (rows.u32("blocks")?, rows.bool("bound")?);
    let kept = (0..rows.count()).filter(|row| !sessions[*row].is_empty() || keep(metrics[*row]));
    let figures = kept.map(|row| Figure {
        texts: std::array::from_fn(|column| texts[column].as_ref().map_or("", |all| all[row])),
        dose: dose[row],
        value: value[row],
        ends: [lo[row], hi[row]],
        moved: [down[row], up[row]],
        blocks: blocks[row],
        is_bound: bound[row],
    });
    Ok(figures.collect())
}

/// The files of a month, in the order of their names; none without the folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).map_err(StoreError::io("list", folder))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "parquet"));
    paths.sort();
    Ok(paths)
}

/// One for each record, wherever its folder is: of the UUID of the device, the start, and the
/// hashes of profile and calibration.
pub fn record_id(of: [&str; 4]) -> String {
    blake3::hash(of.join("\n").as_bytes()).to_hex()[..32].to_owned()
}

/// Writes the figures as a file whose name follows from its records; none without figures.
fn write(
    folder: &Path,
    kind: &str,
    mut figures: Vec<Figure<'_>>,
) -> Result<Option<PathBuf>, StoreError> {
    if figures.is_empty() {
        return Ok(None);
    }
    figures.sort_by(|a, b| {
        (a.texts, a.dose).partial_cmp(&(b.texts, b.dose)).unwrap_or(std::cmp::Ordering::Equal)
    });
    let mut records: Vec<&str> = figures.iter().map(|one| one.texts[RECORD]).collect();
    records.dedup();
    let hash = blake3::hash(records.join("\n").as_bytes()).to_hex();
    let path = folder.join(format!("{kind}-{}.parquet", &hash[..16]));
    std::fs::create_dir_all(folder).map_err(StoreError::io("write", folder))?;
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let written =
        File::create_new(&part).map_err(StoreError::io("write", &part)).and_then(|file| {
            parquet::write(&file, &part, &TABLE, |writer| {
                figures.chunks(parquet::ROW_GROUP_ROWS).try_for_each(|rows| {
                    let texts = TEXTS.into_iter().enumerate().map(|(at, name)| {
                        (name, Values::Text(rows.iter().map(|one| one.texts[at]).collect()))
                    });
                    let number =
                        |of: fn(&Figure<'_>) -> f64| Values::F64(rows.iter().map(of).collect());
                    let rest = [
                        ("dose", number(|one| one.dose)),
                        ("value", number(|one| one.value)),
                        ("lo", number(|one| one.ends[0])),
                        ("hi", number(|one| one.ends[1])),
                        ("down", number(|one| one.moved[0])),
                        ("up", number(|one| one.moved[1])),
                        ("blocks", Values::U32(rows.iter().map(|one| one.blocks).collect())),
                        ("bound", Values::Bool(rows.iter().map(|one| one.is_bound).collect())),
                    ];
                    writer.row_group(rows.len(), texts.chain(rest).collect())
                })
            })?;
            file.sync_all().map_err(StoreError::io("write", &part))?;
            std::fs::rename(&part, &path).map_err(StoreError::io("write", &path))
        });
    if written.is_err() {
        // The file that could not be written whole has no reader.
        let _ = std::fs::remove_file(&part);
    }
    written.map(|()| Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures<'a>(record: &'a str, time: &'a str, gpus: &[&'a str]) -> Vec<Figure<'a>> {
        let of = |gpu: &&'a str| {
            let mut texts = ["x"; TEXTS.len()];
            (texts[1], texts[STARTED_AT], texts[RECORD]) = (gpu, time, record);
            let (ends, moved) = ([0.4, 0.6], [0.0; 2]);
            Figure { texts, dose: 1.0, value: 0.5, ends, moved, blocks: 8, is_bound: false }
        };
        gpus.iter().map(of).collect()
    }

    #[test]
    fn each_record_is_there_once_also_after_a_second_export_and_compaction()
    -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let path = dir.path();
        let (january, february) = ("2026-01-31T02:00:00Z", "2026-02-01T02:00:00Z");
        assert_eq!(add(path, figures("a", january, &["g2", "g1"]))?, 0);
        assert_eq!(add(path, figures("b", february, &["g1"]))?, 0);
        let both = [figures("a", january, &["g2", "g1"]), figures("c", january, &["g3"])].concat();
        assert_eq!(add(path, both.clone())?, 1);
        let folder = path.join("month=2026-01");
        assert_eq!(files(&folder)?.len(), 2);
        // Two exports at once can both write a record.
        write(&folder, "export", both)?;
        compact(path)?;
        let [file] = files(&folder)?.try_into().map_err(|_| "not one file")?;
        let reader = Reader::open(&file, &TABLE)?;
        let rows = reader.read(0..reader.row_count(), &TABLE.names())?;
        let found = figures_of(&rows, &TEXTS, |_| true)?;
        let gpus: Vec<&str> = found.iter().map(|one| one.texts[1]).collect();
        assert_eq!(gpus, ["g1", "g2", "g3"]);
        assert_eq!(found[0].ends, [0.4, 0.6]);
        // Once each, of a file that has one twice as well.
        write(&folder, "export", figures("a", january, &["g2", "g1"]))?;
        let mut records = Vec::new();
        // Rows of a record that came in two parts.
        let parts = |rows: &[Figure<'_>]| -> Vec<(String, String)> {
            let name = |one: &Figure<'_>| one.texts[RECORD].to_owned();
            rows.iter().map(|one| (name(one), name(one))).collect()
        };
        each_record(path, &[], |_| true, parts, |one| records.push((one[0].clone(), one.len())))?;
        records.sort();
        let of = |name: &str, count| (name.to_owned(), count);
        assert_eq!(records, [of("a", 2), of("b", 1), of("c", 1)]);
        assert!(is_dataset(path) && !is_dataset(&folder));
        assert!(add(path, figures("d", "yesterday", &["g1"])).is_err());
        Ok(())
    }
}

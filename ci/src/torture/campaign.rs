//! A campaign of damage: so many records and inputs, each case from its seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use super::inputs::Inputs;
use super::inputs::Records;
use crate::tree::CiError;

pub struct Campaign {
    pub binary: PathBuf,
    /// Root of the repository, whose profiles and machine files are damaged.
    pub root: PathBuf,
    /// Seed of the first case; each later one has the next number.
    pub seed: u64,
    pub records: u64,
    pub inputs: u64,
}

/// How the cases of one kind ended.
#[derive(Default)]
struct Counts {
    cases: u64,
    /// By exit status; `None` after a signal.
    codes: BTreeMap<Option<i32>, u64>,
    failures: Vec<String>,
    slowest_ms: u128,
}

/// Runs the cases. Every failure is an error that names its seed.
pub fn damaged(campaign: &Campaign) -> Result<String, CiError> {
    let folder = std::env::temp_dir().join(format!("gpubench-damage-{}", std::process::id()));
    let found = in_folder(campaign, &folder);
    // A folder in the temporary folder that stays does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    let (text, failures) = found.map_err(CiError::Found)?;
    if failures == 0 { Ok(text) } else { Err(CiError::Found(text)) }
}

fn in_folder(campaign: &Campaign, folder: &std::path::Path) -> Result<(String, usize), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut text = String::new();
    let mut failures = 0;
    if campaign.records > 0 {
        let profile = campaign.root.join(super::PROFILE);
        let records = Records::make(&campaign.binary, folder, &profile)?;
        let counts = run(campaign.seed, campaign.records, |seed| records.case(seed));
        failures += counts.failures.len();
        text += &counts.report("damaged records", campaign.seed);
        text += &records.uncovered(campaign.seed, (campaign.records / 20).max(1))?;
    }
    if campaign.inputs > 0 {
        let inputs = Inputs::of(&campaign.binary, folder, &campaign.root)?;
        let counts = run(campaign.seed, campaign.inputs, |seed| inputs.case(seed));
        failures += counts.failures.len();
        text += &counts.report("damaged inputs", campaign.seed);
    }
    Ok((text.trim_end().to_owned(), failures))
}

fn run(
    first: u64,
    count: u64,
    case: impl Fn(u64) -> (String, Result<Option<i32>, String>),
) -> Counts {
    let mut counts = Counts::default();
    for seed in first..first.saturating_add(count) {
        let begin = Instant::now();
        let (done, ended) = case(seed);
        counts.slowest_ms = counts.slowest_ms.max(begin.elapsed().as_millis());
        counts.cases += 1;
        match ended {
            Ok(code) => *counts.codes.entry(code).or_default() += 1,
            Err(problem) => {
                let failure = format!("seed {seed}: {done}: {problem}");
                eprintln!("{failure}");
                counts.failures.push(failure);
            }
        }
    }
    counts
}

impl Counts {
    fn report(&self, what: &str, seed: u64) -> String {
        let name = |code: &Option<i32>| code.map_or("a signal".to_owned(), |code| code.to_string());
        let codes = self.codes.iter();
        let codes = codes.map(|(code, count)| format!("{count} with status {}", name(code)));
        let mut text = format!(
            "{} {what} from seed {seed}: {}; {} failures; the slowest took {} ms\n",
            self.cases,
            codes.collect::<Vec<_>>().join(", "),
            self.failures.len(),
            self.slowest_ms
        );
        for failure in &self.failures {
            let _ = writeln!(text, "  {failure}");
        }
        text
    }
}

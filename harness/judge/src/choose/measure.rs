//! Why a need is unknown under a mechanism, and the command that would measure it.

use gpubench_plan::profile::TRIALS_MAX;
use gpubench_plan::{FaultPart, FaultWish, NOTHING_TO_BREAK, fault_part, faults_ns};
use gpubench_record::{Axis, DeviceKind, MechanismRow, OutcomeKind, Plan, RunRecord};
use gpubench_stats::Confidence;
use gpubench_stats::proportion::trials_for_lower_limit;

use super::need::{Bound, Figure, Need, Rows, What};
use super::{Finding, SHARING, admits_one_tenant, instances, properties};

/// Minutes of a run that measures one axis under one mechanism, and that decides rows whose
/// intervals straddle what is needed.
const MINUTES: u64 = 5;
/// The same with jitter beside every aggressor, whose sparse phases do not shrink.
const MINUTES_JITTER: u64 = 8;
const MINUTES_UNDECIDED: u64 = 15;
/// Minutes of the probes of memory of one mechanism: the published runs took 15 s.
const MINUTES_MEMORY: u64 = 1;
const MINUTE_NS: u64 = 60_000_000_000;
/// Trials of each fault in one run, and those that show L3 if all are contained.
const TRIALS: u32 = 17;
const TRIALS_L3: u32 = 72;

/// Why a mechanism has no row that a need is about.
pub(super) fn unmeasured(records: &[&RunRecord], variant: &str, rows: Option<&Rows>) -> String {
    let own: Vec<&MechanismRow> = of_variant(records, variant).map(|(_, row)| row).collect();
    let waived = own.iter().find(|row| row.outcome.outcome == OutcomeKind::Waived);
    if let Some(row) = waived.filter(|_| own.iter().all(|row| !row.outcome.is_measured())) {
        return row.outcome.reason.clone().unwrap_or_default();
    }
    match rows {
        Some(rows) if breaks_nothing(records, variant, rows) => NOTHING_TO_BREAK.to_owned(),
        Some(rows) => absent(records, variant, rows).unwrap_or_else(|| "not measured".to_owned()),
        None => "not measured".to_owned(),
    }
}

/// The reason of a row that this device cannot have, where no record has another one.
fn absent(records: &[&RunRecord], variant: &str, rows: &Rows) -> Option<String> {
    let all = records.iter().flat_map(|run| &run.matrix);
    let own: Vec<_> = all.filter(|row| row.variant == variant && rows.has(row)).collect();
    let is_waived = own.iter().all(|row| row.outcome.outcome == OutcomeKind::Waived);
    let first = own.first().filter(|_| is_waived)?;
    Some(first.outcome.reason.clone().unwrap_or_default())
}

/// Whether the need is about faults of what the mechanism does not have.
fn breaks_nothing(records: &[&RunRecord], variant: &str, rows: &Rows) -> bool {
    let part = rows.part.as_deref().filter(|_| rows.axis == Some(Axis::Fault));
    let planned = records.iter().find_map(|run| properties(run, variant));
    let found = part.zip(planned).and_then(|(part, of)| fault_part(part, Some(of)));
    found == Some(FaultPart::NothingToBreak)
}

fn of_variant<'a>(
    records: &'a [&RunRecord],
    variant: &'a str,
) -> impl Iterator<Item = (&'a RunRecord, &'a MechanismRow)> {
    let all = records.iter().flat_map(|run| run.mechanisms.iter().map(move |row| (*run, row)));
    all.filter(move |(_, row)| row.variant == variant)
}

/// The device of a run as a flag of a command that measures more of it.
pub fn device_flag(run: &RunRecord) -> String {
    let device = run.provenance.command.windows(2).find(|two| two[0] == "--device");
    device.map_or_else(String::new, |two| format!(" --device {}", two[1]))
}

/// What a command is for.
pub(super) struct Command<'a> {
    pub records: &'a [&'a RunRecord],
    pub variant: &'a str,
    pub need: &'a Need,
    /// The tenants that are needed.
    pub wanted: u32,
    /// Whether the interval of a row straddles what is needed.
    pub undecided: bool,
}

impl Command<'_> {
    /// The command that would measure the need, and its minutes. None where the host must change
    /// first in a way that no flag does, or where nothing can measure it.
    pub fn with_minutes(&self) -> Option<(String, u64)> {
        let Self { records, variant, need, .. } = *self;
        let (run, row) = of_variant(records, variant).next()?;
        let axis = need.axis();
        let skip =
            run.plan.skips.iter().find(|skip| {
                skip.name == row.name && skip.axis.as_deref() == axis.map(Axis::as_str)
            });
        let allow = "--allow-reconfigure";
        let remedy = row.remedy.as_deref().unwrap_or_default();
        let is_waived = row.outcome.outcome == OutcomeKind::Waived;
        let by_rows = match &need.what {
            What::Level(rows, _) | What::Figure(rows, ..) => {
                let is_absent = || absent(records, variant, rows).is_some();
                breaks_nothing(records, variant, rows) || (!is_waived && is_absent())
            }
            _ => false,
        };
        if admits_one_tenant(run, variant)
            || skip.is_some_and(|skip| skip.remedy.is_none())
            || (is_waived && !remedy.contains(allow))
            || by_rows
            || self.is_another_variant(&row.name)
        {
            return None;
        }
        let device = device_flag(run);
        let (profile, file) = self.profile();
        let (flags, minutes) = self.flags()?;
        let mut command = format!("{profile}gpubench matrix{device} --mechanism {}", row.name);
        command += &flags.replacen(PROFILE, &file, 1);
        if remedy.contains(allow) || run.provenance.command.iter().any(|one| one == allow) {
            command += &format!(" {allow}");
        }
        Some((command, minutes))
    }

    /// Whether so many tenants have the mechanism in another form, which this one cannot become.
    fn is_another_variant(&self, name: &str) -> bool {
        if instances(self.variant).is_some_and(|own| (own.len() as u32) < self.wanted) {
            return true;
        }
        let enough = self.records.iter().filter(|run| run.plan.tenants >= self.wanted);
        let rows = enough.flat_map(|run| &run.mechanisms).filter(|row| row.name == name);
        let measured: Vec<_> = rows.filter(|row| row.outcome.is_measured()).collect();
        !measured.is_empty() && measured.iter().all(|row| row.variant != self.variant)
    }

    /// What writes the profile of the command, and its flag.
    fn profile(&self) -> (String, String) {
        // The tail needs no lone requests.
        let is_tail = matches!(self.need.what, What::Figure(_, Figure::Tail, _));
        let is_of_jitter = self.need.axis() == Some(Axis::Jitter) && !is_tail;
        let tenants = (self.wanted > SHARING).then(|| format!("tenants = {}\\n", self.wanted));
        let pairs = is_of_jitter.then(|| "jitter_pairs = \"all\"\\n".to_owned());
        let name = if tenants.is_some() { "tenants.toml" } else { "jitter.toml" };
        let lines: Vec<String> = tenants.into_iter().chain(pairs).collect();
        if lines.is_empty() {
            return (String::new(), String::new());
        }
        let write = format!("printf 'version = 1\\n{}' > {name} && ", lines.concat());
        (write, format!(" --profile {name}"))
    }

    /// The flags that select the rows, with the place of the profile's, and the minutes.
    fn flags(&self) -> Option<(String, u64)> {
        let minutes = match self.need.axis() {
            _ if self.undecided => MINUTES_UNDECIDED,
            Some(Axis::Jitter) => MINUTES_JITTER,
            _ => MINUTES,
        };
        let timed = |axes: &str| format!("{axes}{PROFILE} --for-minutes {minutes}");
        let rows = match &self.need.what {
            What::Level(rows, _) | What::Figure(rows, ..) => Some(rows),
            _ => None,
        };
        Some(match self.need.axis() {
            Some(Axis::Fault) => {
                let (trials, part) = (self.trials()?, rows.and_then(|rows| rows.part.as_deref()));
                let kind = part.and_then(|part| fault_part(part, None));
                let (axis, faults) = match part.zip(kind) {
                    Some((part, FaultPart::Class)) => (format!("fault/{part}"), String::new()),
                    Some((part, _)) => ("fault".to_owned(), format!("={part}")),
                    None => ("fault".to_owned(), String::new()),
                };
                let more = (trials > TRIALS).then(|| format!(" --fault-trials {trials}"));
                let more = more.unwrap_or_default();
                let minutes = self.minutes_of_faults(part, trials)?;
                (format!(" --axis {axis}{PROFILE} --faults{faults}{more}"), minutes)
            }
            Some(Axis::Memory) => (format!(" --axis memory{PROFILE}"), MINUTES_MEMORY),
            // The axis alone has the aggressor of one sub-axis.
            Some(Axis::Jitter) => (timed(" --axis compute,bandwidth,jitter"), minutes),
            Some(axis) => (timed(&format!(" --axis {}", axis.as_str())), minutes),
            None => (timed(""), minutes),
        })
    }

    /// The minutes that `plan` prints of the fault trials, by the same planner.
    fn minutes_of_faults(&self, part: Option<&str>, trials: u32) -> Option<u64> {
        let of_run = |run: &&RunRecord| {
            let is_virtual_time = run.device.kind == DeviceKind::Virtual;
            let wish = FaultWish { trials, is_virtual_time, ..FaultWish::default() };
            let plan = Plan { tenants: self.wanted.max(SHARING), ..run.plan.clone() };
            faults_ns(&plan, self.variant, part, wish)
        };
        self.records.iter().find_map(of_run).map(|ns| ns.div_ceil(MINUTE_NS))
    }

    /// The trials of each fault that show the need if all are contained; `None` where no number
    /// does.
    fn trials(&self) -> Option<u32> {
        // As many again would leave an undecided row as it is.
        let rows = self.records.iter().flat_map(|run| &run.matrix);
        let rows = rows.filter(|row| row.variant == self.variant && row.axis == "fault");
        let has_trials = |n: u32| n >= TRIALS;
        let held = rows.filter_map(|row| Some(row.survival.as_ref()?.n)).any(has_trials);
        let least = if self.undecided && held { TRIALS_L3 } else { TRIALS };
        match &self.need.what {
            What::Level(_, 3) => Some(TRIALS_L3),
            What::Figure(_, _, Bound::AtLeast(share)) => {
                let found = trials_for_lower_limit(share.max(0.01), Confidence::P95).ok();
                found.map(|trials| trials.max(least)).filter(|trials| *trials <= TRIALS_MAX)
            }
            _ => Some(least),
        }
    }
}

/// What is unknown of a mechanism that did not run, with one command for all: that of rates without
/// its axis, with the faults of another.
pub(super) fn of_every_need(open: &[Finding]) -> Option<Finding> {
    let commands = || open.iter().filter_map(|found| found.measure.as_ref());
    let (faults, others): (Vec<_>, Vec<_>) =
        commands().partition(|(command, _)| command.contains(" --faults"));
    let measure = match (others.first(), faults.first()) {
        (Some((command, minutes)), Some((of_faults, more))) => {
            let flags = faults_of(of_faults);
            Some((format!("{} {flags}", without_axis(command)), minutes + more))
        }
        (Some((command, minutes)), None) => Some((without_axis(command), *minutes)),
        (None, of_faults) => of_faults.map(|one| (*one).clone()),
    };
    let found = open.first()?.clone();
    Some(Finding { need: "every need".to_owned(), figure: None, measure, ..found })
}

fn without_axis(command: &str) -> String {
    let mut words: Vec<&str> = command.split(' ').collect();
    if let Some(at) = words.iter().position(|word| *word == "--axis") {
        words.drain(at..(at + 2).min(words.len()));
    }
    words.join(" ")
}

/// The flags of faults of a command; a class that its axis names becomes their value.
fn faults_of(command: &str) -> String {
    let class = command.split(' ').find_map(|word| word.strip_prefix("fault/"));
    let flags = command.split(' ').skip_while(|word| !word.starts_with("--faults"));
    let flags = flags.take_while(|word| *word != "--allow-reconfigure");
    let flags = flags.collect::<Vec<_>>().join(" ");
    match class {
        Some(class) => flags.replacen("--faults", &format!("--faults={class}"), 1),
        None => flags,
    }
}

/// The place of the profile among the flags.
const PROFILE: &str = "{profile}";

#[cfg(test)]
mod tests {
    use super::{faults_of, without_axis};

    #[test]
    fn one_command_measures_rates_and_faults() {
        let rates = "gpubench matrix --mechanism mig --axis bandwidth --for-minutes 5 --x";
        assert_eq!(without_axis(rates), "gpubench matrix --mechanism mig --for-minutes 5 --x");
        for (command, flags) in [
            ("gpubench matrix --axis fault/mmu --faults --allow-reconfigure", "--faults=mmu"),
            (
                "gpubench matrix --axis fault --faults=oom --fault-trials 72",
                "--faults=oom --fault-trials 72",
            ),
            ("gpubench matrix --axis fault --faults", "--faults"),
        ] {
            assert_eq!(faults_of(command), flags);
        }
    }
}

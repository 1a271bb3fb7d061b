//! Flags that several verbs share, with one meaning everywhere.

use std::path::PathBuf;
use std::sync::Once;

use clap::builder::StringValueParser;
use gpubench_host::device::DeviceSelector;
use gpubench_plan::profile::units::Span;
use gpubench_plan::profile::{Overrides, Profile};
use gpubench_record::ExitCode;
use gpubench_record::user_victim::Reports;
use gpubench_show::Look;
use serde::Serialize;

use super::names::{MechanismNames, Names, Offering, axes, devices, profiles};
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::error::output::{Fill, write_whole, write_with};
use crate::verbs::profile::load;
use crate::verbs::{HostOptions, Reconfigure};

/// Which GPU.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DeviceFlag {
    /// GPU to use: virtual, virtual:MACHINE, an index, GPU-UUID or MIG-UUID [default: first GPU]
    ///
    /// An index is that of nvidia-smi. With CUDA_VISIBLE_DEVICES only the devices of its list are
    /// accepted, and the default is the first of them. The flag has priority over
    /// GPUBENCH_DEVICE, and that over CUDA_VISIBLE_DEVICES.
    ///
    /// `virtual` is a GPU simulated in software, an H100 on driver 580 unless MACHINE says
    /// otherwise. Its figures are predictions of a model, and every report marks them as virtual.
    /// `gpubench virtual-gpu list` prints the machines, and `gpubench virtual-gpu fidelity` how far
    /// they are from hardware.
    #[arg(
        long,
        value_name = "DEVICE",
        env = "GPUBENCH_DEVICE",
        hide_env_values = true,
        hide_possible_values = true,
        value_parser = Offering(str::parse::<DeviceSelector>, devices)
    )]
    pub device: Option<DeviceSelector>,
}

/// What to measure: the profile, and its values from the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ProfileFlags {
    /// Built-in profile, or path of a profile file [default: default]
    #[arg(
        long,
        value_name = "NAME|PATH",
        hide_possible_values = true,
        value_parser = Offering(StringValueParser::new(), profiles)
    )]
    pub profile: Option<String>,
    /// Seed of all random choices [default: that of the profile]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0, u64::MAX))]
    pub seed: Option<u64>,
    /// Run of the profile's rotation [default: 0]
    ///
    /// A profile with `rotation` leaves expensive measurements to other runs of a cycle. Pass 0, 1,
    /// 2... in turn: N counts modulo the length of the cycle. The record has it; the hash of the
    /// profile does not change with it.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0, u32::MAX.into()))]
    pub rotation: Option<u32>,
    /// Only these mechanisms (repeat, or separate by commas)
    ///
    /// Also as a screen prints them, where the options are those of the profile: 'mps-quota 50%'.
    /// The layout of MIG can be any: 'mig 3g+3g'.
    #[arg(long, value_name = "NAME", value_parser = MechanismNames)]
    pub mechanism: Vec<Names>,
    /// Add the mechanism that a TOML file describes (repeat for more)
    ///
    /// The file has the commands that enter, leave and prove it, and the environment of its tenants
    /// (profiles/mechanisms). gpubench undoes it after the run, after a crash, and by `cleanup`.
    #[arg(long, value_name = "FILE")]
    pub mechanism_file: Vec<PathBuf>,
    /// Only these axes or sub-axes (repeat, or separate by commas)
    #[arg(
        long,
        value_name = "AXIS",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = axes(),
    )]
    pub axis: Vec<String>,
    /// Measure this shell command instead of the profile's victims
    ///
    /// It runs as a tenant under each mechanism and writes its requests to the file descriptor in
    /// GPUBENCH_VICTIM_FD (the page Your own program of the book). The run uses the wall clock,
    /// also on the virtual GPU.
    #[arg(long, value_name = "COMMAND", value_parser = command)]
    pub victim_cmd: Option<String>,
    /// Request of that program: requests (it reports them), lines (each printed line is one)
    #[arg(long, value_name = "HOW", value_parser = reports)]
    pub victim_reports: Option<Reports>,
    /// Time limit for the start of that program, 1s to 1h
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub victim_ready: Option<Span>,
    /// Allow changes of device settings (MIG, compute mode, time slice), undone after the run
    ///
    /// The virtual GPU allows them without this flag.
    #[arg(long)]
    pub allow_reconfigure: bool,
    /// Change no device setting, also not on the virtual GPU
    #[arg(long, conflicts_with = "allow_reconfigure")]
    pub no_reconfigure: bool,
    /// HAMi library to preload [default: /usr/local/vgpu/libvgpu.so]
    ///
    /// With this flag the run uses the wall clock, also on the virtual GPU, because the threads of
    /// the library cannot follow virtual time.
    #[arg(long, value_name = "PATH")]
    pub hami_lib: Option<PathBuf>,
}

impl ProfileFlags {
    pub fn load(&self) -> Result<Profile, ExpectedError> {
        described(&self.mechanism_file)?;
        let overrides = Overrides {
            seed: self.seed,
            rotation: self.rotation,
            mechanisms: Names::all(&self.mechanism),
            axes: self.axis.clone(),
            victim_cmd: self.victim_cmd.clone(),
            victim_reports: self.victim_reports,
            victim_ready: self.victim_ready,
        };
        load(self.profile.as_deref().unwrap_or("default"), &overrides)
    }

    pub fn host_options(&self) -> HostOptions {
        HostOptions {
            hami_lib: self.hami_lib.clone(),
            reconfigure: match (self.allow_reconfigure, self.no_reconfigure) {
                (true, _) => Reconfigure::Allowed,
                (false, true) => Reconfigure::Refused,
                (false, false) => Reconfigure::OnVirtual,
            },
        }
    }
}

/// A parser of whole numbers from `min` to `max`; `u64::MAX` means no limit.
pub(super) fn whole<T: TryFrom<u64>>(
    min: u64,
    max: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.trim().parse().ok();
        let number = number.filter(|number| (min..=max).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match max {
            u64::MAX => format!("accepted: a whole number of at least {min}"),
            max => format!("accepted: a whole number from {min} to {max}"),
        })
    }
}

/// An empty command in a profile means no program; an empty flag is an error.
pub(super) fn command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it is empty (accepted: a shell command)".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn span(text: &str) -> Result<Span, String> {
    Span::parse(text).ok_or_else(|| "accepted: a duration with its unit, such as 90s".to_owned())
}

pub(super) fn reports(word: &str) -> Result<Reports, String> {
    Reports::find(word).ok_or_else(|| "accepted: requests, lines".to_owned())
}

/// The time that a whole run may take.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct MinutesFlag {
    /// Plan a run of at most N minutes from start to end, set-up included
    ///
    /// It replaces device_time of the profile, which limits the cells alone. `plan` predicts each
    /// part of the time, and says which parts rest on guesses; `report` prints what was used.
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, 7 * 24 * 60))]
    pub for_minutes: Option<u64>,
}

/// Folder of the record.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OutFlag {
    /// Folder for the record [default: a new one in gpubench-out]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Where the output goes.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OutputFlag {
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl OutputFlag {
    /// Whether the output goes to a file.
    pub const fn is_file(&self) -> bool {
        self.output.is_some()
    }

    /// Width and colour of where the output goes.
    pub fn look(&self, ui: &Ui) -> Look {
        ui.look_of(self.is_file())
    }

    /// Writes the file, or prints without one.
    pub fn write(&self, text: impl AsRef<[u8]>, ui: &Ui) -> Result<(), ExpectedError> {
        match &self.output {
            None => ui.print_bytes(text.as_ref()),
            Some(path) => write_whole(path, text.as_ref()),
        }
    }

    /// The same, of what a writer writes piece by piece.
    pub fn write_with(&self, write: impl Fill, ui: &Ui) -> Result<(), ExpectedError> {
        match &self.output {
            None => ui.print_with(write),
            Some(path) => write_with(path, write),
        }
    }

    /// The same, through the pager of a terminal where the text is long.
    pub fn write_paged(&self, text: &[u8], is_long: bool, ui: &Ui) -> Result<(), ExpectedError> {
        match &self.output {
            None if is_long => ui.print_paged(text),
            _ => self.write(text, ui),
        }
    }
}

/// Text or JSON, for verbs that print a list or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TextFormat {
    /// Text for people; may change between versions.
    #[value(alias = "table")]
    Text,
    /// Data for programs.
    Json,
}

/// The lines of `--help` that explain the exit codes.
pub fn exit_codes_help(codes: &[ExitCode]) -> String {
    let mut sorted = codes.to_vec();
    // Every verb checks the limits of the host.
    sorted.push(ExitCode::HostLimit);
    sorted.sort_by_key(|code| code.code());
    sorted.dedup();
    let lines = sorted.iter().map(|code| format!("  {:>3}  {}", code.code(), code.meaning()));
    let lines: Vec<String> = lines.collect();
    format!("Exit codes:\n{}", lines.join("\n"))
}

pub fn pretty_json<T: Serialize>(value: &T) -> Result<String, ExpectedError> {
    gpubench_show::json(value).map_err(ExpectedError::internal)
}

/// The JSON of a verb, with the version of its schema.
pub fn versioned_json<T: Serialize>(schema: &str, value: &T) -> Result<String, ExpectedError> {
    let value = serde_json::to_value(value).map_err(ExpectedError::internal)?;
    pretty_json(&super::schemas::versioned(schema, value))
}

/// Adds the mechanisms of these files to the catalogue.
fn described(files: &[PathBuf]) -> Result<(), ExpectedError> {
    static LOADED: Once = Once::new();
    let mut loaded = Ok(());
    LOADED.call_once(|| loaded = gpubench_host::mechanism::load(files));
    loaded.map_err(|problem| {
        ExpectedError::usage(problem, Some("a description as in profiles/mechanisms"))
    })
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn a_whole_number_is_refused_with_the_accepted_ones() {
        let limited = whole::<u32>(1, 14);
        assert_eq!(limited("14"), Ok(14));
        for text in ["0", "15", "-1", "1.5", "x", ""] {
            let accepted = "accepted: a whole number from 1 to 14";
            assert_eq!(limited(text), Err(accepted.to_owned()), "{text}");
        }
        let open = whole::<u32>(2, u64::MAX);
        for text in ["1", "4294967296"] {
            let accepted = "accepted: a whole number of at least 2";
            assert_eq!(open(text), Err(accepted.to_owned()), "{text}");
        }
    }
}

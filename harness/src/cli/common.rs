//! Flags that several verbs take, so that they mean the same everywhere.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use gpubench_record::ExitCode;
use gpubench_record::user_victim::Reports;

use crate::device::DeviceSelector;
use crate::error::ExpectedError;
use crate::judge::HostOptions;
use crate::profile::units::Span;
use crate::profile::{self, Overrides, Profile};
use crate::{axis, catalogue};

/// Which GPU.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DeviceFlag {
    /// GPU to use: virtual, virtual:MACHINE, an index, GPU-UUID or MIG-UUID
    ///
    /// Without it the first GPU of the host is used. `virtual` is a GPU made of software: what is
    /// measured on it are predictions of a model, and every report says so.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceSelector>,
}

/// What to measure: the profile, and what the command line sets in it.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ProfileFlags {
    /// Built-in profile, or a path to one
    #[arg(long, value_name = "NAME|PATH", default_value = "default")]
    pub profile: String,
    /// Seed of everything random, in place of the profile's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Only these mechanisms (repeat, or separate by commas)
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(catalogue::names().iter().copied()),
    )]
    pub mechanism: Vec<String>,
    /// Only these axes or sub-axes (repeat, or separate by commas)
    #[arg(
        long,
        value_name = "AXIS",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(axis::known_names()),
    )]
    pub axis: Vec<String>,
    /// Measure this program in place of the profile's victims: a command, as a shell reads it
    ///
    /// It is started under each mechanism as any tenant is, and reports its requests on the
    /// descriptor that GPUBENCH_VICTIM_FD names (workloads/README.md). Time is the wall
    /// clock's, also on the virtual GPU.
    #[arg(long, value_name = "COMMAND", value_parser = command)]
    pub victim_cmd: Option<String>,
    /// How that program's work is seen: requests that it reports, or lines that it prints
    #[arg(long, value_name = "HOW", value_parser = reports)]
    pub victim_reports: Option<Reports>,
    /// How long that program may take to be ready, each time that it is started: 1s to 1h
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub victim_ready: Option<Span>,
    /// Allow changes to device settings, which are undone afterwards
    #[arg(long)]
    pub allow_reconfigure: bool,
    /// Library of HAMi to preload, in place of /usr/local/vgpu/libvgpu.so
    ///
    /// It has threads, which know the wall clock alone, so that this is the time then, also on the
    /// virtual GPU.
    #[arg(long, value_name = "PATH")]
    pub hami_lib: Option<PathBuf>,
}

impl ProfileFlags {
    /// Loads the profile and sets in it what the command line says.
    ///
    /// # Errors
    /// When there is no such profile, or it is wrong.
    pub fn load(&self) -> Result<Profile, ExpectedError> {
        let overrides = Overrides {
            seed: self.seed,
            mechanisms: self.mechanism.clone(),
            axes: self.axis.clone(),
            victim_cmd: self.victim_cmd.clone(),
            victim_reports: self.victim_reports,
            victim_ready: self.victim_ready,
        };
        profile::load(&self.profile, &overrides)
    }

    /// What the command line says about the host.
    #[must_use]
    pub fn host_options(&self) -> HostOptions {
        HostOptions {
            hami_lib: self.hami_lib.clone(),
            allow_reconfigure: self.allow_reconfigure,
        }
    }
}

/// Of a profile, no text means no program; who gives the flag wants one.
fn command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it is empty, and a shell command is accepted".to_owned());
    }
    Ok(text.to_owned())
}

fn span(text: &str) -> Result<Span, String> {
    Span::parse(text).ok_or_else(|| "accepted: a duration with its unit, such as 90s".to_owned())
}

fn reports(word: &str) -> Result<Reports, String> {
    Reports::find(word).ok_or_else(|| "accepted: requests, lines".to_owned())
}

/// Where output goes.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct OutFlag {
    /// Folder for the record
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Text or JSON, for verbs that print a list or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TextFormat {
    /// For people; may change between versions.
    Table,
    /// For programs.
    Json,
}

/// The lines of `--help` that say how a verb can end.
#[must_use]
pub fn exit_codes_help(codes: &[ExitCode]) -> String {
    let mut sorted = codes.to_vec();
    sorted.sort_by_key(|code| code.code());
    let lines = sorted
        .iter()
        .map(|code| format!("  {:>3}  {}", code.code(), code.meaning()));
    let lines: Vec<String> = lines.collect();
    format!("Exit codes:\n{}", lines.join("\n"))
}

//! `gpubench cleanup`: undoes what runs left that ended without undoing it.

use std::path::Path;

use gpubench_host::device::DeviceSelector;
use gpubench_host::device::virtual_gpu::{MACHINE_FILE, Machine};
use gpubench_host::device::virtual_gpu::{VirtualGpuError, remove_empty_parents};
use gpubench_host::mechanism::host::{Leftover, state_dir};
use gpubench_record::ExitCode;

use super::common::{TextFormat, exit_codes_help, versioned_json};
use super::names::{Offering, devices};
use super::ui::Ui;
use crate::error::{ExpectedError, WRITTEN_BYTES_MAX, read_text};
use crate::verbs::{find_device, recovery, verdict};

pub const EXIT_CODES: &[ExitCode] = &[
    ExitCode::Done,
    ExitCode::Internal,
    ExitCode::Usage,
    ExitCode::OutputFailed,
    ExitCode::NotRestored,
];

/// Undoes what killed runs left behind
///
/// The guard process of a run and the next run do this by themselves. Processes and folders of dead
/// runs are always removed; device settings are restored from the journals.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit_codes_help(EXIT_CODES))]
pub struct Args {
    /// Only settings of this device: virtual, virtual:MACHINE, an index, GPU-UUID or MIG-UUID
    /// [default: all devices]
    #[arg(
        long,
        value_name = "DEVICE",
        hide_possible_values = true,
        value_parser = Offering(str::parse::<DeviceSelector>, devices)
    )]
    device: Option<DeviceSelector>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: TextFormat,
}

/// Undoes the changes and prints them.
pub fn run(args: &Args, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let dir = state_dir().map_err(verdict::from_journal)?;
    let wanted = Wanted::of(args.device.as_ref(), &dir)?;
    let undone = recovery::clean_up(&dir, &|left| wanted.has(left))?;
    remove_empty_parents();
    if args.format == TextFormat::Json {
        ui.print(&versioned_json("cleanup", &undone)?)?;
    } else if undone.lines.is_empty() && undone.unrestored.is_empty() && undone.remaining.is_empty()
    {
        ui.print("nothing to clean up\n")?;
    } else {
        undone.lines.iter().try_for_each(|line| ui.print(&format!("{line}\n")))?;
    }
    let failures = [undone.unrestored, undone.remaining].concat();
    if !failures.is_empty() {
        return Err(ExpectedError::NotRestored { what: failures.join("; ") });
    }
    Ok(ExitCode::Done)
}

/// The devices whose journals are undone.
enum Wanted {
    All,
    /// Virtual ones, of a machine if it is named.
    Virtual(Option<String>),
    Gpu(String),
}

impl Wanted {
    /// The devices that the flag names.
    fn of(device: Option<&DeviceSelector>, dir: &Path) -> Result<Self, ExpectedError> {
        Ok(match device {
            None => Self::All,
            Some(DeviceSelector::Virtual(None)) => Self::Virtual(None),
            Some(DeviceSelector::Virtual(Some(name))) => {
                let machine = Machine::load(name).map_err(VirtualGpuError::from);
                let machine = machine.map_err(verdict::from_virtual_gpu)?;
                Self::Virtual(Some(machine.name))
            }
            Some(DeviceSelector::Gpu(uuid)) if recovery::has_journal(dir, uuid)? => {
                Self::Gpu(uuid.clone())
            }
            Some(real) => {
                let found = find_device(Some(real)).map_err(|error| {
                    let why = error.to_string();
                    let why = why.split("; use --device").next().unwrap_or_default();
                    ExpectedError::usage(
                        format!(
                            "--device {real}: no run left anything on it that a journal has; {why}"
                        ),
                        Some(
                            "accepted: virtual, virtual:MACHINE, an index, GPU-UUID or MIG-UUID; \
                             without --device what any run left",
                        ),
                    )
                })?;
                Self::Gpu(found.uuid().to_owned())
            }
        })
    }

    fn has(&self, left: &Leftover) -> bool {
        match (self, &left.virtual_device) {
            (Self::All, _) | (Self::Virtual(None), Some(_)) => true,
            (Self::Virtual(_), None) => false,
            // The machine of a device that is gone is unknown, and nothing of it is left.
            (Self::Virtual(Some(wanted)), Some(folder)) => {
                machine_of(folder).is_none_or(|name| name == *wanted)
            }
            (Self::Gpu(uuid), _) => left.gpu == *uuid,
        }
    }
}

/// The name of the machine of a virtual device's folder.
fn machine_of(folder: &Path) -> Option<String> {
    let text = read_text("machine", &folder.join(MACHINE_FILE), WRITTEN_BYTES_MAX).ok()?;
    Some(Machine::parse(MACHINE_FILE, &text).ok()?.name)
}

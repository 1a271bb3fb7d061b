//! `gpubench matrix` on several devices: one process of this program for each, so that each has a
//! lock, a journal, a guard process and a record of its own, and none takes another one's record
//! with it when it dies. This process opens no device.

pub(super) mod child;
mod summary;

use std::path::{Path, PathBuf};

use child::{Beside, End, Started};
use gpubench_host::device::{DeviceChoice, DeviceSelector};
use gpubench_record::ExitCode;
use gpubench_run::core_shares;
use gpubench_workloads::command::PART_OF;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::names::{Offering, devices};
use super::signals::Signals;
use super::ui::Ui;
use crate::error::ExpectedError;
use crate::verbs::run_folder;
use crate::verbs::targets::{Target, targets};

/// Which GPUs, and how.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct DevicesFlags {
    /// GPU to use: virtual, virtual:MACHINE, an index, GPU-UUID or MIG-UUID; all, or a list
    /// [default: first GPU]
    ///
    /// An index is that of nvidia-smi. With CUDA_VISIBLE_DEVICES only the devices of its list are
    /// accepted, and the default is the first of them. The flag has priority over
    /// GPUBENCH_DEVICE, and that over CUDA_VISIBLE_DEVICES.
    ///
    /// `all` and a list (0,2 or --device 0 --device 2) measure one GPU after the other, each by a
    /// process of its own, with its own lock and record: DIR/GPU-1a2b3c4d, by the beginning of the
    /// UUID, or DIR/virtual-MACHINE. All have the same seed, so that their records compare. A GPU
    /// that cannot be measured stops no other. The exit code is the worst of all, in the order 1,
    /// 6, 130, 5, 4, 10, 3, 2. `gpubench history DIR` reads all records.
    ///
    /// `virtual` is a GPU simulated in software, an H100 on driver 580 unless MACHINE says
    /// otherwise. Its figures are predictions of a model, and every report marks them as virtual.
    /// `gpubench virtual-gpu list` prints the machines, and `gpubench virtual-gpu fidelity` how far
    /// they are from hardware.
    #[arg(
        long,
        value_name = "DEVICE",
        value_delimiter = ',',
        env = "GPUBENCH_DEVICE",
        hide_env_values = true,
        hide_possible_values = true,
        value_parser = Offering(str::parse::<DeviceChoice>, devices)
    )]
    device: Vec<DeviceChoice>,
    /// Measure several GPUs side by side, with the cores of this host divided among them
    ///
    /// They share host memory, power and PCIe, so the figures are not those of one GPU after the
    /// other: each record names the other GPUs, and gpubench diff names a difference. A GPU needs a
    /// core at least; plan names the threads that share cores.
    #[arg(long)]
    parallel: bool,
}

impl DevicesFlags {
    /// The one device of a run without a list: `Ok(None)` is the default. An error has the list.
    pub fn one(&self) -> Result<Option<&DeviceSelector>, Several<'_>> {
        match self.device.as_slice() {
            [] => Ok(None),
            [DeviceChoice::One(one)] => Ok(Some(one)),
            wanted => Err(Several { wanted, parallel: self.parallel }),
        }
    }

    /// Refuses a flag that has no meaning for one device.
    pub fn check_one(&self) -> Result<(), ExpectedError> {
        if !self.parallel {
            return Ok(());
        }
        Err(ExpectedError::usage(
            "--parallel needs several GPUs",
            Some("accepted: --device all, or a list such as --device 0,2"),
        ))
    }
}

#[derive(Debug)]
pub struct Several<'a> {
    wanted: &'a [DeviceChoice],
    parallel: bool,
}

impl Several<'_> {
    /// Measures them into folders of `out`, and prints one line for each.
    pub fn run(&self, out: &Path, ui: &Ui) -> Result<ExitCode, ExpectedError> {
        let targets = targets(self.wanted)?;
        for target in &targets {
            run_folder::check(&out.join(&target.folder))?;
        }
        let runs = Runs { targets, out, ui };
        let ends = if self.parallel { runs.side_by_side() } else { runs.in_turn() }?;
        ui.print("\n")?;
        ui.page(&summary::page(&runs.targets, &ends, out))?;
        let code = ends.iter().map(End::code).fold(ExitCode::Done, worse);
        if code == ExitCode::Interrupted {
            return Err(ExpectedError::Interrupted { record: out.to_path_buf() });
        }
        Ok(code)
    }
}

fn worse(one: ExitCode, other: ExitCode) -> ExitCode {
    one.worst(other)
}

struct Runs<'a> {
    targets: Vec<Target>,
    out: &'a Path,
    ui: &'a Ui,
}

impl Runs<'_> {
    fn folder(&self, target: &Target) -> PathBuf {
        self.out.join(&target.folder)
    }

    /// What stands above the output of one device.
    fn heading(&self, at: usize) -> String {
        let target = &self.targets[at];
        let index = target.index;
        let index = index.map_or_else(String::new, |index| format!("GPU {index}, "));
        format!(
            "\n[{} of {}] {index}{}: {}\n",
            at + 1,
            self.targets.len(),
            target.name,
            self.folder(target).display()
        )
    }

    /// One after the other. Their output is that of a run of one device.
    fn in_turn(&self) -> Result<Vec<End>, ExpectedError> {
        event_loop(async |stop| {
            let mut ends = Vec::new();
            for (at, target) in self.targets.iter().enumerate() {
                let end = if let Some(problem) = &target.problem {
                    End::Lost(problem.clone())
                } else if *stop.borrow() {
                    End::NotStarted
                } else {
                    self.ui.print(&self.heading(at))?;
                    match Started::inheriting(target, &self.folder(target)) {
                        Ok(started) => started.end(stop.clone(), |_| {}).await.0,
                        Err(error) => End::of_error(&error),
                    }
                };
                ends.push(end);
            }
            Ok(ends)
        })
    }

    /// All at once, each on its share of the cores. Their lines on stderr have the name of the
    /// folder in front; what they print is printed when they end.
    fn side_by_side(&self) -> Result<Vec<End>, ExpectedError> {
        let measured: Vec<&Target> =
            self.targets.iter().filter(|one| one.problem.is_none()).collect();
        let shares = self.shares(&measured)?;
        event_loop(async |stop| {
            let mut set = JoinSet::new();
            let mut ends: Vec<End> = self
                .targets
                .iter()
                .map(|one| End::Lost(one.problem.clone().unwrap_or_default()))
                .collect();
            let mut shares = shares.into_iter();
            for (at, target) in self.targets.iter().enumerate() {
                if target.problem.is_some() {
                    continue;
                }
                let names = measured.iter().filter(|other| **other != target);
                let beside = Beside {
                    others: names.map(|other| other.device.clone()).collect(),
                    width: self.ui.look().width,
                    color: self.ui.look().color,
                    cores: shares.next(),
                };
                match Started::beside(target, &self.folder(target), &beside) {
                    Ok(started) => {
                        let (ui, name) = (*self.ui, target.folder.clone());
                        let line = move |line: &str| ui.note(&format!("[{name}] {line}"));
                        let stop = stop.clone();
                        set.spawn(async move { (at, started.end(stop, line).await) });
                    }
                    Err(error) => ends[at] = End::of_error(&error),
                }
            }
            while let Some(ended) = set.join_next().await {
                let (at, (end, printed)) = ended.map_err(|error| {
                    ExpectedError::internal(format!("waiting for a run: {error}"))
                })?;
                ends[at] = end;
                self.ui.print(&self.heading(at))?;
                self.ui.print_bytes(&printed)?;
            }
            Ok(ends)
        })
    }

    /// The cores of each run, and a line that names them.
    fn shares(&self, measured: &[&Target]) -> Result<Vec<child::Share>, ExpectedError> {
        let unknown = |error| {
            ExpectedError::internal(format!("the cores of this process are unknown: {error}"))
        };
        if measured.is_empty() {
            return Ok(Vec::new());
        }
        let Some(shares) = core_shares(measured.len()).map_err(unknown)? else {
            return Err(ExpectedError::usage(
                format!("--parallel: fewer cores than GPUs ({})", measured.len()),
                Some("leave --parallel out: the GPUs are then measured one after the other"),
            ));
        };
        let lines = measured.iter().zip(&shares).map(|(target, cores)| {
            let cores: Vec<String> = cores.list().iter().map(u32::to_string).collect();
            format!("{}: cores {}", target.folder, cores.join(","))
        });
        let lines: Vec<String> = lines.collect();
        self.ui.note(&format!("side by side: {}", lines.join("; ")));
        Ok(shares)
    }
}

/// Runs `work` on the main thread until it ends. The channel has `true` after a signal.
pub(super) fn event_loop<T>(
    work: impl AsyncFnOnce(watch::Receiver<bool>) -> Result<T, ExpectedError>,
) -> Result<T, ExpectedError> {
    let internal = |error: std::io::Error| ExpectedError::internal(format!("event loop: {error}"));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(internal)?;
    runtime.block_on(async move {
        let signals = Signals::catch().map_err(internal)?;
        let (stop, stopped) = watch::channel(false);
        let waits = tokio::spawn(async move {
            signals.wait().await;
            // The receivers live as long as the runs.
            let _ = stop.send(true);
            std::future::pending::<()>().await;
        });
        let ends = work(stopped).await;
        waits.abort();
        ends
    })
}

// A run that is one of several: what its parent says to it.

/// What a run knows of the runs beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Devices that are measured at the same time; empty in a run of one, and of one after the
    /// other.
    pub others: Vec<String>,
}

impl Part {
    /// Reads it from the environment, and asks for a SIGTERM when the parent dies, which ends this
    /// run as the user's signal does. A run that no parent started is alone.
    pub fn of_environment() -> Result<Self, ExpectedError> {
        let Some(text) = std::env::var(PART_OF).ok() else {
            return Ok(Self::default());
        };
        let (parent, others) = text.split_once(' ').unwrap_or((&text, ""));
        // It is refused on no kernel that runs this program.
        let _refused = set_parent_process_death_signal(Some(Signal::TERM));
        let lives = getppid().is_some_and(|pid| pid.as_raw_nonzero().to_string() == parent);
        if !lives {
            return Err(ExpectedError::NothingRan {
                reason: format!("process {parent}, which started this run, has ended"),
            });
        }
        Ok(Self {
            others: others.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect(),
        })
    }

    /// The value for a run beside `others`.
    pub fn value(others: &[String]) -> String {
        let own = std::process::id().to_string();
        format!("{own} {}", others.join(",")).trim_end().to_owned()
    }
}

//! A virtual device that outlives its programs, which find it through their environment.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpubench_virtual_gpu::device::Device;
use gpubench_virtual_gpu::session::ENV;

use super::{Error, Lab, TestResult, finish, program};

/// A lab with a running device.
pub struct Resident {
    pub lab: Lab,
    environment: Vec<(String, String)>,
}

impl Resident {
    /// Starts the lab's machine.
    pub fn start(lab: Lab) -> Result<Self, Error> {
        Self::start_by(program(), lab)
    }

    /// Starts the lab's machine with this copy of the binary. The vendor commands are links to it.
    pub fn start_by(program: &Path, lab: Lab) -> Result<Self, Error> {
        std::fs::create_dir(lab.path("run"))?;
        let mut command = Command::new(program);
        command
            .args(["virtual-gpu", "env", "--machine", lab.machine()])
            .env("XDG_CACHE_HOME", lab.path("cache"));
        let exports = finish(command)?.ended_with(0)?.stdout;
        let variable = |line: &str| {
            let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
            Some((name.to_owned(), value.trim_matches('\'').to_owned()))
        };
        let environment = exports.lines().filter_map(variable).collect();
        Ok(Self { lab, environment })
    }

    /// A variable of the programs on the device.
    pub fn variable(&self, name: &str) -> Result<&str, Error> {
        let mut all = self.environment.iter();
        let found = all.find(|(known, _)| known == name);
        Ok(&found.ok_or_else(|| format!("no variable {name}"))?.1)
    }

    /// The folder of the device.
    pub fn folder(&self) -> Result<PathBuf, Error> {
        Ok(PathBuf::from(self.variable(ENV)?))
    }

    /// The device, to read and set its state.
    pub fn open(&self) -> Result<Device, Error> {
        Ok(Device::open(&self.folder()?)?)
    }

    /// The variables by which programs find the device.
    pub fn environment(&self) -> impl Iterator<Item = (&String, &String)> {
        self.environment.iter().map(|(name, value)| (name, value))
    }

    /// The binary on this device.
    pub fn gpubench(&self, args: &[&str]) -> Command {
        let mut command = self.lab.gpubench(args);
        command.envs(self.environment()).env("XDG_RUNTIME_DIR", self.lab.path("run"));
        command
    }

    /// Puts a script before the vendor command of that name on `PATH`. In the script, `HERE` is the
    /// lab's folder and `STAND_IN` the replaced command: vendor commands inherit neither.
    pub fn shadow(&mut self, name: &str, script: &str) -> TestResult {
        let bin = self.lab.path("bin");
        std::fs::create_dir(&bin)?;
        let path = self.variable("PATH")?.to_owned();
        let commands = path.split(':').next().unwrap_or_default();
        let replaced = Path::new(commands).join(name).display().to_string();
        for (known, value) in &mut self.environment {
            if known == "PATH" {
                *value = format!("{}:{path}", bin.display());
            }
        }
        let here = self.lab.path("").display().to_string();
        let here = here.trim_end_matches('/');
        let variables = format!("#!/bin/sh\nHERE='{here}' STAND_IN='{replaced}'\n");
        let script = script.replacen("#!/bin/sh\n", &variables, 1);
        std::fs::write(bin.join(name), script)?;
        std::fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755))?;
        Ok(())
    }

    /// Files that a run left in a folder of the lab.
    pub fn left_in(&self, name: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.lab.path(name));
        let entries = entries.into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| !path.ends_with("calibrations")).collect()
    }
}

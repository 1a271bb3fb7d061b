//! How a device is shared between two clients: the setup, the commands to a daemon, and the
//! environment of each client.

use gpubench_virtual_gpu_model::compute_mode::ComputeMode;
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::mig;

use super::mechanisms::Mechanism;
use super::{Daemon, Error, Stage, eventually, kill};

/// What part of the SMs a client of MPS has.
const PERCENTAGE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
const PIPE: &str = "CUDA_MPS_PIPE_DIRECTORY";

/// A mechanism with the settings of two clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// No setup: the device is exclusive, time-sliced, or shared inside the program, by mechanism.
    NoSetup(Mechanism),
    ExclusiveProcess,
    /// One MPS server without limits.
    Mps,
    /// One MPS server with these percentages.
    Quota([&'static str; 2]),
    /// Static partitions of that many chunks.
    Static([u32; 2]),
    /// One named server with a namespace per client, with these memory limits (MiB).
    Memory([u64; 2]),
    /// A MIG instance of these profiles per client.
    Mig([&'static str; 2]),
    /// One MIG instance of this profile, time-sliced between both.
    MigTimeSliced(&'static str),
    /// One MPS server in a MIG instance, with these percentages of it.
    MigMps([&'static str; 2]),
}

/// Two equal instances.
pub const HALVES: Sharing = Sharing::Mig(["3g.40gb", "3g.40gb"]);
pub const TIME_SLICED: Sharing = Sharing::NoSetup(Mechanism::TimeSlicing);

impl Sharing {
    pub const fn mechanism(self) -> Mechanism {
        match self {
            Self::NoSetup(mechanism) => mechanism,
            Self::ExclusiveProcess => Mechanism::ExclusiveProcess,
            Self::Mps => Mechanism::Mps,
            Self::Quota(_) => Mechanism::MpsQuota,
            Self::Static(_) => Mechanism::MpsStatic,
            Self::Memory(_) => Mechanism::MpsMemory,
            Self::Mig(_) | Self::MigTimeSliced(_) => Mechanism::Mig,
            Self::MigMps(_) => Mechanism::MigMps,
        }
    }

    /// Options of the daemon; `None` without a daemon.
    pub const fn daemon(self) -> Option<&'static str> {
        match self {
            Self::Mps | Self::Quota(_) | Self::MigMps(_) => Some(""),
            Self::Static(_) => Some("-S"),
            Self::Memory(_) => Some("-p 3"),
            _ => None,
        }
    }
}

pub type Env = Vec<(&'static str, String)>;

/// The environment as borrowed strings.
pub fn borrowed(env: &Env) -> Vec<(&str, &str)> {
    env.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

pub struct SharedDevice<'a> {
    stage: &'a Stage,
    sharing: Sharing,
    instances: Vec<String>,
    pub daemon: Option<Daemon>,
    pub env: [Env; 2],
}

impl<'a> SharedDevice<'a> {
    pub fn set_up(stage: &'a Stage, machine: &Machine, sharing: Sharing) -> Result<Self, Error> {
        let instances = match sharing {
            Sharing::Mig(profiles) => instances(stage, machine, &profiles)?,
            Sharing::MigTimeSliced(profile) => instances(stage, machine, &[profile, profile])?,
            // The second one stays unused.
            Sharing::MigMps(_) => instances(stage, machine, &["3g.40gb", "3g.40gb"])?,
            Sharing::ExclusiveProcess => {
                let mode = ComputeMode::ExclusiveProcess;
                stage.device.transact(|state, _| state.compute_mode = mode)?;
                Vec::new()
            }
            _ => Vec::new(),
        };
        let mut shared =
            Self { stage, sharing, instances, daemon: None, env: [Env::new(), Env::new()] };
        shared.start_daemon()?;
        let each = |name, values: [String; 2]| values.map(|value| vec![(name, value)]);
        shared.env = match sharing {
            Sharing::Mig(_) => {
                each(VISIBLE, [shared.instances[0].clone(), shared.instances[1].clone()])
            }
            Sharing::MigTimeSliced(_) => {
                each(VISIBLE, [shared.instances[0].clone(), shared.instances[0].clone()])
            }
            Sharing::Quota(parts) | Sharing::MigMps(parts) => {
                each(PERCENTAGE, parts.map(str::to_owned))
            }
            Sharing::Static(_) => each(
                "CUDA_MPS_SM_PARTITION",
                ["1", "2"].map(|name| format!("{}/{name}", machine.uuid())),
            ),
            Sharing::Memory(_) => each(
                PIPE,
                ["a", "b"].map(|name| stage.pipe().join("one").join(name).display().to_string()),
            ),
            _ => shared.env,
        };
        Ok(shared)
    }

    /// Starts the daemon, in place of one that may have died, and configures it.
    pub fn start_daemon(&mut self) -> Result<(), Error> {
        let Some(flags) = self.sharing.daemon() else { return Ok(()) };
        drop(self.daemon.take());
        let visible: &[_] = match (self.sharing, self.instances.first()) {
            (Sharing::MigMps(_), Some(first)) => &[(VISIBLE, first.as_str())],
            _ => &[],
        };
        self.daemon = Some(self.stage.daemon(flags, visible)?);
        if let Sharing::Static(chunks) = self.sharing {
            let gpu = self.stage.device.machine().uuid();
            for count in chunks {
                self.configure(&format!("sm_partition add {gpu} {count}"), "created")?;
            }
        }
        self.create_server()
    }

    /// Creates the named server and its namespaces, where needed.
    fn create_server(&self) -> Result<(), Error> {
        let Sharing::Memory(limits_mib) = self.sharing else { return Ok(()) };
        self.configure("server create one", "")?;
        for (name, mib) in ["a", "b"].into_iter().zip(limits_mib) {
            self.configure(&format!("namespace create {name} --server=one"), "")?;
            let limit = format!("--pinned-memory-limit={mib}M");
            self.configure(&format!("namespace set {name} --server=one {limit}"), "")?;
        }
        Ok(())
    }

    /// Sends a command; the answer must contain `answer`, or be empty if that is empty.
    fn configure(&self, command: &str, answer: &str) -> Result<(), Error> {
        let reply = self.daemon.as_ref().ok_or("no daemon")?.command(command)?;
        if reply.contains(answer) && reply.is_empty() == answer.is_empty() {
            return Ok(());
        }
        Err(format!("{command}: {reply}").into())
    }

    /// Kills the server, if one runs. An unnamed server restarts on demand; a named one is created
    /// again here, after the daemon has detected its death.
    pub fn kill_server(&self) -> Result<bool, Error> {
        let daemon = self.daemon.as_ref().ok_or("no daemon")?;
        if !matches!(self.sharing, Sharing::Memory(_)) {
            let pid = daemon.server();
            return pid.map_or(Ok(false), |pid| kill(pid).map(|()| true));
        }
        let list = "server list --format=csv,noheader";
        let reply = daemon.command(list)?;
        let pid = reply.split(',').nth(2).ok_or("no server")?.trim().parse()?;
        kill(pid)?;
        eventually("the daemon detects the death", || {
            Ok(!daemon.command(list)?.contains("Ready"))
        })?;
        self.configure("server delete one --force", "")?;
        self.create_server()?;
        Ok(true)
    }
}

/// Creates an instance of each profile. Returns their names by placement, which do not depend on
/// the seed, unlike their UUIDs.
fn instances(stage: &Stage, machine: &Machine, profiles: &[&str]) -> Result<Vec<String>, Error> {
    let made = stage.device.transact(|state, _| {
        mig::set_mode(state, machine, true);
        let geometry = machine.mig.as_ref().ok_or("no MIG")?;
        let mut names = Vec::new();
        for name in profiles {
            let profile = geometry.profile.iter().position(|p| p.name == *name);
            let profile = profile.ok_or("no profile")?;
            let slices = geometry.profile[profile].slices;
            let instance = mig::create_instance(state, machine, profile as u32, None);
            let instance = instance.map_err(|_| "no instance")?;
            let engine = mig::create_engine(state, machine, instance, slices);
            let engine = engine.map_err(|_| "no engine")? as usize;
            let gpu_instance = state.instances.rows[instance as usize].id;
            let engine = state.engines.rows[engine].id;
            names.push(format!("MIG-{}/{gpu_instance}/{engine}", machine.uuid()));
        }
        Ok::<_, &str>(names)
    })?;
    Ok(made?)
}

//! How a device is shared, as processes meet it: what is set up once, what a daemon has to be told,
//! and the variables by which each of two clients gets its part.

use gpubench_virtual_gpu_model::compute_mode::ComputeMode;
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::mig;

use super::mechanisms::Mechanism;
use super::{Daemon, Error, Stage, eventually, kill};

/// What part of the SMs a client of MPS has.
const PERCENTAGE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
const PIPE: &str = "CUDA_MPS_PIPE_DIRECTORY";

/// A mechanism with what each of two clients gets of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// Nothing is set up, because there is nobody else, because processes take turns by themselves,
    /// or because the program sees to it: of these three mechanisms which.
    Nothing(Mechanism),
    /// One process at a time.
    ExclusiveProcess,
    /// One server of MPS, and no limits.
    Mps,
    /// One server of MPS, at these percentages.
    Quota([&'static str; 2]),
    /// Static partitions of so many chunks.
    Static([u32; 2]),
    /// A server with a namespace each, of so much memory (MiB).
    Memory([u64; 2]),
    /// A MIG instance of these profiles each.
    Mig([&'static str; 2]),
    /// One MIG instance of this profile for both, in which they take turns.
    MigTurns(&'static str),
    /// One server of MPS in a MIG instance, at these percentages of it.
    MigMps([&'static str; 2]),
}

/// Two equal instances.
pub const HALVES: Under = Under::Mig(["3g.40gb", "3g.40gb"]);
/// By turns.
pub const TURNS: Under = Under::Nothing(Mechanism::TimeSlicing);

impl Under {
    pub const fn mechanism(self) -> Mechanism {
        match self {
            Self::Nothing(mechanism) => mechanism,
            Self::ExclusiveProcess => Mechanism::ExclusiveProcess,
            Self::Mps => Mechanism::Mps,
            Self::Quota(_) => Mechanism::MpsQuota,
            Self::Static(_) => Mechanism::MpsStatic,
            Self::Memory(_) => Mechanism::MpsMemory,
            Self::Mig(_) | Self::MigTurns(_) => Mechanism::Mig,
            Self::MigMps(_) => Mechanism::MigMps,
        }
    }

    /// How a daemon is started; none if there is none.
    pub const fn daemon(self) -> Option<&'static str> {
        match self {
            Self::Mps | Self::Quota(_) | Self::MigMps(_) => Some(""),
            Self::Static(_) => Some("-S"),
            Self::Memory(_) => Some("-p 3"),
            _ => None,
        }
    }
}

/// Variables of a client.
pub type Env = Vec<(&'static str, String)>;

/// Those that a client can be started with.
pub fn borrowed(env: &Env) -> Vec<(&str, &str)> {
    env.iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

/// A device that is shared in some way.
pub struct Ground<'a> {
    stage: &'a Stage,
    under: Under,
    /// The instances of MIG, if there are any.
    instances: Vec<String>,
    /// The daemon, if there is one.
    pub daemon: Option<Daemon>,
    /// What each of two clients is started with.
    pub env: [Env; 2],
}

impl<'a> Ground<'a> {
    /// Shares the device of a stage.
    pub fn lay(stage: &'a Stage, machine: &Machine, under: Under) -> Result<Self, Error> {
        let instances = match under {
            Under::Mig(profiles) => instances(stage, machine, &profiles)?,
            Under::MigTurns(profile) => instances(stage, machine, &[profile, profile])?,
            // The second one stays empty.
            Under::MigMps(_) => instances(stage, machine, &["3g.40gb", "3g.40gb"])?,
            Under::ExclusiveProcess => {
                let mode = ComputeMode::ExclusiveProcess;
                stage
                    .device
                    .transact(|state, _| state.compute_mode = mode)?;
                Vec::new()
            }
            _ => Vec::new(),
        };
        let mut ground = Self {
            stage,
            under,
            instances,
            daemon: None,
            env: [Env::new(), Env::new()],
        };
        ground.start_daemon()?;
        let each = |name, values: [String; 2]| values.map(|value| vec![(name, value)]);
        ground.env = match under {
            Under::Mig(_) => each(
                VISIBLE,
                [ground.instances[0].clone(), ground.instances[1].clone()],
            ),
            Under::MigTurns(_) => each(
                VISIBLE,
                [ground.instances[0].clone(), ground.instances[0].clone()],
            ),
            Under::Quota(parts) | Under::MigMps(parts) => {
                each(PERCENTAGE, parts.map(str::to_owned))
            }
            Under::Static(_) => each(
                "CUDA_MPS_SM_PARTITION",
                ["1", "2"].map(|name| format!("{}/{name}", machine.uuid())),
            ),
            Under::Memory(_) => each(
                PIPE,
                ["a", "b"].map(|name| stage.pipe().join("one").join(name).display().to_string()),
            ),
            _ => ground.env,
        };
        Ok(ground)
    }

    /// Starts the daemon, in place of one that may have died, and tells it what to do.
    pub fn start_daemon(&mut self) -> Result<(), Error> {
        let Some(flags) = self.under.daemon() else {
            return Ok(());
        };
        drop(self.daemon.take());
        let visible: &[_] = match (self.under, self.instances.first()) {
            (Under::MigMps(_), Some(first)) => &[(VISIBLE, first.as_str())],
            _ => &[],
        };
        self.daemon = Some(self.stage.daemon(flags, visible)?);
        if let Under::Static(chunks) = self.under {
            let gpu = self.stage.device.machine().uuid();
            for count in chunks {
                self.tell(&format!("sm_partition add {gpu} {count}"), "created")?;
            }
        }
        self.create_server()
    }

    /// Makes the server with a name and its namespaces, where there are such.
    fn create_server(&self) -> Result<(), Error> {
        let Under::Memory(limits_mib) = self.under else {
            return Ok(());
        };
        self.tell("server create one", "")?;
        for (name, mib) in ["a", "b"].into_iter().zip(limits_mib) {
            self.tell(&format!("namespace create {name} --server=one"), "")?;
            let limit = format!("--pinned-memory-limit={mib}M");
            self.tell(&format!("namespace set {name} --server=one {limit}"), "")?;
        }
        Ok(())
    }

    /// Tells the daemon something, the answer to which has this in it; nothing at all for "".
    fn tell(&self, command: &str, answer: &str) -> Result<(), Error> {
        let said = self.daemon.as_ref().ok_or("no daemon")?.ask(command)?;
        if said.contains(answer) && said.is_empty() == answer.is_empty() {
            return Ok(());
        }
        Err(format!("{command}: {said}").into())
    }

    /// Kills the server, if there is one by now. One without a name comes back when somebody asks
    /// for it; one with a name is made again here, once the daemon knows that it is gone.
    pub fn kill_server(&self) -> Result<bool, Error> {
        let daemon = self.daemon.as_ref().ok_or("no daemon")?;
        if !matches!(self.under, Under::Memory(_)) {
            let pid = daemon.server();
            return pid.map_or(Ok(false), |pid| kill(pid).map(|()| true));
        }
        let list = "server list --format=csv,noheader";
        let said = daemon.ask(list)?;
        let pid = said.split(',').nth(2).ok_or("no server")?.trim().parse()?;
        kill(pid)?;
        eventually("the daemon notices", || {
            Ok(!daemon.ask(list)?.contains("Ready"))
        })?;
        self.tell("server delete one --force", "")?;
        self.create_server()?;
        Ok(true)
    }
}

/// Makes an instance of each profile; their names by place, which another seed for the noise of the
/// device leaves as they are, unlike their UUIDs.
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

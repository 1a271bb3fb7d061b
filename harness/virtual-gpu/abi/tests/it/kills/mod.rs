//! Kills clients at random instants in wall time: no process stalls, nothing leaks, and the device
//! serves the next client. Covers every mechanism of the harness; where there is a daemon, the
//! daemon and its server are killed too.

mod table;

use std::time::{Duration, Instant};

use gpubench_virtual_gpu_driver::kernel_log;
use gpubench_virtual_gpu_driver::session::SAMPLE_ENV;
use gpubench_virtual_gpu_driver::session::TimeMode::Wall;
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::state::{Head, State};

use crate::mps_support::mechanisms::Mechanism;
use crate::mps_support::sharing::{SharedDevice, Sharing, borrowed};
use crate::mps_support::{Client, Error, Stage, eventually, scene, sparing};
use table::{Kills, UNDER_HAMI, kills};

/// Minimum number of kills over all mechanisms.
const MIN_KILLS: usize = 500;
/// Clients that run at a time.
const CONCURRENT: usize = 4;
/// Sharing MPS, numbers of clients between kills of the server and of the daemon.
const SERVER_EVERY: usize = 9;
const DAEMON_EVERY: usize = 20;
/// Maximum lifetime of a client, its start included.
const LIFE_MS: u64 = 60;

macro_rules! tests {
    ($($test:ident $mechanism:ident)*) => {
        /// The mechanisms tested here.
        const HERE: &[Mechanism] = &[$(Mechanism::$mechanism),*];

        $(
            #[test]
            fn $test() -> Result<(), Error> {
                kill_all(test_name!(), Mechanism::$mechanism)
            }
        )*
    };
}

tests! {
    exclusive_clients_are_killed Exclusive
    exclusive_process_clients_are_killed ExclusiveProcess
    time_sliced_clients_are_killed TimeSlicing
    mps_processes_are_killed Mps
    mps_processes_are_killed_under_percentages MpsQuota
    mps_processes_are_killed_under_static_partitions MpsStatic
    mps_processes_are_killed_under_memory_limits MpsMemory
    mig_clients_are_killed Mig
    mps_processes_are_killed_in_an_instance MigMps
    green_context_clients_are_killed GreenContext
    stream_priority_clients_are_killed StreamPriority
}

#[test]
fn every_mechanism_has_kills_and_there_are_500_in_all() -> Result<(), Error> {
    let mut total = 0;
    for &mechanism in Mechanism::ALL {
        let name = mechanism.name();
        let Some(kills) = kills(mechanism) else {
            let (file, test) = UNDER_HAMI;
            assert!(crate::harness_test(file)?.contains(test), "{name}: there is no {test}");
            continue;
        };
        assert!(HERE.contains(&mechanism), "{name} has no test");
        assert_eq!(kills.sharing.mechanism(), mechanism);
        total += kills.count;
    }
    assert!(total >= MIN_KILLS, "{total}");
    Ok(())
}

/// A machine on which calls do not contend for the driver's lock, so that clients die at work and
/// not in a queue for their context.
fn prompt() -> Result<Machine, Error> {
    let mut machine = sparing("hopper")?;
    machine.host.lock_share = 0.0;
    Ok(machine)
}

/// Small and fast numbers from a seed (Marsaglia, Xorshift RNGs, 2003).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Kills all clients of a mechanism, and checks that nothing is left.
fn kill_all(test: &str, mechanism: Mechanism) -> Result<(), Error> {
    let machine = prompt()?;
    let kills = kills(mechanism).ok_or("not tested here")?;
    scene(test, Wall, &machine, |stage| {
        let mut ground = SharedDevice::set_up(stage, &machine, kills.sharing)?;
        let seed = 11 + mechanism as u64;
        let servers = kill_clients(stage, &mut ground, &kills, seed)?;
        if ground.daemon.is_some() {
            // Sometimes no server runs at the instant of a kill.
            assert!(servers >= 3, "{servers} servers");
        }
        // A fault left by a death would refuse the new client.
        for env in &ground.env {
            serves_afterwards(stage, &machine, kills.sharing, &borrowed(env))?;
        }
        check_xids_of_kills(stage, kills.count)?;
        let Some(daemon) = ground.daemon.take() else { return Ok(()) };
        let is_named = matches!(kills.sharing, Sharing::Memory(_));
        let quit = if is_named { "quit" } else { "quit -t 5" };
        assert_eq!(daemon.command(quit)?, "");
        daemon.finish()?;
        nothing_is_left(stage)
    })
}

/// After the last daemon everything is free, also from daemons that died before.
fn nothing_is_left(stage: &Stage) -> Result<(), Error> {
    stage.device.reap_dead_processes()?;
    let left = stage.device.shared().read(|state| {
        [
            state.daemons.live().iter().filter(|d| d.live).count(),
            state.servers.live().iter().filter(|s| s.live).count(),
            state.processes.live().iter().filter(|p| p.pid != 0).count(),
            state.contexts.live().iter().filter(|c| c.live).count(),
            state.allocations.live().iter().filter(|a| a.live).count(),
        ]
    })?;
    assert_eq!(left, [0; 5]);
    Ok(())
}

/// Starts clients, a few at a time, and kills each at a random instant. Returns the number of
/// killed servers.
fn kill_clients(
    stage: &Stage,
    ground: &mut SharedDevice<'_>,
    kills: &Kills,
    seed: u64,
) -> Result<usize, Error> {
    let mut numbers = Numbers(seed);
    let mut there: Vec<Client> = Vec::new();
    let mut servers = 0;
    let beside = match kills.sharing.mechanism() {
        Mechanism::Exclusive => 1,
        _ => CONCURRENT,
    };
    for number in 0..kills.count {
        let mut env = borrowed(&ground.env[number % 2]);
        env.push((SAMPLE_ENV, "1"));
        there.push(stage.client(0, &env, kills.script)?);
        if ground.daemon.is_some() {
            if number % DAEMON_EVERY == DAEMON_EVERY - 1 {
                ground.start_daemon()?;
            } else if number % SERVER_EVERY == SERVER_EVERY - 1 {
                servers += usize::from(ground.kill_server()?);
            }
        }
        if there.len() == beside {
            let at = numbers.below(beside as u64) as usize;
            // Half of them die at work, however slowly a busy host starts them.
            if number % 2 == 0 {
                for _ in kills.script.matches(';') {
                    there[at].next_line()?;
                }
            }
            std::thread::sleep(Duration::from_micros(numbers.below(LIFE_MS * 1000)));
            if number % 2 == 0 {
                await_work(stage, &mut there[at])?;
            }
            // Dropping kills and reaps the process.
            drop(there.swap_remove(at));
        }
    }
    Ok(servers)
}

/// Waits until a client has work on the device. A client that never gets there, because its server
/// was killed or the device is exclusive, is killed as it is.
fn await_work(stage: &Stage, client: &mut Client) -> Result<(), Error> {
    const AT_MOST: Duration = Duration::from_secs(5);
    let (began, pid) = (Instant::now(), client.pid());
    let works = |state: &State| {
        let mut streams = state.streams.live().iter();
        streams.any(|stream| {
            let context = &state.contexts.rows[stream.context as usize];
            let process = state.processes.rows.get(context.process as usize);
            stream.live
                && stream.head == Head::Started
                && process.is_some_and(|process| process.pid == pid)
        })
    };
    while !stage.device.shared().read(works)?
        && began.elapsed() < AT_MOST
        && client.child.0.try_wait()?.is_none()
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// At least a tenth of the killed clients had work on the device; each of those left one Xid.
fn check_xids_of_kills(stage: &Stage, count: usize) -> Result<(), Error> {
    // The log is written under the lock.
    let path = kernel_log::path(stage.device.dir());
    let with_log = |raised: u64| std::fs::read_to_string(&path).map(|log| (raised, log));
    let shared = stage.device.shared();
    let (at_work, log) = shared.read(|state| with_log(state.xids_raised))??;
    assert!(at_work > count as u64 / 10, "only {at_work} of {count} died at work");
    let removed = log.lines().filter(|line| line.contains("): 45, pid="));
    let lines = (removed.count() as u64, log.lines().count() as u64);
    assert_eq!(lines, (at_work, at_work), "one line each");
    Ok(())
}

/// Nothing of the killed clients is left, and a new client gets the whole device.
fn serves_afterwards(
    stage: &Stage,
    machine: &Machine,
    sharing: Sharing,
    env: &[(&str, &str)],
) -> Result<(), Error> {
    eventually("killed processes are reaped", || {
        stage.device.reap_dead_processes()?;
        let left = stage.device.shared().read(|state| {
            let mps = |process: usize| {
                let servers = state.servers.live().iter();
                let mut daemons = state.daemons.live().iter();
                daemons.any(|d| d.live && d.process as usize == process)
                    || servers.into_iter().any(|s| s.live && s.process as usize == process)
            };
            let processes = state.processes.live().iter().enumerate();
            let outsiders = processes.filter(|(row, p)| p.pid != 0 && !mps(*row)).count();
            let contexts = state.contexts.live().iter();
            let clients = contexts.filter(|c| c.live && !mps(c.process as usize)).count();
            let streams = state.streams.live().iter().filter(|s| s.live).count();
            let memory = state.allocations.live().iter().filter(|a| a.live).count();
            (outsiders, clients, streams, memory)
        })?;
        Ok(left == (0, 0, 0, 0))
    })?;
    let client = stage.client(0, env, "open; spin 1; fill; close")?;
    let output = client.finish()?;
    assert_eq!([&output[0], &output[1], &output[3]], ["0", "0", "0"], "{output:?}");
    let memory = &machine.memory;
    let all = match sharing {
        Sharing::Memory(limits_mib) => limits_mib[0],
        Sharing::Mig(_) | Sharing::MigMps(_) => (memory.total_mib - memory.reserved_mib) / 2,
        _ => memory.total_mib - memory.reserved_mib,
    };
    let filled: u64 = output[2].parse()?;
    // One context of the new client and, under MPS, one of the server; an instance is not quite
    // half.
    assert!(filled > all - 3 * memory.context_mib && filled < all, "{filled} MiB of {all} MiB");
    Ok(())
}

#[test]
fn memory_of_a_killed_process_can_be_allocated_at_once() -> Result<(), Error> {
    scene(test_name!(), Wall, &prompt()?, |stage| {
        let mut greedy = stage.client(0, &[], "open; alloc 60000; hold")?;
        assert_eq!(greedy.until_hold()?, ["0", "0"]);
        // The client already runs: its start would have reaped the dead process.
        let script = "open; alloc 40000; hold; alloc 40000";
        let mut asking = stage.client(0, &[], script)?;
        assert_eq!(asking.until_hold()?, ["0", "2"]);
        drop(greedy);
        asking.go(stage)?;
        assert_eq!(asking.finish()?, ["0"]);
        Ok(())
    })
}

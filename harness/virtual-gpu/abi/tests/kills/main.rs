//! Kills at random instants, in wall time: whoever dies, whenever, nobody is stuck, nothing leaks,
//! and the device serves the next one. Under every mechanism of the harness; under those with a
//! daemon, the daemon and its server die too.

#[path = "../mps_support/mod.rs"]
mod mps_support;

use std::time::{Duration, Instant};

use gpubench_virtual_gpu_driver::kernel_log;
use gpubench_virtual_gpu_driver::session::SAMPLE_ENV;
use gpubench_virtual_gpu_driver::session::TimeMode::Wall;
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::state::{Head, State};

use mps_support::mechanisms::Mechanism;
use mps_support::ways::{Ground, HALVES, Under, borrowed};
use mps_support::{Client, Error, Stage, eventually, quiet, scene};

/// Killed under all mechanisms together, at least.
const TOGETHER: usize = 500;
/// Clients that are there at a time.
const BESIDE: usize = 4;
/// Under MPS, every so many clients the server is killed, and the daemon.
const SERVER_EVERY: usize = 9;
const DAEMON_EVERY: usize = 20;
/// A client lives this long at most; its start takes some of it.
const LIFE_MS: u64 = 60;

/// Opens, takes memory, gives both back, and works on a second context until it is killed.
const SCRIPT: &str = "open; alloc 256; close; open; alloc 64; busy";
/// Works in streams of green contexts, or of several priorities, until it is killed.
const GREENS: &str = "open; alloc 64; churn green 1000000";
const PRIORITIES: &str = "open; alloc 64; churn priority 1000000";

/// Memory that a client may have where that is limited (MiB).
const LIMIT_MIB: u64 = 8192;

/// Who dies under a mechanism.
struct Deaths {
    /// How many.
    count: usize,
    under: Under,
    script: &'static str,
}

/// The deaths under a mechanism; none if they stand in the harness's tests.
const fn deaths(mechanism: Mechanism) -> Option<Deaths> {
    let (count, under, script) = match mechanism {
        Mechanism::Exclusive => (30, Under::Nothing(mechanism), SCRIPT),
        Mechanism::ExclusiveProcess => (30, Under::ExclusiveProcess, SCRIPT),
        Mechanism::TimeSlicing => (70, Under::Nothing(mechanism), SCRIPT),
        Mechanism::Mps => (60, Under::Mps, SCRIPT),
        Mechanism::MpsQuota => (50, Under::Quota(["50", "30"]), SCRIPT),
        Mechanism::MpsStatic => (50, Under::Static([8, 4]), SCRIPT),
        Mechanism::MpsMemory => (50, Under::Memory([LIMIT_MIB; 2]), SCRIPT),
        Mechanism::Mig => (60, HALVES, SCRIPT),
        Mechanism::MigMps => (50, Under::MigMps(["50", "100"]), SCRIPT),
        Mechanism::GreenContext => (50, Under::Nothing(mechanism), GREENS),
        Mechanism::StreamPriority => (50, Under::Nothing(mechanism), PRIORITIES),
        Mechanism::Hami => return None,
    };
    Some(Deaths {
        count,
        under,
        script,
    })
}

/// Where clients die under HAMi's stand-in, which the harness brings along.
const UNDER_HAMI: (&str, &str) = (
    include_str!("../../../../tests/it/hami.rs"),
    "fn clients_that_die_at_random_instants_leave_nothing_behind()",
);

macro_rules! tests {
    ($($test:ident $mechanism:ident)*) => {
        /// The mechanisms that are tested here.
        const HERE: &[Mechanism] = &[$(Mechanism::$mechanism),*];

        $(
            #[test]
            fn $test() -> Result<(), Error> {
                die(stringify!($test), Mechanism::$mechanism)
            }
        )*
    };
}

tests! {
    clients_die_one_after_the_other Exclusive
    clients_die_that_keep_others_out ExclusiveProcess
    clients_die_under_turns TimeSlicing
    clients_servers_and_daemons_die_under_mps Mps
    clients_servers_and_daemons_die_under_percentages MpsQuota
    clients_servers_and_daemons_die_under_static_partitions MpsStatic
    clients_servers_and_daemons_die_under_memory_limits MpsMemory
    clients_die_on_instances Mig
    clients_servers_and_daemons_die_under_mps_in_an_instance MigMps
    clients_with_green_contexts_die GreenContext
    clients_with_streams_of_several_priorities_die StreamPriority
}

#[test]
fn every_mechanism_has_its_deaths_and_together_they_are_500() {
    let mut together = 0;
    for &mechanism in Mechanism::ALL {
        let name = mechanism.name();
        let Some(deaths) = deaths(mechanism) else {
            let (text, test) = UNDER_HAMI;
            assert!(text.contains(test), "{name}: there is no {test}");
            continue;
        };
        assert!(HERE.contains(&mechanism), "{name} has no test");
        assert_eq!(deaths.under.mechanism(), mechanism);
        together += deaths.count;
    }
    assert!(together >= TOGETHER, "{together}");
}

/// A machine on which calls do not wait for each other: those that die shall be at work by then,
/// not in a queue for their context.
fn prompt() -> Result<Machine, Error> {
    let mut machine = quiet("hopper")?;
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

/// Kills all of a mechanism, and sees that nothing of them is left.
fn die(test: &str, mechanism: Mechanism) -> Result<(), Error> {
    let machine = prompt()?;
    let deaths = deaths(mechanism).ok_or("none here")?;
    scene(test, Wall, &machine, |stage| {
        let mut ground = Ground::lay(stage, &machine, deaths.under)?;
        let seed = 11 + mechanism as u64;
        let servers = kill_clients(stage, &mut ground, &deaths, seed)?;
        if ground.daemon.is_some() {
            // Now and then there is none to be killed yet.
            assert!(servers >= 3, "{servers} servers");
        }
        // A fault that a death or a server's end left behind would refuse the newcomer.
        for env in &ground.env {
            serves_afterwards(stage, &machine, deaths.under, &borrowed(env))?;
        }
        many_died_at_work(stage, deaths.count)?;
        let Some(daemon) = ground.daemon.take() else {
            return Ok(());
        };
        let is_named = matches!(deaths.under, Under::Memory(_));
        let quit = if is_named { "quit" } else { "quit -t 5" };
        assert_eq!(daemon.ask(quit)?, "");
        daemon.finish()?;
        nothing_is_left(stage)
    })
}

/// With the last daemon all of it is gone, also of those that died before.
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

/// Starts and kills clients, a few at a time, each at a random instant of its life. Returns how
/// many servers were killed.
fn kill_clients(
    stage: &Stage,
    ground: &mut Ground<'_>,
    deaths: &Deaths,
    seed: u64,
) -> Result<usize, Error> {
    let mut numbers = Numbers(seed);
    let mut there: Vec<Client> = Vec::new();
    let mut servers = 0;
    let beside = match deaths.under.mechanism() {
        Mechanism::Exclusive => 1,
        _ => BESIDE,
    };
    for number in 0..deaths.count {
        let mut env = borrowed(&ground.env[number % 2]);
        env.push((SAMPLE_ENV, "1"));
        there.push(stage.client(0, &env, deaths.script)?);
        if ground.daemon.is_some() {
            if number % DAEMON_EVERY == DAEMON_EVERY - 1 {
                ground.start_daemon()?;
            } else if number % SERVER_EVERY == SERVER_EVERY - 1 {
                servers += usize::from(ground.kill_server()?);
            }
        }
        if there.len() == beside {
            let at = numbers.below(beside as u64) as usize;
            // Half of them die at work, however long a busy host takes to start them.
            if number % 2 == 0 {
                for _ in deaths.script.matches(';') {
                    there[at].says()?;
                }
            }
            std::thread::sleep(Duration::from_micros(numbers.below(LIFE_MS * 1000)));
            if number % 2 == 0 {
                await_work(stage, &mut there[at])?;
            }
            // Dropping kills and takes the status.
            drop(there.swap_remove(at));
        }
    }
    Ok(servers)
}

/// Waits a while for a client to have work on the device. One that never gets there, because its
/// server was killed or somebody else is let in alone, dies as it is.
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

/// A tenth of the dead or more had work on the device: each of those left its Xid.
fn many_died_at_work(stage: &Stage, count: usize) -> Result<(), Error> {
    // Under the lock, under which the log is written.
    let path = kernel_log::path(stage.device.dir());
    let told = |raised: u64| std::fs::read_to_string(&path).map(|log| (raised, log));
    let shared = stage.device.shared();
    let (at_work, log) = shared.read(|state| told(state.xids_raised))??;
    assert!(
        at_work > count as u64 / 10,
        "only {at_work} of {count} died at work"
    );
    let removed = log.lines().filter(|line| line.contains("): 45, pid="));
    let lines = (removed.count() as u64, log.lines().count() as u64);
    assert_eq!(lines, (at_work, at_work), "each left its line");
    Ok(())
}

/// Nothing of the dead is left, and a newcomer has the whole device.
fn serves_afterwards(
    stage: &Stage,
    machine: &Machine,
    under: Under,
    env: &[(&str, &str)],
) -> Result<(), Error> {
    eventually("the dead are gone", || {
        stage.device.reap_dead_processes()?;
        let left = stage.device.shared().read(|state| {
            let mps = |process: usize| {
                let servers = state.servers.live().iter();
                let mut daemons = state.daemons.live().iter();
                daemons.any(|d| d.live && d.process as usize == process)
                    || servers
                        .into_iter()
                        .any(|s| s.live && s.process as usize == process)
            };
            let processes = state.processes.live().iter().enumerate();
            let outsiders = processes
                .filter(|(row, p)| p.pid != 0 && !mps(*row))
                .count();
            let contexts = state.contexts.live().iter();
            let clients = contexts
                .filter(|c| c.live && !mps(c.process as usize))
                .count();
            let streams = state.streams.live().iter().filter(|s| s.live).count();
            let memory = state.allocations.live().iter().filter(|a| a.live).count();
            (outsiders, clients, streams, memory)
        })?;
        Ok(left == (0, 0, 0, 0))
    })?;
    let client = stage.client(0, env, "open; spin 1; fill; close")?;
    let said = client.finish()?;
    assert_eq!([&said[0], &said[1], &said[3]], ["0", "0", "0"], "{said:?}");
    let memory = &machine.memory;
    let all = match under {
        Under::Memory(limits_mib) => limits_mib[0],
        Under::Mig(_) | Under::MigMps(_) => (memory.total_mib - memory.reserved_mib) / 2,
        _ => memory.total_mib - memory.reserved_mib,
    };
    let filled: u64 = said[2].parse()?;
    // A context each of the newcomer and, under MPS, of the server; an instance is not quite half.
    assert!(
        filled > all - 3 * memory.context_mib && filled < all,
        "{filled} MiB of {all} MiB"
    );
    Ok(())
}

#[test]
fn what_a_dead_neighbour_held_is_there_for_the_next_who_asks() -> Result<(), Error> {
    let test = "what_a_dead_neighbour_held_is_there_for_the_next_who_asks";
    scene(test, Wall, &prompt()?, |stage| {
        let mut greedy = stage.client(0, &[], "open; alloc 60000; hold")?;
        assert_eq!(greedy.until_hold()?, ["0", "0"]);
        // The one that asks is there already: its own start would have looked for the dead.
        let script = "open; alloc 40000; hold; alloc 40000";
        let mut asking = stage.client(0, &[], script)?;
        assert_eq!(asking.until_hold()?, ["0", "2"]);
        drop(greedy);
        asking.go(stage)?;
        assert_eq!(asking.finish()?, ["0"]);
        Ok(())
    })
}

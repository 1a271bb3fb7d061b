//! Kills at random instants, in wall time: whoever dies, whenever, nobody is stuck, nothing leaks,
//! and the device serves the next one. Under turns, under MPS (daemon and server die too), on MIG
//! instances, with green contexts and with stream priorities. (Under HAMi's stand-in: with the
//! harness, which brings it along.)

mod mps_support;

use std::time::{Duration, Instant};

use gpubench_virtual_gpu::kernel_log;
use gpubench_virtual_gpu::launch::SAMPLE_ENV;
use gpubench_virtual_gpu::machine::Machine;
use gpubench_virtual_gpu::mig;
use gpubench_virtual_gpu::session::TimeMode::Wall;
use gpubench_virtual_gpu::state::{Head, State};

use mps_support::{Client, Daemon, Error, Stage, eventually, kill, quiet, scene};

/// Clients killed under each mechanism; together 500.
const TURNS: usize = 120;
const MPS: usize = 120;
const MIG: usize = 100;
const GREEN: usize = 80;
const PRIORITY: usize = 80;
/// Clients that are there at a time.
const BESIDE: usize = 4;
/// Under MPS, every so many clients the server is killed, and the daemon.
const SERVER_EVERY: usize = 17;
const DAEMON_EVERY: usize = 28;
/// A client lives this long at most; its start takes some of it.
const LIFE_MS: u64 = 60;

/// Opens, takes memory, gives both back, and works on a second context until it is killed.
const SCRIPT: &str = "open; alloc 256; close; open; alloc 64; busy";
/// Works in streams of green contexts, or of several priorities, until it is killed.
const GREENS: &str = "open; alloc 64; churn green 1000000";
const PRIORITIES: &str = "open; alloc 64; churn priority 1000000";

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

/// Starts and kills clients, a few at a time, each at a random instant of its life.
fn kill_clients(
    stage: &Stage,
    script: &str,
    count: usize,
    seed: u64,
    env: impl Fn(usize) -> Vec<(String, String)>,
    mut between: impl FnMut(usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut numbers = Numbers(seed);
    let mut there: Vec<Client> = Vec::new();
    for number in 0..count {
        let mut env = env(number);
        env.push((SAMPLE_ENV.to_owned(), "1".to_owned()));
        let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        there.push(stage.client(0, &env, script)?);
        between(number)?;
        if there.len() == BESIDE {
            let at = numbers.below(BESIDE as u64) as usize;
            // Half of them die at work, however long a busy host takes to start them.
            if number % 2 == 0 {
                for _ in script.matches(';') {
                    there[at].says()?;
                }
            }
            std::thread::sleep(Duration::from_micros(numbers.below(LIFE_MS * 1000)));
            if number % 2 == 0 {
                await_work(stage, there[at].pid())?;
            }
            // Dropping kills and takes the status.
            drop(there.swap_remove(at));
        }
    }
    Ok(())
}

/// Waits a while for a client to have work on the device. One that never gets there, because its
/// server was killed, dies as it is.
fn await_work(stage: &Stage, pid: u32) -> Result<(), Error> {
    const AT_MOST: Duration = Duration::from_millis(500);
    let began = Instant::now();
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
    while !stage.device.shared().read(works)? && began.elapsed() < AT_MOST {
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
fn serves_afterwards(stage: &Stage, machine: &Machine, env: &[(&str, &str)]) -> Result<(), Error> {
    eventually("the dead are gone", || {
        stage.device.bury_the_dead()?;
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
            let strangers = processes
                .filter(|(row, p)| p.pid != 0 && !mps(*row))
                .count();
            let contexts = state.contexts.live().iter();
            let clients = contexts
                .filter(|c| c.live && !mps(c.process as usize))
                .count();
            let streams = state.streams.live().iter().filter(|s| s.live).count();
            let memory = state.allocations.live().iter().filter(|a| a.live).count();
            (strangers, clients, streams, memory)
        })?;
        Ok(left == (0, 0, 0, 0))
    })?;
    let client = stage.client(0, env, "open; spin 1; fill; close")?;
    let said = client.finish()?;
    assert_eq!([&said[0], &said[1], &said[3]], ["0", "0", "0"], "{said:?}");
    let memory = &machine.memory;
    let all = memory.total_mib - memory.reserved_mib;
    let filled: u64 = said[2].parse()?;
    // A context each of the newcomer and, under MPS, of the server; MIG gives a half.
    assert!(
        filled > all / 2 - 3 * memory.context_mib && filled < all,
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

fn none(_: usize) -> Vec<(String, String)> {
    Vec::new()
}

#[test]
fn clients_die_under_turns() -> Result<(), Error> {
    let machine = prompt()?;
    scene("clients_die_under_turns", Wall, &machine, |stage| {
        kill_clients(stage, SCRIPT, TURNS, 11, none, |_| Ok(()))?;
        serves_afterwards(stage, &machine, &[])?;
        many_died_at_work(stage, TURNS)
    })
}

#[test]
fn clients_with_green_contexts_die() -> Result<(), Error> {
    let machine = prompt()?;
    scene("clients_with_green_contexts_die", Wall, &machine, |stage| {
        kill_clients(stage, GREENS, GREEN, 14, none, |_| Ok(()))?;
        serves_afterwards(stage, &machine, &[])?;
        many_died_at_work(stage, GREEN)
    })
}

#[test]
fn clients_with_streams_of_several_priorities_die() -> Result<(), Error> {
    let test = "clients_with_streams_of_several_priorities_die";
    let machine = prompt()?;
    scene(test, Wall, &machine, |stage| {
        kill_clients(stage, PRIORITIES, PRIORITY, 15, none, |_| Ok(()))?;
        serves_afterwards(stage, &machine, &[])?;
        many_died_at_work(stage, PRIORITY)
    })
}

#[test]
fn clients_servers_and_daemons_die_under_mps() -> Result<(), Error> {
    let machine = prompt()?;
    scene(
        "clients_servers_and_daemons_die_under_mps",
        Wall,
        &machine,
        |stage| {
            let mut daemon: Option<Daemon> = Some(stage.daemon("", &[])?);
            let (mut servers, mut daemons) = (0, 0);
            kill_clients(stage, SCRIPT, MPS, 12, none, |number| {
                if number % DAEMON_EVERY == DAEMON_EVERY - 1 {
                    drop(daemon.take());
                    daemons += 1;
                    daemon = Some(stage.daemon("", &[])?);
                } else if number % SERVER_EVERY == SERVER_EVERY - 1
                    && let Some(pid) = daemon.as_ref().and_then(|d| d.server().ok())
                {
                    kill(pid)?;
                    servers += 1;
                }
                Ok(())
            })?;
            assert!(
                servers > 4 && daemons == 4,
                "{servers} servers, {daemons} daemons"
            );
            // A fault that a death or a server's end left behind would refuse the newcomer.
            serves_afterwards(stage, &machine, &[])?;
            many_died_at_work(stage, MPS)?;
            let daemon = daemon.ok_or("no daemon")?;
            assert_eq!(daemon.ask("quit -t 5")?, "");
            daemon.finish()
        },
    )
}

#[test]
fn clients_die_on_instances() -> Result<(), Error> {
    let machine = prompt()?;
    scene("clients_die_on_instances", Wall, &machine, |stage| {
        let made = stage.device.transact(|state, _| {
            mig::set_mode(state, &machine, true);
            let geometry = machine.mig.as_ref().ok_or("no MIG")?;
            let profile = geometry.profile.iter().position(|p| p.name == "3g.40gb");
            let profile = profile.ok_or("no profile")? as u32;
            let mut uuids = Vec::new();
            for _ in 0..2 {
                let instance = mig::create_instance(state, &machine, profile, None);
                let instance = instance.map_err(|_| "no instance")?;
                let engine = mig::create_engine(state, &machine, instance, 3);
                let engine = engine.map_err(|_| "no engine")?;
                uuids.push(mig::uuid(state, &machine, engine));
            }
            Ok::<_, &str>(uuids)
        })?;
        let uuids = made?;
        let visible = |number: usize| {
            let uuid = uuids[number % 2].clone();
            vec![("CUDA_VISIBLE_DEVICES".to_owned(), uuid)]
        };
        kill_clients(stage, SCRIPT, MIG, 13, visible, |_| Ok(()))?;
        for uuid in &uuids {
            serves_afterwards(stage, &machine, &[("CUDA_VISIBLE_DEVICES", uuid)])?;
        }
        many_died_at_work(stage, MIG)
    })
}

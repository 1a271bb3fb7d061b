//! Eight tenant processes give the same bytes run after run: started in another order, with the
//! cores busy with something else, with late starts. And the check can fail: a ninth tenant changes
//! them.

mod mps_support;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;
use gpubench_virtual_gpu_model::machine::Machine;

use mps_support::{Client, Error, Killed, Stage, scenes};

const TENANTS: u32 = 8;

/// A mix of turns, copies, allocations, streams and host functions, each tenant with its own.
fn script(id: u32) -> String {
    let (begin_ms, rounds) = (100 + u64::from(id % 3), 3 + id % 4);
    format!("open; at {begin_ms}; churn plain {rounds}; stamps 40; close")
}

/// What the tenants say, by number, if they are started in this order.
fn run(stage: &Stage, order: &[u32], pause: Duration) -> Result<Vec<Vec<String>>, Error> {
    for id in 0..TENANTS {
        stage.device.expect(id)?;
    }
    let mut clients: Vec<(u32, Client)> = Vec::new();
    for &id in order {
        clients.push((id, stage.client(id, &[], &script(id))?));
        std::thread::sleep(pause);
    }
    let mut said = vec![Vec::new(); TENANTS as usize];
    for (id, client) in clients {
        said[id as usize] = client.finish()?;
    }
    Ok(said)
}

/// Processes that do nothing but keep a core busy.
fn busy(count: usize) -> Result<Vec<Killed>, Error> {
    let start = || -> std::io::Result<Child> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "while :; do :; done"]);
        shell.stdout(Stdio::null()).spawn()
    };
    (0..count).map(|_| Ok(Killed(start()?))).collect()
}

#[test]
fn eight_processes_say_the_same_however_the_host_runs_them() -> Result<(), Error> {
    let machine = Machine::load("turing")?;
    let test = "eight_processes_say_the_same_however_the_host_runs_them";
    let forwards: Vec<u32> = (0..TENANTS).collect();
    let backwards: Vec<u32> = (0..TENANTS).rev().collect();
    let said = std::cell::RefCell::new(Vec::new());
    // A fresh device each time, with its noise: the seed is the same.
    let machines = vec![machine; 4];
    scenes(test, Virtual, &machines, |stage, index| {
        let found = match index {
            0 => run(stage, &forwards, Duration::ZERO)?,
            1 => run(stage, &backwards, Duration::from_millis(7))?,
            2 => {
                let _load = busy(3)?;
                run(stage, &forwards, Duration::ZERO)?
            }
            _ => {
                // A ninth takes its turns from the others.
                stage.device.expect(TENANTS)?;
                let outsider = stage.client(TENANTS, &[], "open; at 101; churn plain 2; close")?;
                let found = run(stage, &forwards, Duration::ZERO)?;
                outsider.finish()?;
                found
            }
        };
        said.borrow_mut().push(found);
        Ok(())
    })?;
    let said = said.into_inner();
    if said.is_empty() {
        return Ok(());
    }
    for tenant in &said[0] {
        assert!(
            tenant.iter().any(|line| line.split(' ').count() == 40),
            "{tenant:?}"
        );
    }
    assert_eq!(said[0], said[1], "started in another order, and late");
    assert_eq!(said[0], said[2], "beside busy loops");
    assert_ne!(said[0], said[3], "the check sees an outsider");
    Ok(())
}

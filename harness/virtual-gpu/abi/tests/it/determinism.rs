//! Eight tenant processes give the same bytes in every run: started in another order, on busy
//! cores, with late starts. As a control, a ninth tenant changes them.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;
use gpubench_virtual_gpu_model::machine::Machine;

use crate::mps_support::{Client, Error, Killed, Stage, scenes};

const TENANTS: u32 = 8;

/// A mix of kernels, copies, allocations, streams and pools, different for each tenant.
fn script(id: u32) -> String {
    let (begin_ms, rounds) = (100 + u64::from(id % 3), 3 + id % 4);
    format!("open; at {begin_ms}; recreate plain {rounds}; stamps 40; close")
}

/// Output of the tenants by number, when started in this order.
fn run(stage: &Stage, order: &[u32], pause: Duration) -> Result<Vec<Vec<String>>, Error> {
    for id in 0..TENANTS {
        stage.device.expect(id)?;
    }
    let mut clients: Vec<(u32, Client)> = Vec::new();
    for &id in order {
        clients.push((id, stage.client(id, &[], &script(id))?));
        std::thread::sleep(pause);
    }
    let mut outputs = vec![Vec::new(); TENANTS as usize];
    for (id, client) in clients {
        outputs[id as usize] = client.finish()?;
    }
    Ok(outputs)
}

/// Processes that only keep a core busy.
fn busy(count: usize) -> Result<Vec<Killed>, Error> {
    let start = || -> std::io::Result<Child> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "while :; do :; done"]);
        shell.stdout(Stdio::null()).spawn()
    };
    (0..count).map(|_| Ok(Killed(start()?))).collect()
}

#[test]
fn output_does_not_depend_on_the_host() -> Result<(), Error> {
    let machine = Machine::load("turing")?;
    let forwards: Vec<u32> = (0..TENANTS).collect();
    let backwards: Vec<u32> = (0..TENANTS).rev().collect();
    let outputs = std::cell::RefCell::new(Vec::new());
    // A new device each time, with its noise and the same seed.
    let machines = vec![machine; 4];
    scenes(test_name!(), Virtual, &machines, |stage, index| {
        let found = match index {
            0 => run(stage, &forwards, Duration::ZERO)?,
            1 => run(stage, &backwards, Duration::from_millis(7))?,
            2 => {
                let _load = busy(3)?;
                run(stage, &forwards, Duration::ZERO)?
            }
            _ => {
                // A ninth tenant takes time slices from the others.
                stage.device.expect(TENANTS)?;
                let outsider =
                    stage.client(TENANTS, &[], "open; at 101; recreate plain 2; close")?;
                let found = run(stage, &forwards, Duration::ZERO)?;
                outsider.finish()?;
                found
            }
        };
        outputs.borrow_mut().push(found);
        Ok(())
    })?;
    let outputs = outputs.into_inner();
    if outputs.is_empty() {
        return Ok(());
    }
    for tenant in &outputs[0] {
        assert!(tenant.iter().any(|line| line.split(' ').count() == 40), "{tenant:?}");
    }
    assert_eq!(outputs[0], outputs[1], "started in another order, and late");
    assert_eq!(outputs[0], outputs[2], "beside busy loops");
    assert_ne!(outputs[0], outputs[3], "a ninth tenant changes the output");
    Ok(())
}

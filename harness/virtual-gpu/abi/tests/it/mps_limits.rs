//! Limits of MPS clients: SMs, memory, and number of clients. Virtual time; the expected figures
//! are those of the machine file.

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;

use crate::mps_support::{Error, near, number, quiet, scene, scenes};

/// Blocks that keep every SM of the machine busy for about a millisecond.
const FULL: &str = "21120";
/// SMs of the machine.
const SMS: f64 = 132.0;

#[test]
fn a_percentage_limits_sms_and_throughput() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let (mut more, mut ignored) = (plain.clone(), plain.clone());
    more.defects.mps_percentage_error = 0.2;
    ignored.defects.mps_percentage_ignored = true;
    let test = test_name!("a_percentage_limits_sms_and_throughput");
    scenes(test, Virtual, &[plain, more, ignored], |stage, index| {
        // 50 % of 132; 60 %, rounded down; all of them.
        let sms = [66.0, 79.0, 132.0][index];
        let _daemon = stage.daemon("", &[])?;
        let env: &[_] = &[("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")];
        let script = |from: u32, to: u32| format!("open; sms; at {from}; work {FULL} {to}");
        let run = |env: &[(&str, &str)], from, to| -> Result<Vec<String>, Error> {
            let mut clients = stage.clients(&[(env, &script(from, to))])?;
            clients.remove(0).finish()
        };
        let half = run(env, 1_000, 1_600)?;
        let whole = run(&[], 3_000, 3_600)?;
        assert_eq!((number(&half[1])?, number(&whole[1])?), (sms, SMS));
        let share = number(&half[2])? / number(&whole[2])?;
        near(share, sms / SMS, "share of the work");
        Ok(())
    })
}

#[test]
fn memory_limits_hold_up_to_the_planted_overshoot() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut loose = plain.clone();
    loose.defects.mps_memory_overshoot = 0.25;
    let test = test_name!("memory_limits_hold_up_to_the_planted_overshoot");
    scenes(test, Virtual, &[plain, loose], |stage, index| {
        let _daemon = stage.daemon("", &[])?;
        let env: &[_] = &[("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=4G")];
        let mut clients = stage.clients(&[(env, "open; fill; alloc 2; close; open; alloc 2")])?;
        // 4 GiB, or a quarter more, of which the context uses 512 MiB.
        let fits = ["3584", "4608"][index];
        let output = clients.remove(0).finish()?;
        assert_eq!(output, ["0", fits, "2", "0", "0", "0"]);
        Ok(())
    })
}

#[test]
fn memory_under_mps_is_that_of_an_h100() -> Result<(), Error> {
    let test = test_name!("memory_under_mps_is_that_of_an_h100");
    scene(test, Virtual, &quiet("h100-80")?, |stage| {
        let daemon = stage.daemon("", &[])?;
        daemon.command("set_default_device_pinned_mem_limit 0 4G")?;
        let mut clients = stage.clients(&[(&[], "open; total; free; hold; close")])?;
        // With a limit of 4096 MiB, 3582 MiB were free and the total was 81079 MiB (driver
        // 580.159.04, 2026-11-22). nvidia-smi reported 516 MiB for the context; 514 MiB counted
        // towards the limit.
        assert_eq!(clients[0].until_hold()?, ["0", "81079", "3580"]);
        let taken = stage.device.shared().read(|state| {
            let live = state.contexts.live().iter().filter(|context| context.live);
            let mut all: Vec<u64> = live.map(|context| context.bytes >> 20).collect();
            all.sort_unstable();
            all
        })?;
        assert_eq!(taken, [66, 516], "the server, the client");
        for mut client in clients {
            client.go(stage)?;
            assert_eq!(client.finish()?, ["0"]);
        }
        Ok(())
    })
}

#[test]
fn small_kernels_of_clients_overlap() -> Result<(), Error> {
    let test = test_name!("small_kernels_of_clients_overlap");
    let machine = quiet("hopper")?;
    scenes(test, Virtual, &[machine.clone(), machine], |stage, index| {
        let _daemon = match index {
            0 => Some(stage.daemon("", &[])?),
            _ => None,
        };
        let script = "open; at 1000; work 64 1100; close";
        let both = stage.play(&[script, script])?;
        let solo = stage.play(&["open; at 3000; work 64 3100; close"])?;
        let solo = number(&solo[0][1])?;
        let sum = number(&both[0][1])? + number(&both[1][1])?;
        if index == 0 {
            near(sum / solo, 2.0, "two clients relative to one");
        } else {
            assert!(sum / solo < 1.05, "outsiders: {sum} beside {solo}");
        }
        Ok(())
    })
}

#[test]
fn a_server_refuses_clients_beyond_its_limit() -> Result<(), Error> {
    let mut machine = quiet("hopper")?;
    machine.mps.as_mut().ok_or("no MPS")?.clients = 2;
    let test = test_name!("a_server_refuses_clients_beyond_its_limit");
    scene(test, Virtual, &machine, |stage| {
        let _daemon = stage.daemon("", &[])?;
        let output = stage.play(&[
            "open; at 1000; close",
            "open; open; at 3000; close",
            "at 500; open; at 2000; open; spin 1; close",
        ])?;
        assert_eq!(output[1], ["0", "0", "0"], "a second context counts as the same client");
        assert_eq!(output[2], ["808", "0", "0", "0"]);
        Ok(())
    })
}

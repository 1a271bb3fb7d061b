//! MPS clients: the memory that they get, kernels side by side, the number of clients. Virtual
//! time; the expected figures are those of the machine file.

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;

use crate::mps_support::{Error, near, number, quiet, scene, scenes};

#[test]
fn memory_under_mps_is_that_of_an_h100() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("h100-80")?, |stage| {
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
    let machine = quiet("hopper")?;
    scenes(test_name!(), Virtual, &[machine.clone(), machine], |stage, index| {
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
    scene(test_name!(), Virtual, &machine, |stage| {
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

//! Failures under MPS: which clients a fault reaches, when service recovers, and the effect of
//! deaths of clients, servers and daemons on the others. Virtual time.

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;

use crate::mps_support::{Client, Error, Stage, eventually, kill, quiet, scene, scenes};

/// CUresults of MPS (cuda.h).
const RPC_FAILURE: &str = "806";
const NOT_READY: &str = "807";
const TERMINATED: &str = "810";

#[test]
fn a_fault_reaches_every_client_and_service_recovers_after_they_left() -> Result<(), Error> {
    // Recovery takes 80 ms on this machine; opening a context takes 120 ms before the server is
    // involved.
    let documented = quiet("hopper")?;
    let mut contained = documented.clone();
    contained.defects.mps_contains_faults = true;
    scenes(test_name!(), Virtual, &[documented, contained], |stage, index| {
        let _daemon = stage.daemon("", &[])?;
        let output = stage.play(&[
            "open; at 1000; store; sync; at 2000; close",
            "open; at 990; begin 40; sync; alloc 2; at 3000; close",
            "at 1500; open; at 2500; open; at 2940; open; at 3200; open; spin 1; close",
        ])?;
        let log = stage.log("server.log")?;
        if index == 0 {
            assert_eq!(output[0], ["0", "700", "700", "0"]);
            assert_eq!(output[1], ["0", "0", "700", "700", "0"], "every client gets the error");
            let all_left_and_recovered = ["0", "0", "0"];
            let want = [[NOT_READY; 3], all_left_and_recovered].concat();
            assert_eq!(output[2], want);
            eventually("the fault is logged", || {
                let log = stage.log("server.log")?;
                Ok(log.contains("Xid 31") && log.contains("fatal fault of client"))
            })?;
            let lines = stage.kernel_log()?;
            assert!(lines.len() == 1 && lines[0].contains("): 31, pid="), "{lines:?}");
            Ok(())
        } else {
            assert_eq!(output[0], ["0", "700", "700", "0"]);
            assert_eq!(output[1], ["0", "0", "0", "0", "0"], "{log}");
            assert_eq!(output[2], ["0", "0", "0", "0", "0", "0"]);
            Ok(())
        }
    })
}

#[test]
fn a_server_reports_its_state() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("", &[])?;
        let mut clients = stage.clients(&[(&[], "open; trap; hold; close; hold")])?;
        assert_eq!(clients[0].until_hold()?, ["0", "719"]);
        let server = daemon.server()?;
        let status = || daemon.command(&format!("get_server_status {server}"));
        assert_eq!(status()?, "FAULT\n");
        eventually("the state is logged", || {
            let log = stage.log("server.log")?;
            // The culprit is named for memory faults only.
            Ok(log.contains("is FAULT") && log.contains("fatal fault of a client (Xid 13)"))
        })?;
        clients[0].go(stage)?;
        assert_eq!(clients[0].until_hold()?, ["0"]);
        assert_eq!(status()?, "INITIALIZING\n", "no time has passed");
        clients[0].go(stage)?;
        clients.remove(0).finish()?;
        let later = stage.play(&["at 2000; open; close"])?;
        assert_eq!(later, [["0", "0"]]);
        assert_eq!(status()?, "ACTIVE\n");
        Ok(())
    })
}

/// Two clients with a context, both outside the clock.
fn two_held(stage: &Stage, then: &str) -> Result<(Client, Client), Error> {
    let script = format!("open; spin 1; hold; {then}");
    let mut clients = stage.clients(&[(&[], &script), (&[], &script)])?;
    for client in &mut clients {
        assert_eq!(client.until_hold()?, ["0", "0"]);
    }
    let second = clients.remove(1);
    Ok((clients.remove(0), second))
}

#[test]
fn a_terminated_client_gets_a_sticky_error() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("", &[])?;
        let (mut first, mut second) = two_held(stage, "sync; alloc 2; spin 1; close")?;
        let server = daemon.server()?;
        let command = format!("terminate_client {server} {}", first.pid());
        assert_eq!(daemon.command(&command)?, "0\n");
        first.go(stage)?;
        let output = first.finish()?;
        assert_eq!(output, [TERMINATED, TERMINATED, TERMINATED, "0"]);
        assert!(stage.kernel_log()?.is_empty(), "no Xid");
        second.go(stage)?;
        assert_eq!(second.finish()?, ["0"; 4]);
        assert_eq!(stage.play(&["open; spin 1; close"])?, [["0"; 3]]);
        Ok(())
    })
}

#[test]
fn a_killed_server_ends_its_clients_and_is_replaced() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("", &[])?;
        let (mut first, second) = two_held(stage, "sync; spin 1; close; open")?;
        let server = daemon.server()?;
        kill(server)?;
        eventually("the daemon notices", || Ok(daemon.pids("get_server_list")?.is_empty()))?;
        // The failed clients still exist, and are not clients of the next server.
        stage.device.expect(9)?;
        let mut third = stage.client(9, &[], "open; spin 1; hold; close")?;
        assert_eq!(third.until_hold()?, ["0", "0"]);
        let other = daemon.server()?;
        assert_ne!(other, server);
        assert_eq!(daemon.pids(&format!("get_client_list {other}"))?, [third.pid()]);
        first.go(stage)?;
        let output = first.finish()?;
        assert_eq!(output[..3], [RPC_FAILURE, RPC_FAILURE, "0"]);
        third.go(stage)?;
        assert_eq!(third.finish()?, ["0"]);
        drop(second);
        let log = stage.log("server.log")?;
        assert!(log.contains(&format!("server {server} ended unasked")), "{log}");
        Ok(())
    })
}

#[test]
fn a_killed_daemon_ends_its_server_and_new_clients_are_time_sliced() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("hopper")?, |stage| {
        let mut daemon = stage.daemon("", &[])?;
        let (mut first, mut second) = two_held(stage, "sync; close")?;
        daemon.child.0.kill()?;
        daemon.child.0.wait()?;
        eventually("the server ends by itself", || {
            let live = stage.device.shared().read(|state| {
                let servers = state.servers.live().iter().any(|s| s.live);
                servers || state.daemons.live().iter().any(|d| d.live)
            })?;
            Ok(!live)
        })?;
        for client in [&mut first, &mut second] {
            client.go(stage)?;
        }
        assert_eq!(first.finish()?, [RPC_FAILURE, "0"]);
        assert_eq!(second.finish()?, [RPC_FAILURE, "0"]);
        let output =
            stage.play(&["open; at 2000; gaps 20; close", "open; at 2000; spin 50; close"])?;
        assert_ne!(output[0][1], "0 0 0", "clients without a daemon are time-sliced");
        Ok(())
    })
}

#[test]
fn the_death_of_a_busy_client_ends_the_others_unless_planted() -> Result<(), Error> {
    let usual = quiet("hopper")?;
    let mut contained = usual.clone();
    contained.defects.mps_contains_faults = true;
    scenes(test_name!(), Virtual, &[usual, contained], |stage, index| {
        let daemon = stage.daemon("", &[])?;
        let mut clients = stage.clients(&[
            (&[], "open; at 700; sync; spin 1; close"),
            (&[], "open; at 500; begin 40; at 510; die"),
        ])?;
        let mut dead = clients.remove(1);
        assert_eq!(dead.child.0.wait()?.code(), None, "ended by the signal");
        assert_eq!(dead.next_line()?.as_deref(), Some("0"));
        let server = daemon.server()?;
        let output = clients.remove(0).finish()?;
        let code = ["700", "0"][index];
        assert_eq!(output, ["0", code, code, "0"]);
        let xids = stage.device.shared().read(|state| {
            let xids = state.xids.live().iter();
            xids.map(|xid| (xid.number, xid.pid)).collect::<Vec<_>>()
        })?;
        assert_eq!(xids, [(31, server)], "a memory fault of the server");
        Ok(())
    })
}

#[test]
fn quit_waits_for_clients_up_to_its_timeout() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("", &[])?;
        let (mut first, second) = two_held(stage, "sync; close")?;
        let pipe = stage.pipe();
        let asking = std::thread::spawn(move || {
            gpubench_virtual_gpu_vendor_tools::nvidia_cuda_mps::send(&pipe, "quit")
                .map_err(|error| error.to_string())
        });
        // A daemon that is quitting refuses new clients and continues to serve the present ones.
        eventually("new clients are refused", || {
            let answer = daemon.command("start_server -uid 0")?;
            Ok(answer.contains("quitting"))
        })?;
        assert_eq!(stage.play_as(7, "open")?, ["805"]);
        first.go(stage)?;
        assert_eq!(first.finish()?, ["0", "0"]);
        assert!(daemon.server()? > 0, "the second client is still there");
        assert!(!asking.is_finished());
        // A second quit with a timeout ends the wait.
        assert_eq!(daemon.command("quit -t 1")?, "");
        assert_eq!(asking.join().map_err(|_| "panic")??, "");
        daemon.finish()?;
        let mut second = second;
        second.go(stage)?;
        assert_eq!(second.finish()?, [RPC_FAILURE, "0"]);
        // Clients run without MPS once the daemon has ended.
        assert_eq!(stage.play(&["open; spin 1; close"])?, [["0"; 3]]);
        Ok(())
    })
}

//! How MPS breaks: whom a fault reaches and when service is there again, and what the deaths of
//! clients, servers and daemons do to the others. Virtual time.

mod mps_support;

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;

use mps_support::{Client, Error, Stage, eventually, kill, quiet, scene, scenes};

/// CUresults of MPS (cuda.h).
const RPC_FAILURE: &str = "806";
const NOT_READY: &str = "807";
const TERMINATED: &str = "810";

#[test]
fn a_fault_reaches_every_client_and_service_comes_back_when_all_have_left() -> Result<(), Error> {
    // Recovery takes 80 ms on this machine; opening a context 120 ms, before the server is asked.
    let documented = quiet("hopper")?;
    let mut contained = documented.clone();
    contained.defects.mps_contains_faults = true;
    let test = "a_fault_reaches_every_client_and_service_comes_back_when_all_have_left";
    scenes(test, Virtual, &[documented, contained], |stage, index| {
        let _daemon = stage.daemon("", &[])?;
        let said = stage.play(&[
            "open; at 1000; store; sync; at 2000; close",
            "open; at 990; begin 40; sync; alloc 2; at 3000; close",
            "at 1500; open; at 2500; open; at 2940; open; at 3200; open; spin 1; close",
        ])?;
        let log = stage.log("server.log")?;
        if index == 0 {
            assert_eq!(said[0], ["0", "700", "700", "0"]);
            assert_eq!(
                said[1],
                ["0", "0", "700", "700", "0"],
                "every client gets the error"
            );
            let all_left_and_recovered = ["0", "0", "0"];
            let want = [[NOT_READY; 3], all_left_and_recovered].concat();
            assert_eq!(said[2], want);
            eventually("the fault is logged", || {
                let log = stage.log("server.log")?;
                Ok(log.contains("Xid 31") && log.contains("fatal fault of client"))
            })?;
            let lines = stage.kernel_log()?;
            assert!(
                lines.len() == 1 && lines[0].contains("): 31, pid="),
                "{lines:?}"
            );
            Ok(())
        } else {
            assert_eq!(said[0], ["0", "700", "700", "0"]);
            assert_eq!(said[1], ["0", "0", "0", "0", "0"], "{log}");
            assert_eq!(said[2], ["0", "0", "0", "0", "0", "0"]);
            Ok(())
        }
    })
}

#[test]
fn the_status_of_a_server_shows_where_it_stands() -> Result<(), Error> {
    let test = "the_status_of_a_server_shows_where_it_stands";
    scene(test, Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("", &[])?;
        let mut clients = stage.clients(&[(&[], "open; trap; hold; close; hold")])?;
        assert_eq!(clients[0].until_hold()?, ["0", "719"]);
        let server = daemon.server()?;
        let status = || daemon.ask(&format!("get_server_status {server}"));
        assert_eq!(status()?, "FAULT\n");
        eventually("the state is logged", || {
            let log = stage.log("server.log")?;
            // Of other faults than those of memory the culprit is not named.
            Ok(log.contains("is FAULT") && log.contains("fatal fault of a client (Xid 13)"))
        })?;
        clients[0].go(stage)?;
        assert_eq!(clients[0].until_hold()?, ["0"]);
        assert_eq!(status()?, "INITIALIZING\n", "no time has passed since");
        clients[0].go(stage)?;
        clients.remove(0).finish()?;
        let later = stage.play(&["at 2000; open; close"])?;
        assert_eq!(later, [["0", "0"]]);
        assert_eq!(status()?, "ACTIVE\n");
        Ok(())
    })
}

/// Two clients that have a context and stand beside the clock.
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
fn a_terminated_client_is_told_so_for_good_and_the_other_goes_on() -> Result<(), Error> {
    let test = "a_terminated_client_is_told_so_for_good_and_the_other_goes_on";
    scene(test, Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("", &[])?;
        let (mut first, mut second) = two_held(stage, "sync; alloc 2; spin 1; close")?;
        let server = daemon.server()?;
        let command = format!("terminate_client {server} {}", first.pid());
        assert_eq!(daemon.ask(&command)?, "0\n");
        first.go(stage)?;
        let said = first.finish()?;
        assert_eq!(said, [TERMINATED, TERMINATED, TERMINATED, "0"]);
        assert!(stage.kernel_log()?.is_empty(), "it is no Xid");
        second.go(stage)?;
        assert_eq!(second.finish()?, ["0"; 4]);
        assert_eq!(stage.play(&["open; spin 1; close"])?, [["0"; 3]]);
        Ok(())
    })
}

#[test]
fn a_killed_server_takes_its_clients_along_and_the_next_client_gets_another() -> Result<(), Error> {
    let test = "a_killed_server_takes_its_clients_along_and_the_next_client_gets_another";
    scene(test, Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("", &[])?;
        let (mut first, second) = two_held(stage, "sync; spin 1; close; open")?;
        let server = daemon.server()?;
        kill(server)?;
        eventually("the daemon notices", || {
            Ok(daemon.pids("get_server_list")?.is_empty())
        })?;
        // The broken clients are still there, and are none of the next server's.
        stage.device.expect(9)?;
        let mut third = stage.client(9, &[], "open; spin 1; hold; close")?;
        assert_eq!(third.until_hold()?, ["0", "0"]);
        let other = daemon.server()?;
        assert_ne!(other, server);
        assert_eq!(
            daemon.pids(&format!("get_client_list {other}"))?,
            [third.pid()]
        );
        first.go(stage)?;
        let said = first.finish()?;
        assert_eq!(said[..3], [RPC_FAILURE, RPC_FAILURE, "0"]);
        third.go(stage)?;
        assert_eq!(third.finish()?, ["0"]);
        drop(second);
        let log = stage.log("server.log")?;
        assert!(
            log.contains(&format!("server {server} ended unasked")),
            "{log}"
        );
        Ok(())
    })
}

#[test]
fn a_killed_daemon_takes_its_server_along_and_newcomers_take_turns() -> Result<(), Error> {
    let test = "a_killed_daemon_takes_its_server_along_and_newcomers_take_turns";
    scene(test, Virtual, &quiet("hopper")?, |stage| {
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
        let said = stage.play(&[
            "open; at 2000; gaps 20; close",
            "open; at 2000; spin 50; close",
        ])?;
        assert_ne!(said[0][1], "0 0 0", "without a daemon clients take turns");
        Ok(())
    })
}

#[test]
fn the_death_of_a_busy_client_is_its_own_unless_planted() -> Result<(), Error> {
    let documented = quiet("hopper")?;
    let mut spreading = documented.clone();
    spreading.defects.mps_kill_reaches_peers = true;
    let test = "the_death_of_a_busy_client_is_its_own_unless_planted";
    scenes(test, Virtual, &[documented, spreading], |stage, index| {
        let _daemon = stage.daemon("", &[])?;
        let mut clients = stage.clients(&[
            (&[], "open; at 700; sync; spin 1; close"),
            (&[], "open; at 500; begin 40; at 510; die"),
        ])?;
        let mut dead = clients.remove(1);
        assert_eq!(dead.child.0.wait()?.code(), None, "ended by its signal");
        assert_eq!(dead.says()?.as_deref(), Some("0"));
        let said = clients.remove(0).finish()?;
        let code = ["0", "719"][index];
        assert_eq!(said, ["0", code, code, "0"]);
        let xids = stage.device.shared().read(|state| {
            let xids = state.xids.live().iter();
            xids.map(|xid| xid.number).collect::<Vec<_>>()
        })?;
        assert_eq!(xids, [45], "work removed because its process ended");
        Ok(())
    })
}

#[test]
fn quit_waits_for_clients_as_long_as_it_was_told() -> Result<(), Error> {
    let test = "quit_waits_for_clients_as_long_as_it_was_told";
    scene(test, Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("", &[])?;
        let (mut first, second) = two_held(stage, "sync; close")?;
        let pipe = stage.pipe();
        let asking = std::thread::spawn(move || {
            gpubench_virtual_gpu_vendor_tools::mpsd::ask(&pipe, "quit")
                .map_err(|error| error.to_string())
        });
        // A daemon that is quitting refuses newcomers, and goes on for those who are there.
        eventually("newcomers are refused", || {
            let answer = daemon.ask("start_server -uid 0")?;
            Ok(answer.contains("quitting"))
        })?;
        assert_eq!(stage.play_as(7, "open")?, ["805"]);
        first.go(stage)?;
        assert_eq!(first.finish()?, ["0", "0"]);
        assert!(daemon.server()? > 0, "the second client is still there");
        assert!(!asking.is_finished());
        // Whoever loses patience says so.
        assert_eq!(daemon.ask("quit -t 1")?, "");
        assert_eq!(asking.join().map_err(|_| "panic")??, "");
        daemon.finish()?;
        let mut second = second;
        second.go(stage)?;
        assert_eq!(second.finish()?, [RPC_FAILURE, "0"]);
        // Nobody misses a daemon that is gone.
        assert_eq!(stage.play(&["open; spin 1; close"])?, [["0"; 3]]);
        Ok(())
    })
}

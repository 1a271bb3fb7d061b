//! MPS as its clients meet it: what a share is, what a limit is, who can be a client, and that a
//! daemon that is not there is not missed. Virtual time, figures of the machine file.

mod mps_support;

use gpubench_virtual_gpu::session::TimeMode::Virtual;

use mps_support::{Error, quiet, scene};

#[test]
fn a_client_is_served_and_listed_and_quit_ends_everything() -> Result<(), Error> {
    let machine = quiet("hopper")?;
    scene(
        "a_client_is_served_and_listed_and_quit_ends_everything",
        Virtual,
        &machine,
        |stage| {
            let daemon = stage.daemon("", &[])?;
            assert_eq!(daemon.ask("get_server_list")?, "", "no client, no server");
            let script = "open; spin 1; hold; sync; close";
            let mut clients = stage.clients(&[(&[], script), (&[], script)])?;
            for client in &mut clients {
                assert_eq!(client.until_hold()?, ["0", "0"]);
            }
            let server = daemon.server()?;
            assert_eq!(
                daemon.ask(&format!("get_server_status {server}"))?,
                "ACTIVE\n"
            );
            let mut listed = daemon.pids(&format!("get_client_list {server}"))?;
            listed.sort_unstable();
            let mut pids: Vec<u32> = clients.iter().map(|client| client.pid()).collect();
            pids.sort_unstable();
            assert_eq!(listed, pids);
            let table = daemon.ask("ps")?;
            assert!(
                pids.iter().all(|pid| table.contains(&pid.to_string())),
                "{table}"
            );
            let one = daemon.ask(&format!("ps -p {}", pids[0]))?;
            assert_eq!(one.lines().count(), 2, "{one}");
            for client in &mut clients {
                client.go(stage)?;
            }
            for client in clients {
                assert_eq!(client.finish()?, ["0", "0"]);
            }
            assert_eq!(daemon.ask(&format!("get_client_list {server}"))?, "");
            assert_eq!(daemon.ask("quit")?, "");
            daemon.finish()?;
            let left = stage.device.shared().read(|state| {
                let daemons = state.daemons.live().iter().filter(|d| d.live).count();
                let servers = state.servers.live().iter().filter(|s| s.live).count();
                let contexts = state.contexts.live().iter().filter(|c| c.live).count();
                (daemons, servers, contexts)
            })?;
            assert_eq!(left, (0, 0, 0));
            Ok(())
        },
    )
}

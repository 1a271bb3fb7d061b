//! MPS as clients see it: commands, lists, partitions, and clients without a daemon. Virtual
//! time; the expected figures are those of the machine file.

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;

use crate::mps_support::{Error, Stage, quiet, scene, scenes};

#[test]
fn a_client_is_listed_until_the_daemon_quits() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("", &[])?;
        assert_eq!(daemon.command("get_server_list")?, "", "no client, no server");
        let script = "open; spin 1; hold; sync; close";
        let mut clients = stage.clients(&[(&[], script), (&[], script)])?;
        for client in &mut clients {
            assert_eq!(client.until_hold()?, ["0", "0"]);
        }
        let server = daemon.server()?;
        let status = daemon.command(&format!("get_server_status {server}"))?;
        assert_eq!(status, "ACTIVE\n");
        let mut listed = daemon.pids(&format!("get_client_list {server}"))?;
        listed.sort_unstable();
        let mut pids: Vec<u32> = clients.iter().map(|client| client.pid()).collect();
        pids.sort_unstable();
        assert_eq!(listed, pids);
        let table = daemon.command("ps")?;
        assert!(pids.iter().all(|pid| table.contains(&pid.to_string())), "{table}");
        assert_eq!(daemon.command(&format!("ps -p {server}"))?, table);
        assert_eq!(daemon.command("ps -p 1")?, "Server not found\n");
        for client in &mut clients {
            client.go(stage)?;
        }
        for client in clients {
            assert_eq!(client.finish()?, ["0", "0"]);
        }
        assert_eq!(daemon.command(&format!("get_client_list {server}"))?, "");
        assert_eq!(daemon.command("quit")?, "");
        daemon.finish()?;
        nothing_is_left(stage)
    })
}

#[test]
fn a_daemon_lists_its_device_and_clients() -> Result<(), Error> {
    let machine = quiet("hopper")?;
    scene(test_name!(), Virtual, &machine, |stage| {
        let daemon = stage.daemon("", &[])?;
        let mut clients = stage.clients(&[(&[], "open; hold; close")])?;
        assert_eq!(clients[0].until_hold()?, ["0"]);
        let (server, client, gpu) = (daemon.server()?, clients[0].pid(), machine.uuid());
        let product = &machine.gpu.product;
        for question in ["device_query --csv", &format!("device_query {server} --csv")] {
            let output = daemon.command(question)?;
            let cells = format!("0,0000:01.00.00,{gpu},{product},N/A");
            assert_eq!(output.lines().last(), Some(&*cells), "{question}");
        }
        // Except for the device, this is the text of an H100 80GB HBM3 (driver 580.159.04,
        // 2026-11-22), and so are the other answers.
        let table = "Device Ordinal  PCI IDs        UUID                                      \
                     Name                              Attributes\n0               "
            .to_owned()
            + &format!("0000:01.00.00  {gpu}  {product:<34}N/A\n");
        let [default, own] =
            ["Default", &format!("Server {server}")].map(|of| format!("{of}\n{table}"));
        assert_eq!(daemon.command("device_query")?, format!("{default}\n{own}"));
        assert_eq!(daemon.command(&format!("device_query {server}"))?, own);
        for question in ["get_device_client_list", &format!("get_device_client_list {server}")] {
            let expected = format!("[0] 01:00.0, {product}\n{client}.1\n");
            assert_eq!(daemon.command(question)?, expected);
        }
        let ps = daemon.command("ps")?;
        let (head, row) = ps.split_once('\n').unwrap_or_default();
        assert_eq!(
            head,
            "PID       ID        SERVER         DEVICE                    NAMESPACE      \
             COMMAND        "
        );
        let device: String = gpu.chars().take(22).collect();
        let begins = format!("{client:<10}1         {server:<15}{device}    ");
        assert!(row.starts_with(&begins), "{row:?} begins with {begins:?}");
        for question in ["get_device_client_list 1", "device_query 1"] {
            let output = daemon.command(question)?;
            assert!(output.contains("no MPS server 1"), "{question}: {output}");
        }
        assert_eq!(daemon.command("get_default_client_priority")?, "0\n");
        daemon.command("set_default_client_priority 1")?;
        assert_eq!(daemon.command("get_default_client_priority")?, "1\n");
        clients[0].go(stage)?;
        for client in clients {
            client.finish()?;
        }
        Ok(())
    })
}

fn nothing_is_left(stage: &Stage) -> Result<(), Error> {
    let left = stage.device.shared().read(|state| {
        let daemons = state.daemons.live().iter().filter(|d| d.live).count();
        let servers = state.servers.live().iter().filter(|s| s.live).count();
        let contexts = state.contexts.live().iter().filter(|c| c.live).count();
        (daemons, servers, contexts)
    })?;
    assert_eq!(left, (0, 0, 0), "daemons, servers, contexts");
    Ok(())
}

#[test]
fn a_folder_has_one_daemon_and_can_be_reused_after_its_death() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("hopper")?, |stage| {
        let mut first = stage.daemon("", &[])?;
        assert!(stage.daemon("", &[]).is_err(), "a second daemon");
        assert_eq!(first.command("get_server_list")?, "", "the first one continues");
        first.child.0.kill()?;
        first.child.0.wait()?;
        let second = stage.daemon("", &[])?;
        assert_eq!(stage.play(&["open; spin 1; close"])?, [["0", "0", "0"]]);
        assert!(second.server()? > 0);
        Ok(())
    })
}

#[test]
fn invalid_commands_and_settings_are_answered() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("hopper")?, |stage| {
        let env = [
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "80"),
            ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=6G"),
        ];
        let daemon = stage.daemon("", &env)?;
        for (command, answer) in [
            ("get_default_active_thread_percentage", "80.0\n"),
            ("set_default_active_thread_percentage 50", "50.0\n"),
            ("get_default_active_thread_percentage", "50.0\n"),
            ("get_default_device_pinned_mem_limit 0", "6G\n"),
            ("set_default_device_pinned_mem_limit 0 0", ""),
            ("get_default_device_pinned_mem_limit 0", ""),
            ("set_default_device_pinned_mem_limit 0 2G", ""),
            ("set_default_client_priority 1", ""),
            ("ps", "Server not found\n"),
            ("nonsense", "Unknown command \"nonsense\"\n"),
            ("lspart", "Unknown command \"lspart\"\n"),
            ("start_server -uid 0", ""),
        ] {
            assert_eq!(daemon.command(command)?, answer, "{command}");
        }
        let server = daemon.server()?;
        for (command, answer) in [
            (format!("get_active_thread_percentage {server}"), "50.0\n"),
            (format!("set_active_thread_percentage {server} 25"), "25.0\n"),
            (format!("get_device_pinned_mem_limit {server} 0"), "2G\n"),
            (format!("set_device_pinned_mem_limit {server} 0 1G"), ""),
            (format!("get_device_pinned_mem_limit {server} 0"), "1G\n"),
            (format!("terminate_client {server} 999999"), "Invalid process 999999!\n1\n"),
        ] {
            assert_eq!(daemon.command(&command)?, answer, "{command}");
        }
        let output = stage.play(&["open; sms; fill"])?;
        assert_eq!(output, [["0", "32", "512"]], "a quarter in pairs, 1 GiB less the context");
        for command in [
            "frobnicate",
            "get_client_list",
            "get_client_list 1",
            "set_default_active_thread_percentage 150",
            "set_default_device_pinned_mem_limit 0 lots",
            "set_default_client_priority 2",
            "terminate_client 1 2",
            "sm_partition add GPU-1 2",
            "lspart",
            "quit -t soon",
        ] {
            let answer = daemon.command(command)?;
            assert_eq!(answer.lines().count(), 1, "{command}: {answer}");
            assert!(answer.chars().any(char::is_alphabetic), "{command}: {answer}");
        }
        Ok(())
    })
}

#[test]
fn static_partitions_are_exclusive_and_contain_sm_faults() -> Result<(), Error> {
    let machine = quiet("hopper")?;
    scene(test_name!(), Virtual, &machine, |stage| {
        let daemon = stage.daemon("-S", &[])?;
        let gpu = machine.uuid();
        let add = |chunks: u32| daemon.command(&format!("sm_partition add {gpu} {chunks}"));
        assert_eq!(add(4)?, format!("Partition {gpu}/1 created\n"));
        assert_eq!(add(8)?, format!("Partition {gpu}/2 created\n"));
        let refused = add(5)?;
        assert!(refused.contains("INVALID_RESOURCE_CONFIGURATION"), "16 chunks: {refused}");
        let (one, two) = (format!("{gpu}/1"), format!("{gpu}/2"));
        let env = |name| [("CUDA_MPS_SM_PARTITION", name)];
        let (first, second) = (env(one.as_str()), env(two.as_str()));
        let mut clients = stage.clients(&[
            (
                &first,
                "open; sms; placement 132; hold; at 3000; trap; at 4000; close; open; \
                      at 5000; store; close",
            ),
            (
                &second,
                "open; sms; placement 132; hold; at 3500; spin 1; at 4990; begin 40; sync; \
                       close",
            ),
            (&[], "open"),
        ])?;
        let output = clients.remove(2).finish()?;
        assert_eq!(output, ["805"], "a client without a partition");
        assert_eq!(clients[0].until_hold()?, ["0", "32", "0 31 32"]);
        assert_eq!(clients[1].until_hold()?, ["0", "64", "32 95 64"]);
        let table = daemon.command("lspart")?;
        let rows: Vec<Vec<&str>> =
            table.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        let row = |cells: [&'static str; 6]| -> Vec<&str> {
            std::iter::once(&gpu[..12]).chain(cells).collect()
        };
        let want = [
            row(["-", "4", "12", "32", "96", "-"]),
            row(["1", "-", "4", "-", "32", "Yes"]),
            row(["2", "-", "8", "-", "64", "Yes"]),
        ];
        assert_eq!(rows, want, "{table}");
        // Both are announced before either continues; otherwise the first one runs without the
        // other.
        for client in &clients {
            client.announce(stage)?;
        }
        for client in &mut clients {
            client.resume()?;
        }
        let second = clients.remove(1).finish()?;
        let first = clients.remove(0).finish()?;
        assert_eq!(first, ["719", "0", "0", "700", "0"]);
        assert_eq!(second, ["0", "0", "700", "0"], "the memory fault reaches it");
        Ok(())
    })
}

#[test]
fn daemon_and_partitions_depend_on_the_driver() -> Result<(), Error> {
    let (mut none, mut plain) = (quiet("hopper")?, quiet("hopper")?);
    none.mps = None;
    plain.mps.as_mut().ok_or("no MPS")?.chunk_sms = 0;
    scenes(test_name!(), Virtual, &[none, plain], |stage, index| {
        assert!(stage.daemon("-S", &[]).is_err());
        assert_eq!(stage.daemon("", &[]).is_ok(), index == 1);
        Ok(())
    })
}

//! MPS protocol version 3: named servers, limits of namespaces and of control groups.

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;
use gpubench_virtual_gpu_model::state::State;
use gpubench_virtual_gpu_vendor_tools::nvidia_smi;

use crate::mps_support::{Error, quiet, scene, scenes};

#[test]
fn namespaces_of_named_servers_have_their_own_limits() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("-p 3", &[])?;
        let refused = |line: &str| -> Result<(), Error> {
            let reply = daemon.command(line)?;
            assert!(reply.starts_with("Error: "), "{line}: {reply}");
            Ok(())
        };
        for line in [
            "get_server_list",
            "server create No",
            "server create one --colour=red",
            "namespace create a --server=one",
            "client terminate 1",
        ] {
            refused(line)?;
        }
        assert_eq!(daemon.command("server create one --allowed-devices=GPU-other")?, "");
        assert_eq!(daemon.command("server list --format=csv,noheader")?, "", "it has exited");
        assert_eq!(daemon.command("server create one --allowed-devices=0")?, "");
        refused("server create one")?;
        assert_eq!(daemon.command("namespace create small --server=one")?, "");
        let set = "namespace set small --server=one --pinned-memory-limit=2G";
        assert_eq!(daemon.command(set)?, "");
        let listed = daemon.command("server list --format=csv,noheader")?;
        assert!(listed.contains(",Ready,"), "{listed}");
        // The context uses 512 MiB of the 2 GiB; clients of the default namespace have no limit.
        let folder = |name: &str| stage.pipe().join(name).display().to_string();
        let (small, whole) = (folder("one/small"), folder("one"));
        let small: &[_] = &[("CUDA_MPS_PIPE_DIRECTORY", small.as_str())];
        let whole: &[_] = &[("CUDA_MPS_PIPE_DIRECTORY", whole.as_str())];
        let script = "open; alloc 1500; alloc 100; hold";
        let mut clients = stage.clients(&[(small, script), (whole, script)])?;
        assert_eq!(clients[0].until_hold()?, ["0", "0", "2"]);
        assert_eq!(clients[1].until_hold()?, ["0", "0", "0"]);
        let pids: Vec<u32> = clients.iter().map(|client| client.pid()).collect();
        let listed = daemon.command("client list --all --format=csv,noheader")?;
        for (pid, namespace) in [(pids[0], "small"), (pids[1], "default")] {
            let line = format!("{pid},one,0,{namespace},");
            assert!(listed.lines().any(|known| known.starts_with(&line)), "{listed}");
        }
        refused("server delete one")?;
        assert_eq!(daemon.command(&format!("client terminate {}", pids[0]))?, "");
        for mut client in clients {
            client.go(stage)?;
            client.finish()?;
        }
        let csv = daemon.command("server list --format=csv")?;
        assert!(csv.starts_with("name,uid,pid,status,pipe-directory,"), "{csv}");
        assert_eq!(daemon.command("server delete one --force")?, "");
        assert_eq!(daemon.command("server list --format=csv,noheader")?, "");
        assert_eq!(daemon.command("quit")?, "");
        daemon.finish()?;
        stage.device.reap_dead_processes()?;
        let live = |state: &State| {
            state.servers.live().iter().any(|s| s.live)
                || state.daemons.live().iter().any(|d| d.live)
        };
        assert!(!stage.device.shared().read(|state| live(state))?);
        Ok(())
    })
}

#[test]
fn clients_that_keep_their_contexts_have_the_limit_of_their_namespace() -> Result<(), Error> {
    scene(test_name!(), Virtual, &quiet("hopper")?, |stage| {
        let daemon = stage.daemon("-p 3", &[])?;
        for line in [
            "feature disable context-share",
            "server create one",
            "namespace create small --server=one",
            "namespace set small --server=one --pinned-memory-limit=2G",
        ] {
            assert_eq!(daemon.command(line)?, "", "{line}");
        }
        let described = daemon.command("feature describe --format=csv,noheader")?;
        let expected =
            "memacct,enabled (default),memacct,-\ncontext-share,disabled,context-share,-\n";
        assert_eq!(described, expected);
        assert!(daemon.command("feature enable speed")?.starts_with("Error: "));
        let small = stage.pipe().join("one/small").display().to_string();
        let small: &[_] = &[("CUDA_MPS_PIPE_DIRECTORY", small.as_str())];
        let script = "open; alloc 1500; alloc 100; hold";
        // Its context uses 512 MiB of the 2 GiB, and NVML lists it as a context of its own.
        for limit in ["2", "0"] {
            let mut clients = stage.clients(&[(small, script)])?;
            assert_eq!(clients[0].until_hold()?, ["0", "0", limit]);
            let joined = |state: &State| {
                let mut live = state.contexts.live().iter().filter(|context| context.live);
                live.any(gpubench_virtual_gpu_model::mps::is_client)
            };
            assert!(!stage.device.shared().read(|state| joined(state))?);
            for mut client in clients {
                client.go(stage)?;
                client.finish()?;
            }
            assert_eq!(daemon.command("feature disable memacct")?, "");
        }
        assert_eq!(daemon.command("quit")?, "");
        daemon.finish()
    })
}

#[test]
fn limits_have_the_documented_holes_unless_the_machine_file_closes_them() -> Result<(), Error> {
    let open = quiet("hopper")?;
    let mut closed = open.clone();
    let mps = closed.mps.as_mut().ok_or("hopper has MPS")?;
    mps.unseen_gpu_drops_limits = false;
    mps.server_bounds_namespaces = true;
    mps.unknown_gpu_refused = true;
    scenes(test_name!(), Virtual, &[open, closed], |stage, index| {
        let daemon = stage.daemon("-p 3", &[])?;
        for line in [
            "server create one",
            "server set one --pinned-memory-limit=2G",
            "namespace create free --server=one",
            "namespace create more --server=one",
            "namespace set more --server=one --pinned-memory-limit=4G",
        ] {
            assert_eq!(daemon.command(line)?, "", "{line}");
        }
        let answer = daemon.command("server create two --allowed-devices=GPU-other")?;
        assert_eq!(answer.is_empty(), index == 0, "{answer}");
        // Each context uses 512 MiB; the server's limit is 2 GiB.
        let script = "open; alloc 1400; alloc 500; hold";
        for (namespace, limits) in [("", "63=1G"), ("free", ""), ("more", "")] {
            let folder = stage.pipe().join("one").join(namespace).display().to_string();
            let variables: &[_] = &[
                ("CUDA_MPS_PIPE_DIRECTORY", folder.as_str()),
                ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limits),
            ];
            let mut clients = stage.clients(&[(variables, script)])?;
            let answers = clients[0].until_hold()?;
            assert_eq!(answers, ["0", "0", ["0", "2"][index]], "{namespace} {limits}");
            for mut client in clients {
                client.go(stage)?;
                client.finish()?;
            }
        }
        assert_eq!(daemon.command("quit")?, "");
        daemon.finish()
    })
}

#[test]
fn processes_of_a_control_group_share_its_limit() -> Result<(), Error> {
    let plain = quiet("hopper")?;
    let mut loose = plain.clone();
    loose.defects.mps_memory_overshoot = 0.25;
    scenes(test_name!(), Virtual, &[plain, loose], |stage, index| {
        let group = stage.device.dir().join("cgroup").join("mine");
        std::fs::create_dir(&group)?;
        let args = ["memory-limits", "--hard-limit", "4096", "-n"].map(Into::into);
        let args: Vec<std::ffi::OsString> =
            args.into_iter().chain([group.clone().into_os_string()]).collect();
        assert_eq!(nvidia_smi::answer(&args, &stage.device)?.code, 0);
        let script = "hold; open; hold; fill; total; hold";
        let mut clients = stage.clients(&[(&[], script), (&[], script), (&[], script)])?;
        let members: Vec<String> = clients[..2].iter().map(|c| c.pid().to_string()).collect();
        for client in &mut clients {
            client.until_hold()?;
        }
        std::fs::write(group.join("cgroup.procs"), members.join("\n"))?;
        for client in &mut clients {
            client.go(stage)?;
        }
        for client in &mut clients {
            assert_eq!(client.until_hold()?, ["0"]);
        }
        // Two contexts of 512 MiB leave 3 GiB, or a quarter of the limit more, to the first client
        // that allocates; an outsider has no limit.
        let fits = [3072, 4096][index];
        let mut got = Vec::new();
        for client in &mut clients {
            client.go(stage)?;
            got.push(client.until_hold()?);
        }
        for mut client in clients {
            client.go(stage)?;
            client.finish()?;
        }
        let mib = |reply: &[String]| reply[0].parse::<u64>();
        assert_eq!(mib(&got[0])? + mib(&got[1])?, fits, "{got:?}");
        assert!(mib(&got[2])? > 60_000, "{got:?}");
        assert_eq!((&*got[0][1], &*got[1][1]), ("4096", "4096"), "{got:?}");
        assert_ne!(got[2][1], "4096");
        Ok(())
    })
}

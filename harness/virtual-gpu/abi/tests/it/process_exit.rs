//! A process that ends or stops while its kernel runs, under time-slicing and under MPS: its work
//! is removed with one Xid and one line in the kernel log (XID catalogue, 45), and its neighbour
//! continues, on a machine whose table spares it. Virtual time.

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;

use crate::mps_support::{Error, scene, signal, sparing};

/// Plays the scene without and with MPS.
fn both(
    test: &str,
    play: impl Fn(&crate::mps_support::Stage) -> Result<(), Error>,
) -> Result<(), Error> {
    scene(test, Virtual, &sparing("hopper")?, |stage| {
        play(stage)?;
        let _daemon = stage.daemon("", &[])?;
        play(stage)
    })
}

#[test]
fn a_process_that_ends_with_work_queued_leaves_one_xid() -> Result<(), Error> {
    both(test_name!(), |stage| {
        for end in ["die", "leave"] {
            let before = stage.kernel_log()?.len();
            let now_ms = stage.device.shared().read(|state| state.now_ns)? / 1_000_000;
            let at = |ms: u64| format!("at {}", now_ms + ms);
            // 10 ms into a kernel of 40 ms; the neighbour works before and after.
            let ends = format!("open; {}; begin 40; {}; {end}", at(500), at(510));
            let stays = format!("open; spin 1; {}; spin 1; alloc 2; close", at(700));
            let mut clients = stage.clients(&[(&[], &stays), (&[], &ends)])?;
            let gone = clients.remove(1);
            let pid = gone.pid();
            let status = gone.ends()?;
            assert_eq!(status.code(), (end == "leave").then_some(0), "{end}");
            assert_eq!(clients.remove(0).finish()?, ["0"; 5], "{end}");
            let lines = stage.kernel_log()?.split_off(before);
            let removed = format!("): 45, pid={pid}, name=");
            assert!(lines.len() == 1 && lines[0].contains(&removed), "{end}: {lines:?}");
        }
        Ok(())
    })
}

#[test]
fn a_stopped_process_resumes_its_kernel() -> Result<(), Error> {
    both(test_name!(), |stage| {
        let before = stage.kernel_log()?.len();
        let mut clients = stage.clients(&[
            (&[], "open; begin 40; hold; sync; close"),
            (&[], "open; hold; spin 100; close"),
        ])?;
        let mut stopped = clients.remove(0);
        let mut other = clients.remove(0);
        assert_eq!(stopped.until_hold()?, ["0", "0"]);
        assert_eq!(other.until_hold()?, ["0"]);
        signal("STOP", stopped.pid())?;
        other.go(stage)?;
        assert_eq!(other.finish()?, ["0", "0"]);
        signal("CONT", stopped.pid())?;
        stopped.go(stage)?;
        assert_eq!(stopped.finish()?, ["0", "0"]);
        assert_eq!(stage.kernel_log()?.len(), before, "no Xid");
        Ok(())
    })
}

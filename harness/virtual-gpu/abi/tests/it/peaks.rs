//! Every built-in machine reaches the rates of its file without neighbours: the harness's kernels
//! reach the bandwidth of DRAM and the rate of the single-precision pipes, and copies that of the
//! link, each way.

use gpubench_virtual_gpu_driver::session::TimeMode::Virtual;
use gpubench_virtual_gpu_model::machine::{BUILT_IN, Machine};

use crate::mps_support::{Error, quiet, scenes};

/// Threads of a block, as in the harness.
const THREADS: u32 = 256;

/// Arguments of the client: blocks that fill every SM, and a buffer that streams from DRAM, eight
/// times the size of L2 or a sixteenth of the memory (like the sizes of the kernels).
fn script(machine: &Machine) -> String {
    let blocks = machine.gpu.sm_count * (machine.gpu.max_threads_per_sm / THREADS);
    let wanted_mib = machine.memory.l2_kib * 8 / 1024;
    let window_mib = wanted_mib.min(machine.memory.total_mib / 16);
    format!("open; peaks {blocks} {THREADS} {window_mib}")
}

#[test]
fn every_machine_reaches_its_own_peaks() -> Result<(), Error> {
    let machines: Vec<Machine> =
        BUILT_IN.iter().map(|(name, _)| quiet(name)).collect::<Result<_, _>>()?;
    scenes(test_name!(), Virtual, &machines, |stage, index| {
        let machine = &machines[index];
        let output = stage.play(&[&script(machine)])?;
        let figures: Vec<f64> = output[0]
            .last()
            .ok_or("no output")?
            .split(' ')
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        // The part of the clock that the power limit leaves to arithmetic on every SM.
        let power = &machine.power;
        let held = power.pipes_w.map_or(1.0, |w| ((power.cap_w - power.idle_w) / w).min(1.0));
        let clocks_per_ns = held * f64::from(machine.gpu.sm_clock_mhz) / 1000.0;
        let lanes = f64::from(machine.gpu.sm_count * machine.gpu.fp32_lanes_per_clock);
        let stated = [
            ("copies in DRAM", machine.memory.dram_gb_per_s),
            ("multiply-adds", 2.0 * lanes * clocks_per_ns),
            ("copies to the device", machine.pcie.to_device_gb_per_s),
            ("copies to the host", machine.pcie.to_host_gb_per_s),
        ];
        assert_eq!(figures.len(), stated.len(), "{figures:?}");
        for ((what, max), found) in stated.into_iter().zip(figures) {
            let share = found / max;
            // A sample of blocks extrapolates to the others within two percent.
            assert!(
                (0.9..=1.02).contains(&share),
                "{}: {what} at {found:.1} of {max:.1} units a nanosecond",
                machine.name
            );
        }
        Ok(())
    })
}

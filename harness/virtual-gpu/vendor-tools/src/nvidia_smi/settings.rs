//! `nvidia-smi -c`, `-mig` and `-r`: compute mode, MIG mode and reset, which gpubench names as
//! remedies.

use super::{Answer, INVALID_ARGUMENT, NO_PERMISSION, NOT_SUPPORTED, OTHER, options, refusal};
use gpubench_virtual_gpu_driver::device::{Device, DeviceError};
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;
use gpubench_virtual_gpu_model::mig;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    Compute(ComputeMode),
    Mig(bool),
    Reset,
}

const MODES: [(&str, ComputeMode); 3] = [
    ("DEFAULT", ComputeMode::Default),
    ("PROHIBITED", ComputeMode::Prohibited),
    ("EXCLUSIVE_PROCESS", ComputeMode::ExclusiveProcess),
];

/// Parses the arguments into a request and a device.
pub(super) fn parse<'a>(args: &[&'a str]) -> Result<(Setting, Option<&'a str>), Answer> {
    let (request, id) = options::parse(args, |name, options| match name {
        "-c" | "--compute-mode" => {
            let mode = mode_of(options.value()?);
            mode.map(Setting::Compute).ok_or_else(|| options.wrong())
        }
        "-mig" | "--multi-instance-gpu" => match options.value()? {
            "0" | "DISABLED" => Ok(Setting::Mig(false)),
            "1" | "ENABLED" => Ok(Setting::Mig(true)),
            _ => Err(options.wrong()),
        },
        "-r" | "--gpu-reset" => Ok(Setting::Reset),
        _ => Err(refusal(NOT_SUPPORTED, super::NOT_HERE)),
    })?;
    let missing = || refusal(INVALID_ARGUMENT, "nothing to set");
    Ok((request.ok_or_else(missing)?, id))
}

fn mode_of(text: &str) -> Option<ComputeMode> {
    let numbered = text.parse().ok().and_then(ComputeMode::of_number);
    let named =
        MODES.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, mode)| *mode);
    numbered.or(named)
}

pub(super) fn answer(setting: Setting, device: &Device) -> Result<Answer, DeviceError> {
    if matches!(setting, Setting::Mig(_)) && device.machine().mig.is_none() {
        return Ok(refusal(NOT_SUPPORTED, "MIG mode: Not Supported"));
    }
    if !device.session().privileged {
        return Ok(refusal(NO_PERMISSION, "Insufficient Permissions"));
    }
    // Dead processes must not count as users.
    device.reap_dead_processes()?;
    let uuid = device.machine().uuid();
    let done =
        |text: String| Answer { text: format!("{text} for GPU {uuid}\nAll done.\n"), code: 0 };
    match setting {
        Setting::Compute(mode) => {
            let divided = device.transact(|state, _| {
                if !state.mig.current {
                    state.compute_mode = mode;
                }
                state.mig.current
            })?;
            if divided {
                return Ok(refusal(NOT_SUPPORTED, "Compute mode: Not Supported"));
            }
            Ok(done(format!("Set compute mode to {mode:?}")))
        }
        Setting::Mig(on) => {
            let activation =
                device.transact(|state, _| mig::request_mode(state, device.machine(), on))?;
            let word = if on { "enable" } else { "disable" };
            Ok(done(match activation {
                mig::Activation::Done => format!("MIG mode: {word}d"),
                mig::Activation::InUse => {
                    format!(
                        "Warning: MIG mode is in pending {word} state: In use by another client"
                    )
                }
                mig::Activation::ResetRequired => {
                    format!("Warning: MIG mode is in pending {word} state: GPU requires reset")
                }
            }))
        }
        Setting::Reset => {
            let reset = device.transact(|state, _| mig::reset(state, device.machine()))?;
            Ok(match reset {
                Ok(()) => done("Successfully reset".to_owned()),
                Err(error) => refusal(OTHER, &format!("GPU {uuid} cannot be reset: {error}")),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::on;
    use gpubench_virtual_gpu_model::compute_mode::ComputeMode;
    use gpubench_virtual_gpu_model::machine::Machine;
    use gpubench_virtual_gpu_model::state::Context;

    type Error = Box<dyn std::error::Error>;

    #[test]
    fn a_pending_mode_applies_after_a_reset_of_an_idle_device() -> Result<(), Error> {
        let machine = Machine::load("a100-80")?;
        on(&machine, true, |run, device| {
            let mode = || device.shared().read(|s| (s.mig.current, s.mig.pending));
            let answer = run("-mig 1")?;
            assert_eq!(answer.code, 0);
            assert!(answer.text.contains("pending enable"), "{}", answer.text);
            assert_eq!(mode()?, (false, true));
            let slot = device.transact(|state, _| {
                let row = state.contexts.claim(|c| !c.live);
                if let Some(row) = row {
                    state.contexts.rows[row] = Context { live: true, ..Context::default() };
                }
                row
            })?;
            assert_eq!(run("-r")?.code, 255, "it is in use");
            assert_eq!(mode()?, (false, true));
            device.transact(|state, _| {
                if let Some(row) = slot {
                    state.contexts.rows[row].live = false;
                }
            })?;
            assert_eq!(run("--gpu-reset -i 0")?.code, 0);
            assert_eq!(mode()?, (true, true));
            assert_eq!(run("-c 3")?.code, 3, "no compute mode under MIG");
            Ok(())
        })
    }

    #[test]
    fn a_compute_mode_is_set_by_name_or_number_with_permission() -> Result<(), Error> {
        let machine = Machine::load("turing")?;
        on(&machine, true, |run, device| {
            let mode = || device.shared().read(|state| state.compute_mode);
            for (line, code, want) in [
                ("-c EXCLUSIVE_PROCESS", 0, ComputeMode::ExclusiveProcess),
                ("-c 2", 0, ComputeMode::Prohibited),
                ("-c 1", 2, ComputeMode::Prohibited),
                ("-c", 2, ComputeMode::Prohibited),
                ("--compute-mode=default", 0, ComputeMode::Default),
                ("-mig 1", 3, ComputeMode::Default),
                ("-pm 1", 3, ComputeMode::Default),
            ] {
                assert_eq!(run(line)?.code, code, "{line}");
                assert_eq!(mode()?, want, "{line}");
            }
            Ok(())
        })?;
        on(&machine, false, |run, _| {
            assert_eq!(run("-c 3")?.code, 4);
            Ok(())
        })
    }
}

//! The flags that `matrix --resume` refuses, because the folder of the run decides what they set.

use super::matrix::Args;
use crate::error::ExpectedError;

/// What `--profile` has without the flag.
const DEFAULT_PROFILE: &str = "default";

/// Refuses flags that would change the run.
///
/// # Errors
/// When one is given.
pub(super) fn check(args: &Args) -> Result<(), ExpectedError> {
    let Some((name, _)) = given(args).into_iter().find(|(_, is_given)| *is_given) else {
        return Ok(());
    };
    Err(ExpectedError::Usage {
        problem: format!(
            "--resume goes on with the run of its folder, which {name} would change (accepted \
             beside it: --device, --sign-key, --strict, --full, --color)"
        ),
        remedy: None,
    })
}

fn given(args: &Args) -> Vec<(&'static str, bool)> {
    let profile = &args.profile;
    let mut flags = vec![
        ("--out", args.out.out.is_some()),
        ("--profile", profile.profile != DEFAULT_PROFILE),
        ("--seed", profile.seed.is_some()),
        ("--rotation", profile.rotation.is_some()),
        ("--mechanism", !profile.mechanism.is_empty()),
        ("--axis", !profile.axis.is_empty()),
        ("--victim-cmd", profile.victim_cmd.is_some()),
        ("--victim-reports", profile.victim_reports.is_some()),
        ("--victim-ready", profile.victim_ready.is_some()),
        ("--allow-reconfigure", profile.allow_reconfigure),
        ("--no-reconfigure", profile.no_reconfigure),
        ("--hami-lib", profile.hami_lib.is_some()),
        ("--calibration", args.calibration.is_some()),
        ("--recalibrate", args.recalibrate),
        ("--label", !args.label.is_empty()),
    ];
    flags.extend(args.after_cells.given());
    flags
}

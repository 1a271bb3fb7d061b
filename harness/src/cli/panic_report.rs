//! A panic is reported in one line with its source location, and never as exit code 101.

use std::io::Write;
use std::panic::{PanicHookInfo, UnwindSafe, catch_unwind};

use gpubench_record::ExitCode;

/// Makes every later panic print its one line on stderr.
pub fn install() {
    std::panic::set_hook(Box::new(|info| {
        // A closed stderr is no error.
        let _ = writeln!(std::io::stderr(), "{}", report(info));
    }));
}

/// Runs `work`; a panic becomes the documented exit code, after the hook has printed it.
pub fn guard(work: impl FnOnce() -> u8 + UnwindSafe) -> u8 {
    catch_unwind(work).unwrap_or(ExitCode::Internal.code())
}

fn report(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let what = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    let place = info
        .location()
        .map_or_else(String::new, |place| format!(" at {place}"));
    line(&what, &place)
}

fn line(what: &str, place: &str) -> String {
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let version = env!("CARGO_PKG_VERSION");
    format!("internal error: {what}{place} (gpubench {version}); please report this")
}

#[cfg(test)]
mod tests {
    use super::{guard, line};

    #[test]
    fn a_panic_ends_with_exit_code_one() {
        assert_eq!(guard(|| 7), 7);
        assert_eq!(guard(|| std::panic::panic_any("on purpose")), 1);
    }

    #[test]
    fn a_long_message_becomes_one_line() {
        let text = line("left != right\n  left: 1\n right: 2", " at src/x.rs:3:5");
        assert!(!text.contains('\n'));
        assert!(text.starts_with("internal error: left != right left: 1 right: 2 at src/x.rs:3:5"));
        assert!(text.ends_with("please report this"));
    }
}

//! A panic is reported in one line with its source location, and ends with exit code 1.

use std::io::Write;
use std::panic::{PanicHookInfo, UnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use gpubench_record::ExitCode;

/// Whether a panic was left to the code that catches it.
static UNSAID: AtomicBool = AtomicBool::new(false);

/// Installs the hook that prints a panic as one line on stderr.
pub fn install() {
    std::panic::set_hook(Box::new(|info| {
        if is_of_a_decoder(info) {
            UNSAID.store(true, Ordering::Relaxed);
            return;
        }
        // A closed stderr is not an error.
        let _ = writeln!(std::io::stderr(), "{}", report(info));
    }));
}

/// Runs `work`. After a panic the exit code is that of an internal error.
pub fn guard(work: impl FnOnce() -> u8 + UnwindSafe) -> u8 {
    catch_unwind(work).unwrap_or_else(|_| {
        if UNSAID.load(Ordering::Relaxed) {
            let text = line("the Parquet library panicked", "");
            let _ = writeln!(std::io::stderr(), "{text}");
        }
        ExitCode::Internal.code()
    })
}

/// Whether the decoder of a foreign file panicked. It is caught, and becomes the error of that
/// file.
fn is_of_a_decoder(info: &PanicHookInfo<'_>) -> bool {
    let file = info.location().map_or("", |location| location.file());
    file.contains("/polars") && file.contains("parquet")
}

fn report(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let what = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    let location = info.location().map_or_else(String::new, |location| format!(" at {location}"));
    line(&what, &location)
}

fn line(what: &str, location: &str) -> String {
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let version = env!("CARGO_PKG_VERSION");
    format!("internal error: {what}{location} (gpubench {version}); please report this")
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

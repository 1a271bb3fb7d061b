//! Settings: the environment variables of HAMi-core, read once.

use std::path::PathBuf;
use std::sync::OnceLock;

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Memory limit in bytes; 0 for none.
    pub memory_limit: u64,
    /// SM limit in percent; 0 for none.
    pub sm_limit: u32,
    /// The limiter is on regardless of the shared region.
    pub force: bool,
    /// The limiter is off regardless of the shared region.
    pub disabled: bool,
    pub cache: PathBuf,
    /// 0 to 4.
    pub log_level: u32,
    /// Planted: relative excess that the memory limit allows.
    pub overshoot: f64,
    /// Planted: relative excess that the limiter allows.
    pub sm_error: f64,
    /// Planted: documented bypasses that this library patches.
    pub patched: Vec<String>,
    /// Planted: wait for the lock of a process that was killed while it allocated.
    pub lock_stale_ms: u64,
    /// Planted: time from the first launch during which the limiter lets every launch through.
    pub limiter_start_ms: u64,
    pub limiter_paced: bool,
    /// Planted: the process is not on the device's list.
    pub hidden: bool,
}

pub fn get() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let mut settings = read(&|name| std::env::var(name).ok());
        let planted = planted();
        settings.overshoot = number_in(&planted, "hami_memory_overshoot");
        settings.sm_error = number_in(&planted, "hami_sm_error");
        settings.patched = list_in(&planted, "hami_closed");
        settings.lock_stale_ms = number_in(&planted, "hami_lock_stale_ms") as u64;
        settings.limiter_start_ms = number_in(&planted, "hami_limiter_start_ms") as u64;
        let is_set = |key: &str| {
            let wanted = format!("{key} = true");
            planted.lines().any(|line| line == wanted)
        };
        settings.limiter_paced = is_set("hami_limiter_paced");
        settings.hidden = is_set("hami_pid_hidden");
        settings
    })
}

fn read(variable: &dyn Fn(&str) -> Option<String>) -> Settings {
    let of_device = |name: &str| variable(&format!("{name}_0")).or_else(|| variable(name));
    let policy = variable("GPU_CORE_UTILIZATION_POLICY").unwrap_or_default();
    let percent = of_device("CUDA_DEVICE_SM_LIMIT").and_then(|text| text.trim().parse().ok());
    Settings {
        memory_limit: of_device("CUDA_DEVICE_MEMORY_LIMIT").map_or(0, |text| bytes(&text)),
        // 0, and 100 or more, mean no limit.
        sm_limit: percent.filter(|p| *p < 100).unwrap_or(0),
        force: policy.eq_ignore_ascii_case("force"),
        disabled: policy.eq_ignore_ascii_case("disable"),
        cache: variable("CUDA_DEVICE_MEMORY_SHARED_CACHE")
            .unwrap_or_else(|| "/tmp/cudevshr.cache".to_owned())
            .into(),
        log_level: variable("LIBCUDA_LOG_LEVEL").and_then(|l| l.parse().ok()).unwrap_or(1),
        overshoot: 0.0,
        sm_error: 0.0,
        lock_stale_ms: 0,
        limiter_start_ms: 0,
        limiter_paced: false,
        patched: Vec::new(),
        hidden: false,
    }
}

impl Settings {
    /// The share of time for a limit in percent, with the planted excess.
    pub fn share_of_time(&self, limit: u32) -> f64 {
        f64::from(limit) * (1.0 + self.sm_error)
    }

    pub fn is_patched(&self, bypass: &str) -> bool {
        self.patched.iter().any(|patched| patched == bypass)
    }
}

/// A size with a unit; 0 for an invalid one.
fn bytes(text: &str) -> u64 {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        _ => (text, 0),
    };
    let number: Option<u64> = digits.trim().parse().ok();
    number.and_then(|n| n.checked_shl(shift)).unwrap_or(0)
}

/// The machine file of the virtual GPU, empty on another machine. This library parses it itself,
/// since it must not link the virtual GPU, which exports the same symbols.
fn planted() -> String {
    let file = std::env::var_os("GPUBENCH_VIRTUAL_GPU").map(PathBuf::from);
    let text = file.and_then(|dir| std::fs::read_to_string(dir.join("machine.toml")).ok());
    text.unwrap_or_default()
}

/// One number of a machine file; 0 if absent.
fn number_in(text: &str, key: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
}

/// A list of names in a machine file, on one line; empty if absent.
fn list_in(text: &str, key: &str) -> Vec<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    let names = line.unwrap_or_default().trim().trim_matches(['[', ']']);
    names
        .split(',')
        .map(|name| name.trim().trim_matches('"').to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{list_in, number_in, read};

    fn with(pairs: &[(&str, &str)]) -> super::Settings {
        read(&|name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn limits_have_units_and_a_limit_of_the_device_wins() {
        let settings = with(&[
            ("CUDA_DEVICE_MEMORY_LIMIT", "4G"),
            ("CUDA_DEVICE_MEMORY_LIMIT_0", "512M"),
            ("CUDA_DEVICE_SM_LIMIT", "30"),
            ("GPU_CORE_UTILIZATION_POLICY", "FORCE"),
        ]);
        assert_eq!((settings.memory_limit, settings.sm_limit), (512 << 20, 30));
        assert!(settings.force && !settings.disabled);
    }

    #[test]
    fn patched_bypasses_are_read_from_one_line() {
        let text = "[defects]\nhami_closed = [\"arrays\", \"graphs\"]\n";
        assert_eq!(list_in(text, "hami_closed"), ["arrays", "graphs"]);
        assert!(list_in("hami_closed = []", "hami_closed").is_empty());
        assert!(list_in("", "hami_closed").is_empty());
    }

    #[test]
    fn zero_and_100_percent_mean_no_limit() {
        let settings = with(&[("CUDA_DEVICE_SM_LIMIT", "100"), ("CUDA_DEVICE_MEMORY_LIMIT", "x")]);
        assert_eq!((settings.memory_limit, settings.sm_limit), (0, 0));
    }

    #[test]
    fn a_planted_number_is_read() {
        let text = "[defects]\nhami_memory_overshoot = 0.25\nhami_lock_stale_ms = 40\n";
        assert_eq!(number_in(text, "hami_memory_overshoot"), 0.25);
        assert_eq!(number_in(text, "hami_lock_stale_ms"), 40.0);
        assert_eq!(number_in("[defects]\n", "hami_memory_overshoot"), 0.0);
    }
}

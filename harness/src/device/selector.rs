//! The value of `--device`. Whether the device exists is checked later.

use std::fmt;
use std::str::FromStr;

/// The requested device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceSelector {
    /// The virtual GPU with a machine name or the path of a machine file; `None` is the default.
    Virtual(Option<String>),
    /// Index in the order of the driver.
    Index(u32),
    /// `GPU-...`
    Gpu(String),
    /// `MIG-...`
    Mig(String),
}

/// One entry of a `--device` that takes several devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChoice {
    /// Every GPU of this host.
    All,
    One(DeviceSelector),
}

/// The value of [`DeviceChoice::All`].
const ALL: &str = "all";

/// A value that `--device` does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSelector {
    /// It names no device.
    #[error(
        "\"{0}\" is not a device (accepted: virtual, virtual:MACHINE, an index, GPU-UUID or \
         MIG-UUID)"
    )]
    Unknown(String),
    /// It names several.
    #[error("\"{0}\" names several devices (accepted: one; only matrix takes all, or a list)")]
    Several(String),
}

impl FromStr for DeviceChoice {
    type Err = NoSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            ALL => Ok(Self::All),
            one => one.parse().map(Self::One),
        }
    }
}

impl DeviceSelector {
    /// Whether it selects the virtual GPU.
    #[must_use]
    pub const fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }
}

impl FromStr for DeviceSelector {
    type Err = NoSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || NoSelector::Unknown(text.to_owned());
        // A path may have a comma, so what follows it decides.
        let mut rest = text.split(',').skip(1);
        if text == ALL || rest.any(|one| one.parse::<DeviceChoice>().is_ok()) {
            return Err(NoSelector::Several(text.to_owned()));
        }
        if text == "virtual" {
            return Ok(Self::Virtual(None));
        }
        if let Some(machine) = text.strip_prefix("virtual:") {
            let named = !machine.is_empty();
            return named.then(|| Self::Virtual(Some(machine.to_owned()))).ok_or_else(refused);
        }
        if is_uuid_of("GPU-", text) {
            return Ok(Self::Gpu(text.to_owned()));
        }
        // Older drivers name instances MIG-GPU-<uuid>/<gpu instance>/<compute instance>.
        if is_uuid_of("MIG-", text) || text.starts_with("MIG-GPU-") {
            return Ok(Self::Mig(text.to_owned()));
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let index = if digits { text.parse().ok() } else { None };
        index.map(Self::Index).ok_or_else(refused)
    }
}

/// Whether the text has the form of NVML's UUIDs, and so is the name of a file and no path.
#[must_use]
pub fn is_uuid(text: &str) -> bool {
    is_uuid_of("GPU-", text) || is_uuid_of("MIG-", text)
}

/// Whether hexadecimal digits and hyphens follow the prefix.
fn is_uuid_of(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        rest.len() >= 8 && rest.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    })
}

impl fmt::Display for DeviceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Virtual(None) => f.write_str("virtual"),
            Self::Virtual(Some(machine)) => write!(f, "virtual:{machine}"),
            Self::Index(index) => write!(f, "{index}"),
            Self::Gpu(uuid) | Self::Mig(uuid) => f.write_str(uuid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DeviceChoice::{self, All, One};
    use super::DeviceSelector::{self, Gpu, Index, Mig, Virtual};

    #[test]
    fn an_accepted_value_is_printed_as_it_was_given() {
        let gpu = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
        let mig = "MIG-7d1e9a58-5d5c-5b3a-9f0e-0a8d3e3a0b11";
        for (text, expected) in [
            ("virtual", Virtual(None)),
            ("virtual:turing", Virtual(Some("turing".to_owned()))),
            ("virtual:./my.toml", Virtual(Some("./my.toml".to_owned()))),
            ("0", Index(0)),
            ("12", Index(12)),
            (gpu, Gpu(gpu.to_owned())),
            (mig, Mig(mig.to_owned())),
            ("MIG-GPU-8932f937/1/0", Mig("MIG-GPU-8932f937/1/0".to_owned())),
        ] {
            assert_eq!(text.parse::<DeviceSelector>().as_ref(), Ok(&expected));
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn a_refusal_names_the_accepted_forms() {
        for text in ["", "virtual:", "-1", "+1", "gpu0", "GPU-", "GPU-xyz12345", "99999999999"] {
            let refused = text.parse::<DeviceSelector>().map_err(|error| error.to_string());
            assert!(refused.is_err_and(|line| line.contains("virtual:MACHINE")), "{text}");
        }
    }

    #[test]
    fn several_devices_are_named_as_such_where_one_is_accepted() {
        assert_eq!("all".parse(), Ok(All));
        assert_eq!("3".parse(), Ok(One(Index(3))));
        assert!("".parse::<DeviceChoice>().is_err());
        for text in ["all", "0,2", "virtual:turing,virtual", "0,all"] {
            let refused = text.parse::<DeviceSelector>();
            let refused = refused.map_err(|error| error.to_string());
            assert!(refused.is_err_and(|line| line.contains("names several devices")), "{text}");
        }
        let path = Virtual(Some("./a,b.toml".to_owned()));
        assert_eq!("virtual:./a,b.toml".parse(), Ok(path));
    }
}

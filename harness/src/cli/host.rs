//! What the verbs need to know about this host before anything runs.

use super::bench::devices_error;
use super::common::{DeviceFlag, ProfileFlags};
use crate::catalogue::{self, EXCLUSIVE, MechanismEntry};
use crate::device::nvml;
use crate::error::ExpectedError;
use crate::plan::{Availability, Capabilities, Capability, VariantRef};
use crate::profile::Profile;
use crate::profile::options::Slice;

/// What each mechanism of the catalogue could do on the device that was asked for.
///
/// # Errors
/// When no virtual GPU is asked for and NVML, which every driver brings, lists no device.
pub fn capabilities(
    device: &DeviceFlag,
    flags: &ProfileFlags,
    profile: &Profile,
) -> Result<Capabilities, ExpectedError> {
    let is_virtual = device
        .device
        .as_ref()
        .is_some_and(super::device::DeviceSelector::is_virtual);
    if !is_virtual {
        // The library is asked rather than the kernel's nodes: it answers wherever a driver can be
        // used, containers and virtual GPUs in the environment included.
        nvml::devices().map_err(devices_error)?;
    }
    let of_entry = |entry| capability(entry, flags, profile);
    Ok(Capabilities {
        mechanisms: catalogue::CATALOGUE.iter().map(of_entry).collect(),
    })
}

fn capability(entry: &MechanismEntry, flags: &ProfileFlags, profile: &Profile) -> Capability {
    let availability = if entry.reconfigures && !flags.allow_reconfigure {
        Availability::Waived {
            reason: "it would change device settings".to_owned(),
            remedy: Some("--allow-reconfigure".to_owned()),
        }
    } else {
        available(entry, profile)
    };
    let variant = variant(entry, profile);
    Capability {
        unprotected: (entry.name != EXCLUSIVE).then(time_slicing_by_default),
        variant,
        group: entry.group.to_owned(),
        availability,
        host_changes: Vec::new(),
        needs_native: true,
    }
}

fn variant(entry: &MechanismEntry, profile: &Profile) -> VariantRef {
    if entry.name == TIME_SLICING {
        let slice = profile.time_slicing.slice.as_str();
        return VariantRef::new(TIME_SLICING, format!("{TIME_SLICING}[slice={slice}]"));
    }
    VariantRef::new(entry.name, entry.name)
}

const TIME_SLICING: &str = "time-slicing";

/// What sharing without any protection is: turns of the length that nobody chose.
fn time_slicing_by_default() -> VariantRef {
    VariantRef::new(TIME_SLICING, format!("{TIME_SLICING}[slice=default]"))
}

fn available(entry: &MechanismEntry, profile: &Profile) -> Availability {
    if entry.name == TIME_SLICING && profile.time_slicing.slice != Slice::Default {
        return Availability::Waived {
            reason: "this version does not set the length of a turn".to_owned(),
            remedy: Some("[time-slicing] slice = \"default\"".to_owned()),
        };
    }
    Availability::Available
}

/// Hash over the PTX of every kernel, in the order of their catalogue.
#[must_use]
pub fn ptx_hash() -> String {
    let mut hasher = blake3::Hasher::new();
    for kernel in gpubench_kernels::CATALOGUE {
        for part in [kernel.name, kernel.ptx] {
            // Lengths keep a text from moving across the border of two kernels unseen.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::super::common::{DeviceFlag, ProfileFlags};
    use super::super::device::DeviceSelector;
    use super::{capabilities, ptx_hash};
    use crate::plan::Availability;
    use crate::profile::options::Slice;
    use crate::profile::{Overrides, Profile, load};

    #[test]
    fn an_unsupported_slice_is_waived_with_its_remedy() -> Result<(), crate::error::ExpectedError> {
        let device = DeviceFlag {
            device: Some(DeviceSelector::Virtual(None)),
        };
        let mut profile = load("smoke", &Overrides::default())?;
        let of = |profile: &Profile| capabilities(&device, &ProfileFlags::default(), profile);
        let runnable = |found: &crate::plan::Capabilities| {
            found
                .mechanisms
                .iter()
                .filter(|m| m.availability == Availability::Available)
                .count()
        };
        assert_eq!(runnable(&of(&profile)?), 2);
        profile.time_slicing.slice = Slice::Short;
        let found = of(&profile)?;
        assert_eq!(runnable(&found), 1);
        assert_eq!(
            found.mechanisms[1].variant.variant,
            "time-slicing[slice=short]"
        );
        Ok(())
    }

    #[test]
    fn the_kernels_have_a_hash() {
        assert_eq!(ptx_hash().len(), 64);
        assert_eq!(ptx_hash(), ptx_hash());
    }
}

//! Time slices by the names of nvidia-smi.

/// Names of the time slices of `nvidia-smi compute-policy --set-timeslice`, by number.
pub(super) const SLICES: [&str; 4] = ["default", "short", "medium", "long"];

/// What the user can do if nvidia-smi does not set a time slice, by its exit status (nvidia-smi(1),
/// "Return value": 3 is not supported, 4 is no permission).
pub(super) const fn slice_remedy(status: i32) -> Option<&'static str> {
    match status {
        3 => Some("[time-slicing] slice = \"default\""),
        4 => Some("run as root"),
        _ => None,
    }
}

/// The name of the time slice in the output of `nvidia-smi compute-policy -l`.
pub(super) fn slice_of(policies: &str) -> Option<&'static str> {
    policies.lines().find_map(|line| {
        let line = line.to_ascii_lowercase();
        let (_, after) = line.split_once("timeslice")?;
        let mut words = after.split(|c: char| !c.is_ascii_alphanumeric());
        words.find_map(|word| SLICES.into_iter().find(|known| *known == word))
    })
}

#[cfg(test)]
mod tests {
    use super::slice_of;

    #[test]
    fn reads_the_time_slice_from_its_own_line() {
        // As nvidia-smi 580.159.04 prints it.
        let table = "+-------------------------------------+\n\
                     | GPU compute policies:               |\n\
                     | GPU     Name           Value        |\n\
                     |=====================================|\n\
                     |   0   Timeslice       Default       |\n\
                     +-------------------------------------+\n";
        assert_eq!(slice_of(table), Some("default"));
        let table = "| GPU compute policies |\n| Name | Value |\n| Timeslice | Short |\n";
        assert_eq!(slice_of(table), Some("short"));
        assert_eq!(slice_of("GPU 0: Timeslice: DEFAULT"), Some("default"));
        assert_eq!(slice_of("| Default | \n| Timeslice | N/A |"), None);
        assert_eq!(slice_of(""), None);
    }
}

//! Parses the driver's line about an Xid: `NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 31,
//! pid=77, name=train, what happened` (open-gpu-kernel-modules 595.45.04, `kernel_rc.c`,
//! `krcReportXid`). Instances appear under MIG only. Process and name may be missing or
//! `<unknown>`.

use gpubench_record::XidLine;

/// The mark of every such line. `SXid` lines come from NVSwitches and are not parsed.
const MARK: &str = "NVRM: Xid (";

/// PCI address: domain, bus, device.
pub type PciAddress = (u32, u32, u32);

/// The device and its Xid; `None` for any other line.
pub fn read(line: &str) -> Option<(PciAddress, XidLine)> {
    let (head, rest) = line.split_once(MARK)?;
    let (slot, rest) = rest.split_once("): ")?;
    let mut words = slot.split_whitespace();
    let address = address(words.next()?)?;
    let mut instances = [None; 2];
    for word in words {
        let (name, id) = word.split_once(':')?;
        let at = ["GPU-I", "GPU-CI"].iter().position(|known| *known == name)?;
        instances[at] = Some(id.parse().ok()?);
    }
    let (number, rest) = rest.split_once(',').unwrap_or((rest, ""));
    let (pid, rest) = field(rest.trim_start(), "pid=");
    let (process, text) = field(rest, "name=");
    Some((
        address,
        XidLine {
            number: number.trim().parse().ok()?,
            pid: pid.and_then(|pid| pid.parse().ok()),
            process: process.map(str::to_owned),
            gpu_instance: instances[0],
            compute_instance: instances[1],
            ours: None,
            t_ns: stamp_ns(head),
            text: text.trim().to_owned(),
        },
    ))
}

/// The stamp `[seconds.microseconds]` before the driver's text; `None` for a line without one.
fn stamp_ns(head: &str) -> Option<u64> {
    let (_, stamp) = head.split_once('[')?;
    let (stamp, _) = stamp.split_once(']')?;
    let (seconds, micros) = stamp.trim().split_once('.')?;
    let micros: u64 = (micros.len() == 6).then(|| micros.parse().ok())??;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(micros)?.checked_mul(1_000)
}

/// `PCI:0000:01:00`, or without `PCI:` as drivers before 2016 wrote it.
fn address(text: &str) -> Option<PciAddress> {
    let mut parts = text.strip_prefix("PCI:").unwrap_or(text).split(':');
    let mut next = || u32::from_str_radix(parts.next()?, 16).ok();
    let address = (next()?, next()?, next()?);
    parts.next().is_none().then_some(address)
}

/// An optional value at the beginning, and the rest. `<unknown>` is `None`.
fn field<'a>(text: &'a str, key: &str) -> (Option<&'a str>, &'a str) {
    let Some(value) = text.strip_prefix(key) else {
        return (None, text);
    };
    let (value, rest) = value.split_once(", ").unwrap_or((value, ""));
    let value = value.trim().trim_matches('\'');
    let is_known = !value.is_empty() && value != "<unknown>";
    (is_known.then_some(value), rest)
}

#[cfg(test)]
mod tests {
    use super::{XidLine, read};

    /// A fault of the process `train`.
    fn plain() -> XidLine {
        XidLine {
            number: 31,
            pid: Some(77),
            process: Some("train".to_owned()),
            text: "MMU Fault: ENGINE GPC0".to_owned(),
            ..XidLine::default()
        }
    }

    /// A fault without a process.
    fn lost() -> XidLine {
        XidLine { number: 79, text: "GPU has fallen off the bus.".to_owned(), ..XidLine::default() }
    }

    #[test]
    fn reads_every_form_of_the_line() {
        for (line, expected) in [
            ("NVRM: Xid (PCI:0000:01:00): 31, pid=77, name=train, MMU Fault: ENGINE GPC0", plain()),
            (
                "[ 12.000345] NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 31, pid=77, \
                 name=train, MMU Fault: ENGINE GPC0\n",
                XidLine {
                    gpu_instance: Some(5),
                    compute_instance: Some(2),
                    t_ns: Some(12_000_345_000),
                    ..plain()
                },
            ),
            (
                "NVRM: Xid (PCI:0000:01:00 GPU-I:13): 31, pid=77, name=train, \
                 MMU Fault: ENGINE GPC0",
                XidLine { gpu_instance: Some(13), ..plain() },
            ),
            (
                "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen \
                 off the bus.",
                lost(),
            ),
            ("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", lost()),
            ("NVRM: Xid (0000:01:00): 79, GPU has fallen off the bus.", lost()),
            (
                "NVRM: Xid (PCI:0000:01:00): 45, pid=9, name=a b, Ch 00000008, caused by previous \
                 Xid 31",
                XidLine {
                    number: 45,
                    pid: Some(9),
                    process: Some("a b".to_owned()),
                    text: "Ch 00000008, caused by previous Xid 31".to_owned(),
                    ..XidLine::default()
                },
            ),
            (
                "NVRM: Xid (PCI:0000:01:00): 13, pid=9, name=python3",
                XidLine {
                    number: 13,
                    pid: Some(9),
                    process: Some("python3".to_owned()),
                    ..XidLine::default()
                },
            ),
            ("NVRM: Xid (PCI:0000:01:00): 154", XidLine { number: 154, ..XidLine::default() }),
        ] {
            assert_eq!(read(line), Some(((0, 1, 0), expected)), "{line}");
        }
        let far = read("NVRM: Xid (PCI:0009:af:1f): 13, x").map(|(address, _)| address);
        assert_eq!(far, Some((9, 0xaf, 0x1f)), "addresses are hexadecimal");
    }

    #[test]
    fn leaves_out_other_lines() {
        for line in [
            "",
            "NVRM: Xid (",
            "NVRM: Xid (PCI:0000:01:00)",
            "NVRM: Xid (PCI:0000:01:00): ",
            "NVRM: Xid (PCI:0000:01:00): many, pid=7",
            "NVRM: Xid (PCI:0000:01:00): -1, x",
            "NVRM: Xid (PCI:0000:01): 13, x",
            "NVRM: Xid (PCI:0000:01:00:00): 13, x",
            "NVRM: Xid (PCI:zzzz:01:00): 13, x",
            "NVRM: Xid (PCI:0000:01:00 GPU-I:x): 13, x",
            "NVRM: Xid (PCI:0000:01:00 GPU-X:1): 13, x",
            "NVRM: Xid error: xyz",
            "NVRM: GPU at PCI:0000:01:00: GPU-926ecdb0",
            "nvidia-nvswitch3: SXid (PCI:0000:4e:00.0): 12028, Non-fatal, Link 32",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}

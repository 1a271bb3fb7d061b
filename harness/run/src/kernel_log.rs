//! Xids from the kernel's log, with the process and the MIG instance that an NVML event lacks.
//!
//! `/dev/kmsg` returns one record for each read, to processes with the permission; a virtual device
//! has a file of lines. Reads never block.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use gpubench_host::device::monotonic_ns;
use gpubench_record::XidLine;
use rustix::fs::OFlags;

/// Longest record of the kernel's log (linux, `CONSOLE_EXT_LOG_MAX`).
const RECORD_BYTES_MAX: usize = 8192;
/// Maximum of records in one call, so that a fast-growing log does not block a run.
const RECORDS_MAX: u32 = 100_000;
/// `EPIPE`: records were overwritten before they were read (linux, `Documentation/ABI/testing/
/// dev-kmsg`). The next read returns the oldest record that remains.
const OVERWRITTEN: ErrorKind = ErrorKind::BrokenPipe;
/// Inode of the initial process namespace (linux, `PROC_PID_INIT_INO`); the log has its process
/// ids.
const INITIAL_NAMESPACE: u64 = 0xEFFF_FFFC;

/// One log, read from its end at the time of opening.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
    form: Form,
    /// The PCI address of the device; `None` reads the lines of all devices.
    address: Option<PciAddress>,
    /// What is added to its stamps, so that they are on the clock of the run.
    epoch_ns: u64,
    /// The last time that it was read, on the clock of the kernel.
    read_ns: u64,
    /// Whether the log's process ids are those of this process's namespace.
    same_namespace: bool,
    /// Lines of the driver in forms that are not known.
    unknown: Vec<String>,
}

#[derive(Debug)]
enum Form {
    /// A device that gives one record for each read.
    Records,
    /// A growing file, with the offset of the next read.
    Lines(u64),
}

impl KernelLog {
    /// Opens the log at its end. `epoch_ns` is the zero of its stamps on the clock of the run.
    pub fn open(path: &Path, address: Option<PciAddress>, epoch_ns: u64) -> Result<Self, String> {
        let with_path = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut options = File::options();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let mut file = options.open(path).map_err(with_path)?;
        let meta = file.metadata().map_err(with_path)?;
        let end = file.seek(SeekFrom::End(0)).map_err(with_path)?;
        let is_device = meta.file_type().is_char_device();
        Ok(Self {
            file,
            form: if is_device { Form::Records } else { Form::Lines(end) },
            address,
            epoch_ns,
            read_ns: monotonic_ns(),
            same_namespace: !is_device || is_initial_namespace(),
            unknown: Vec::new(),
        })
    }

    /// The Xids of the device that were logged since the last call, in order.
    /// Fails when the log cannot be read any more.
    pub fn drain(&mut self) -> std::io::Result<Vec<XidLine>> {
        let text = match &mut self.form {
            Form::Records => records(&mut self.file)?,
            Form::Lines(at) => lines(&self.file, at)?,
        };
        let now_ns = monotonic_ns();
        let between = std::mem::replace(&mut self.read_ns, now_ns)..=now_ns;
        // The clock of printk is not corrected as CLOCK_MONOTONIC is, and can be seconds off. A
        // record is readable at once, so a stamp before the last reading shows that it is.
        let is_device = matches!(self.form, Form::Records);
        let is_usable = |t_ns: &u64| !is_device || between.contains(t_ns);
        let of_device = |line: &str| {
            let Some((address, mut xid)) = read(line) else {
                self.unknown.extend(line.contains(DRIVER).then(|| line.to_owned()));
                return None;
            };
            let t_ns = xid.t_ns.map(|t_ns| t_ns.saturating_add(self.epoch_ns));
            xid.t_ns = t_ns.filter(is_usable);
            self.address.is_none_or(|own| own == address).then_some(xid)
        };
        Ok(text.lines().filter_map(of_device).collect())
    }

    /// The lines of the driver since the last call that no parser knows.
    pub fn take_unknown(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unknown)
    }

    /// Whether process ids in it can be compared with those of tenants.
    pub const fn has_our_pids(&self) -> bool {
        self.same_namespace
    }
}

fn is_initial_namespace() -> bool {
    let inode = |meta: Metadata| meta.ino() == INITIAL_NAMESPACE;
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(inode)
}

/// Reads one record; `None` at the end.
fn read_record(file: &mut File, buffer: &mut [u8]) -> std::io::Result<Option<usize>> {
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok(None),
            Ok(length) => return Ok(Some(length)),
            Err(error) if error.kind() == OVERWRITTEN => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// The messages of all available records, one a line.
fn records(file: &mut File) -> std::io::Result<String> {
    let mut buffer = [0; RECORD_BYTES_MAX];
    let mut text = String::new();
    for _ in 0..RECORDS_MAX {
        let Some(length) = read_record(file, &mut buffer)? else { break };
        text.push_str(&message(&String::from_utf8_lossy(&buffer[..length])));
        text.push('\n');
    }
    Ok(text)
}

/// The message of a record behind its stamp: its first line after the first semicolon. Lines that
/// begin with a space describe its device. The third number of the head is the stamp in us.
fn message(record: &str) -> String {
    // A record without a head has no stamp, and one without a line no message.
    let (head, message) = record.split_once(';').unwrap_or(("", record));
    let message = message.lines().next().unwrap_or_default();
    let stamp_us = head.split(',').nth(2).and_then(|us| us.parse::<u64>().ok());
    match stamp_us {
        Some(us) => format!("[{:5}.{:06}] {message}", us / 1_000_000, us % 1_000_000),
        None => message.to_owned(),
    }
}

/// The complete lines since the last call.
fn lines(file: &File, at: &mut u64) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    // The next writer cuts off the torn line of a writer that died.
    *at = (*at).min(length);
    let mut bytes = vec![0; usize::try_from(length - *at).unwrap_or(0)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], *at + filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    bytes.truncate(filled);
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    bytes.truncate(whole);
    *at += whole as u64;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

// Parses the driver's line about an Xid: `NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 31,
// pid=77, name=train, what happened` (open-gpu-kernel-modules 595.45.04, `kernel_rc.c`,
// `krcReportXid`). Instances appear under MIG only. Process and name may be missing or
// `<unknown>`.

/// The mark of every such line. `SXid` lines come from NVSwitches and are not parsed.
const MARK: &str = "NVRM: Xid (";

/// What the driver begins its lines with.
const DRIVER: &str = "NVRM: ";

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
    let Some(value) = text.strip_prefix(key) else { return (None, text) };
    let (value, rest) = value.split_once(", ").unwrap_or((value, ""));
    let value = value.trim().trim_matches('\'');
    let is_known = !value.is_empty() && value != "<unknown>";
    (is_known.then_some(value), rest)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    use super::{File, KernelLog, XidLine, message, read, records};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    fn of(number: u32, bus: u32) -> String {
        format!("[    1.000000] NVRM: Xid (PCI:0000:{bus:02x}:00): {number}, pid=7, name=x, y\n")
    }

    #[test]
    fn reads_a_file_from_its_end_in_whole_lines() -> TestResult {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("kernel.log");
        std::fs::write(&path, of(13, 1))?;
        let mut log = KernelLog::open(&path, Some((0, 1, 0)), 5)?;
        assert!(log.has_our_pids());
        let mut writer = std::fs::OpenOptions::new().append(true).open(&path)?;
        let numbers = |log: &mut KernelLog| -> std::io::Result<Vec<u32>> {
            let lines = log.drain()?;
            let stamp = Some(1_000_000_005);
            assert!(lines.iter().all(|line| line.t_ns == stamp), "{lines:?}");
            Ok(lines.iter().map(|line| line.number).collect())
        };
        assert!(numbers(&mut log)?.is_empty(), "logged before the opening");
        let (first, second) = (of(31, 1), of(45, 1));
        let (begin, end) = second.split_at(30);
        writer.write_all(format!("{first}{}[ 2.0] usb 1-1: new\n{begin}", of(79, 2)).as_bytes())?;
        assert_eq!(numbers(&mut log)?, [31], "79 is another device's");
        writer.write_all(end.as_bytes())?;
        assert_eq!(numbers(&mut log)?, [45]);
        // A torn tail is cut off and replaced by a shorter line.
        writer.write_all(&of(94, 1).as_bytes()[..40])?;
        assert!(numbers(&mut log)?.is_empty());
        writer.set_len(
            (of(13, 1) + &first + &of(79, 2) + "[ 2.0] usb 1-1: new\n" + &second).len() as u64,
        )?;
        writer.write_all(of(63, 1).as_bytes())?;
        assert_eq!(numbers(&mut log)?, [63]);
        let mut all = KernelLog::open(&path, None, 5)?;
        writer.write_all((of(1, 1) + &of(2, 9)).as_bytes())?;
        assert_eq!(numbers(&mut all)?, [1, 2], "without an address, every device");
        Ok(())
    }

    /// Datagrams take the place of the kernel's own log, which containers cannot read.
    #[test]
    fn each_read_gives_one_record_and_none_waits() -> TestResult {
        let (kernel, log) = UnixDatagram::pair()?;
        log.set_nonblocking(true)?;
        let mut log = File::from(OwnedFd::from(log));
        assert_eq!(records(&mut log)?, "");
        kernel.send(b"6,1,2,-;first\n SUBSYSTEM=pci\n")?;
        kernel.send(b"6,2,3,-;second\n")?;
        let stamped = "[    0.000002] first\n[    0.000003] second\n";
        assert_eq!(records(&mut log)?, stamped);
        assert_eq!(records(&mut log)?, "");
        // A character device that has nothing ends.
        let mut nothing = KernelLog::open(std::path::Path::new("/dev/null"), None, 0)?;
        assert_eq!(nothing.drain()?, []);
        Ok(())
    }

    #[test]
    fn reads_the_message_of_a_record() {
        for (record, expected) in [
            (
                "6,1234,98765,-;NVRM: Xid (a): 1, b;c\n SUBSYSTEM=pci\n DEVICE=+pci:1\n",
                "[    0.098765] NVRM: Xid (a): 1, b;c",
            ),
            ("6,1,2000003,-;\n", "[    2.000003] "),
            ("no head", "no head"),
            ("", ""),
        ] {
            assert_eq!(message(record), expected);
        }
    }

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

    /// Lines of an H200, and what drivers of other branches print: without a process (535), with a
    /// recovery action (570 and newer; Xid catalog).
    #[test]
    fn lines_of_drivers_are_read_and_unknown_ones_are_kept() -> std::io::Result<()> {
        let facts = "/../../reports/facts/h200_580.159.04/xid.txt";
        let text = std::fs::read_to_string(env!("CARGO_MANIFEST_DIR").to_owned() + facts)?;
        let more = [
            "NVRM: Xid (PCI:0000:01:00): 62, 2027(2d50) 8503f268 00000000",
            "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 \
             (GPU Reset Required)",
        ];
        for line in text.lines().chain(more) {
            assert!(read(line).is_some(), "{line}");
        }
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("kernel.log");
        std::fs::write(&path, "")?;
        let mut log = KernelLog::open(&path, None, 0).map_err(std::io::Error::other)?;
        let odd = "[ 1.0] NVRM: Xid of another form: 13";
        std::fs::write(&path, format!("{odd}\n[ 2.0] usb 1-1: new\n{}\n", more[0]))?;
        assert_eq!(log.drain()?.len(), 1);
        assert_eq!((log.take_unknown(), log.take_unknown()), (vec![odd.to_owned()], vec![]));
        Ok(())
    }
}

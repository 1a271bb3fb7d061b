//! `nvidia-smi` without options: its table in the vendor's form of the driver's branch, as in
//! public logs of the drivers 535.129.03, 550.135, 580.126.09 and 610.43.02.

use super::facts::{LONG_TIME, branch, bus_id, queried, time};
use super::lists::{self, running};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::nvml::Error;
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;

/// What differs in the table between branches of the driver.
struct Form {
    middle: usize,
    /// First character of the line under the versions.
    corner: char,
    /// Whether the line between the tables is of blanks.
    blanks: bool,
    /// Titles of the versions, and the width of the driver's.
    versions: (&'static str, usize, &'static str),
}

impl Form {
    /// That of a driver's version.
    fn of(driver: &str) -> Self {
        let branch = branch(driver);
        let versions = match branch {
            ..550 => ("Driver Version: ", 13, "CUDA Version: "),
            550..610 => ("Driver Version: ", 15, "CUDA Version: "),
            610.. => ("KMD Version: ", 14, "CUDA UMD Version: "),
        };
        Self {
            middle: if branch < 550 { 22 } else { 24 },
            corner: if branch < 580 { '|' } else { '+' },
            blanks: branch < 580,
            versions,
        }
    }

    fn header(&self, version: &str, cuda: &str) -> String {
        let (driver, width, title) = self.versions;
        format!("| NVIDIA-SMI {version:<23}{driver}{version:<width$}{title}{cuda:<9}|\n")
    }
}

/// A text of at most so many characters, with dots for what is cut at its end.
fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 3).chain("...".chars()).collect(),
        false => text.to_owned(),
    }
}

/// A line of three columns.
fn columns(w: usize, first: char, fill: char) -> String {
    let part = |width: usize| fill.to_string().repeat(width);
    let last = if fill == '=' { '|' } else { '+' };
    format!("{first}{}+{}+{}{last}\n", part(41), part(w), part(22))
}

/// The table.
pub(super) fn table(device: &Device) -> Result<String, Error> {
    let machine = device.machine();
    let form = Form::of(&machine.gpu.driver);
    let (w, inner) = (form.middle, form.middle + 65);
    let rule = format!("+{:-<inner$}+\n", "");
    let mut text = format!("{}       \n{rule}", time(LONG_TIME));
    text.push_str(&form.header(&machine.gpu.driver, &machine.gpu.cuda));
    text.push_str(&columns(w, form.corner, '-'));
    let (bus, memory) = (format!("{:<w$}", " Bus-Id"), "Memory-Usage ");
    let bus = format!("{}Disp.A ", &bus[..w - 7]);
    text.push_str(&format!(
        "| GPU  Name                 Persistence-M |{bus}| Volatile Uncorr. ECC |\n\
         | Fan  Temp   Perf          Pwr:Usage/Cap |{memory:>w$}| GPU-Util  Compute M. |\n\
         |{:41}|{:w$}|               MIG M. |\n{}",
        "",
        "",
        columns(w, '|', '=')
    ));
    text.push_str(&device_rows(device, w)?);
    let blanks = if form.blanks { inner + 2 } else { 0 };
    if device.shared().read(|state| state.mig.current)? {
        text.push_str(&format!("{:blanks$}\n{rule}", ""));
        text.push_str(&mig_rows(device, &form)?);
    }
    text.push_str(&format!("{:blanks$}\n{rule}", ""));
    text.push_str(&process_rows(device, w)?);
    text.push_str(&rule);
    Ok(text)
}

fn device_rows(device: &Device, w: usize) -> Result<String, Error> {
    let facts = queried(device)?;
    let of = |name: &str| {
        let found = facts.iter().find(|fact| fact.has_name(name));
        found.and_then(|fact| fact.value.as_deref())
    };
    let whole = |name: &str| of(name).map(|text| text.split('.').next().unwrap_or(text));
    let mut text = String::new();
    // In MIG mode the devices below have the errors.
    let ecc = match of("mig.mode.current") {
        Some("Enabled") => "On",
        _ => of("ecc.errors.uncorrected.volatile.total").unwrap_or("N/A"),
    };
    let name = cut(&device.machine().gpu.product, 27);
    text.push_str(&format!(
        "|   0  {name:<27}    On  |{:>at$} Off |{ecc:>21} |\n",
        bus_id(),
        at = w - 5
    ));
    let celsius = format!("{}C", of("temperature.gpu").unwrap_or("N/A"));
    let watts = |name| whole(name).map_or("N/A".to_owned(), |watts| format!("{watts}W"));
    let (usage, cap) = (watts("power.draw"), watts("power.limit"));
    // The right column of the power is as wide as the newer form of the memory.
    let wide = usize::from(w == 24);
    let power = format!("{usage:>at$} / {cap:>end$} ", at = 17 - wide, end = 4 + wide);
    let mib = |name| of(name).map(|mib| format!("{mib}MiB"));
    let memory = match (mib("memory.used"), mib("memory.total")) {
        (Some(used), Some(total)) => {
            format!("{used:>at$} / {total:>end$} ", at = 10 + wide, end = 8 + wide)
        }
        _ => format!("{:>at$}", "N/A ", at = w),
    };
    let util = of("utilization.gpu").map_or("N/A".to_owned(), |percent| format!("{percent}%"));
    let mode = device.shared().read(|state| state.compute_mode)?;
    let mode = match mode {
        ComputeMode::Default => "Default",
        ComputeMode::Prohibited => "Prohibited",
        ComputeMode::ExclusiveProcess => "E. Process",
    };
    text.push_str(&format!("| N/A{celsius:>6}    P0{power}|{memory}|{util:>8}{mode:>13} |\n"));
    let pending = of("mig.mode.current") != of("mig.mode.pending");
    let mig =
        format!("{}{}", of("mig.mode.current").unwrap_or("N/A"), if pending { "*" } else { "" });
    text.push_str(&format!("|{:41}|{:w$}|{mig:>21} |\n{}", "", "", columns(w, '+', '-')));
    Ok(text)
}

/// The lines of the MIG devices. Sources: 535.183.01 and 550 in public logs of an A30 and of an
/// A100, 580.173.02 in starkdrift/prickle-exporter (h200-mig-20260726, `smi.txt`).
fn mig_rows(device: &Device, form: &Form) -> Result<String, Error> {
    let inner = form.middle + 65;
    let wide = inner - 55;
    let parts = |fill: &str| [18, wide, 11, 23].map(|width| fill.repeat(width)).join("+");
    let [shared, title, engines] = match form.blanks {
        true => ["", "      Shared           ", " CE ENC DEC OFA JPG    "],
        false => ["Shared ", "        Shared         ", " CE ENC  DEC  OFA  JPG "],
    };
    let [memory, window] = ["Memory-Usage ", "BAR1-Usage "].map(|what| format!("{shared}{what}"));
    let rule = format!("+{}+\n", parts("-"));
    let mut text = format!(
        "|{:<inner$}|\n{rule}\
         | GPU  GI  CI  MIG |{memory:>wide$}|        Vol|{title}|\n\
         |      ID  ID  Dev |{window:>wide$}| SM     Unc|{engines}|\n\
         |{:18}|{:wide$}|        ECC|{:23}|\n|{}|\n",
        " MIG devices:",
        "",
        "",
        "",
        parts("=")
    );
    let rows = lists::mig_rows(device)?;
    for row in &rows {
        let of = |name: &str| {
            let found = row.iter().find(|fact| fact.has_name(name));
            found.and_then(|fact| fact.value.as_deref()).unwrap_or("N/A")
        };
        let use_of = |part: &str| {
            let [used, total] = ["used", "total"].map(|end| of(&format!("mig.{part}.{end}")));
            format!("{:>19} / {:>8}", format!("{used}MiB"), format!("{total}MiB"))
        };
        text.push_str(&format!(
            "|{:>3}{:>5}{:>4}{:>4}  |{:<wide$}|{:>3}{:>7} |{:>3}{:>4}{:>5}{:>5}{:>5} |\n\
             |{:18}|{:<wide$}|{:11}|{:23}|\n{rule}",
            0,
            of("mig.gpu_instance"),
            of("mig.compute_instance"),
            of("mig.index"),
            use_of("memory"),
            of("mig.sms"),
            of("mig.uncorrected"),
            of("mig.copy_engines"),
            of("mig.encoders"),
            of("mig.decoders"),
            of("mig.ofa"),
            of("mig.jpeg"),
            "",
            use_of("bar1"),
            "",
            ""
        ));
    }
    if rows.is_empty() {
        text.push_str(&format!("|{:<inner$}|\n+{:-<inner$}+\n", "  No MIG devices found", ""));
    }
    Ok(text)
}

/// The lines of the processes.
fn process_rows(device: &Device, w: usize) -> Result<String, Error> {
    let inner = w + 65;
    let mut text = String::new();
    let pid = if w == 24 { 16 } else { 10 };
    let name = inner - pid - 37;
    text.push_str(&format!("|{:<inner$}|\n", " Processes:"));
    let (title, memory) = ("Process name", "GPU Memory");
    let head = pid + 1;
    text.push_str(&format!("|  GPU   GI   CI{:>head$}   Type   {title:<name$}{memory} |\n", "PID"));
    text.push_str(&format!("|        ID   ID{:>at$}|\n", "Usage      ", at = inner - 15));
    text.push_str(&format!("|{:=<inner$}|\n", ""));
    let running = running(device)?;
    if running.is_empty() {
        text.push_str(&format!("|{:<inner$}|\n", "  No running processes found"));
    }
    for process in running {
        let id = |id: Option<u32>| id.map_or("N/A".to_owned(), |id| id.to_string());
        let (gi, ci) = (id(process.instance.map(|i| i.0)), id(process.instance.map(|i| i.1)));
        let excess = process.name.chars().count().saturating_sub(name - 4);
        let shown = match excess {
            0 => process.name.clone(),
            _ => "...".chars().chain(process.name.chars().skip(excess + 3)).collect(),
        };
        text.push_str(&format!(
            "|    0{gi:>6}{ci:>5}{:>pid$}      C   {shown:<name$}{:>7}MiB |\n",
            process.pid, process.mib
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::tests::on;
    use super::Form;
    use gpubench_virtual_gpu_model::machine::Machine;
    use gpubench_virtual_gpu_model::mig;

    /// The versions in public logs, and the first character of the line below them: google/gvisor
    /// issue 10413 (535), slackr31337/wyoming-piper-gpu pull 20 (550),
    /// bottlerocket-os/bottlerocket-core-kit pull 834 (580), sgl-project/sglang issue 27487 (610).
    const HEADERS: [(&str, &str, char); 4] = [
        ("535.129.03", "535.129.03             Driver Version: 535.129.03   CUDA Version: ", '|'),
        ("550.135", "550.135                Driver Version: 550.135        CUDA Version: ", '|'),
        ("580.126.09", "580.126.09             Driver Version: 580.126.09     CUDA Version: ", '+'),
        ("610.43.02", "610.43.02              KMD Version: 610.43.02     CUDA UMD Version: ", '+'),
    ];

    #[test]
    fn the_table_has_the_form_of_the_driver_s_branch() -> Result<(), Box<dyn std::error::Error>> {
        for (driver, versions, corner) in HEADERS {
            let form = Form::of(driver);
            let line = format!("| NVIDIA-SMI {versions}12.2     |\n");
            assert_eq!(form.header(driver, "12.2"), line);
            assert_eq!(line.len(), form.middle + 68);
            let mut machine = Machine::load("h100-80")?;
            let branch = driver.split('.').next().ok_or("a branch")?;
            machine.gpu.driver = format!("{branch}.virtual");
            machine.gpu.product = "Virtual H100 80GB HBM3".to_owned();
            on(&machine, true, |run, _| {
                let text = run("")?.text;
                let lines: Vec<&str> = text.lines().collect();
                assert!(lines[3].starts_with(corner), "{text}");
                let wide = lines[1].len();
                assert!(lines[1..12].iter().all(|line| line.len() == wide), "{text}");
                assert!(lines[13..].iter().all(|line| line.len() == wide), "{text}");
                let name = lines.iter().find(|line| line.contains("HBM3")).ok_or("a row")?;
                assert!(name.starts_with("|   0  Virtual H100 80GB HBM3         On  |"), "{name}");
                assert!(text.contains(" 700W |"), "{text}");
                assert!(text.contains("|  No running processes found "), "{text}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// An H200 with driver 580.173.02: starkdrift/prickle-exporter, testdata of its GPU collector,
    /// h200-mig-20260726. Ids and the share of the window are ours, and nothing runs.
    const DEVICES: &str = "\
+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
|  0    1   0   0  |               0MiB / 16384MiB    | 16      0 |  1   0    1    0    1 |
|                  |               0MiB / 32768MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
";

    #[test]
    fn the_table_lists_mig_devices() -> Result<(), Box<dyn std::error::Error>> {
        for (name, branch) in [("a100-80", 535), ("a100-80", 550), ("h200", 580), ("h200", 610)] {
            let mut machine = Machine::load(name)?;
            machine.gpu.driver = format!("{branch}.virtual");
            on(&machine, true, |run, device| {
                device.transact(|state, _| mig::set_mode(state, &machine, true))?;
                let text = run("")?.text;
                assert!(text.contains("\n|  No MIG devices found "), "{text}");
                assert!(text.contains("|                   On |\n"), "{text}");
                device.transact(|state, _| {
                    let row = mig::create_instance(state, &machine, 0, Some(4))?;
                    mig::create_engine(state, &machine, row, 1)
                })??;
                let text = run("")?.text;
                assert_eq!(text.contains(DEVICES), branch >= 580, "{text}");
                let lines: Vec<&str> =
                    text.lines().skip(1).filter(|line| !line.is_empty()).collect();
                assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// As 535.104.12 printed it for an H100 in a public log.
    #[test]
    fn an_ordinary_user_sees_mig_devices_and_no_memory_of_the_whole()
    -> Result<(), Box<dyn std::error::Error>> {
        let mut machine = Machine::load("h100-80")?;
        machine.gpu.driver = "535.virtual".to_owned();
        on(&machine, false, |run, device| {
            device.transact(|state, _| {
                mig::set_mode(state, &machine, true);
                let row = mig::create_instance(state, &machine, 0, Some(4))?;
                mig::create_engine(state, &machine, row, 1)
            })??;
            let found = run("")?;
            assert_eq!(found.code, 0, "{}", found.text);
            let cells = " / 700W |                  N/A |     N/A      Default |\n";
            assert!(found.text.contains(cells), "{}", found.text);
            assert!(found.text.contains("|  0    1   0   0  |"), "{}", found.text);
            assert_eq!(run("-q -x")?.code, 0);
            Ok(())
        })
    }
}

//! `nvidia-smi` without options, `-L`, `-q`, `--query-gpu` and `--query-compute-apps`, in the
//! vendor's form of the driver's branch: tables of public logs of the drivers 535.129.03, 550.135,
//! 580.126.09 and 610.43.02.

use std::cell::{Cell, RefCell};

use super::facts::{Fact, LONG_TIME, branch, bus_id, queried, time};
use super::lists::{Running, mig_devices, of_process, running};
use super::{Answer, INVALID_ARGUMENT, invalid, options, refusal, tree};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::nvml::Error;
use gpubench_virtual_gpu_model::compute_mode::ComputeMode;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Table,
    List,
    /// Everything, or these sections; as XML or as text.
    Full {
        xml: bool,
        sections: Vec<String>,
    },
    /// Fields of the device, or of its processes, as CSV.
    Csv(Csv),
}

/// Fields and how they are written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Csv {
    pub fields: String,
    pub of_processes: bool,
    pub format: String,
}

/// A request, and the device that it is for.
type Parsed<'a> = Result<(Request, Option<&'a str>), Answer>;

/// Parses the arguments; none if one of them belongs to another request.
pub(super) fn parse<'a>(args: &[&'a str]) -> Option<Parsed<'a>> {
    let (csv, own) = (RefCell::new(Csv::default()), Cell::new(true));
    // Options of `-q`, which it has in any order.
    let (full, xml, sections) = (Cell::new(false), Cell::new(false), RefCell::new(Vec::new()));
    let parsed = options::parse(args, |name, options| {
        let mut csv = csv.borrow_mut();
        match name {
            "-L" | "--list-gpus" => return Ok(Request::List),
            "-q" | "--query" => full.set(true),
            "-x" | "--xml-format" => xml.set(true),
            "-d" | "--display" => {
                let words = options.value()?.split(',').map(|word| word.trim().to_owned());
                sections.borrow_mut().extend(words);
                if !sections.borrow().iter().all(|word| tree::has_section(word)) {
                    return Err(options.wrong());
                }
            }
            "--format" => csv.format = options.value()?.to_owned(),
            "--query-gpu" | "--query-compute-apps" => {
                csv.of_processes = name != "--query-gpu";
                csv.fields = options.value()?.to_owned();
            }
            _ => {
                own.set(false);
                return Err(options.wrong());
            }
        }
        Ok(Request::Csv(csv.clone()))
    });
    let whole = parsed.and_then(|(request, id)| {
        let sections = sections.into_inner();
        match full.get() {
            true => Ok((Request::Full { xml: xml.get(), sections }, id)),
            false if xml.get() => Err(invalid("-x")),
            false if !sections.is_empty() => Err(invalid("-d")),
            false => Ok((request.unwrap_or(Request::Table), id)),
        }
    });
    own.get().then_some(whole)
}

/// The answer in the vendor's form.
pub(super) fn answer(request: &Request, device: &Device) -> Result<Answer, Error> {
    let text = match request {
        Request::Table => table(device)?,
        Request::List => list(device)?,
        // `-d` has no effect on the XML (`nvidia-smi -h`).
        Request::Full { xml: true, .. } => tree::xml(device)?,
        Request::Full { xml: false, sections } => tree::text(device, sections)?,
        Request::Csv(csv) => return rows(csv, device),
    };
    Ok(Answer { text, code: 0 })
}

/// Product, UUID and MIG devices.
fn list(device: &Device) -> Result<String, Error> {
    let machine = device.machine();
    let mut text = format!("GPU 0: {} (UUID: {})\n", machine.gpu.product, machine.uuid());
    for (index, (size, uuid)) in mig_devices(device)?.iter().enumerate() {
        text.push_str(&format!("  MIG {size:<11} Device {index:>2}: (UUID: {uuid})\n"));
    }
    Ok(text)
}

/// A figure in a cell.
fn value(fact: &Fact, with_unit: bool) -> String {
    let value = if with_unit { fact.with_unit() } else { fact.value.clone() };
    value.unwrap_or_else(|| "[N/A]".to_owned())
}

/// Fields as CSV, one line for the device or for each process.
fn rows(csv: &Csv, device: &Device) -> Result<Answer, Error> {
    let flags: Vec<&str> = csv.format.split(',').map(str::trim).collect();
    if !flags.contains(&"csv") {
        let text = "\"--format=\" switch must be set to \"csv\"";
        return Ok(refusal(INVALID_ARGUMENT, text));
    }
    let units = !flags.contains(&"nounits");
    let known: Vec<Vec<Fact>> = match csv.of_processes {
        false => vec![queried(device)?],
        true => running(device)?.iter().map(|process| of_process(process, device)).collect(),
    };
    // The names of the fields are known without a process, too.
    let empty = Running { pid: 0, name: String::new(), mib: 0, instance: None };
    let names = match known.first() {
        Some(row) => row,
        None => &of_process(&empty, device),
    };
    let mut header = Vec::new();
    for field in csv.fields.split(',').map(str::trim) {
        let Some(fact) = names.iter().find(|fact| fact.has_name(field)) else {
            let text = format!("Field \"{field}\" is not a valid field to query.\n");
            return Ok(refusal(INVALID_ARGUMENT, &text));
        };
        let unit = if fact.unit.is_empty() { String::new() } else { format!(" [{}]", fact.unit) };
        header.push((field, format!("{field}{unit}")));
    }
    let joined = |cells: Vec<String>| cells.join(", ") + "\n";
    let mut text = String::new();
    if !flags.contains(&"noheader") {
        text = joined(header.iter().map(|(_, title)| title.clone()).collect());
    }
    for row in &known {
        let cell = |field: &str| {
            let fact = row.iter().find(|fact| fact.has_name(field));
            fact.map_or_else(String::new, |fact| value(fact, units))
        };
        text.push_str(&joined(header.iter().map(|(field, _)| cell(field)).collect()));
    }
    Ok(Answer { text, code: 0 })
}

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

fn table(device: &Device) -> Result<String, Error> {
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
    let ecc = of("ecc.errors.uncorrected.volatile.total").unwrap_or("N/A");
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
    let mib = |name| format!("{}MiB", of(name).unwrap_or("0"));
    let total = mib("memory.total");
    let memory =
        format!("{:>at$} / {total:>end$} ", mib("memory.used"), at = 10 + wide, end = 8 + wide);
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

    #[test]
    fn queries_print_fields_by_name_and_refuse_others() -> Result<(), Box<dyn std::error::Error>> {
        let machine = Machine::load("h100-80")?;
        on(&machine, true, |run, _| {
            let memory = machine.memory.total_mib;
            for (line, text) in [
                ("-L", format!("GPU 0: Virtual H100 80GB (UUID: {})\n", machine.uuid())),
                (
                    "--query-gpu=index,memory.total,fan.speed --format=csv",
                    format!("index, memory.total [MiB], fan.speed [%]\n0, {memory} MiB, [N/A]\n"),
                ),
                (
                    "--query-gpu=name,memory.total --format=csv,noheader,nounits -i 0",
                    format!("Virtual H100 80GB, {memory}\n"),
                ),
                (
                    "--query-compute-apps=pid,used_memory --format=csv",
                    "pid, used_gpu_memory [MiB]\n".replace("used_gpu_memory", "used_memory"),
                ),
            ] {
                assert_eq!(run(line)?.text, text, "{line}");
            }
            for line in ["--query-gpu=nothing --format=csv", "--query-gpu=name --format=xml"] {
                assert_eq!(run(line)?.code, 2, "{line}");
            }
            let full = run("-q")?.text;
            let line = format!("{:<55}: {memory} MiB\n", "        Total");
            assert!(full.contains(&format!("    FB Memory Usage\n{line}")), "{full}");
            Ok(())
        })
    }
}

//! What `nvidia-smi` shows: its table, `-L`, `-q`, `--query-gpu` and `--query-compute-apps`.

use std::cell::{Cell, RefCell};

use super::facts::{Fact, queried};
use super::lists::{Running, mig_devices, of_process, running};
use super::{Answer, INVALID_ARGUMENT, invalid, options, refusal, table, tree};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::nvml::Error;

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
        Request::Table => table::table(device)?,
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

#[cfg(test)]
mod tests {
    use super::super::tests::on;
    use gpubench_virtual_gpu_model::machine::Machine;

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

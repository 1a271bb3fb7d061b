//! `gpubench doctor` on every machine: its text and its JSON hold the same facts. Every vendor
//! command that gpubench names as a remedy runs on the virtual device.

use std::collections::BTreeSet;
use std::path::Path;

use gpubench_virtual_gpu::machine::BUILT_IN;

use crate::support::{Error, Finished, Lab, TestResult, finish, gpubench};
use serde_json::Value;

/// A JSON value as the text prints it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The reports of `doctor` on one machine, as text and JSON.
struct Reports {
    machine: String,
    /// The cells of each line of the text, which two or more spaces separate.
    rows: Vec<Vec<String>>,
    text: String,
    json: Value,
}

impl Reports {
    fn of(machine: &str) -> Result<Self, Error> {
        let lab = Lab::on(machine)?;
        let device = lab.device();
        // Each run mostly waits for its timers, so both run at the same time.
        let start = |format: &str| {
            let args = ["doctor", "--device", &device, "--format", format];
            // Wide enough for every row.
            lab.gpubench(args).env("COLUMNS", "400").spawn()
        };
        let both = [start("text")?, start("json")?];
        let [text, json] = both.map(|run| -> Result<String, Error> {
            let run = Finished::from(run.wait_with_output()?);
            Ok(run.ended_with(0)?.stdout)
        });
        let (text, json) = (text?, serde_json::from_str(&json?)?);
        let cells = |line: &str| {
            let cells = line.split("  ").map(str::trim);
            let cells = cells.filter(|cell| !cell.is_empty());
            cells.map(str::to_owned).collect()
        };
        Ok(Self {
            machine: machine.to_owned(),
            rows: text.lines().map(cells).collect(),
            text,
            json,
        })
    }

    fn has_row(&self, cells: &[&str]) {
        let found = self.rows.iter().any(|row| row == cells);
        assert!(found, "{}: no row {cells:?} in {}", self.machine, self.text);
    }

    fn has(&self, words: &str) {
        let found = self.text.contains(words);
        assert!(found, "{}: no {words:?} in {}", self.machine, self.text);
    }

    /// The rows of the text whose first cell is this one.
    fn beginning(&self, first: &str) -> Vec<&Vec<String>> {
        let begins = |row: &&Vec<String>| row.first().is_some_and(|cell| cell == first);
        self.rows.iter().filter(begins).collect()
    }

    /// The device, its driver and its state.
    fn device(&self) -> TestResult {
        let device = &self.json["device"];
        for (key, label, unit) in [
            ("kind", "kind", ""),
            ("name", "name", ""),
            ("uuid", "uuid", ""),
            ("driver", "driver", ""),
            ("cuda", "CUDA", ""),
            ("compute_capability", "compute capability", ""),
            ("sm_count", "SMs", ""),
            ("memory_mib", "memory", " MiB"),
            ("l2_kib", "L2", " KiB"),
        ] {
            let value = plain(&device[key]);
            assert!(!matches!(&*value, "null" | "" | "0"), "{}: {key}", self.machine);
            self.has_row(&[label, &format!("{value}{unit}")]);
        }
        let facts = device["facts"].as_object().ok_or("no facts")?;
        for expected in ["mig_mode", "compute_mode", "max_sm_clock_mhz", "max_memory_clock_mhz"] {
            assert!(facts.contains_key(expected), "{}: {facts:?}", self.machine);
        }
        for (name, fact) in facts {
            self.has_row(&[name, &plain(fact)]);
        }
        let mig = ["hopper", "b200", "h200", "h100-80", "a100-80"].contains(&&*self.machine);
        let state = if mig { "off" } else { "not supported" };
        assert_eq!(facts["mig_mode"], state, "{}", self.machine);
        Ok(())
    }

    /// Every mechanism of the catalogue with its availability and remedy.
    fn mechanisms(&self) -> TestResult {
        let all = self.json["mechanisms"].as_array().ok_or("no mechanisms")?;
        let name = |one: &Value| plain(&one["variant"]["mechanism"]);
        let names: Vec<String> = all.iter().map(name).collect();
        assert_eq!(names, gpubench_catalogue::mechanism::names(), "{}", self.machine);
        let variants: Vec<_> = all.iter().map(|one| plain(&one["variant"]["variant"])).collect();
        let labels = gpubench_show::Labels::of(variants.iter().map(String::as_str));
        for one in all {
            let found = &one["availability"];
            let verdict = match &*plain(&found["availability"]) {
                "waived" => format!("waived: {}", plain(&found["reason"])),
                verdict => verdict.to_owned(),
            };
            let remedy = found["remedy"].as_str().unwrap_or("-");
            let variant = plain(&one["variant"]["variant"]);
            self.has_row(&[&labels.get(&variant), &verdict, remedy]);
        }
        Ok(())
    }

    /// Whether the user is root, and how late the host's timers are. The figures of the two reports
    /// come from two self-tests and differ.
    fn user_and_timer(&self) -> TestResult {
        use std::os::unix::fs::MetadataExt;
        let root = std::fs::metadata("/proc/self")?.uid() == 0;
        assert_eq!(self.json["root"], root);
        let user = if root { "root\n" } else { "not root: " };
        self.has(&format!("\nuser: {user}"));
        let tested = self.json["timer_lateness_at_1_khz"].as_array();
        for one in tested.filter(|all| !all.is_empty()).ok_or("no timer")? {
            let class = plain(&one["scheduling"]);
            // A class that this user may not use has a reason in place of figures.
            let label = format!("class {class}");
            if let Some(reason) = one["reason"].as_str() {
                self.has(&format!("\n{class}: {reason}"));
                continue;
            }
            let figures = ["p50_ns", "p99_ns", "p999_ns", "max_ns", "wakes"];
            for figure in figures {
                assert!(one[figure].as_u64().is_some(), "{class}: no {figure}: {one}");
            }
            let [row] = self.beginning(&label)[..] else {
                return Err(format!("{class} does not have exactly one row: {}", self.text).into());
            };
            assert_eq!(row.len(), 1 + figures.len(), "{row:?}");
            let us = |cell: &String| {
                let figure = cell.strip_suffix(" us");
                figure.is_some_and(|figure| figure.parse::<f64>().is_ok())
            };
            assert!(row[1..5].iter().all(us), "{row:?}");
            assert_eq!(row[5], plain(&one["wakes"]), "{row:?}");
        }
        Ok(())
    }

    /// The SM clock under load and the smallest detectable effect. Both are measured in virtual
    /// time, so they are equal in both reports.
    fn clocks_and_effect(&self) -> TestResult {
        let clocks = &self.json["clocks"];
        let mhz = |value: &Value| value.as_f64().map(|mhz| format!("{mhz:.0} MHz of"));
        let max_mhz = mhz(&clocks["sm_mhz"]["most"]).ok_or("no clock")?;
        self.has(&format!("SM clock under full load: {max_mhz}"));
        self.has(&plain(&clocks["text"]));
        // A power limit and a lock both hold a clock at one value.
        let is_held = ["t4", "l4", "a10"].contains(&&*self.machine);
        let verdicts: &[&str] = if is_held { &["unknown"] } else { &["greatest", "lower"] };
        assert!(verdicts.contains(&&*plain(&clocks["verdict"])), "{clocks}");
        assert!(!is_held || clocks["reasons"][0] == "sw power cap", "{clocks}");
        let effect = &self.json["detectable_effect"];
        let ratio = effect["mde80_ratio"].as_f64().ok_or("no effect")?;
        assert!(ratio > 0.0, "{effect}");
        let (blocks, pairs) = (plain(&effect["blocks"]), plain(&effect["pairs"]));
        self.has(&format!(
            "smallest detectable effect: {:.2} % of a rate with the {blocks} blocks",
            ratio * 100.0
        ));
        self.has(&format!(
            "as {pairs} pairs of equal 150 ms loops of {} do",
            plain(&effect["victim"])
        ));
        Ok(())
    }
}

fn text_and_json_agree(machine: &str) -> TestResult {
    let reports = Reports::of(machine)?;
    reports.device()?;
    reports.mechanisms()?;
    reports.user_and_timer()?;
    reports.clocks_and_effect()
}

#[test]
fn text_and_json_agree_on_every_machine() -> TestResult {
    std::thread::scope(|scope| {
        let start =
            |(machine, _): &'static (&str, &str)| scope.spawn(|| text_and_json_agree(machine));
        let runs: Vec<_> = BUILT_IN.iter().map(start).collect();
        for run in runs {
            run.join().map_err(|_| "a report is wrong; the message is above")??;
        }
        Ok(())
    })
}

fn commands_in(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    for line in code {
        // Every second part of a line lies between quotation marks.
        for literal in line.split('"').skip(1).step_by(2) {
            for name in ["nvidia-smi", "nvidia-cuda-mps-control"] {
                let parts = literal.match_indices(name).map(|(at, _)| &literal[at..]);
                for part in parts.filter(|part| part.starts_with(&format!("{name} -"))) {
                    let end = part.find([',', ';', '(', ')', '`']).unwrap_or(part.len());
                    found.insert(part[..end].trim().to_owned());
                }
            }
        }
    }
    found
}

fn sources(folder: &Path, all: &mut String) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, all)?;
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            all.push_str(&std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

#[test]
fn every_command_of_a_remedy_runs_on_the_virtual_device() -> TestResult {
    let mut source = String::new();
    for room in ["src", "host/src", "run/src"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(room), &mut source)?;
    }
    let commands = commands_in(&source);
    for known in ["nvidia-smi -c DEFAULT", "nvidia-smi -mig 0", "nvidia-smi --gpu-reset"] {
        assert!(commands.contains(known), "{known}: {commands:?}");
    }
    // Remedies name the device with `-i`.
    let of_one = commands.iter().filter(|command| command.starts_with("nvidia-smi"));
    let of_one: Vec<String> = of_one.map(|command| format!("{command} -i 0")).collect();
    for command in commands.iter().chain(&of_one) {
        let exec = ["virtual-gpu", "exec", "--machine", "hopper", "--", "sh", "-c", command];
        let output = finish(gpubench(exec))?;
        assert_eq!(output.code, Some(0), "{command}: {}", output.text());
    }
    // `nvidia-smi` without arguments lists no processes on a virtual device.
    assert!(!source.contains("nvidia-smi lists"), "a text refers to a process list");
    Ok(())
}

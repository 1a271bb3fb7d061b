//! Texts: profiles, machine files, scenarios, demands, events, messages of tenants, PTX.

use std::path::Path;
use std::sync::Arc;

use gpubench::error::ExpectedError;
use gpubench::profile::{self, Overrides};
use gpubench_predict::pack::Demand;
use gpubench_predict::simulate::Scenario;
use gpubench_record::wire::from_line;
use gpubench_record::{FromTenant, ToTenant};
use gpubench_reports::store::parse_events;
use gpubench_virtual_gpu::machine::{BUILT_IN, Machine};
use gpubench_virtual_gpu_ptx::{Program, parse};

use crate::edit::input;
use crate::is_one_line;

const PROFILES: [&[u8]; 3] = [
    include_bytes!("../../../profiles/smoke.toml"),
    include_bytes!("../../../profiles/saas-hostile.toml"),
    include_bytes!("../../../profiles/weekly.toml"),
];
const SCENARIOS: [&[u8]; 1] = [include_bytes!("samples/scenario.toml")];
const DEMANDS: [&[u8]; 1] = [include_bytes!("samples/demand.toml")];
const EVENTS: [&[u8]; 1] = [include_bytes!("samples/events.jsonl")];
const WIRE: [&[u8]; 1] = [include_bytes!("samples/wire.jsonl")];
const PTX: [&[u8]; 2] = [
    include_bytes!("../../../kernels/ptx/pattern_fill.ptx"),
    include_bytes!("../../virtual-gpu/ptx/tests/support/forms.ptx"),
];

fn text(bytes: &[u8], samples: &[&[u8]]) -> String {
    String::from_utf8_lossy(&input(bytes, samples)).into_owned()
}

#[test]
fn profile() {
    bolero::check!(name = "profile").for_each(|bytes: &[u8]| {
        let text = text(bytes, &PROFILES);
        if let Err(error) = profile::parse("f.toml", &text, &Overrides::default()) {
            is_one_line(&ExpectedError::from(error).to_string());
        }
    });
}

#[test]
fn machine_file() {
    let machines: Vec<&[u8]> = BUILT_IN.iter().map(|(_, text)| text.as_bytes()).collect();
    bolero::check!(name = "machine_file").for_each(|bytes: &[u8]| {
        match Machine::parse("f.toml", &text(bytes, &machines)) {
            Ok(machine) => {
                let _ = (machine.rules(), machine.uuid(), machine.cuda_version());
                let _ = (machine.planted(), machine.noise_lines());
                let _ = (machine.mps_server_bytes(), machine.shared_opt_in_bytes());
                for profile in machine.mig.iter().flat_map(|mig| &mig.profile) {
                    let mig = machine.mig.as_ref().expect("it has profiles");
                    let _ = machine.profile_sms(mig, profile);
                    let _ = machine.profile_memory_mib(mig, profile);
                }
            }
            Err(error) => is_one_line(&error.to_string()),
        }
    });
}

#[test]
fn scenario() {
    bolero::check!(name = "scenario").for_each(|bytes: &[u8]| {
        let read = Scenario::from_toml(&text(bytes, &SCENARIOS));
        if let Err(error) = read.and_then(|scenario| scenario.check()) {
            is_one_line(&error.to_string());
        }
    });
}

#[test]
fn demand() {
    bolero::check!(name = "demand").for_each(|bytes: &[u8]| {
        let read = Demand::from_toml(&text(bytes, &DEMANDS));
        if let Err(error) = read.and_then(|demand| demand.check()) {
            is_one_line(&error.to_string());
        }
    });
}

#[test]
fn event_lines() {
    bolero::check!(name = "event_lines").for_each(|bytes: &[u8]| {
        if let Err(error) = parse_events(Path::new("f.jsonl"), &input(bytes, &EVENTS)) {
            is_one_line(&error.to_string());
        }
    });
}

#[test]
fn wire_lines() {
    bolero::check!(name = "wire_lines").for_each(|bytes: &[u8]| {
        for line in text(bytes, &WIRE).split_inclusive('\n') {
            let read = [
                from_line::<ToTenant>(line).map(|_| ()),
                from_line::<FromTenant>(line).map(|_| ()),
            ];
            for error in read.into_iter().filter_map(Result::err) {
                is_one_line(&gpubench_record::on_one_line(&error.to_string()));
            }
        }
    });
}

#[test]
fn ptx() {
    bolero::check!(name = "ptx").for_each(|bytes: &[u8]| match parse(&text(bytes, &PTX)) {
        Ok(module) => {
            let addresses = vec![1 << 40; module.symbols.len()];
            let _ = Program::bind(Arc::new(module), addresses);
        }
        Err(error) => is_one_line(&error.to_string()),
    });
}

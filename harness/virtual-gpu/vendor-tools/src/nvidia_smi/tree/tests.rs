//! The tree as text and as XML, against what drivers printed.

use std::collections::BTreeSet;

use super::super::tests::{facts, on};
use super::{Known, escaped, lines};
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::mig;
use gpubench_virtual_gpu_model::state::Context;

type Error = Box<dyn std::error::Error>;

/// Paths of tags below the device, of a document with a tag or a text on each line, with the
/// text of each.
fn paths(document: &str) -> Result<Vec<(String, String)>, Error> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for line in document.lines().skip(2).map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(tag) = line.strip_prefix("</") {
            let last: String = open.pop().ok_or("nothing is open")?;
            assert_eq!(format!("{last}>"), tag);
            continue;
        }
        let Some(rest) = line.strip_prefix('<') else { continue };
        let (head, after) = rest.split_once('>').ok_or("a tag ends")?;
        let tag = head.split(' ').next().unwrap_or(head);
        open.push(tag.to_owned());
        let text = after.strip_suffix(&format!("</{tag}>"));
        found.push((open.join("/"), text.unwrap_or_default().to_owned()));
        if text.is_some() {
            open.pop();
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
    Ok(found)
}

/// Tags that the document of the H200 lacks: a chip with the same driver has them, or a newer
/// driver.
const NEWER: [&str; 1] = [
    // Since branch 590 (influxdata/telegraf, pro-6000-maxq-blackwell-v13.xml).
    "nvidia_smi_log/gpu/edpp_multiplier",
];
/// Tags of its document that a machine without a list of clocks lacks.
const CLOCKS: &str = "nvidia_smi_log/gpu/supported_clocks/";

#[test]
fn the_document_of_an_h200_has_the_vendors_tags_in_order() -> Result<(), Error> {
    let vendors: Vec<String> = paths(&facts("smi.xml")?)?.into_iter().map(|(p, _)| p).collect();
    let known: BTreeSet<&String> = vendors.iter().collect();
    let mut machine = Machine::load("h200")?;
    on(&machine, true, |run, _| {
        let ours = paths(&run("-q -x")?.text)?;
        let other: Vec<_> = ours.iter().filter(|(path, _)| !known.contains(path)).collect();
        assert!(other.iter().all(|(path, _)| NEWER.contains(&path.as_str())), "{other:?}");
        Ok(())
    })?;
    machine.gpu.driver = "580.virtual".to_owned();
    on(&machine, true, |run, _| {
        let text = run("-q -x -i 0")?.text;
        let ours = paths(&text)?;
        let order: Vec<&String> = ours.iter().map(|(path, _)| path).collect();
        let expected: Vec<&String> =
            vendors.iter().filter(|path| !path.starts_with(CLOCKS)).collect();
        assert_eq!(order, expected);
        let of = |path: &str| {
            let path = format!("nvidia_smi_log/{path}");
            ours.iter().find(|(known, _)| *known == path).map(|(_, text)| text.as_str())
        };
        for (path, value) in [
            ("driver_version", "580.virtual"),
            ("attached_gpus", "1"),
            ("gpu/product_name", "Virtual H200 141GB"),
            ("gpu/product_architecture", "Hopper"),
            ("gpu/uuid", &machine.uuid()),
            ("gpu/mig_mode/current_mig", "Disabled"),
            ("gpu/pci/pci_bus_id", "00000000:01:00.0"),
            ("gpu/pci/pci_bus", "01"),
            ("gpu/pci/pci_gpu_link_info/pcie_gen/max_link_gen", "5"),
            ("gpu/pci/pci_gpu_link_info/link_widths/max_link_width", "16x"),
            ("gpu/fb_memory_usage/total", "143771 MiB"),
            ("gpu/fb_memory_usage/reserved", "616 MiB"),
            ("gpu/bar1_memory_usage/total", "262144 MiB"),
            ("gpu/ecc_mode/current_ecc", "Enabled"),
            ("gpu/ecc_errors/volatile/dram_uncorrectable", "0"),
            ("gpu/remapped_rows/remapped_row_pending", "No"),
            ("gpu/gpu_power_readings/current_power_limit", "700.00 W"),
            ("gpu/gpu_power_readings/min_power_limit", "200.00 W"),
            ("gpu/max_clocks/sm_clock", "1980 MHz"),
            ("gpu/applications_clocks/mem_clock", "3201 MHz"),
            ("gpu/max_clocks/video_clock", "1545 MHz"),
            ("gpu/compute_mode", "Default"),
            ("gpu/serial", "N/A"),
        ] {
            assert_eq!(of(path), Some(value), "{path}");
        }
        // What is not of the machine is the same byte for byte.
        let head = facts("smi.xml")?;
        assert!(text.starts_with(head.split("\t<timestamp>").next().ok_or("a head")?), "{text}");
        assert!(text.contains("\t\t<mig_devices>\n\t\t\tNone\n\t\t</mig_devices>\n"));
        assert!(text.contains("\t\t<processes>\n\t\t</processes>\n"));
        assert!(text.contains("\t<gpu id=\"00000000:01:00.0\">\n"));
        assert!(text.ends_with("\t</gpu>\n\n</nvidia_smi_log>\n"));
        Ok(())
    })
}

/// Tags that differ between branches, by the sources that `tree.txt` names.
#[test]
fn the_document_has_the_tags_of_the_drivers_branch() -> Result<(), Error> {
    let mut machine = Machine::load("a100-80")?;
    for (driver, version, has, lacks) in [
        ("535", "v12", "gpu_power_readings/power_draw", "gpu_recovery_action"),
        ("550", "v12", "gpu_memory_power_readings/power_draw", "platformInfo"),
        ("570", "v12", "gpu_power_readings/instant_power_draw", "pdi"),
        ("580", "v13", "clocks_event_reasons_counters", "voltage"),
        ("590", "v13", "edpp_multiplier", "fabric/health/partition_assigned"),
        ("610", "v13", "gpu_power_readings/default_power_limit", "gpu_reset_status"),
    ] {
        machine.gpu.driver = format!("{driver}.virtual");
        on(&machine, true, |run, _| {
            let text = run("-q -x")?.text;
            assert!(text.contains(&format!("nvsmi_device_{version}.dtd")), "{driver}");
            let ours = paths(&text)?;
            let found = |tag: &str| {
                ours.iter().any(|(path, _)| *path == format!("nvidia_smi_log/gpu/{tag}"))
            };
            assert!(found(has) && !found(lacks), "{driver}: {has}, {lacks}");
            // An Ampere chip has temperatures, newer ones the distance to them.
            assert!(found("temperature/gpu_temp_max_threshold"), "{driver}");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn mig_devices_have_parts_of_their_own() -> Result<(), Error> {
    let machine = Machine::load("h100-80")?;
    on(&machine, true, |run, device| {
        device.transact(|state, _| {
            mig::set_mode(state, &machine, true);
            let profiles = machine.mig.iter().flat_map(|mig| &mig.profile);
            let index = profiles.map(|profile| profile.name.as_str()).position(|n| n == "3g.40gb");
            let index = index.ok_or(mig::MigError::Unknown)? as u32;
            let row = mig::create_instance(state, &machine, index, Some(4))?;
            mig::create_engine(state, &machine, row, 3)
        })??;
        let text = run("-q -x")?.text;
        for line in [
            "<gpu_instance_id>1</gpu_instance_id>",
            "<multiprocessor_count>60</multiprocessor_count>",
            "<copy_engine_count>3</copy_engine_count>",
            "<current_mig>Enabled</current_mig>",
            "<gpu_util>N/A</gpu_util>",
        ] {
            assert!(text.contains(line), "{line}");
        }
        // As driver 590.48 prints it (utkuozdemir/nvidia_gpu_exporter, nvidia-h100-mig).
        let text = run("-q")?.text;
        let block = format!("    MIG Device\n{:<55}: 0\n", "        Index");
        assert!(text.contains(&block), "{text}");
        assert!(text.contains("        Shared FB Memory Usage\n"), "{text}");
        let total = format!("{:<55}: 40448 MiB\n", "            Total");
        assert!(text.contains(&total), "{text}");
        Ok(())
    })
}

#[test]
fn the_text_has_the_vendors_labels_and_selected_sections() -> Result<(), Error> {
    let machine = Machine::load("turing")?;
    on(&machine, true, |run, _| {
        let text = run("-q")?.text;
        for label in [
            "            HW Thermal Slowdown",
            "        Single Bit ECC",
            "            PCIe Generation",
            "    Processes",
        ] {
            assert!(text.lines().any(|line| line.starts_with(label)), "{label}: {text}");
        }
        let only = run("-q -d memory,COMPUTE")?.text;
        let labels: Vec<&str> = only
            .lines()
            .filter(|line| line.starts_with("    ") && !line.starts_with("     "))
            .map(|line| line.split(" :").next().unwrap_or(line).trim())
            .collect();
        let expected = [
            "FB Memory Usage",
            "BAR1 Memory Usage",
            "Conf Compute Protected Memory Usage",
            "Compute Mode",
        ];
        assert_eq!(labels, expected);
        let power = run("-q -d POWER")?.text;
        assert!(power.contains("    Power Samples\n        Duration "), "{power}");
        assert!(!text.contains("Samples"), "{text}");
        Ok(())
    })
}

#[test]
fn every_name_and_condition_in_the_file_is_known() -> Result<(), Error> {
    let machine = Machine::load("h100-80")?;
    on(&machine, true, |_, device| {
        let known = Known::of(device).map_err(|error| format!("{error:?}"))?;
        let conditions = ["driver>=", "driver<", "driver!=", "chip>=", "chip<", "d:"];
        for line in lines() {
            for one in line.conditions.split(' ').filter(|one| !one.is_empty()) {
                let word = matches!(one, "remap" | "no-remap" | "selected");
                assert!(word || conditions.iter().any(|known| one.starts_with(known)), "{one}");
            }
            for part in [line.label, line.value.unwrap_or_default()] {
                for name in part.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
                    let listed = name.starts_with("mig.") || name.starts_with("process.");
                    let found = known.device.iter().any(|fact| fact.has_name(name));
                    assert!(found || listed && !name.starts_with("mig.mode"), "{name}");
                }
            }
        }
        Ok(())
    })
}

/// The element and its lines are those of drivers 515 to 595 (influxdata/telegraf, a10g.xml and
/// rtx-4000-sff-ada-v13.xml).
#[test]
fn processes_are_those_of_the_other_queries() -> Result<(), Error> {
    let machine = Machine::load("h100-80")?;
    on(&machine, true, |run, device| {
        let pid = std::process::id();
        device.transact(|state, _| {
            let (Some(process), Some(context)) =
                (state.processes.claim(|row| row.pid == 0), state.contexts.claim(|row| !row.live))
            else {
                return;
            };
            state.processes.rows[process].pid = pid;
            let own = Context { live: true, process: process as u32, ..Context::default() };
            state.contexts.rows[context] = own;
        })?;
        let listed = run("--query-compute-apps=pid,name,used_memory --format=csv,noheader")?.text;
        let cells: Vec<&str> = listed.trim().split(", ").collect();
        let [listed_pid, name, memory] = cells[..] else { return Err(listed.into()) };
        assert_eq!(listed_pid, pid.to_string());
        let info = format!(
            "\t\t<processes>\n\t\t\t<process_info>\n\
             \t\t\t\t<gpu_instance_id>N/A</gpu_instance_id>\n\
             \t\t\t\t<compute_instance_id>N/A</compute_instance_id>\n\
             \t\t\t\t<pid>{pid}</pid>\n\t\t\t\t<type>C</type>\n\
             \t\t\t\t<process_name>{name}</process_name>\n\
             \t\t\t\t<used_memory>{memory}</used_memory>\n\t\t\t</process_info>\n\t\t</processes>\n"
        );
        let text = run("-q -x")?.text;
        assert!(text.contains(&info), "{info}{text}");
        let text = run("-q -d PIDS")?.text;
        let block = format!(
            "    Processes\n{:<42}: N/A\n{:<42}: N/A\n{:<42}: {pid}\n{:<42}: C\n{:<42}: {name}\n\
             {:<42}: {memory}\n",
            "        GPU instance ID",
            "        Compute instance ID",
            "        Process ID",
            "            Type",
            "            Name",
            "            Used GPU Memory"
        );
        assert!(text.contains(&block), "{block}{text}");
        Ok(())
    })
}

#[test]
fn names_of_processes_are_escaped() {
    assert_eq!(escaped("a<b>&c"), "a&lt;b&gt;&amp;c");
}

//! The answers to a fault, for `gpubench list faults`, beside the documented codes: those that a
//! real GPU gave, and those that virtual machines give without a measurement.

use gpubench_catalogue::fault::{Answer, Fault, Needs};
use gpubench_record::counted;
use gpubench_virtual_gpu::machine::faults::{Evidence, FaultRow, Measured, Other, Reply, Under};
use gpubench_virtual_gpu::machine::{BUILT_IN, Machine, faults};
use serde_json::{Value, json};

use super::listing::MEASURED;

fn measured() -> Vec<(Machine, Measured)> {
    // Tests load every built-in machine.
    let machines = BUILT_IN.iter().filter_map(|(name, _)| Machine::load(name).ok());
    let measured = machines.filter_map(|machine| {
        let trials = machine.faults.measured.clone()?;
        Some((machine, trials))
    });
    measured.collect()
}

/// The measured answers to a fault, one entry for each GPU and mechanism. A GPU without a trial of
/// this fault has an entry with the reason.
pub fn measured_of(fault: &Fault) -> Vec<Value> {
    let mut entries = Vec::new();
    for (machine, trials) in measured() {
        let before = entries.len();
        for under in trials.under.iter().filter(|under| can_happen(fault, **under)) {
            let row = machine.fault_row(fault.name, *under);
            let row = row.filter(|row| row.evidence.is_none());
            entries.extend(row.map(|row| measured_entry(&trials, *under, row, fault)));
        }
        if entries.len() == before {
            let reason = why_none(fault);
            entries.push(json!({
                "key": format!("none on {}: {reason}", trials.device),
                "evidence": MEASURED,
                "device": trials.device,
                "driver": trials.driver,
                "date": trials.date,
                "trials": 0,
                "reason": reason,
            }));
        }
    }
    entries
}

/// Whether a fault can happen under a mechanism.
fn can_happen(fault: &Fault, under: Under) -> bool {
    match fault.needs {
        Needs::Nothing => true,
        Needs::MpsDaemon => under == Under::Mps,
        Needs::AccountingLibrary => false,
    }
}

/// Why a fault has no measured answer.
fn why_none(fault: &Fault) -> &'static str {
    match fault.needs {
        _ if fault.planted_only => {
            "PTX has no illegal instruction, so only a virtual GPU can raise it"
        }
        Needs::AccountingLibrary => "no trial ran under HAMi",
        Needs::Nothing | Needs::MpsDaemon => "no trial of it was held",
    }
}

/// The answers of virtual machines without a measurement, with what they rest on.
pub fn assumed_of(fault: &Fault) -> Vec<Value> {
    // Tests read the table.
    let documented = faults::documented().unwrap_or_default();
    let rows = documented.rows.iter();
    let own = rows.filter(|row| row.faults.iter().any(|name| name == fault.name));
    own.map(assumed_entry).collect()
}

/// One line for each GPU: its name, driver and date.
pub fn campaigns() -> Vec<String> {
    let line = |(machine, of): &(Machine, Measured)| {
        let under: Vec<&str> = of.under.iter().map(|under| under.as_str()).collect();
        format!(
            "measured on {} with driver {} on {}, {} of each fault under each of {} \
             (reports/examples/{}; the machine {} answers so): one GPU is no proof for others",
            of.device,
            of.driver,
            of.date,
            counted(of.trials, "trial"),
            under.join(", "),
            of.records.join(", "),
            machine.name,
        )
    };
    let assumed = "documented and unknown: the answers of virtual machines without a measurement";
    let lines = measured();
    lines.iter().map(line).chain([assumed.to_owned()]).collect()
}

fn measured_entry(of: &Measured, under: Under, row: &FaultRow, fault: &Fault) -> Value {
    let unlike = unlike(row, fault);
    let logged = [&row.log_before[..], &row.xids].concat();
    let mut text = format!(
        "under {}: {}, NVML's Xids {}, the log's {}, victim {} ({})",
        under.as_str(),
        came(row.own),
        xids(&row.xids),
        xids(&logged),
        came(row.peer),
        counted(of.trials, "trial"),
    );
    if !unlike.is_empty() {
        let unlike = unlike.join(", ").replace('_', " ");
        text.push_str(&format!(" ≠ documented {unlike}"));
    }
    json!({
        "key": text,
        "evidence": MEASURED,
        "mechanism": under.as_str(),
        "device": of.device,
        "driver": of.driver,
        "date": of.date,
        "trials": of.trials,
        "code": row.own.code(),
        "came": name(row.own),
        "nvml_xids": row.xids,
        "log_xids": logged,
        "victim_code": row.peer.code(),
        "victim_came": name(row.peer),
        "noticed_ms": row.noticed_ms,
        "unlike_documents": unlike,
    })
}

fn assumed_entry(row: &FaultRow) -> Value {
    let under = row.under.map_or("every mechanism", Under::as_str);
    let evidence = row.evidence.map_or(MEASURED, Evidence::as_str);
    let source = row.source.as_deref().unwrap_or_default();
    let refusal = if row.refuses_new_clients { ", new ones refused" } else { "" };
    let text = format!(
        "under {under}: {}, Xids {}, other MPS clients {}{refusal} ({source})",
        came(row.own),
        xids(&row.xids),
        came(row.peer),
    );
    json!({
        "key": text,
        "evidence": evidence,
        "mechanism": row.under.map(Under::as_str),
        "source": source,
        "code": row.own.code(),
        "came": name(row.own),
        "xids": row.xids,
        "peer_code": row.peer.code(),
        "peer_came": name(row.peer),
        "noticed_ms": row.noticed_ms,
        "refuses_new_clients": row.refuses_new_clients,
        "partitions_contain_from_driver": row.partitions_contain_from,
    })
}

/// The figures that differ from the documents, by their names in lists.
fn unlike(row: &FaultRow, fault: &Fault) -> Vec<&'static str> {
    let logged = [&row.log_before[..], &row.xids].concat();
    let matching = [
        ("code", answers(fault.answer, row.own)),
        ("nvml_xids", is_logged(fault.xids, &row.xids)),
        ("log_xids", is_logged(fault.xids, &logged)),
    ];
    let unlike = matching.into_iter().filter(|(_, matching)| !matching);
    unlike.map(|(figure, _)| figure).collect()
}

/// Whether the result is a documented one.
fn answers(documented: Answer, observed: Reply) -> bool {
    match (documented, observed) {
        (Answer::Well | Answer::Open(_), Reply::Other(Other::Well))
        | (Answer::Ends, Reply::Other(Other::Ended))
        | (Answer::Open([]), _) => true,
        (Answer::Codes(codes) | Answer::Open(codes), Reply::Code(code)) => codes.contains(&code),
        _ => false,
    }
}

/// Whether every observed Xid is documented, and at least one was observed if any is documented.
fn is_logged(known: &[u32], observed: &[u32]) -> bool {
    known.is_empty() == observed.is_empty() && observed.iter().all(|xid| known.contains(xid))
}

fn name(reply: Reply) -> &'static str {
    match reply {
        Reply::Code(_) => "code",
        Reply::Other(Other::Well) => "well",
        Reply::Other(Other::Ended) => "ended",
        Reply::Other(Other::Silent) => "silent",
    }
}

fn came(reply: Reply) -> String {
    match reply {
        Reply::Code(code) => format!("code {code}"),
        Reply::Other(Other::Well) => "no error".to_owned(),
        Reply::Other(Other::Ended) => "ended".to_owned(),
        Reply::Other(Other::Silent) => "no answer".to_owned(),
    }
}

fn xids(xids: &[u32]) -> String {
    if xids.is_empty() {
        return "none".to_owned();
    }
    let xids: Vec<String> = xids.iter().map(u32::to_string).collect();
    xids.join(" ")
}

#[cfg(test)]
mod tests {
    use gpubench_catalogue::fault::{CATALOGUE, find};
    use gpubench_virtual_gpu::machine::faults::fault_names;
    use serde_json::{Value, json};

    use super::{assumed_of, campaigns, measured_of};

    fn keys(entries: &[Value]) -> Vec<&str> {
        let keys = entries.iter().filter_map(|entry| entry["key"].as_str());
        keys.collect()
    }

    #[test]
    fn every_entry_says_what_it_rests_on() {
        for fault in CATALOGUE.iter() {
            let entries = measured_of(fault);
            assert!(!entries.is_empty(), "{fault:?}");
            for entry in entries {
                for key in ["device", "driver", "date"] {
                    assert!(entry[key].as_str().is_some_and(|s| !s.is_empty()), "{entry}");
                }
                let reason = entry["reason"].as_str();
                assert_eq!(entry["trials"] == json!(0), reason.is_some(), "{entry}");
                assert_eq!(entry["evidence"], json!("measured"));
            }
            for entry in assumed_of(fault) {
                let evidence = entry["evidence"].as_str();
                assert!([Some("documented"), Some("unknown")].contains(&evidence), "{entry}");
                assert!(entry["source"].as_str().is_some_and(|s| !s.is_empty()));
            }
        }
        let line = campaigns().join("\n");
        assert!(line.contains("driver 580.159.04 on 2026-11-22, 1 trial of each"), "{line}");
        let assumed = find("trap").map(assumed_of).unwrap_or_default();
        assert_eq!(
            keys(&assumed),
            ["under every mechanism: code 719, Xids 13, other MPS clients code 719, new ones \
          refused (cuda.h allows 719 and 715; no document gives the Xid)"]
        );
        assert_eq!(assumed[0]["evidence"], json!("unknown"));
    }

    #[test]
    fn machine_files_know_every_fault_of_the_catalogue() {
        let known: Vec<&str> = fault_names().collect();
        for fault in CATALOGUE.iter() {
            assert!(known.contains(&fault.name), "{fault:?}");
        }
        let others = known.iter().filter(|name| find(name).is_none());
        let others: Vec<&&str> = others.collect();
        assert_eq!(others, [&"run-time-limit", &"deadlock"]);
    }
}

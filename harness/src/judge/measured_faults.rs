//! The answers of real GPUs to a fault, for `gpubench list faults`, beside the documented ones.

use gpubench_workloads::fault::{CAMPAIGNS, Campaign, Fault, Measured, Observed};
use serde_json::{Value, json};

/// Key of the measured answers; tables print each of them on its own line.
pub const MEASURED: &str = "measured";

/// The measured answers to a fault, one entry for each campaign and mechanism. A campaign without a
/// trial of this fault has an entry with the reason.
pub fn of(fault: &Fault) -> Vec<Value> {
    let mut entries = Vec::new();
    for campaign in CAMPAIGNS {
        let rows = campaign.rows.iter().filter(|row| row.fault == fault.name);
        entries.extend(rows.map(|row| entry(campaign, row, fault)));
        entries.extend(campaign.why_without(fault.name).map(|reason| {
            json!({
                "key": format!("none on {}: {reason}", campaign.device),
                "device": campaign.device,
                "driver": campaign.driver,
                "date": campaign.date,
                "trials": 0,
                "reason": reason,
            })
        }));
    }
    entries
}

/// One line for each campaign: its GPU, driver and date.
pub fn campaigns() -> Vec<String> {
    let line = |campaign: &Campaign| {
        format!(
            "measured on {} with driver {} on {}, {} of each fault under each of {}: one GPU is no \
             proof for others",
            campaign.device,
            campaign.driver,
            campaign.date,
            trials(campaign),
            campaign.mechanisms.join(", "),
        )
    };
    CAMPAIGNS.iter().map(line).collect()
}

fn entry(campaign: &Campaign, row: &Measured, fault: &Fault) -> Value {
    let unlike = row.unlike(fault);
    json!({
        "key": line(campaign, row, &unlike),
        "mechanism": row.mechanism,
        "device": campaign.device,
        "driver": campaign.driver,
        "date": campaign.date,
        "trials": campaign.trials,
        "code": code(row.own),
        "came": name(row.own),
        "nvml_xids": row.nvml_xids,
        "log_xids": row.log_xids,
        "victim_code": code(row.victim),
        "victim_came": name(row.victim),
        "unlike_documents": unlike,
    })
}

/// One measured answer as a line of text.
fn line(campaign: &Campaign, row: &Measured, unlike: &[&str]) -> String {
    let mut text = format!(
        "under {}: {}, NVML's Xids {}, the log's {}, victim {} ({})",
        row.mechanism,
        came(row.own),
        xids(row.nvml_xids),
        xids(row.log_xids),
        came(row.victim),
        trials(campaign),
    );
    if !unlike.is_empty() {
        let unlike = unlike.join(", ").replace('_', " ");
        text.push_str(&format!(" ≠ documented {unlike}"));
    }
    text
}

fn trials(campaign: &Campaign) -> String {
    match campaign.trials {
        1 => "1 trial".to_owned(),
        several => format!("{several} trials"),
    }
}

fn code(came: Observed) -> Option<i32> {
    match came {
        Observed::Code(code) => Some(code),
        Observed::Well | Observed::Ended | Observed::Silent => None,
    }
}

fn name(came: Observed) -> &'static str {
    match came {
        Observed::Well => "well",
        Observed::Code(_) => "code",
        Observed::Ended => "ended",
        Observed::Silent => "silent",
    }
}

fn came(came: Observed) -> String {
    match came {
        Observed::Well => "no error".to_owned(),
        Observed::Code(code) => format!("code {code}"),
        Observed::Ended => "ended".to_owned(),
        Observed::Silent => "no answer".to_owned(),
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
    use gpubench_workloads::fault::{CATALOGUE, find};
    use serde_json::json;

    use super::{campaigns, of};

    #[test]
    fn answers_that_differ_from_the_documents_are_marked() {
        let lines = |name| -> Vec<String> {
            let entries = find(name).map(of).unwrap_or_default();
            let keys = entries.iter().filter_map(|entry| entry["key"].as_str());
            keys.map(str::to_owned).collect()
        };
        assert_eq!(
            lines("shared-oob"),
            [
                "under time-slicing: code 715, NVML's Xids 13, the log's 13 13 13, victim no error \
                 (1 trial) ≠ documented code",
                "under mps: no error, NVML's Xids none, the log's 13 13, victim no error \
                 (1 trial) ≠ documented code, nvml xids",
            ]
        );
        assert_eq!(
            lines("illegal-address"),
            [
                "under time-slicing: code 700, NVML's Xids 31, the log's 31, victim no error \
                 (1 trial)",
                "under mps: code 700, NVML's Xids 31, the log's 31, victim code 700 (1 trial)",
            ]
        );
        let text = lines("illegal-instruction");
        assert!(
            text.len() == 1 && text[0].starts_with("none on NVIDIA H100"),
            "{text:?}"
        );
    }

    #[test]
    fn every_entry_has_device_date_and_number_of_trials() {
        for fault in CATALOGUE.iter() {
            let entries = of(fault);
            assert!(!entries.is_empty(), "{fault:?}");
            for entry in entries {
                for key in ["device", "driver", "date"] {
                    assert!(
                        entry[key].as_str().is_some_and(|s| !s.is_empty()),
                        "{entry}"
                    );
                }
                let reason = entry["reason"].as_str();
                assert_eq!(entry["trials"] == json!(0), reason.is_some(), "{entry}");
            }
        }
        let line = campaigns().join("\n");
        assert!(
            line.contains("driver 580.159.04 on 2026-11-22, 1 trial of each"),
            "{line}"
        );
    }
}

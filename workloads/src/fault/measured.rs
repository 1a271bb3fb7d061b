//! The results of the faults on real GPUs, beside the documented ones.
//!
//! Each figure is from the record of a trial (`matrix --faults`); none is derived. One trial of
//! each fault proves little. The results of another GPU are another [`Campaign`]: a constant with
//! its rows, and its line in [`CAMPAIGNS`].

use super::{Answer, Fault};
use Observed::{Code, Ended, Silent, Well};

/// One or more runs of fault trials on one GPU under one driver.
#[derive(Debug)]
pub struct Campaign {
    /// The GPU, as NVML names it.
    pub device: &'static str,
    /// Version of its driver.
    pub driver: &'static str,
    /// The day, in UTC, as year, month and day.
    pub date: &'static str,
    /// Trials behind each row.
    pub trials: u32,
    /// Mechanisms of the trials.
    pub mechanisms: &'static [&'static str],
    /// The results.
    pub rows: &'static [Measured],
    /// Faults without a trial, with the reason; faults newer than the campaign need no entry.
    pub without: &'static [(&'static str, &'static str)],
}

/// The result of a fault for one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// No call of it failed.
    Well,
    /// A call returned this `CUresult` (cuda.h).
    Code(i32),
    /// It ended, by itself or by a signal, without a `CUresult`.
    Ended,
    /// It returned nothing within the trial's limit.
    Silent,
}

/// The result of one fault under one mechanism.
#[derive(Debug)]
pub struct Measured {
    /// Name of the fault.
    pub fault: &'static str,
    /// Name of the mechanism.
    pub mechanism: &'static str,
    /// The result for the culprit process.
    pub own: Observed,
    /// Xids that NVML reported as events.
    pub nvml_xids: &'static [u32],
    /// Xids in the kernel's log, in order: one fault can log several.
    pub log_xids: &'static [u32],
    /// The result for the victim.
    pub victim: Observed,
}

impl Campaign {
    /// Why a fault has no row; `None` if it has one.
    #[must_use]
    pub fn why_without(&self, fault: &str) -> Option<&'static str> {
        if self.rows.iter().any(|row| row.fault == fault) {
            return None;
        }
        let stated = self.without.iter().find(|(name, _)| *name == fault);
        Some(stated.map_or("no trial of it was held", |(_, reason)| reason))
    }
}

/// Every campaign, the oldest first.
pub const CAMPAIGNS: &[Campaign] = &[H100];

const SLICED: &str = "time-slicing";
const MPS: &str = "mps";

/// For the controls, which every run includes, the first trial.
const H100: Campaign = Campaign {
    device: "NVIDIA H100 80GB HBM3",
    driver: "580.159.04",
    date: "2026-11-22",
    trials: 1,
    mechanisms: &[SLICED, MPS],
    rows: &[
        row("placebo", SLICED, Well, &[], &[], Well),
        row("placebo", MPS, Well, &[], &[], Well),
        row("canary", SLICED, Well, &[], &[], Ended),
        row("canary", MPS, Well, &[], &[], Ended),
        row("empty-launch", SLICED, Code(1), &[], &[], Well),
        row("empty-launch", MPS, Code(1), &[], &[], Well),
        row("bad-launch", SLICED, Code(1), &[], &[], Well),
        row("bad-launch", MPS, Code(1), &[], &[], Well),
        row("double-free", SLICED, Code(1), &[], &[], Well),
        row("double-free", MPS, Code(1), &[], &[], Well),
        row("printf-flood", SLICED, Well, &[], &[], Well),
        row("printf-flood", MPS, Well, &[], &[], Well),
        row("oom", SLICED, Code(2), &[], &[], Code(2)),
        row("oom", MPS, Code(2), &[], &[], Code(2)),
        row("hang", SLICED, Well, &[], &[], Well),
        row("hang", MPS, Well, &[], &[], Well),
        row("sigstop", SLICED, Well, &[], &[], Well),
        row("sigstop", MPS, Well, &[], &[], Well),
        row("context-destroy", SLICED, Well, &[], &[], Well),
        row("context-destroy", MPS, Well, &[], &[], Well),
        row("exit-pending", SLICED, Ended, &[], &[], Well),
        row("exit-pending", MPS, Ended, &[31], &[31], Code(700)),
        row("sigkill", SLICED, Ended, &[], &[], Well),
        row("sigkill", MPS, Ended, &[31], &[31], Code(700)),
        row("mps-terminate-client", MPS, Code(810), &[], &[], Well),
        row("assert", SLICED, Code(710), &[43], &[43], Well),
        row("assert", MPS, Code(710), &[], &[], Well),
        row("trap", SLICED, Code(719), &[43], &[43], Well),
        row("trap", MPS, Code(719), &[43], &[43], Code(719)),
        row("misaligned", SLICED, Code(716), &[43], &[13, 13, 43], Well),
        row(
            "misaligned",
            MPS,
            Code(719),
            &[43],
            &[13, 13, 43],
            Code(716),
        ),
        row("shared-oob", SLICED, Code(715), &[13], &[13, 13, 13], Well),
        row("shared-oob", MPS, Well, &[], &[13, 13], Well),
        row(
            "stack-overflow",
            SLICED,
            Code(700),
            &[43],
            &[13, 13, 43],
            Well,
        ),
        row(
            "stack-overflow",
            MPS,
            Code(719),
            &[43],
            &[13, 13, 43],
            Code(715),
        ),
        row("wrong-address-space", SLICED, Well, &[], &[], Well),
        row("wrong-address-space", MPS, Well, &[], &[], Well),
        row("bad-pc", SLICED, Code(700), &[31], &[31], Well),
        row("bad-pc", MPS, Code(700), &[31], &[31], Code(700)),
        row("illegal-address", SLICED, Code(700), &[31], &[31], Well),
        row("illegal-address", MPS, Code(700), &[31], &[31], Code(700)),
        row("ipc-exporter-exit", SLICED, Well, &[], &[], Well),
        row("ipc-exporter-exit", MPS, Well, &[], &[], Well),
        row("mps-server-kill", MPS, Silent, &[], &[], Code(806)),
        row("mps-daemon-kill", MPS, Silent, &[], &[], Code(806)),
    ],
    without: &[
        (
            "illegal-instruction",
            "PTX has no illegal instruction, so only a virtual GPU can raise it",
        ),
        ("hami-lock-holder-kill", "no trial ran under HAMi"),
    ],
};

const fn row(
    fault: &'static str,
    mechanism: &'static str,
    own: Observed,
    nvml_xids: &'static [u32],
    log_xids: &'static [u32],
    victim: Observed,
) -> Measured {
    Measured {
        fault,
        mechanism,
        own,
        nvml_xids,
        log_xids,
        victim,
    }
}

impl Measured {
    /// The figures that differ from the documents, by their names in lists.
    #[must_use]
    pub fn unlike(&self, fault: &Fault) -> Vec<&'static str> {
        let matching = [
            ("code", answers(fault.answer, self.own)),
            ("nvml_xids", logged(fault.xids, self.nvml_xids)),
            ("log_xids", logged(fault.xids, self.log_xids)),
        ];
        let unlike = matching.into_iter().filter(|(_, matching)| !matching);
        unlike.map(|(figure, _)| figure).collect()
    }
}

/// Whether the result is a documented one.
fn answers(documented: Answer, observed: Observed) -> bool {
    match (documented, observed) {
        (Answer::Well | Answer::Open(_), Observed::Well) | (Answer::Ends, Observed::Ended) => true,
        (Answer::Open([]), _) => true,
        (Answer::Codes(codes) | Answer::Open(codes), Observed::Code(code)) => codes.contains(&code),
        _ => false,
    }
}

/// Whether every observed Xid is documented, and at least one was observed if any is documented.
fn logged(known: &[u32], observed: &[u32]) -> bool {
    known.is_empty() == observed.is_empty() && observed.iter().all(|xid| known.contains(xid))
}

#[cfg(test)]
mod tests {
    use super::{CAMPAIGNS, Campaign, Measured};
    use crate::fault::{CATALOGUE, Fault, Needs, find};

    fn rows_of<'a>(campaign: &'a Campaign, fault: &str) -> Vec<&'a Measured> {
        let rows = campaign.rows.iter();
        rows.filter(|row| row.fault == fault).collect()
    }

    #[test]
    fn a_fault_has_rows_under_every_mechanism_of_a_campaign_or_none() {
        for campaign in CAMPAIGNS {
            for fault in CATALOGUE.iter() {
                let found: Vec<&str> = rows_of(campaign, fault.name)
                    .iter()
                    .map(|row| row.mechanism)
                    .collect();
                if campaign.why_without(fault.name).is_some() {
                    continue;
                }
                let held = |mechanism: &&&str| match fault.needs {
                    Needs::Nothing => true,
                    Needs::MpsDaemon => **mechanism == "mps",
                    Needs::AccountingLibrary => **mechanism == "hami",
                };
                let held: Vec<&str> = campaign.mechanisms.iter().filter(held).copied().collect();
                assert!(!held.is_empty(), "{fault:?} takes a reason");
                assert_eq!(found, held, "{fault:?} on {}", campaign.device);
            }
        }
    }

    #[test]
    fn every_row_and_every_reason_is_of_a_known_fault_and_no_fault_has_both() {
        for campaign in CAMPAIGNS {
            assert!(campaign.trials > 0, "{}", campaign.device);
            for row in campaign.rows {
                assert!(find(row.fault).is_some(), "{}", row.fault);
                assert!(campaign.mechanisms.contains(&row.mechanism), "{row:?}");
            }
            for (name, reason) in campaign.without {
                assert!(find(name).is_some(), "{name}");
                assert!(rows_of(campaign, name).is_empty(), "{name}");
                assert!(reason.len() > 20, "{name}: {reason}");
            }
        }
    }

    #[test]
    fn differences_from_the_documents_are_found() {
        let h100 = &CAMPAIGNS[0];
        let unlike = |name: &str, at: usize| {
            let row = rows_of(h100, name).into_iter().nth(at);
            let fault: Option<&Fault> = find(name);
            row.zip(fault)
                .map(|(row, fault)| row.unlike(fault).join(" "))
        };
        for (name, sliced, mps) in [
            ("placebo", "", ""),
            ("canary", "nvml_xids log_xids", "nvml_xids log_xids"),
            ("oom", "", ""),
            ("exit-pending", "nvml_xids log_xids", "nvml_xids log_xids"),
            ("assert", "", "nvml_xids log_xids"),
            ("trap", "nvml_xids log_xids", "nvml_xids log_xids"),
            (
                "misaligned",
                "nvml_xids log_xids",
                "code nvml_xids log_xids",
            ),
            ("shared-oob", "code", "code nvml_xids"),
            (
                "wrong-address-space",
                "code nvml_xids log_xids",
                "code nvml_xids log_xids",
            ),
            (
                "bad-pc",
                "code nvml_xids log_xids",
                "code nvml_xids log_xids",
            ),
            ("illegal-address", "", ""),
        ] {
            assert_eq!(unlike(name, 0).as_deref(), Some(sliced), "{name}");
            assert_eq!(unlike(name, 1).as_deref(), Some(mps), "{name}");
        }
        assert_eq!(
            unlike("mps-server-kill", 0).as_deref(),
            Some("code nvml_xids log_xids")
        );
    }
}

//! Reading of the fault table: what a file inherits, which row answers a fault, and which rows are
//! refused.

use super::{FaultRow, Faults, Named, Under};
use crate::machine::{Machine, MachineError, error, ppm};
use crate::simulation::answer::{Answer, Answers, FaultRules, XIDS_OF_FAULT};
use crate::state::{CAUSES, Cause};

/// Name and text of the table that every machine inherits.
const DOCUMENTED: (&str, &str) = ("documented-faults.toml", gpubench_profiles::DOCUMENTED_FAULTS);

/// Faults without a cause of the device: their answers follow from the other rules of the model.
/// Their rows state what was measured.
const FOLLOW: &[&str] = &[
    "placebo",
    "canary",
    "empty-launch",
    "bad-launch",
    "double-free",
    "printf-flood",
    "oom",
    "hang",
    "sigstop",
    "context-destroy",
    "exit-pending",
    "hami-lock-holder-kill",
    "mps-daemon-kill",
];

/// Longest time until a fault is noticed, in milliseconds.
const NOTICED_MS_MAX: f64 = 60_000.0;
/// Largest `CUresult` (cuda.h: UNKNOWN).
const CODE_MAX: i32 = 999;

impl FaultRow {
    fn is_replaced(&self, fault: &String, by: &Self) -> bool {
        by.faults.contains(fault) && (by.under.is_none() || by.under == self.under)
    }

    fn answer(&self, driver: u32) -> Answer {
        Answer {
            own: self.own.code().unwrap_or(0),
            peer: self.peer.code().unwrap_or(0),
            log_before: fixed(&self.log_before),
            xids: fixed(&self.xids),
            names_server: self.names == Named::Server,
            noticed_ns: self
                .noticed_ms
                .map_or([0; 3], |points| points.map(|ms| (ms * 1e6).round() as u64)),
            refuses_new_clients: self.refuses_new_clients,
            partitions_contain: self.partitions_contain_from.is_some_and(|from| driver >= from),
        }
    }
}

/// A list whose length was checked.
fn fixed(xids: &[u32]) -> [u32; XIDS_OF_FAULT] {
    let mut out = [0; XIDS_OF_FAULT];
    for (slot, xid) in out.iter_mut().zip(xids) {
        *slot = *xid;
    }
    out
}

impl Machine {
    pub fn fault_row(&self, fault: &str, under: Under) -> Option<&FaultRow> {
        let rows = || self.faults.rows.iter().filter(|row| row.is_of(fault, under));
        let own = rows().find(|row| row.under.is_some());
        own.or_else(|| rows().next())
    }

    /// Adds the documented rows that the file does not replace.
    pub(in crate::machine) fn inherit_faults(&mut self) -> Result<(), MachineError> {
        let own = self.faults.rows.clone();
        for mut row in documented()?.rows {
            let base = row.clone();
            let replaced = |fault: &String| own.iter().any(|by| base.is_replaced(fault, by));
            row.faults.retain(|fault| !replaced(fault));
            if !row.faults.is_empty() {
                self.faults.rows.push(row);
            }
        }
        Ok(())
    }

    pub(in crate::machine) fn check_faults(&self, path: &str) -> Result<(), MachineError> {
        check(path, &self.faults)
    }

    /// How faults are answered on this machine, and which contexts they reach.
    pub fn fault_rules(&self) -> FaultRules {
        let (mps, defects) = (self.mps.as_ref(), &self.defects);
        FaultRules {
            answers: self.answers(),
            mps_contained: defects.mps_contains_faults,
            cross_compute_instances: defects.fault_crosses_compute_instances,
            cross_contexts: defects.fault_crosses_contexts,
            escape_ppm: ppm(defects.fault_escape),
            mps_kill_reaches_peers: defects.mps_kill_reaches_peers,
            next_xid: defects.fault_xid,
            mps_recovery_ns: mps.map_or(0, |m| m.recovery_ms * 1_000_000),
            recovery_noise_ppm: ppm(self.noise.recovery),
        }
    }

    fn answers(&self) -> Answers {
        let driver = self.gpu.driver.split('.').next();
        let driver = driver.and_then(|major| major.parse().ok()).unwrap_or(0);
        let mut answers = [[Answer::default(); 2]; CAUSES];
        for cause in Cause::ALL {
            answers[cause as usize] = Under::ALL.map(|under| {
                let row = self.fault_row(cause.fault(), under);
                row.map_or_else(Answer::default, |row| row.answer(driver))
            });
        }
        answers
    }
}

/// The table that every machine inherits.
/// Fails when its text is wrong.
pub fn documented() -> Result<Faults, MachineError> {
    let documented = error::read(DOCUMENTED.0, DOCUMENTED.1)?;
    check(DOCUMENTED.0, &documented)?;
    Ok(documented)
}

/// Every fault that a row can be about.
pub fn fault_names() -> impl Iterator<Item = &'static str> {
    let causes = Cause::ALL.iter().map(|cause| cause.fault());
    causes.chain(FOLLOW.iter().copied())
}

fn check(path: &str, table: &Faults) -> Result<(), MachineError> {
    for row in &table.rows {
        for fault in &row.faults {
            if !fault_names().any(|known| known == fault) {
                let accepted = "a name of `gpubench list faults`, run-time-limit or deadlock";
                return error::wrong(path, "faults.rows.faults", fault, accepted);
            }
        }
        for (key, reply) in [("faults.rows.own", row.own), ("faults.rows.peer", row.peer)] {
            if let Some(code) = reply.code().filter(|code| !(1..=CODE_MAX).contains(code)) {
                return error::wrong(
                    path,
                    key,
                    code,
                    "1 to 999, \"well\", \"ended\" or \"silent\"",
                );
            }
        }
        for (key, xids) in
            [("faults.rows.xids", &row.xids), ("faults.rows.log_before", &row.log_before)]
        {
            if xids.len() > XIDS_OF_FAULT || xids.contains(&0) {
                return error::wrong(path, key, format!("{xids:?}"), "at most 4 numbers above 0");
            }
        }
        if let Some(points) = row.noticed_ms
            && !(points.is_sorted() && points[0] >= 0.0 && points[2] <= NOTICED_MS_MAX)
        {
            let accepted = "three times of 0 to 60000, in order";
            return error::wrong(path, "faults.rows.noticed_ms", format!("{points:?}"), accepted);
        }
    }
    Ok(())
}

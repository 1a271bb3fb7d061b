//! Whose process is whose, by which the lines of the kernel's log, which has numbers alone, are
//! told apart.

use std::collections::BTreeMap;

use gpubench_record::XidLine;
use gpubench_record::xid::SERVICE;

/// Every process that was started for a tenant, by its number.
#[derive(Debug, Default)]
pub struct PidRegistry {
    tenants: BTreeMap<u32, Vec<String>>,
    /// Who was entered last.
    last: Option<u32>,
}

impl PidRegistry {
    /// Enters a process. Tenants that are threads of one are entered one after another; a number
    /// that comes again later is another process's.
    pub fn enter(&mut self, tenant: &str, pid: u32) {
        let tenants = self.tenants.entry(pid).or_default();
        if self.last != Some(pid) {
            tenants.clear();
        }
        tenants.push(tenant.to_owned());
        self.last = Some(pid);
    }

    /// Says in each line whose the process is that it names.
    pub fn attribute(&self, lines: &mut [XidLine], services: &[u32]) {
        for line in lines {
            line.ours = line.pid.map(|pid| {
                if services.contains(&pid) {
                    return vec![SERVICE.to_owned()];
                }
                self.tenants.get(&pid).cloned().unwrap_or_default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PidRegistry, XidLine};

    #[test]
    fn a_process_is_whoever_was_started_as_it_last() {
        let mut registry = PidRegistry::default();
        for (tenant, pid) in [
            ("victim", 7),
            ("neighbour-1", 8),
            ("victim", 9),
            ("neighbour-1", 9),
            // The number of one that is gone.
            ("recovery-client", 7),
        ] {
            registry.enter(tenant, pid);
        }
        let whose = |pid: Option<u32>| {
            let mut lines = [XidLine {
                pid,
                ..XidLine::default()
            }];
            registry.attribute(&mut lines, &[20]);
            let [line] = lines;
            line.ours.map(|ours| ours.join(" "))
        };
        for (pid, expected) in [
            (Some(7), Some("recovery-client")),
            (Some(8), Some("neighbour-1")),
            (Some(9), Some("victim neighbour-1")),
            (Some(20), Some("service")),
            (Some(99), Some("")),
            (None, None),
        ] {
            assert_eq!(whose(pid).as_deref(), expected, "{pid:?}");
        }
    }
}

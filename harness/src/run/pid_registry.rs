//! Process ids of all started tenants: the kernel's log names processes by id only.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use gpubench_record::XidLine;
use gpubench_record::xid::SERVICE;

/// Every process that was started for a tenant, by its id. Clones share the registry.
#[derive(Debug, Clone, Default)]
pub struct PidRegistry(Rc<RefCell<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    tenants: BTreeMap<u32, Vec<String>>,
    /// The process that was entered last.
    last: Option<u32>,
}

impl PidRegistry {
    /// Enters a process. Tenants that are threads of one process are entered one after another; an
    /// id that is entered again later belongs to a new process.
    pub fn enter(&self, tenant: &str, pid: u32) {
        let entries = &mut *self.0.borrow_mut();
        let tenants = entries.tenants.entry(pid).or_default();
        if entries.last != Some(pid) {
            tenants.clear();
        }
        tenants.push(tenant.to_owned());
        entries.last = Some(pid);
    }

    /// Writes into each line the tenants of the process that it names.
    pub fn attribute(&self, lines: &mut [XidLine], services: &[u32]) {
        let entries = self.0.borrow();
        for line in lines {
            line.ours = line.pid.map(|pid| {
                if services.contains(&pid) {
                    return vec![SERVICE.to_owned()];
                }
                entries.tenants.get(&pid).cloned().unwrap_or_default()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PidRegistry, XidLine};

    #[test]
    fn an_id_belongs_to_the_tenant_that_was_started_last_with_it() {
        let registry = PidRegistry::default();
        for (tenant, pid) in [
            ("victim", 7),
            ("neighbour-1", 8),
            ("victim", 9),
            ("neighbour-1", 9),
            // The id of a process that has ended.
            ("recovery-client", 7),
        ] {
            registry.enter(tenant, pid);
        }
        let tenants_of = |pid: Option<u32>| {
            let mut lines = [XidLine { pid, ..XidLine::default() }];
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
            assert_eq!(tenants_of(pid).as_deref(), expected, "{pid:?}");
        }
    }
}

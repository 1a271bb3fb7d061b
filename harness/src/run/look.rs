//! Looking around a cell: who is on the device, who serves whom, and what is mapped where.

use gpubench_record::Condition;

use super::Run;
use super::crew::Crew;
use super::sampler::Sampled;
use crate::mechanism::Seen;

/// Everything that proofs are made of, right after a cell, while its contexts are still open.
pub fn seen(run: &Run, crew: &Crew, condition: Condition, sampled: &Sampled) -> Seen {
    let set_up = &crew.terms().set_up;
    let mut seen = Seen {
        tenants: crew.told(),
        listed: sampled.listed.clone(),
        mps_clients: sampled.mps_clients.clone(),
        compute_mode: run.setup.identity.facts.get("compute_mode").cloned(),
        native_sm_count: Some(run.setup.identity.sm_count).filter(|&count| count > 0),
        ..Seen::new(condition, crew.open_pids())
    };
    match set_up.servers() {
        Ok(servers) => {
            seen.daemon_clients = set_up.clients(&servers);
            seen.services = servers;
        }
        Err(error) => seen.daemon_clients = Some(Err(error)),
    }
    seen
}

/// The files that a process has mapped, each once; absent if the system does not tell.
pub fn mapped(pid: u32) -> Option<Vec<String>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let path = |line: &str| line.find('/').map(|at| line[at..].to_owned());
    let mut files: Vec<String> = maps.lines().filter_map(path).collect();
    files.sort();
    files.dedup();
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::mapped;

    #[test]
    fn this_very_program_is_mapped_into_itself() {
        let own = std::env::current_exe().ok();
        let files = mapped(std::process::id());
        let own = own.map(|path| path.display().to_string());
        assert!(own.is_some_and(|own| files.is_some_and(|files| files.contains(&own))));
        assert_eq!(mapped(0), None);
    }
}

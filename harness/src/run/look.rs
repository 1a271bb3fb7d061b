//! Looking around a cell: who is on the device, who serves whom, and what is mapped where.

use gpubench_record::Condition;

use super::Run;
use super::crew::Crew;
use super::sampler::Sampled;
use crate::mechanism::Seen;
use crate::tenant;

/// Everything that proofs are made of, right after a cell, while its contexts are still open.
pub fn seen(run: &Run, crew: &Crew, condition: Condition, sampled: &Sampled) -> Seen {
    let set_up = &crew.terms().set_up;
    let (services, daemon_clients) = match set_up.servers() {
        Ok(servers) => {
            let clients = set_up.clients(&servers);
            (servers, clients)
        }
        Err(error) => (Vec::new(), Some(Err(error))),
    };
    // Everybody that anybody names: among them are the processes of a program of the user's.
    let named = [&sampled.listed, &sampled.mps_clients]
        .into_iter()
        .flatten();
    let of_daemon = daemon_clients.iter().flatten();
    let mut named: Vec<u32> = named.chain(of_daemon).flatten().copied().collect();
    named.sort_unstable();
    named.dedup();
    let program = crew.program();
    Seen {
        tenants: crew.told(),
        listed: sampled.listed.clone(),
        mps_clients: sampled.mps_clients.clone(),
        knocks: crew.knocks(),
        compute_mode: sampled.compute_mode.clone(),
        native_sm_count: Some(run.setup.identity.sm_count).filter(|&count| count > 0),
        services,
        daemon_clients,
        program_mapped: program.map(|pid| mapped_by_program(pid, &named)),
        ..Seen::new(condition, crew.open_pids(&named))
    }
}

/// The files that the processes of a program of the user's have mapped.
fn mapped_by_program(program: u32, named: &[u32]) -> Vec<String> {
    let members = tenant::members(program, named.iter().copied().chain([program]));
    let mut files: Vec<String> = members.into_iter().filter_map(mapped).flatten().collect();
    files.sort();
    files.dedup();
    files
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

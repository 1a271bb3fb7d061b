//! `nvidia-smi topo -m`: how devices are connected, and the CPUs that are near them. A virtual
//! device is alone, and as near to every CPU of the host as to any other.

use super::{Answer, NOT_SUPPORTED, invalid, options, refusal};

/// Name of the subcommand, the first argument.
pub(super) const NAME: &str = "topo";

/// The kinds of connections, as driver 580.159.04 explains them (reports/facts).
const LEGEND: &str = include_str!("topo.txt");

/// Parses the arguments after the subcommand into the device that they name.
pub(super) fn parse<'a>(args: &[&'a str]) -> Result<Option<&'a str>, Answer> {
    let (asked, id) = options::parse(args, |name, _| match name {
        "-m" | "--matrix" => Ok(()),
        _ => Err(refusal(NOT_SUPPORTED, super::NOT_HERE)),
    })?;
    asked.ok_or_else(|| invalid(NAME))?;
    Ok(id)
}

pub(super) fn answer() -> Answer {
    let listed = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.trim().is_empty() { "N/A".to_owned() } else { text.trim().to_owned() }
    };
    let cpus = listed("/sys/devices/system/cpu/online");
    Answer { text: matrix(&cpus, &listed("/sys/devices/system/node/online")), code: 0 }
}

fn matrix(cpus: &str, nodes: &str) -> String {
    format!(
        "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t{cpus}\t{nodes}\t\tN/A\n\n\
         {LEGEND}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{facts, on};
    use super::matrix;
    use gpubench_virtual_gpu_model::machine::Machine;

    #[test]
    fn a_device_is_alone_beside_the_hosts_cpus() -> Result<(), Box<dyn std::error::Error>> {
        assert_eq!(matrix("0-15", "0"), facts("topo.txt")?);
        on(&Machine::load("turing")?, true, |run, _| {
            let found = run("topo -m -i 0")?;
            assert!(found.text.contains("\nGPU0\t X \t"), "{}", found.text);
            for (line, code) in [("topo", 2), ("topo -p2p r", 3), ("topo -m -i 1", 6)] {
                assert_eq!(run(line)?.code, code, "{line}");
            }
            Ok(())
        })
    }
}

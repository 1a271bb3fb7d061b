//! Static SM partitions: exclusive runs of SM chunks (MPS documentation, release 615, "Static SM
//! partitioning").

use super::daemon::Daemon;
use super::{MpsError, act, refuse};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::mig;
use gpubench_virtual_gpu_model::state::{SmPartition, State, WHOLE};

/// UUID of the daemon's device, as in commands.
pub fn uuid(state: &State, device: &Device, daemon: u32) -> String {
    let engine = state.daemons.rows[daemon as usize].engine;
    if engine == WHOLE {
        device.machine().uuid()
    } else {
        mig::uuid(state, device.machine(), engine)
    }
}

/// `sm_partition add`: uses the first run of free chunks that is long enough.
pub fn add(daemon: &Daemon, gpu: &str, chunks: &str) -> Result<String, MpsError> {
    let count: u32 = match chunks.parse() {
        Ok(count) if count > 0 => count,
        _ => {
            return refuse(format!("{chunks:?} is not a number of chunks: accepted is 1 or more"));
        }
    };
    let chunk_sms = chunk_sms(daemon)?;
    act(&daemon.device, |state| {
        let own = uuid(state, &daemon.device, daemon.row);
        if own != gpu {
            return refuse(format!("{gpu:?} is not the device of this daemon ({own})"));
        }
        let Some(first) = first_free(state, daemon.row, chunk_sms, count) else {
            return refuse(format!(
                "no run of {count} free chunks: CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"
            ));
        };
        let taken = |id: u32| of(state, daemon.row).any(|(_, p)| p.id == id);
        let Some(id) = (1..).find(|&id| !taken(id)) else {
            return Err(MpsError::Full("partition"));
        };
        let row = state.partitions.claim(|p| !p.live);
        let row = row.ok_or(MpsError::Full("partition"))?;
        state.partitions.rows[row] = SmPartition {
            live: true,
            daemon: daemon.row,
            id,
            sm_first: first * chunk_sms,
            sm_count: count * chunk_sms,
        };
        Ok(format!("Partition {gpu}/{id} created\n"))
    })?
}

/// `lspart`: a line for the free chunks, then one per partition, in the vendor's columns. It names
/// a device by the first 8 digits of its UUID, as the example of the document does.
pub fn list(daemon: &Daemon) -> Result<String, MpsError> {
    let chunk_sms = chunk_sms(daemon)?;
    let text = daemon.device.transact(|state, _| {
        let mut gpu = uuid(state, &daemon.device, daemon.row);
        gpu.truncate("GPU-".len() + 8);
        let parts: Vec<(u32, SmPartition)> = of(state, daemon.row).collect();
        let used: u32 = parts.iter().map(|(_, p)| p.sm_count).sum::<u32>() / chunk_sms;
        let free = all_chunks(state, daemon.row, chunk_sms) - used;
        let [free, used, free_sm, used_sm] =
            [free, used, free * chunk_sms, used * chunk_sms].map(|n| n.to_string());
        let mut out = line(["GPU", "Partition", "free", "used", "free", "used", "clients"]);
        out += &line(["", "", "chunk", "chunk", "SM", "SM", ""]);
        out += &line([&gpu, "-", &free, &used, &free_sm, &used_sm, "-"]);
        for (row, part) in parts {
            let [id, chunks, sms] =
                [part.id, part.sm_count / chunk_sms, part.sm_count].map(|n| n.to_string());
            let clients = if is_used(state, row) { "Yes" } else { "No" };
            out += &line([&gpu, &id, "-", &chunks, "-", &sms, clients]);
        }
        out
    })?;
    Ok(text)
}

fn line(cells: [&str; 7]) -> String {
    let [gpu, part, free, used, free_sm, used_sm, clients] = cells;
    let text =
        format!("{gpu:<14}{part:<10} {free:<6} {used:<6} {free_sm:<5} {used_sm:<5} {clients}");
    format!("{}\n", text.trim_end())
}

fn chunk_sms(daemon: &Daemon) -> Result<u32, MpsError> {
    if !daemon.static_partitions {
        return refuse("static partitioning is off: start the daemon with -S".to_owned());
    }
    let mps = daemon.device.machine().mps.as_ref();
    Ok(mps.map_or(1, |mps| mps.chunk_sms.max(1)))
}

fn all_chunks(state: &State, daemon: u32, chunk_sms: u32) -> u32 {
    let engine = state.daemons.rows[daemon as usize].engine;
    state.engines.rows[engine as usize].sm_count / chunk_sms
}

fn of(state: &State, daemon: u32) -> impl Iterator<Item = (u32, SmPartition)> + '_ {
    let rows = state.partitions.live().iter().enumerate();
    rows.filter(move |(_, p)| p.live && p.daemon == daemon).map(|(row, p)| (row as u32, *p))
}

fn is_used(state: &State, partition: u32) -> bool {
    let mut contexts = state.contexts.live().iter();
    contexts.any(|c| c.live && c.partition == partition)
}

/// The first chunk of the first run of `count` free ones.
fn first_free(state: &State, daemon: u32, chunk_sms: u32, count: u32) -> Option<u32> {
    let all = all_chunks(state, daemon, chunk_sms);
    let free = |chunk: u32| {
        let sm = chunk * chunk_sms;
        of(state, daemon).all(|(_, p)| sm < p.sm_first || sm >= p.sm_first + p.sm_count)
    };
    let last = all.checked_sub(count)?;
    (0..=last).find(|&first| (first..first + count).all(free))
}

#[cfg(test)]
mod tests {
    use super::first_free;
    use gpubench_virtual_gpu_model::state::{SmPartition, State};

    #[test]
    fn partitions_take_the_first_run_that_is_long_enough() {
        let mut state = State::new(0, 0);
        // 18 SMs in chunks of 4: four chunks and an unused rest.
        state.engines.rows[0].sm_count = 18;
        assert_eq!(first_free(&state, 0, 4, 4), Some(0));
        assert_eq!(first_free(&state, 0, 4, 5), None);
        state.partitions.rows[0] =
            SmPartition { live: true, daemon: 0, id: 1, sm_first: 4, sm_count: 4 };
        state.partitions.used = 1;
        assert_eq!(first_free(&state, 0, 4, 1), Some(0));
        assert_eq!(first_free(&state, 0, 4, 2), Some(2));
        assert_eq!(first_free(&state, 0, 4, 3), None);
        assert_eq!(first_free(&state, 1, 4, 4), Some(0), "another daemon's");
    }
}

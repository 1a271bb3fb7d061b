//! Keys without addresses: equal for identical launches of all contexts and processes of a device.

use super::costs::PortableLaunch;
use crate::code::Code;
use crate::entries::FunctionEntry;
use crate::launch::kernel::kernel_of;
use crate::launch::request::Key;
use crate::launch::sampling::Extent;
use crate::process::Process;

/// The key of a launch without addresses.
pub fn portable(
    process: &Process,
    function: &FunctionEntry,
    key: &Key,
) -> Result<PortableLaunch, Code> {
    let part = process.part(key.context, &key.placement)?;
    let kernel = kernel_of(function)?;
    let mut hasher = blake3::Hasher::new();
    let mut word = |number: u64| {
        hasher.update(&number.to_le_bytes());
    };
    word(key.hash);
    // A process that reads results must not find the sample of one that reads none.
    word(u64::from(Extent::of(process) == Extent::Full));
    let shape = key.grid.iter().chain(&key.block).chain([&key.shared_bytes]);
    shape.for_each(|&side| word(u64::from(side)));
    word(u64::from(part.sm_first));
    word(u64::from(part.sm_count));
    word(part.l2_bytes);
    word(part.bandwidth.to_bits());
    let mut pointees = Vec::new();
    let mut private = true;
    let tables = process.tables();
    for bytes in key.params.chunks(8) {
        let mut raw = [0; 8];
        raw[..bytes.len()].copy_from_slice(bytes);
        let value = u64::from_le_bytes(raw);
        // A value inside an allocation is taken for an address.
        let pointee = tables.covering(value, 1);
        let Some((start, entry)) = pointee.filter(|(_, entry)| entry.context == key.context) else {
            word(0);
            word(value);
            continue;
        };
        private &= !entry.open;
        let known = pointees.iter().position(|&other| other == start);
        let ordinal = known.unwrap_or_else(|| {
            pointees.push(start);
            pointees.len() - 1
        });
        word(1 + ordinal as u64);
        word(value - start);
        word(entry.bytes);
        word(u64::from(entry.writable));
    }
    drop(tables);
    hasher.update(key.name.as_bytes());
    let independent =
        private && !kernel.properties.data_dependent && !kernel.properties.calls_printf;
    Ok(PortableLaunch {
        pointees,
        key: independent.then(|| hasher.finalize().to_hex()[..32].to_owned()),
    })
}

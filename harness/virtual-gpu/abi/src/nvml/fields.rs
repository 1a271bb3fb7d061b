//! Field values: figures by number, each with its own result.

use std::ffi::c_int;

use super::returns::{self, Return};
use super::types::FieldValue;
use super::{DeviceHandle, check_not_null, put, read};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::nvml::fields::{Figure, field};
use gpubench_virtual_gpu_driver::nvml::target::device;

/// `nvmlValueType_t`.
pub(super) const UNSIGNED_INT: u32 = 1;
const UNSIGNED_LONG_LONG: u32 = 3;

entries! {
    fn nvmlDeviceGetFieldValues(handle: DeviceHandle, count: c_int, values: *mut FieldValue) {
        let device = device(handle)?;
        check_not_null(values)?;
        let count = usize::try_from(count).ok().filter(|count| *count > 0);
        for index in 0..count.ok_or(returns::INVALID_ARGUMENT)? {
            let field = values.add(index);
            put(field, evaluate(&device, read(field)?)?)?;
        }
        Ok(())
    }
}

fn evaluate(device: &Device, request: FieldValue) -> Result<FieldValue, Return> {
    let (figure, stamp_us) = field(device, request.field_id, request.scope_id)?;
    let (value_type, value, result) = match figure {
        Ok(Figure::Int(value)) => (UNSIGNED_INT, u64::from(value), 0),
        Ok(Figure::Long(value)) => (UNSIGNED_LONG_LONG, value, 0),
        Err(error) => (request.value_type, request.value, Return::from(error).0),
    };
    Ok(FieldValue {
        timestamp_us: stamp_us as i64,
        latency_us: 0,
        value_type,
        result,
        value,
        ..request
    })
}

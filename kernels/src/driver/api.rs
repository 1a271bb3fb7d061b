//! The function table: every libcuda entry point in use, with its C signature, found by name.
//!
//! Signatures follow cuda.h of CUDA 12.9; every symbol under `required` is exported since driver
//! 450 at the latest, so the table fills on all supported drivers. Each entry becomes an unsafe
//! method that returns the driver's number as a typed error and never as an enum.
#![expect(unsafe_code, reason = "calls into libcuda through pointers found by name")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::error::{DriverError, check};
use super::layout::{
    AccessDescriptor, AllocNode, AllocationProperties, ArrayDescriptor, DevResource, IpcHandle,
};

/// An opaque driver object (context, module, function, stream, event, graph, pool).
pub(super) type Handle = *mut c_void;

macro_rules! table {
    (
        required { $( $req:ident = $req_symbol:literal ( $( $ra:ident : $rt:ty ),* ); )* }
        optional { $( $opt:ident = $opt_symbol:literal ( $( $oa:ident : $ot:ty ),* ); )* }
    ) => {
        /// Pointers into libcuda. A missing optional symbol is `None`, a missing required one an
        /// error when the table is filled.
        #[derive(Debug)]
        pub(super) struct Api {
            $( $req: unsafe extern "C" fn($( $rt ),*) -> c_int, )*
            $( $opt: Option<unsafe extern "C" fn($( $ot ),*) -> c_int>, )*
        }

        impl Api {
            /// Fills the table with `find`, which returns the address of a symbol or null.
            pub(super) fn fill(
                find: impl Fn(&'static str) -> *const c_void,
            ) -> Result<Self, DriverError> {
                Ok(Self {
                    $( $req: {
                        let address = find($req_symbol);
                        if address.is_null() {
                            return Err(DriverError::MissingSymbol { symbol: $req_symbol });
                        }
                        // SAFETY: `address` is the non-null address of the C function of this name,
                        // whose signature cuda.h fixes for the name (a changed one gets a suffix).
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                unsafe extern "C" fn($( $rt ),*) -> c_int,
                            >(address)
                        }
                    }, )*
                    $( $opt: {
                        let address = find($opt_symbol);
                        (!address.is_null()).then(|| {
                            // SAFETY: as above: non-null, and the name fixes the signature.
                            unsafe {
                                std::mem::transmute::<
                                    *const c_void,
                                    unsafe extern "C" fn($( $ot ),*) -> c_int,
                                >(address)
                            }
                        })
                    }, )*
                })
            }

            /// Every symbol of the table; true marks the required ones.
            #[cfg(test)]
            pub(super) fn symbols() -> Vec<(&'static str, bool)> {
                vec![ $( ($req_symbol, true), )* $( ($opt_symbol, false), )* ]
            }

            /// Address of the function that allocates device memory.
            pub(super) fn allocator(&self) -> *const c_void {
                self.mem_alloc as *const c_void
            }

            $(
                /// # Safety
                /// As cuda.h requires of this function: pointers valid, handles alive.
                #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
                pub(super) unsafe fn $req(&self $( , $ra: $rt )*) -> Result<(), DriverError> {
                    // SAFETY: the caller keeps the contract of the C function.
                    check($req_symbol, unsafe { (self.$req)($( $ra ),*) })
                }
            )*
            $(
                /// # Safety
                /// As cuda.h requires of this function: pointers valid, handles alive.
                #[allow(clippy::too_many_arguments, reason = "the C function has as many")]
                pub(super) unsafe fn $opt(&self $( , $oa: $ot )*) -> Result<(), DriverError> {
                    let call = self.$opt
                        .ok_or(DriverError::MissingSymbol { symbol: $opt_symbol })?;
                    // SAFETY: the caller keeps the contract of the C function.
                    check($opt_symbol, unsafe { call($( $oa ),*) })
                }
            )*
        }
    };
}

table! {
    required {
        init = "cuInit"(flags: c_uint);
        driver_get_version = "cuDriverGetVersion"(version: *mut c_int);
        device_get_count = "cuDeviceGetCount"(count: *mut c_int);
        device_get = "cuDeviceGet"(device: *mut c_int, ordinal: c_int);
        device_get_name = "cuDeviceGetName"(name: *mut c_char, len: c_int, device: c_int);
        device_get_uuid = "cuDeviceGetUuid"(uuid: *mut [u8; 16], device: c_int);
        device_total_mem = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: c_int);
        device_get_attribute =
            "cuDeviceGetAttribute"(value: *mut c_int, attribute: c_int, device: c_int);
        device_get_pci_bus_id =
            "cuDeviceGetPCIBusId"(id: *mut c_char, len: c_int, device: c_int);
        primary_ctx_set_flags = "cuDevicePrimaryCtxSetFlags_v2"(device: c_int, flags: c_uint);
        primary_ctx_get_state =
            "cuDevicePrimaryCtxGetState"(device: c_int, flags: *mut c_uint, active: *mut c_int);
        primary_ctx_retain = "cuDevicePrimaryCtxRetain"(context: *mut Handle, device: c_int);
        primary_ctx_release = "cuDevicePrimaryCtxRelease_v2"(device: c_int);
        ctx_create = "cuCtxCreate_v2"(context: *mut Handle, flags: c_uint, device: c_int);
        ctx_get_flags = "cuCtxGetFlags"(flags: *mut c_uint);
        ctx_destroy = "cuCtxDestroy_v2"(context: Handle);
        ctx_set_current = "cuCtxSetCurrent"(context: Handle);
        ctx_push_current = "cuCtxPushCurrent_v2"(context: Handle);
        ctx_pop_current = "cuCtxPopCurrent_v2"(context: *mut Handle);
        ctx_synchronize = "cuCtxSynchronize"();
        ctx_get_stream_priority_range =
            "cuCtxGetStreamPriorityRange"(least: *mut c_int, greatest: *mut c_int);
        ctx_get_limit = "cuCtxGetLimit"(value: *mut usize, limit: c_int);
        ctx_set_limit = "cuCtxSetLimit"(limit: c_int, value: usize);
        module_load_data_ex = "cuModuleLoadDataEx"(
            module: *mut Handle, image: *const c_void, count: c_uint,
            options: *mut c_int, values: *mut *mut c_void
        );
        module_unload = "cuModuleUnload"(module: Handle);
        module_get_function =
            "cuModuleGetFunction"(function: *mut Handle, module: Handle, name: *const c_char);
        func_get_attribute =
            "cuFuncGetAttribute"(value: *mut c_int, attribute: c_int, function: Handle);
        occupancy = "cuOccupancyMaxActiveBlocksPerMultiprocessor"(
            blocks: *mut c_int, function: Handle, threads: c_int, shared_bytes: usize
        );
        launch_kernel = "cuLaunchKernel"(
            function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint,
            stream: Handle, params: *mut *mut c_void, extra: *mut *mut c_void
        );
        stream_create =
            "cuStreamCreateWithPriority"(stream: *mut Handle, flags: c_uint, priority: c_int);
        stream_get_priority = "cuStreamGetPriority"(stream: Handle, priority: *mut c_int);
        stream_destroy = "cuStreamDestroy_v2"(stream: Handle);
        stream_synchronize = "cuStreamSynchronize"(stream: Handle);
        stream_query = "cuStreamQuery"(stream: Handle);
        stream_wait_event = "cuStreamWaitEvent"(stream: Handle, event: Handle, flags: c_uint);
        event_create = "cuEventCreate"(event: *mut Handle, flags: c_uint);
        event_destroy = "cuEventDestroy_v2"(event: Handle);
        event_record = "cuEventRecord"(event: Handle, stream: Handle);
        event_query = "cuEventQuery"(event: Handle);
        event_synchronize = "cuEventSynchronize"(event: Handle);
        event_elapsed_time =
            "cuEventElapsedTime"(milliseconds: *mut f32, start: Handle, end: Handle);
        mem_get_info = "cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
        mem_alloc = "cuMemAlloc_v2"(pointer: *mut u64, bytes: usize);
        mem_free = "cuMemFree_v2"(pointer: u64);
        memcpy_h2d = "cuMemcpyHtoD_v2"(to: u64, from: *const c_void, bytes: usize);
        memcpy_d2h = "cuMemcpyDtoH_v2"(to: *mut c_void, from: u64, bytes: usize);
        memcpy_h2d_async =
            "cuMemcpyHtoDAsync_v2"(to: u64, from: *const c_void, bytes: usize, stream: Handle);
        memcpy_d2h_async =
            "cuMemcpyDtoHAsync_v2"(to: *mut c_void, from: u64, bytes: usize, stream: Handle);
        memset_d8 = "cuMemsetD8_v2"(pointer: u64, value: u8, count: usize);
        memset_d32 = "cuMemsetD32_v2"(pointer: u64, value: c_uint, count: usize);
        mem_host_alloc = "cuMemHostAlloc"(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
        mem_free_host = "cuMemFreeHost"(pointer: *mut c_void);
        mem_host_get_device_pointer = "cuMemHostGetDevicePointer_v2"(
            device_pointer: *mut u64, pointer: *mut c_void, flags: c_uint
        );
    }
    optional {
        // CUDA 11.4; on a MIG slice this one names the slice, and cuDeviceGetUuid its parent.
        device_get_uuid_v2 = "cuDeviceGetUuid_v2"(uuid: *mut [u8; 16], device: c_int);
        // CUDA 12.4: SMs reserved for some streams of a process.
        device_get_dev_resource = "cuDeviceGetDevResource"(
            device: c_int, resource: *mut DevResource, kind: c_uint
        );
        dev_sm_resource_split = "cuDevSmResourceSplitByCount"(
            result: *mut DevResource, groups: *mut c_uint, input: *const DevResource,
            remainder: *mut DevResource, flags: c_uint, least: c_uint
        );
        dev_resource_generate_desc = "cuDevResourceGenerateDesc"(
            descriptor: *mut Handle, resources: *mut DevResource, count: c_uint
        );
        green_ctx_create = "cuGreenCtxCreate"(
            green: *mut Handle, descriptor: Handle, device: c_int, flags: c_uint
        );
        green_ctx_destroy = "cuGreenCtxDestroy"(green: Handle);
        ctx_from_green_ctx = "cuCtxFromGreenCtx"(context: *mut Handle, green: Handle);
        // Other allocation calls for the same memory: a cap that hooks one of them may miss these.
        mem_alloc_pitch = "cuMemAllocPitch_v2"(
            pointer: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint
        );
        mem_alloc_managed = "cuMemAllocManaged"(pointer: *mut u64, bytes: usize, flags: c_uint);
        mem_alloc_async = "cuMemAllocAsync"(pointer: *mut u64, bytes: usize, stream: Handle);
        mem_free_async = "cuMemFreeAsync"(pointer: u64, stream: Handle);
        array_create = "cuArrayCreate_v2"(array: *mut Handle, descriptor: *const ArrayDescriptor);
        array_destroy = "cuArrayDestroy"(array: Handle);
        mem_granularity = "cuMemGetAllocationGranularity"(
            bytes: *mut usize, properties: *const AllocationProperties, option: c_int
        );
        mem_create = "cuMemCreate"(
            handle: *mut u64, bytes: usize, properties: *const AllocationProperties, flags: u64
        );
        mem_release = "cuMemRelease"(handle: u64);
        mem_address_reserve = "cuMemAddressReserve"(
            address: *mut u64, bytes: usize, alignment: usize, wish: u64, flags: u64
        );
        mem_address_free = "cuMemAddressFree"(address: u64, bytes: usize);
        mem_map =
            "cuMemMap"(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64);
        mem_unmap = "cuMemUnmap"(address: u64, bytes: usize);
        mem_set_access = "cuMemSetAccess"(
            address: u64, bytes: usize, access: *const AccessDescriptor, count: usize
        );
        mem_host_register =
            "cuMemHostRegister_v2"(pointer: *mut c_void, bytes: usize, flags: c_uint);
        mem_host_unregister = "cuMemHostUnregister"(pointer: *mut c_void);
        // Memory of another process.
        ipc_get_mem_handle = "cuIpcGetMemHandle"(handle: *mut IpcHandle, pointer: u64);
        ipc_open_mem_handle =
            "cuIpcOpenMemHandle_v2"(pointer: *mut u64, handle: IpcHandle, flags: c_uint);
        ipc_close_mem_handle = "cuIpcCloseMemHandle"(pointer: u64);
        // Other launch calls: a limiter that hooks cuLaunchKernel may miss these.
        launch_cooperative = "cuLaunchCooperativeKernel"(
            function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint,
            stream: Handle, params: *mut *mut c_void
        );
        stream_begin_capture = "cuStreamBeginCapture_v2"(stream: Handle, mode: c_int);
        stream_end_capture = "cuStreamEndCapture"(stream: Handle, graph: *mut Handle);
        graph_instantiate =
            "cuGraphInstantiateWithFlags"(executable: *mut Handle, graph: Handle, flags: u64);
        graph_create = "cuGraphCreate"(graph: *mut Handle, flags: c_uint);
        // CUDA 11.4: memory that a graph allocates, without a call that allocates.
        graph_add_mem_alloc_node = "cuGraphAddMemAllocNode"(
            node: *mut Handle, graph: Handle, after: *const Handle, count: usize,
            params: *mut AllocNode
        );
        device_graph_mem_trim = "cuDeviceGraphMemTrim"(device: c_int);
        graph_launch = "cuGraphLaunch"(executable: Handle, stream: Handle);
        graph_exec_destroy = "cuGraphExecDestroy"(executable: Handle);
        graph_destroy = "cuGraphDestroy"(graph: Handle);
        // Variants of the same calls, and allocation from an explicit pool: a hook may miss these.
        launch_kernel_ptsz = "cuLaunchKernel_ptsz"(
            function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint,
            stream: Handle, params: *mut *mut c_void, extra: *mut *mut c_void
        );
        mem_alloc_async_ptsz =
            "cuMemAllocAsync_ptsz"(pointer: *mut u64, bytes: usize, stream: Handle);
        device_get_default_mem_pool =
            "cuDeviceGetDefaultMemPool"(pool: *mut Handle, device: c_int);
        mem_alloc_from_pool_async = "cuMemAllocFromPoolAsync"(
            pointer: *mut u64, bytes: usize, pool: Handle, stream: Handle
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_missing_required_symbol_is_named_and_an_optional_one_is_not_missed() {
        // Never called: any non-null address fills the table.
        let somewhere = Api::symbols as *const c_void;
        let without = |gone: &'static str| {
            Api::fill(move |s| if s == gone { std::ptr::null() } else { somewhere })
        };
        for (symbol, required) in Api::symbols() {
            match without(symbol) {
                Ok(_) => assert!(!required, "{symbol} is required but was not missed"),
                Err(error) => {
                    assert!(required, "{symbol} is optional but was missed");
                    assert_eq!(error, DriverError::MissingSymbol { symbol });
                }
            }
        }
    }

    #[test]
    fn no_symbol_is_in_the_table_twice() {
        let mut symbols = Api::symbols();
        let all = symbols.len();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), all);
    }
}

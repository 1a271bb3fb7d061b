//! Each thread's own default stream, and the entry points that mean it by the null stream.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use super::calls::*;
use crate::cuda::layout::{Copy2d, Copy3d, InstantiateParams, LaunchConfig, Location};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::memory_op::MemOp;
use gpubench_virtual_gpu_driver::operation::{HostFunction, StreamCallback};
use gpubench_virtual_gpu_driver::stream::with_own_stream;

/// Defines entry points that differ from others only in what the null stream means.
macro_rules! own_stream {
    ($( fn $name:ident( $($arg:ident: $ty:ty),* $(,)? ) = $base:ident; )*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(
                non_snake_case,
                clippy::missing_safety_doc,
                clippy::too_many_arguments,
                reason = "names, contracts and arguments are the vendor's"
            )]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> i32 {
                // SAFETY: the same contract as the other entry point's.
                with_own_stream(|| unsafe { $base($($arg),*) })
            }
        )*
    };
}

own_stream! {
    fn cuEventRecordWithFlags_ptsz(
        event: Handle,
        stream: Handle,
        flags: c_uint,
    ) = cuEventRecordWithFlags;
    fn cuEventRecord_ptsz(event: Handle, stream: Handle) = cuEventRecord;
    fn cuGetProcAddress_ptsz(
        symbol: *const c_char,
        pointer: *mut *mut c_void,
        version: c_int,
        flags: u64,
    ) = cuGetProcAddress;
    fn cuGraphInstantiateWithParams_ptsz(
        exec: *mut Handle,
        graph: Handle,
        params: *mut InstantiateParams,
    ) = cuGraphInstantiateWithParams;
    fn cuGraphLaunch_ptsz(exec: Handle, stream: Handle) = cuGraphLaunch;
    fn cuGraphUpload_ptsz(exec: Handle, stream: Handle) = cuGraphUpload;
    fn cuLaunchCooperativeKernel_ptsz(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        params: *mut *mut c_void,
    ) = cuLaunchCooperativeKernel;
    fn cuLaunchHostFunc_ptsz(
        stream: Handle,
        function: Option<HostFunction>,
        data: *mut c_void,
    ) = cuLaunchHostFunc;
    fn cuLaunchHostFunc_v2_ptsz(
        stream: Handle,
        function: Option<HostFunction>,
        data: *mut c_void,
        mode: c_uint,
    ) = cuLaunchHostFunc_v2;
    fn cuLaunchKernelEx_ptsz(
        config: *const LaunchConfig,
        function: Handle,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) = cuLaunchKernelEx;
    fn cuLaunchKernel_ptsz(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) = cuLaunchKernel;
    fn cuMemAllocAsync_ptsz(pointer: *mut u64, bytes: usize, stream: Handle) = cuMemAllocAsync;
    fn cuMemAllocFromPoolAsync_ptsz(
        pointer: *mut u64,
        bytes: usize,
        pool: Handle,
        stream: Handle,
    ) = cuMemAllocFromPoolAsync;
    fn cuMemFreeAsync_ptsz(pointer: u64, stream: Handle) = cuMemFreeAsync;
    fn cuMemPrefetchAsync_ptsz(
        pointer: u64,
        bytes: usize,
        device: c_int,
        stream: Handle,
    ) = cuMemPrefetchAsync;
    fn cuMemPrefetchAsync_v2_ptsz(
        pointer: u64,
        bytes: usize,
        location: Location,
        flags: c_uint,
        stream: Handle,
    ) = cuMemPrefetchAsync_v2;
    fn cuMemcpy2DAsync_v2_ptsz(copy: *const Copy2d, stream: Handle) = cuMemcpy2DAsync_v2;
    fn cuMemcpy2DUnaligned_v2_ptds(copy: *const Copy2d) = cuMemcpy2DUnaligned_v2;
    fn cuMemcpy2D_v2_ptds(copy: *const Copy2d) = cuMemcpy2D_v2;
    fn cuMemcpy3DAsync_v2_ptsz(copy: *const Copy3d, stream: Handle) = cuMemcpy3DAsync_v2;
    fn cuMemcpy3DPeerAsync_ptsz(copy: *const Copy3d, stream: Handle) = cuMemcpy3DPeerAsync;
    fn cuMemcpy3DPeer_ptds(copy: *const Copy3d) = cuMemcpy3DPeer;
    fn cuMemcpy3D_v2_ptds(copy: *const Copy3d) = cuMemcpy3D_v2;
    fn cuMemcpyAsync_ptsz(to: u64, from: u64, bytes: usize, stream: Handle) = cuMemcpyAsync;
    fn cuMemcpyAtoA_v2_ptds(
        to: Handle,
        to_offset: usize,
        from: Handle,
        offset: usize,
        bytes: usize,
    ) = cuMemcpyAtoA_v2;
    fn cuMemcpyAtoD_v2_ptds(to: u64, array: Handle, offset: usize, bytes: usize) = cuMemcpyAtoD_v2;
    fn cuMemcpyAtoHAsync_v2_ptsz(
        to: *mut c_void,
        array: Handle,
        offset: usize,
        bytes: usize,
        stream: Handle,
    ) = cuMemcpyAtoHAsync_v2;
    fn cuMemcpyAtoH_v2_ptds(
        to: *mut c_void,
        array: Handle,
        offset: usize,
        bytes: usize,
    ) = cuMemcpyAtoH_v2;
    fn cuMemcpyDtoA_v2_ptds(
        array: Handle,
        offset: usize,
        from: u64,
        bytes: usize,
    ) = cuMemcpyDtoA_v2;
    fn cuMemcpyDtoDAsync_v2_ptsz(
        to: u64,
        from: u64,
        bytes: usize,
        stream: Handle,
    ) = cuMemcpyDtoDAsync_v2;
    fn cuMemcpyDtoD_v2_ptds(to: u64, from: u64, bytes: usize) = cuMemcpyDtoD_v2;
    fn cuMemcpyDtoHAsync_v2_ptsz(
        to: *mut c_void,
        from: u64,
        bytes: usize,
        stream: Handle,
    ) = cuMemcpyDtoHAsync_v2;
    fn cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: u64, bytes: usize) = cuMemcpyDtoH_v2;
    fn cuMemcpyHtoAAsync_v2_ptsz(
        array: Handle,
        offset: usize,
        from: *const c_void,
        bytes: usize,
        stream: Handle,
    ) = cuMemcpyHtoAAsync_v2;
    fn cuMemcpyHtoA_v2_ptds(
        array: Handle,
        offset: usize,
        from: *const c_void,
        bytes: usize,
    ) = cuMemcpyHtoA_v2;
    fn cuMemcpyHtoDAsync_v2_ptsz(
        to: u64,
        from: *const c_void,
        bytes: usize,
        stream: Handle,
    ) = cuMemcpyHtoDAsync_v2;
    fn cuMemcpyHtoD_v2_ptds(to: u64, from: *const c_void, bytes: usize) = cuMemcpyHtoD_v2;
    fn cuMemcpyPeerAsync_ptsz(
        to: u64,
        to_context: Handle,
        from: u64,
        from_context: Handle,
        bytes: usize,
        stream: Handle,
    ) = cuMemcpyPeerAsync;
    fn cuMemcpyPeer_ptds(
        to: u64,
        to_context: Handle,
        from: u64,
        from_context: Handle,
        bytes: usize,
    ) = cuMemcpyPeer;
    fn cuMemcpy_ptds(to: u64, from: u64, bytes: usize) = cuMemcpy;
    fn cuMemsetD16Async_ptsz(
        pointer: u64,
        value: u16,
        count: usize,
        stream: Handle,
    ) = cuMemsetD16Async;
    fn cuMemsetD16_v2_ptds(pointer: u64, value: u16, count: usize) = cuMemsetD16_v2;
    fn cuMemsetD2D16Async_ptsz(
        pointer: u64,
        pitch: usize,
        value: u16,
        width: usize,
        height: usize,
        stream: Handle,
    ) = cuMemsetD2D16Async;
    fn cuMemsetD2D16_v2_ptds(
        pointer: u64,
        pitch: usize,
        value: u16,
        width: usize,
        height: usize,
    ) = cuMemsetD2D16_v2;
    fn cuMemsetD2D32Async_ptsz(
        pointer: u64,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
        stream: Handle,
    ) = cuMemsetD2D32Async;
    fn cuMemsetD2D32_v2_ptds(
        pointer: u64,
        pitch: usize,
        value: c_uint,
        width: usize,
        height: usize,
    ) = cuMemsetD2D32_v2;
    fn cuMemsetD2D8Async_ptsz(
        pointer: u64,
        pitch: usize,
        value: u8,
        width: usize,
        height: usize,
        stream: Handle,
    ) = cuMemsetD2D8Async;
    fn cuMemsetD2D8_v2_ptds(
        pointer: u64,
        pitch: usize,
        value: u8,
        width: usize,
        height: usize,
    ) = cuMemsetD2D8_v2;
    fn cuMemsetD32Async_ptsz(
        pointer: u64,
        value: c_uint,
        count: usize,
        stream: Handle,
    ) = cuMemsetD32Async;
    fn cuMemsetD32_v2_ptds(pointer: u64, value: c_uint, count: usize) = cuMemsetD32_v2;
    fn cuMemsetD8Async_ptsz(
        pointer: u64,
        value: u8,
        count: usize,
        stream: Handle,
    ) = cuMemsetD8Async;
    fn cuMemsetD8_v2_ptds(pointer: u64, value: u8, count: usize) = cuMemsetD8_v2;
    fn cuStreamAddCallback_ptsz(
        stream: Handle,
        callback: Option<StreamCallback>,
        data: *mut c_void,
        flags: c_uint,
    ) = cuStreamAddCallback;
    fn cuStreamAttachMemAsync_ptsz(
        stream: Handle,
        pointer: u64,
        bytes: usize,
        flags: c_uint,
    ) = cuStreamAttachMemAsync;
    fn cuStreamBeginCaptureToGraph_ptsz(
        stream: Handle,
        graph: Handle,
        after: *const Handle,
        data: *const c_void,
        count: usize,
        mode: c_int,
    ) = cuStreamBeginCaptureToGraph;
    fn cuStreamBeginCapture_ptsz(stream: Handle) = cuStreamBeginCapture;
    fn cuStreamBeginCapture_v2_ptsz(stream: Handle, mode: c_int) = cuStreamBeginCapture_v2;
    fn cuStreamEndCapture_ptsz(stream: Handle, graph: *mut Handle) = cuStreamEndCapture;
    fn cuStreamGetCaptureInfo_ptsz(
        stream: Handle,
        status: *mut c_int,
        id: *mut c_ulonglong,
    ) = cuStreamGetCaptureInfo;
    fn cuStreamGetCaptureInfo_v2_ptsz(
        stream: Handle,
        status: *mut c_int,
        id: *mut c_ulonglong,
        graph: *mut Handle,
        tips: *mut *const Handle,
        count: *mut usize,
    ) = cuStreamGetCaptureInfo_v2;
    fn cuStreamGetCaptureInfo_v3_ptsz(
        stream: Handle,
        status: *mut c_int,
        id: *mut c_ulonglong,
        graph: *mut Handle,
        tips: *mut *const Handle,
        data: *mut *const c_void,
        count: *mut usize,
    ) = cuStreamGetCaptureInfo_v3;
    fn cuStreamGetCtx_ptsz(stream: Handle, context: *mut Handle) = cuStreamGetCtx;
    fn cuStreamGetDevice_ptsz(stream: Handle, device: *mut c_int) = cuStreamGetDevice;
    fn cuStreamGetFlags_ptsz(stream: Handle, flags: *mut c_uint) = cuStreamGetFlags;
    fn cuStreamGetId_ptsz(stream: Handle, id: *mut c_ulonglong) = cuStreamGetId;
    fn cuStreamGetPriority_ptsz(stream: Handle, priority: *mut c_int) = cuStreamGetPriority;
    fn cuStreamIsCapturing_ptsz(stream: Handle, status: *mut c_int) = cuStreamIsCapturing;
    fn cuStreamQuery_ptsz(stream: Handle) = cuStreamQuery;
    fn cuStreamSynchronize_ptsz(stream: Handle) = cuStreamSynchronize;
    fn cuStreamUpdateCaptureDependencies_ptsz(
        stream: Handle,
        tips: *mut Handle,
        count: usize,
        flags: c_uint,
    ) = cuStreamUpdateCaptureDependencies;
    fn cuStreamUpdateCaptureDependencies_v2_ptsz(
        stream: Handle,
        tips: *mut Handle,
        data: *const c_void,
        count: usize,
        flags: c_uint,
    ) = cuStreamUpdateCaptureDependencies_v2;
    fn cuStreamBatchMemOp_ptsz(
        stream: Handle,
        count: c_uint,
        ops: *const MemOp,
        flags: c_uint,
    ) = cuStreamBatchMemOp;
    fn cuStreamBatchMemOp_v2_ptsz(
        stream: Handle,
        count: c_uint,
        ops: *const MemOp,
        flags: c_uint,
    ) = cuStreamBatchMemOp_v2;
    fn cuStreamWaitEvent_ptsz(stream: Handle, event: Handle, flags: c_uint) = cuStreamWaitEvent;
    fn cuStreamWaitValue32_ptsz(
        stream: Handle,
        pointer: u64,
        value: c_uint,
        flags: c_uint,
    ) = cuStreamWaitValue32;
    fn cuStreamWaitValue32_v2_ptsz(
        stream: Handle,
        pointer: u64,
        value: c_uint,
        flags: c_uint,
    ) = cuStreamWaitValue32_v2;
    fn cuStreamWaitValue64_ptsz(
        stream: Handle,
        pointer: u64,
        value: c_ulonglong,
        flags: c_uint,
    ) = cuStreamWaitValue64;
    fn cuStreamWaitValue64_v2_ptsz(
        stream: Handle,
        pointer: u64,
        value: c_ulonglong,
        flags: c_uint,
    ) = cuStreamWaitValue64_v2;
    fn cuStreamWriteValue32_ptsz(
        stream: Handle,
        pointer: u64,
        value: c_uint,
        flags: c_uint,
    ) = cuStreamWriteValue32;
    fn cuStreamWriteValue32_v2_ptsz(
        stream: Handle,
        pointer: u64,
        value: c_uint,
        flags: c_uint,
    ) = cuStreamWriteValue32_v2;
    fn cuStreamWriteValue64_ptsz(
        stream: Handle,
        pointer: u64,
        value: c_ulonglong,
        flags: c_uint,
    ) = cuStreamWriteValue64;
    fn cuStreamWriteValue64_v2_ptsz(
        stream: Handle,
        pointer: u64,
        value: c_ulonglong,
        flags: c_uint,
    ) = cuStreamWriteValue64_v2;
}

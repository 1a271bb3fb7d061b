//! Memory allocated by graphs: mapped while a graph uses it, kept for the next graph, and counted
//! for the process all the time.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::layout::{AllocNode, Location, PoolProperties};
use gpubench_virtual_gpu_model::memory;

use super::graphs::{add, new_graph, ready, set};
use super::*;

const BYTES: usize = 4 << 20;

/// `CUgraphMem_attribute` (cuda.h): used now and at most, reserved now and at most.
const ATTRIBUTES: [i32; 4] = [0, 1, 2, 3];

fn alloc_node() -> AllocNode {
    AllocNode {
        pool: PoolProperties {
            kind: 1,
            handle_types: 0,
            location: Location::DEVICE,
            win32_attributes: null_mut(),
            max_bytes: 0,
            reserved: [0; 56],
        },
        access: std::ptr::null(),
        access_count: 0,
        bytes: BYTES,
        pointer: 0,
    }
}

/// The four attributes, in units of one allocation.
fn figures() -> Result<[u64; 4], Error> {
    let mut found = [u64::MAX; 4];
    for (figure, attribute) in found.iter_mut().zip(ATTRIBUTES) {
        let place = std::ptr::from_mut(figure).cast();
        // SAFETY: a valid pointer.
        ok(unsafe { cuDeviceGetGraphMemAttribute(0, attribute, place) })?;
    }
    Ok(found.map(|bytes| bytes / BYTES as u64))
}

/// Device memory of the process.
fn account() -> Result<u64, Error> {
    let device = device().map_err(|code| format!("{code:?}"))?;
    let slot = device.process()?;
    Ok(device.transact(|state, _| memory::process_bytes(state, slot))?)
}

fn settle() -> Result<(), Error> {
    // SAFETY: no arguments.
    ok(unsafe { cuCtxSynchronize() })
}

fn trim() -> Result<(), Error> {
    // SAFETY: no pointers.
    ok(unsafe { cuDeviceGraphMemTrim(0) })
}

#[test]
fn freed_graph_memory_is_kept_for_the_next_graph() -> Result<(), Error> {
    with_context(|| {
        let (before, graph, mut node) = (account()?, new_graph()?, alloc_node());
        let taken = || Ok::<_, Error>((account()? - before) / BYTES as u64);
        // SAFETY: valid structures, pointers and handles.
        unsafe {
            let made = add(graph, &[], |n, g, a, c| {
                cuGraphAddMemAllocNode(n, g, a, c, &raw mut node)
            })?;
            let mut found = alloc_node();
            (found.bytes, found.pointer) = (0, 0);
            ok(cuGraphMemAllocNodeGetParams(made, &raw mut found))?;
            assert_eq!((found.bytes, found.pointer), (BYTES, node.pointer));
            let fill = set(node.pointer, 3, 1 << 20);
            let filled = add(graph, &[made], |n, g, a, c| {
                cuGraphAddMemsetNode(n, g, a, c, &raw const fill, null_mut())
            })?;
            let exec = ready(graph)?;
            assert_eq!((taken()?, figures()?), (0, [0; 4]), "nothing yet");
            ok(cuGraphLaunch(exec, null_mut()))?;
            assert_eq!((taken()?, figures()?), (1, [1; 4]));
            assert_eq!(words(node.pointer, 2)?, [3, 3]);
            trim()?;
            assert_eq!(taken()?, 1, "in use");
            assert_eq!(cuGraphLaunch(exec, null_mut()), 1, "not freed yet");
            ok(cuMemFreeAsync(node.pointer, null_mut()))?;
            settle()?;
            assert_eq!((taken()?, figures()?), (1, [0, 1, 1, 1]), "kept");
            ok(cuGraphExecDestroy(exec))?;
            add(graph, &[filled], |n, g, a, c| {
                cuGraphAddMemFreeNode(n, g, a, c, node.pointer)
            })?;
            let exec = ready(graph)?;
            for _ in 0..3 {
                ok(cuGraphLaunch(exec, null_mut()))?;
            }
            settle()?;
            assert_eq!((taken()?, figures()?), (1, [0, 1, 1, 1]), "used again");
            trim()?;
            assert_eq!((taken()?, figures()?), (0, [0, 1, 0, 1]), "freed");
            for attribute in ATTRIBUTES {
                let (mut zero, mut one) = (0_u64, 1_u64);
                let (zero, one) = ((&raw mut zero).cast(), (&raw mut one).cast());
                let code = i32::from(attribute % 2 == 0);
                assert_eq!(cuDeviceSetGraphMemAttribute(0, attribute, zero), code);
                assert_eq!(cuDeviceSetGraphMemAttribute(0, attribute, one), 1);
            }
            assert_eq!(figures()?, [0; 4], "high marks begin anew");
            assert_eq!(cuDeviceGraphMemTrim(1), 101, "no such device");
            let mut place = 0_u64;
            let place = (&raw mut place).cast();
            assert_eq!(cuDeviceGetGraphMemAttribute(0, 4, place), 1);
            ok(cuGraphExecDestroy(exec))?;
            ok(cuGraphDestroy(graph))
        }
    })
}

#[test]
fn captured_allocations_belong_to_the_graph() -> Result<(), Error> {
    with_context(|| {
        let (before, stream) = (account()?, stream()?);
        let (mut graph, mut pointer): (Handle, u64) = (null_mut(), 0);
        // SAFETY: valid pointers and handles.
        unsafe {
            ok(cuStreamBeginCapture_v2(stream, 0))?;
            ok(cuMemAllocAsync(&raw mut pointer, BYTES, stream))?;
            ok(cuMemsetD32Async(pointer, 5, BYTES / 4, stream))?;
            ok(cuStreamEndCapture(stream, &raw mut graph))?;
            assert_eq!(account()?, before, "captured, not executed");
            let exec = ready(graph)?;
            ok(cuGraphLaunch(exec, stream))?;
            ok(cuStreamSynchronize(stream))?;
            assert_eq!(words(pointer, 2)?, [5, 5]);
            assert_eq!(account()? - before, BYTES as u64);
            // Any free function works (CUDA C++ Programming Guide, "Graph Memory Nodes").
            ok(cuMemFree_v2(pointer))?;
            assert_eq!(cuMemFree_v2(pointer), 1, "freed already");
            assert_eq!(account()? - before, BYTES as u64, "kept for graphs");
            trim()?;
            assert_eq!(account()?, before);
            // Memory of the next graph is in use when the context is destroyed, and is freed with
            // it.
            ok(cuGraphLaunch(exec, stream))?;
            ok(cuGraphExecDestroy(exec))?;
            ok(cuGraphDestroy(graph))
        }
    })
}

//! Random calls on graphs.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::cuda::layout::{AllocNode, KernelNode, MemsetNode};
use gpubench_virtual_gpu_driver::handles::Handle;

use super::{EXEC, Fuzz, GRAPH, NODE, call, memory::pool_properties};

pub fn nodes(fuzz: &mut Fuzz, copy: Handle) {
    let (mut made, graph) = (null_mut(), fuzz.of_kind(GRAPH));
    let after = [fuzz.of_kind(NODE), fuzz.of_kind(NODE)];
    let (before, length) = (after.as_ptr(), fuzz.dice.below(3));
    let out = &raw mut made;
    match fuzz.dice.below(8) {
        0 | 1 => drop(call!(fuzz, cuGraphCreate(out, 0))),
        2 => drop(call!(fuzz, cuGraphDestroy(graph))),
        3 => drop(call!(fuzz, cuGraphAddEmptyNode(out, graph, before, length))),
        4 => {
            let (to, value, width) = (fuzz.pointer(), 1, fuzz.small());
            let node = MemsetNode {
                to,
                pitch: 0,
                value,
                element_bytes: 4,
                width,
                height: 1,
            };
            let node = &raw const node;
            call!(
                fuzz,
                cuGraphAddMemsetNode(out, graph, before, length, node, null_mut())
            );
        }
        5 => {
            let mut args = [fuzz.pointer(), fuzz.pointer(), 0];
            let mut params: Vec<*mut c_void> = args
                .iter_mut()
                .map(|arg| std::ptr::from_mut(arg).cast())
                .collect();
            let node = KernelNode {
                function: copy,
                grid: [1, 1, 1],
                block: [fuzz.side(), 1, 1],
                shared_bytes: 0,
                params: params.as_mut_ptr(),
                extra: null_mut(),
            };
            call!(
                fuzz,
                cuGraphAddKernelNode(out, graph, before, length, &raw const node)
            );
        }
        6 => {
            let mut node = AllocNode {
                pool: pool_properties(fuzz),
                access: std::ptr::null(),
                access_count: 0,
                bytes: fuzz.size(),
                pointer: 0,
            };
            call!(
                fuzz,
                cuGraphAddMemAllocNode(out, graph, before, length, &raw mut node)
            );
            fuzz.keep_pointer(node.pointer);
        }
        _ => {
            let pointer = fuzz.pointer();
            call!(
                fuzz,
                cuGraphAddMemFreeNode(out, graph, before, length, pointer)
            );
        }
    }
    fuzz.keep(made);
}

pub fn graphs(fuzz: &mut Fuzz) {
    let kind = fuzz.dice.of(&[GRAPH, NODE, EXEC, EXEC]);
    let (mut made, graph, handle) = (null_mut(), fuzz.of_kind(GRAPH), fuzz.of_kind(kind));
    let (stream, mut count, mut list) = (fuzz.stream(), 4, [null_mut(); 4]);
    let out = &raw mut made;
    match fuzz.dice.below(6) {
        0 => drop(call!(
            fuzz,
            cuGraphGetNodes(graph, list.as_mut_ptr(), &raw mut count)
        )),
        1 => drop(call!(fuzz, cuGraphInstantiateWithFlags(out, graph, 0))),
        2 => drop(call!(fuzz, cuGraphLaunch(handle, stream))),
        3 => drop(call!(fuzz, cuGraphExecDestroy(handle))),
        4 => {
            let mode = fuzz.number();
            call!(fuzz, cuStreamBeginCapture_v2(stream, mode));
        }
        _ => drop(call!(fuzz, cuStreamEndCapture(stream, out))),
    }
    fuzz.keep(made);
}

//! Random calls on graphs.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::cuda::layout::AllocNode;

use super::{EXEC, Fuzz, GRAPH, NODE, call, memory::pool_properties};

pub fn nodes(fuzz: &mut Fuzz) {
    let (mut made, graph) = (null_mut(), fuzz.of_kind(GRAPH));
    let after = [fuzz.of_kind(NODE), fuzz.of_kind(NODE)];
    let (before, length) = (after.as_ptr(), fuzz.dice.below(3));
    let out = &raw mut made;
    match fuzz.dice.below(5) {
        0 | 1 => drop(call!(fuzz, cuGraphCreate(out, 0))),
        2 => drop(call!(fuzz, cuGraphDestroy(graph))),
        _ => {
            let mut node = AllocNode {
                pool: pool_properties(fuzz),
                access: std::ptr::null(),
                access_count: 0,
                bytes: fuzz.size(),
                pointer: 0,
            };
            call!(fuzz, cuGraphAddMemAllocNode(out, graph, before, length, &raw mut node));
            fuzz.keep_pointer(node.pointer);
        }
    }
    fuzz.keep(made);
}

pub fn graphs(fuzz: &mut Fuzz) {
    let kind = fuzz.dice.of(&[GRAPH, NODE, EXEC, EXEC]);
    let (mut made, graph, handle) = (null_mut(), fuzz.of_kind(GRAPH), fuzz.of_kind(kind));
    let stream = fuzz.stream();
    let out = &raw mut made;
    match fuzz.dice.below(6) {
        0 | 1 => drop(call!(fuzz, cuGraphInstantiateWithFlags(out, graph, 0))),
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

//! Cooperative launches, and invalid launch shapes in calls that do not launch yet.

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::layout::{LaunchAttribute, LaunchConfig};

use super::graphs::ready;
use super::*;

/// In each round a block adds one to its neighbour's value of the round before. Between rounds
/// every block waits for `goal` more arrivals: all blocks, or none for a run without a barrier.
pub(super) const RELAY: &str = r"
.version 7.0
.target sm_70
.address_size 64
.visible .entry relay(
    .param .u64 cells, .param .u64 arrived, .param .u32 rounds, .param .u32 goal)
{
    .reg .pred %p<5>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [cells];
    ld.param.u64 %rd2, [arrived];
    ld.param.u32 %r1, [rounds];
    ld.param.u32 %r14, [goal];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %nctaid.x;
    mov.u32 %r4, %tid.x;
    setp.ne.u32 %p1, %r4, 0;
    setp.eq.u32 %p4, %r14, 0;
    mov.u32 %r5, 0;
    mov.u32 %r6, %r14;
ROUND:
    setp.ge.u32 %p2, %r5, %r1;
    @%p2 bra DONE;
    @%p1 bra MEET;
    add.u32 %r7, %r2, 1;
    rem.u32 %r7, %r7, %r3;
    mad.lo.u32 %r8, %r5, %r3, %r7;
    mul.wide.u32 %rd3, %r8, 4;
    add.u64 %rd3, %rd1, %rd3;
    ld.global.u32 %r9, [%rd3];
    add.u32 %r9, %r9, 1;
    add.u32 %r10, %r5, 1;
    mad.lo.u32 %r11, %r10, %r3, %r2;
    mul.wide.u32 %rd4, %r11, 4;
    add.u64 %rd4, %rd1, %rd4;
    st.global.u32 [%rd4], %r9;
    membar.gl;
    atom.global.add.u32 %r12, [%rd2], 1;
WAIT:
    ld.volatile.global.u32 %r13, [%rd2];
    setp.lt.u32 %p3, %r13, %r6;
    @%p3 bra WAIT;
MEET:
    @%p4 bra NEXT;
    bar.sync 0;
NEXT:
    add.u32 %r5, %r5, 1;
    add.u32 %r6, %r6, %r14;
    bra ROUND;
DONE:
    ret;
}
";

const ROUNDS: u32 = 3;
pub(super) const THREADS: u32 = 64;

/// A relay over that many blocks: the codes of the launch and of the wait for it, and the cells of
/// the last round if the wait succeeds. `goal` is the last parameter of the kernel.
pub(super) fn relay(
    blocks: u32,
    goal: u32,
    launch: impl FnOnce(&mut [u64]) -> i32,
) -> Result<([i32; 2], Vec<u32>), Error> {
    let count = blocks as usize;
    let cells = alloc(4 * count * (ROUNDS as usize + 1))?;
    let arrived = alloc(4)?;
    let start: Vec<u32> = (0..blocks).map(|block| 1000 * block).collect();
    ok!(cuMemsetD32_v2(cells, 0, count * (ROUNDS as usize + 1)))?;
    ok!(cuMemsetD32_v2(arrived, 0, 1))?;
    ok!(cuMemcpyHtoD_v2(cells, start.as_ptr().cast(), 4 * count))?;
    let launched = launch(&mut [cells, arrived, ROUNDS.into(), goal.into()]);
    let waited = call!(cuCtxSynchronize());
    if waited != 0 {
        return Ok(([launched, waited], Vec::new()));
    }
    let last = words(cells + 4 * u64::from(blocks * ROUNDS), count)?;
    ok!(cuMemFree_v2(cells))?;
    ok!(cuMemFree_v2(arrived))?;
    Ok(([launched, waited], last))
}

/// The cells of the last round of blocks that waited for each other.
pub(super) fn in_order(blocks: u32) -> Vec<u32> {
    let from = |block| 1000 * ((block + ROUNDS) % blocks) + ROUNDS;
    (0..blocks).map(from).collect()
}

#[test]
fn blocks_of_a_cooperative_launch_can_wait_for_each_other() -> Result<(), Error> {
    with_context(|| {
        let kernel = function(RELAY, "relay")?;
        let (mut per_sm, mut sms) = (0, 0);
        let threads = THREADS as i32;
        ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut per_sm, kernel, threads, 0))?;
        ok!(cuDeviceGetAttribute(&raw mut sms, 16, 0))?;
        let room = (per_sm * sms) as u32;
        assert_eq!(room, 640, "16 blocks on each of 40 SMs");
        let together = |blocks, goal| {
            relay(blocks, goal, |args| {
                let (mut list, none) = (params(args), null_mut());
                let list = list.as_mut_ptr();
                call!(cuLaunchCooperativeKernel(kernel, blocks, 1, 1, THREADS, 1, 1, 0, none, list))
            })
        };
        for blocks in [1, 2, 41, room] {
            assert_eq!(together(blocks, blocks)?, ([0; 2], in_order(blocks)), "{blocks} blocks");
        }
        let (codes, found) = together(41, 0)?;
        assert_eq!(codes, [0; 2]);
        assert_ne!(found, in_order(41), "the result is wrong without the barrier");
        let refused = together(room + 1, room + 1)?;
        assert_eq!(refused, ([720, 0], vec![0; room as usize + 1]), "one too many");
        Ok(())
    })
}

#[test]
fn a_cooperative_grid_must_fit_on_the_device() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let (from, to) = (alloc(4096)?, alloc(4096)?);
        let (mut per_sm, mut sms, mut grid, mut block) = (0, 0, 0, 0);
        let mut args = [to, from, 16];
        let mut list = params(&mut args);
        let most = &raw mut per_sm;
        ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(most, copy, 256, 0))?;
        ok!(cuDeviceGetAttribute(&raw mut sms, 16, 0))?;
        assert_eq!((per_sm, sms), (4, 40), "1024 threads on each of 40 SMs");
        let (grid_at, block_at) = (&raw mut grid, &raw mut block);
        ok!(cuOccupancyMaxPotentialBlockSize(grid_at, block_at, copy, None, 0, 0))?;
        assert_eq!((grid, block), (40, 1024));
        let room = (per_sm * sms) as u32;
        // A cooperative launch by an attribute, and an invalid attribute.
        for (id, value, expected) in [(2, 1, 720), (2, 0, 0), (4, 2, 801), (8, 1, 0), (99, 1, 1)] {
            let mut attribute = LaunchAttribute { id, pad: [0; 4], value: [0; 16] };
            attribute.value[..3].fill(value);
            let config = LaunchConfig {
                grid: [room + 1, 1, 1],
                block: [256, 1, 1],
                shared_bytes: 0,
                stream: null_mut(),
                attributes: &raw const attribute,
                attribute_count: 1,
            };
            let list = list.as_mut_ptr();
            let code = call!(cuLaunchKernelEx(&raw const config, copy, list, null_mut()));
            assert_eq!(code, expected, "attribute {id} = {value}");
        }
        ok!(cuCtxSynchronize())?;
        Ok(())
    })
}

/// Shapes that this device cannot launch, with the code of each.
const WRONG: &[([u32; 3], [u32; 3], u32, i32)] = &[
    ([0, 1, 1], [32, 1, 1], 0, 1),
    ([1, 1, 0], [32, 1, 1], 0, 1),
    ([1, 1, 1], [0, 1, 1], 0, 1),
    ([1, 1, 1], [1025, 1, 1], 0, 1),
    ([1, 1, 1], [32, 32, 2], 0, 1),
    ([1, 1, 1], [1, 1, 65], 0, 1),
    ([1, 65_536, 1], [32, 1, 1], 0, 1),
    ([1, 1, 1], [32, 1, 1], 1 << 20, 1),
];

/// Blocks of 256 threads that the device holds at once.
const ROOM: u32 = 4 * 40;

#[test]
fn a_capture_continues_after_a_refused_launch() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let (stream, memory) = (stream()?, alloc(1024)?);
        let mut args = [memory, memory, 16];
        let mut list = params(&mut args);
        let list = list.as_mut_ptr();
        let mut graph: Handle = null_mut();
        ok!(cuStreamBeginCapture_v2(stream, 0))?;
        for &([x, y, z], [a, b, c], bytes, code) in WRONG {
            let none = null_mut();
            let found = call!(cuLaunchKernel(copy, x, y, z, a, b, c, bytes, stream, list, none));
            assert_eq!(found, code, "{x} {y} {z} of {a} {b} {c}, {bytes} bytes");
        }
        for (blocks, code) in [(ROOM + 1, 720), (ROOM, 0)] {
            let found =
                call!(cuLaunchCooperativeKernel(copy, blocks, 1, 1, 256, 1, 1, 0, stream, list));
            assert_eq!(found, code, "{blocks} blocks together");
        }
        ok!(cuStreamEndCapture(stream, &raw mut graph))?;
        let exec = ready(graph)?;
        ok!(cuGraphLaunch(exec, stream))?;
        ok!(cuStreamSynchronize(stream))?;
        ok!(cuGraphExecDestroy(exec))?;
        ok!(cuGraphDestroy(graph))
    })
}

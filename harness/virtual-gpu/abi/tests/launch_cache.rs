//! The launch cache: launches that are not executed again leave what executed ones leave. Tests
//! share a device.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

mod driver_support;

use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock};

use driver_support::{Error, OneDevice, alloc, context, function, launch, launch_on, ok, stream};
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::session::{Session, TimeMode};
use gpubench_virtual_gpu_model::machine::{Machine, Noise};
use proptest::collection::vec;
use proptest::prelude::*;

static DEVICE: OneDevice = Mutex::new(None);

fn wall() -> (Session, Machine) {
    let mut machine = Machine::load("turing").expect("built in");
    machine.noise = Noise::default();
    (Session::new(TimeMode::Wall, 1), machine)
}

const WORDS: usize = 48;
const LARGE_WORDS: usize = 160 << 10;
const STRIDE: usize = 1000;

/// Two small buffers that kernels read and write, and a large one that they read.
const BUFFERS: usize = 2;

const TEXT: &str = "
.version 7.8
.target sm_70
.address_size 64
.visible .entry tick(.param .u64 to, .param .u64 from) {
    .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [to];
    atom.global.add.u32 %r1, [%rd1], 1;
    ret;
}
.visible .entry spread(.param .u64 to, .param .u64 from) {
    .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 12;
    add.u64 %rd3, %rd1, %rd2;
    sub.u32 %r2, 5, %r1;
    red.global.add.u32 [%rd3], %r2;
    ret;
}
.visible .entry mix(.param .u64 to, .param .u64 from) {
    .reg .b32 %r<6>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4; add.u64 %rd4, %rd2, %rd3;
    mul.wide.u32 %rd5, %r1, 12; add.u64 %rd6, %rd1, %rd5;
    ld.global.u32 %r2, [%rd4]; ld.global.u32 %r3, [%rd6+4];
    mul.lo.u32 %r4, %r2, 3; add.u32 %r5, %r4, %r3; and.b32 %r5, %r5, 3;
    st.global.u32 [%rd6], %r5;
    ret;
}
.visible .entry gather(.param .u64 to, .param .u64 from, .param .u64 large) {
    .reg .b32 %r<4>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [large];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4000; add.u64 %rd4, %rd2, %rd3;
    mul.wide.u32 %rd5, %r1, 4; add.u64 %rd6, %rd1, %rd5;
    ld.global.u32 %r2, [%rd4]; add.u32 %r3, %r2, 1;
    st.global.u32 [%rd6], %r3;
    ret;
}
.visible .entry maybe(.param .u64 to, .param .u64 from) {
    .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
    ld.global.u32 %r1, [%rd2]; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;
    @%p1 bra DONE;
    st.global.u32 [%rd1+8], %r1;
DONE:
    ret;
}";

#[derive(Debug, Clone)]
enum Step {
    /// Launches a kernel with a destination and a source buffer.
    Launch(usize, usize, usize),
    Fill(usize, usize, usize, u32),
    Copy(usize, usize),
    Write(usize, usize, u32),
    Large(usize, u32),
    /// Frees a buffer and allocates a new one.
    Renew(usize),
}

const NAMES: [&str; 5] = ["tick", "spread", "mix", "gather", "maybe"];
const THREADS: [u32; 5] = [1, 11, 16, 20, 1];

fn step() -> impl Strategy<Value = Step> {
    let (buffer, word) = (0..BUFFERS, 0..WORDS);
    let launch = (0..NAMES.len(), buffer.clone(), buffer.clone());
    let fill = (buffer.clone(), word.clone(), 0..4_u32);
    // A small range, so that the same states come back often.
    prop_oneof![
        12 => launch.prop_map(|(kernel, to, from)| Step::Launch(kernel, to, from)),
        3 => (buffer.clone(), 0..2_u32).prop_map(|(at, value)| Step::Fill(at, 0, WORDS, value)),
        1 => fill.prop_map(|(at, from, value)| Step::Fill(at, from, WORDS, value)),
        1 => (buffer.clone(), buffer.clone()).prop_map(|(to, from)| Step::Copy(to, from)),
        2 => (buffer.clone(), word, 0..3_u32)
            .prop_map(|(at, word, value)| Step::Write(at, word, value)),
        1 => (0..20_usize, 0..2_u32).prop_map(|(at, value)| Step::Large(at, value)),
        1 => buffer.prop_map(Step::Renew),
    ]
}

/// Expected contents of memory.
struct Model {
    small: [Vec<u32>; BUFFERS],
    large: Vec<u32>,
}

impl Model {
    fn launch(&mut self, kernel: usize, to: usize, from: usize) {
        for thread in 0..THREADS[kernel] as usize {
            let source = self.small[from][thread];
            let odd = self.small[from][0];
            let out = &mut self.small[to];
            match NAMES[kernel] {
                "tick" => out[0] = out[0].wrapping_add(1),
                "spread" => {
                    out[3 * thread] =
                        out[3 * thread].wrapping_add(5_u32.wrapping_sub(thread as u32));
                }
                "mix" => {
                    let sum = source.wrapping_mul(3).wrapping_add(out[3 * thread + 1]);
                    out[3 * thread] = sum & 3;
                }
                "gather" => out[thread] = self.large[thread * STRIDE] + 1,
                _ if odd & 1 == 1 => out[2] = odd,
                _ => {}
            }
        }
    }
}

struct Program {
    functions: Vec<Handle>,
    small: [u64; BUFFERS],
    large: u64,
}

impl Program {
    fn do_step(&mut self, step: &Step, model: &mut Model) -> Result<(), Error> {
        match *step {
            Step::Launch(kernel, to, from) => {
                // In one of these kernels threads would read what other threads write.
                if to == from && NAMES[kernel] == "mix" {
                    return Ok(());
                }
                let mut args = [self.small[to], self.small[from], self.large];
                let known = if NAMES[kernel] == "gather" { 3 } else { 2 };
                ok(launch(self.functions[kernel], 1, THREADS[kernel], &mut args[..known]))?;
                model.launch(kernel, to, from);
            }
            Step::Fill(at, from, to, value) => {
                let place = self.small[at] + 4 * from as u64;
                ok!(cuMemsetD32_v2(place, value, to - from))?;
                model.small[at][from..to].fill(value);
            }
            Step::Copy(to, from) => {
                let bytes = 4 * WORDS / 2;
                // SAFETY: within both buffers.
                unsafe {
                    let (to, from) = (self.small[to], self.small[from]);
                    ok(cuMemcpyDtoDAsync_v2(to, from, bytes, null_mut()))
                }?;
                let half = model.small[from][..WORDS / 2].to_vec();
                model.small[to][..WORDS / 2].copy_from_slice(&half);
            }
            Step::Write(at, word, value) => {
                let place = self.small[at] + 4 * word as u64;
                ok!(cuMemcpyHtoD_v2(place, (&raw const value).cast(), 4))?;
                model.small[at][word] = value;
            }
            Step::Large(at, value) => {
                let place = self.large + 4 * (at * STRIDE) as u64;
                ok!(cuMemcpyHtoD_v2(place, (&raw const value).cast(), 4))?;
                model.large[at * STRIDE] = value;
            }
            Step::Renew(at) => {
                ok!(cuMemFree_v2(self.small[at]))?;
                self.small[at] = alloc(4 * WORDS)?;
                self.do_step(&Step::Fill(at, 0, WORDS, 1), model)?;
            }
        }
        Ok(())
    }

    fn read(&self, at: usize) -> Result<Vec<u32>, Error> {
        let mut out = vec![0_u32; WORDS];
        ok!(cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), self.small[at], 4 * WORDS))?;
        Ok(out)
    }
}

/// The context of this program, made current by every case.
fn shared_context() -> Result<(), Error> {
    static CONTEXT: OnceLock<usize> = OnceLock::new();
    let handle = match CONTEXT.get() {
        Some(&handle) => handle,
        None => *CONTEXT.get_or_init(|| context().map_or(0, |handle| handle as usize)),
    };
    ok!(cuCtxSetCurrent(handle as Handle))
}

fn follows_the_model(steps: &[Step]) -> Result<(), Error> {
    let _lock = driver_support::lock(&DEVICE, wall);
    shared_context()?;
    let functions = NAMES.iter().map(|name| function(TEXT, name));
    let mut program = Program {
        functions: functions.collect::<Result<_, _>>()?,
        small: [alloc(4 * WORDS)?, alloc(4 * WORDS)?],
        large: alloc(4 * LARGE_WORDS)?,
    };
    let mut model = Model { small: [vec![0; WORDS], vec![0; WORDS]], large: vec![0; LARGE_WORDS] };
    ok!(cuMemsetD32_v2(program.large, 0, LARGE_WORDS))?;
    for at in 0..BUFFERS {
        program.do_step(&Step::Fill(at, 0, WORDS, 0), &mut model)?;
    }
    for (number, step) in steps.iter().enumerate() {
        program.do_step(step, &mut model)?;
        for at in 0..BUFFERS {
            if program.read(at)? != model.small[at] {
                return Err(format!("buffer {at} differs after step {number}, {step:?}").into());
            }
        }
    }
    for pointer in program.small.into_iter().chain([program.large]) {
        ok!(cuMemFree_v2(pointer))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        // A failure prints its smallest program and writes no file.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn identical_launches_follow_the_model(steps in vec(step(), 1..120)) {
        let done = follows_the_model(&steps).map_err(|error| error.to_string());
        prop_assert_eq!(done, Ok(()));
    }
}

#[test]
fn concurrent_adds_to_one_word_are_all_counted() -> Result<(), Error> {
    const LAUNCHES: u32 = 2000;
    let _lock = driver_support::lock(&DEVICE, wall);
    shared_context()?;
    let tick = function(TEXT, "tick")? as usize;
    let words = alloc(4 * WORDS)?;
    ok!(cuMemsetD32_v2(words, 0, WORDS))?;
    let adds = || -> Result<(), Error> {
        shared_context()?;
        let own = stream()?;
        for _ in 0..LAUNCHES {
            ok(launch_on(tick as Handle, (1, 1, 0), own, &mut [words, words]))?;
        }
        ok!(cuStreamSynchronize(own))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(adds)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))
        };
        threads.into_iter().try_for_each(join)
    })?;
    let mut found = 0_u32;
    ok!(cuMemcpyDtoH_v2((&raw mut found).cast(), words, 4))?;
    ok!(cuMemFree_v2(words))?;
    ok!(cuStreamSynchronize(null_mut()))?;
    assert_eq!(found, 3 * LAUNCHES);
    Ok(())
}

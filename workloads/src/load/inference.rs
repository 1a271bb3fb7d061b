//! `inference`: a decode step of a language model, small launches that depend on one another.
//! Counter: that of `matvec`.
//!
//! A request copies its input to the device, runs layers and copies its output back. A layer is a
//! norm, then a matrix-vector product in slices of as many rows as the share has SMs, then a small
//! matrix product and a softmax that produce the input of the next layer. Successive slices use
//! successive weights of a buffer several times the size of L2, also across requests, so that
//! weights come from DRAM as in a model. No launch has more blocks than the share has SMs.

use gpubench_catalogue::workload::{self, COUNT_MAX};
use gpubench_kernels::driver::{DeviceBuffer, DeviceProps, DriverError, PinnedBuffer};
use gpubench_kernels::kernel::inference;
use gpubench_kernels::kernel::inference::{Matmul, Matvec, Rmsnorm, Softmax, TILE};
use gpubench_kernels::{Kernel, Launcher};
use gpubench_record::WorkloadSpec;

use super::error::{spec, whole_sms};
use super::{Gpu, Guess, Load, LoadError, More, Output, Params, Part, Prepared};

/// Slices in a second, in round figures: launches take most of the time on any device.
const SLICES_PER_S: f64 = 305e3;

const SLICES_PER_LAYER: u64 = 16;

/// Maximum width of the activation: that of the larger models on one GPU. A smaller share gets a
/// narrower one, so that every launch fits in it.
const COLS_MAX: u64 = 8192;

/// Columns per SM: one tile of the matrix product for each block.
const COLS_PER_SM: u64 = (TILE * TILE) as u64;

/// Added to the mean of squares, and far below it: a softmax gives numbers near 1/n.
const EPS: f32 = 1e-12;

pub(super) const INFERENCE: &[Load] = &[Load {
    facts: &workload::INFERENCE,
    kernel: Some(Kernel::Matvec),
    first_guess: first_guess_inference,
    setup: |gpu, spec| Ok(Box::new(Decode::new(gpu, spec)?)),
    verify: Some(verify),
    more: More { expected: |_, spec| slices_per_s(spec), ..More::NONE },
}];

/// Operations per second at the usual number of slices. The matrix product has nearly all of them.
fn slices_per_s(spec: &WorkloadSpec) -> Option<f64> {
    let (rows, cols) = (spec.params.get("rows")?, spec.params.get("cols")?);
    Some(SLICES_PER_S * 2.0 * (rows * cols) as f64)
}

fn first_guess_inference(name: &'static str, props: &DeviceProps, share: f64) -> Guess {
    let rows = whole_sms(name, props, share)?;
    let cols = (rows * COLS_PER_SM).min(COLS_MAX);
    let weights_bytes = props.dram_buffer_bytes();
    let has_bytes = props.total_bytes as f64 * share;
    if weights_bytes <= props.l2_bytes || weights_bytes as f64 > has_bytes {
        return Err(LoadError::TooSmall {
            workload: name,
            needs: format!("weights above {} bytes of L2", props.l2_bytes),
            share,
            has: format!("{has_bytes:.0} bytes"),
        });
    }
    Ok(spec(
        name,
        [
            ("rows", rows),
            ("cols", cols),
            ("slices", SLICES_PER_LAYER),
            ("buffer_bytes", weights_bytes),
        ],
    ))
}

#[derive(Debug)]
struct Decode {
    rows: u32,
    cols: u32,
    slices: u64,
    per_layer: u64,
    /// Slices that the weights hold, in whole layers if one fits, and the next slice. As in a
    /// model, a slice has a fixed index in its layer.
    held: u64,
    next: u64,
    input: PinnedBuffer<f32>,
    output: PinnedBuffer<f32>,
    x: DeviceBuffer<f32>,
    normed: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
    scores: DeviceBuffer<f32>,
    gain: DeviceBuffer<f32>,
    weights: DeviceBuffer<f32>,
    mixer: DeviceBuffer<f32>,
}

impl Decode {
    fn new(gpu: &Gpu, spec: &WorkloadSpec) -> Result<Self, LoadError> {
        let params = Params::of(spec);
        // The bounds make the casts exact.
        let rows = params.get("rows", 1..=1 << 16)?;
        let cols = params.get("cols", COLS_PER_SM..=1 << 20)? / COLS_PER_SM * COLS_PER_SM;
        let slices = params.get("slices", 1..=COUNT_MAX)?;
        let slice_bytes = 4 * rows * cols;
        // The matrix product uses a square tile of the results of a layer's slices.
        let per_layer = SLICES_PER_LAYER.max(COLS_PER_SM.div_ceil(rows));
        let room = (params.size("buffer_bytes")? / slice_bytes).max(1);
        let held = match room / per_layer {
            0 => room,
            layers => layers * per_layer,
        };
        gpu.kernels.prepare(&[Kernel::Matvec, Kernel::Matmul, Kernel::Rmsnorm, Kernel::Softmax])?;
        let alloc = |len: u64| DeviceBuffer::<f32>::alloc(&gpu.context, len as usize);
        let pinned = || PinnedBuffer::<f32>::alloc(&gpu.context, cols as usize);
        let mut decode = Self {
            rows: rows as u32,
            cols: cols as u32,
            slices,
            per_layer,
            held,
            next: 0,
            input: pinned()?,
            output: pinned()?,
            x: alloc(cols)?,
            normed: alloc(cols)?,
            y: alloc(per_layer * rows)?,
            scores: alloc(cols)?,
            gain: alloc(cols)?,
            weights: alloc(held * rows * cols)?,
            mixer: alloc(cols)?,
        };
        decode.fill()?;
        Ok(decode)
    }

    /// Fills all buffers with small numbers: the values do not affect the load, except that
    /// infinities must not occur. A word of equal bytes is a number near 0.01.
    fn fill(&mut self) -> Result<(), DriverError> {
        let ones = vec![1.0; self.cols as usize];
        self.input.write(0, &ones)?;
        self.gain.write(0, &ones)?;
        self.y.fill_bytes(0)?;
        self.weights.fill_bytes(0x3c)?;
        self.mixer.fill_bytes(0x3c)
    }

    fn norm(&self) -> Rmsnorm {
        Rmsnorm {
            out: self.normed.device_ptr(),
            input: self.x.device_ptr(),
            weight: self.gain.device_ptr(),
            rows: 1,
            cols: self.cols,
            eps: EPS,
        }
    }

    /// The slice at index `at` of its layer with the weights of slice `number`.
    fn slice(&self, at: u64, number: u64) -> Matvec {
        let (rows, cols) = (u64::from(self.rows), u64::from(self.cols));
        Matvec {
            y: self.y.device_ptr().offset_bytes(4 * at * rows),
            w: self.weights.device_ptr().offset_bytes(4 * number * rows * cols),
            x: self.normed.device_ptr(),
            rows: self.rows,
            cols: self.cols,
        }
    }

    fn mix(&self) -> Matmul {
        Matmul {
            c: self.scores.device_ptr(),
            a: self.y.device_ptr(),
            b: self.mixer.device_ptr(),
            m: TILE,
            n: self.cols / TILE,
            k: TILE,
        }
    }

    /// As many rows as the tile has, if the share has that many SMs.
    fn softmax(&self) -> Softmax {
        let rows = if self.rows >= TILE { TILE } else { 1 };
        Softmax {
            out: self.x.device_ptr(),
            input: self.scores.device_ptr(),
            rows,
            cols: self.cols / rows,
        }
    }
}

impl Prepared for Decode {
    fn step(&mut self, gpu: &Gpu) -> Result<(), DriverError> {
        let (kernels, stream, cols) = (&gpu.kernels, &gpu.stream, self.cols as usize);
        self.x.write_async(0, &self.input, 0, cols, stream)?;
        for slice in 0..self.slices {
            let at = slice % self.per_layer;
            if at == 0 {
                // A request that ends within a layer skips the remaining weights of the layer.
                if self.held >= self.per_layer {
                    self.next = self.next.next_multiple_of(self.per_layer) % self.held;
                }
                self.norm().launch(kernels, stream)?;
            }
            self.slice(at, self.next).launch(kernels, stream)?;
            self.next = (self.next + 1) % self.held;
            if at + 1 == self.per_layer || slice + 1 == self.slices {
                self.mix().launch(kernels, stream)?;
                self.softmax().launch(kernels, stream)?;
            }
        }
        self.x.read_async(0, &self.output, 0, cols, stream)
    }

    fn output(&self) -> Output<'_> {
        Output::Parts(vec![Part::written(&self.x), Part::kept(&self.weights)])
    }

    fn work_per_request(&self) -> f64 {
        let layers = self.slices.div_ceil(self.per_layer);
        let flops = |launch: &dyn Launcher| launch.cost().fp32_flops;
        let layer = flops(&self.norm()) + flops(&self.mix()) + flops(&self.softmax());
        (layers * layer + self.slices * flops(&self.slice(0, 0))) as f64
    }
}

// The check of `inference`: a small model, computed on the host too.

/// Two and a half layers must give the host's numbers. The kernels have their own checks.
fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
    let (rows, cols, slices) = (20_u64, 512_u64, 40_u64);
    let params =
        [("rows", rows), ("cols", cols), ("slices", slices), ("buffer_bytes", 4 * rows * cols * 3)];
    let mut decode = Decode::new(gpu, &spec(name, params))?;
    let model = Model {
        input: numbers(cols, 1),
        gain: numbers(cols, 2),
        weights: numbers(decode.held * rows * cols, 3),
        mixer: numbers(cols, 4),
    };
    decode.input.write(0, &model.input)?;
    decode.gain.write(0, &model.gain)?;
    decode.weights.write(0, &model.weights)?;
    decode.mixer.write(0, &model.mixer)?;
    decode.step(gpu)?;
    gpu.stream.synchronize()?;
    let mut found = vec![0.0; cols as usize];
    decode.output.read(0, &mut found)?;
    let expected = model.decode(&decode);
    // The softmax is exact to `TOLERANCE`; one more softmax with inputs below a hundred amplifies
    // the error of an earlier layer.
    let near = |(found, wanted): (&f32, &f32)| {
        (found - wanted).abs() <= 100.0 * inference::TOLERANCE * wanted.abs()
    };
    match found.iter().zip(&expected).position(|pair| !near(pair)) {
        None => Ok(()),
        Some(at) => Err(LoadError::Wrong {
            workload: name,
            what: format!("output {at} is {}, expected {}", found[at], expected[at]),
        }),
    }
}

/// The numbers of a small model, on the host.
struct Model {
    input: Vec<f32>,
    gain: Vec<f32>,
    weights: Vec<f32>,
    mixer: Vec<f32>,
}

impl Model {
    /// The expected output of a first request of `shape`.
    fn decode(&self, shape: &Decode) -> Vec<f32> {
        let (rows, cols) = (shape.rows as usize, shape.cols as usize);
        let slice_len = rows * cols;
        let tile = TILE as usize;
        let mut x = self.input.clone();
        let mut y = vec![0.0; shape.per_layer as usize * rows];
        let mut normed = Vec::new();
        for slice in 0..shape.slices {
            let at = (slice % shape.per_layer) as usize;
            if at == 0 {
                normed = inference::rmsnorm_reference(&x, &self.gain, EPS);
            }
            let from = (slice % shape.held) as usize * slice_len;
            let product =
                inference::matvec_reference(&self.weights[from..from + slice_len], &normed);
            y[at * rows..(at + 1) * rows].copy_from_slice(&product);
            if at as u64 + 1 == shape.per_layer || slice + 1 == shape.slices {
                let scores =
                    inference::matmul_reference(&y[..tile * tile], &self.mixer, cols / tile, tile);
                x = inference::softmax_reference(&scores, shape.softmax().cols as usize);
            }
        }
        x
    }
}

fn numbers(count: u64, seed: u64) -> Vec<f32> {
    let number = |n: u64| {
        let bits = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (seed << 32));
        ((bits >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 0.2
    };
    (0..count).map(number).collect()
}

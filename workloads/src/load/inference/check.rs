//! The check of `inference`: a small model, computed on the host too.

use gpubench_kernels::kernel::matmul::{self, TILE};
use gpubench_kernels::kernel::{matvec, rmsnorm, softmax};

use super::{Decode, EPS};
use crate::load::params::spec;
use crate::load::{Gpu, LoadError, Prepared};

/// Two and a half layers must give the host's numbers. The kernels have their own checks.
pub(super) fn verify(name: &'static str, gpu: &Gpu) -> Result<(), LoadError> {
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
        (found - wanted).abs() <= 100.0 * softmax::TOLERANCE * wanted.abs()
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
                normed = rmsnorm::reference(&x, &self.gain, EPS);
            }
            let from = (slice % shape.held) as usize * slice_len;
            let product = matvec::reference(&self.weights[from..from + slice_len], &normed);
            y[at * rows..(at + 1) * rows].copy_from_slice(&product);
            if at as u64 + 1 == shape.per_layer || slice + 1 == shape.slices {
                let scores = matmul::reference(&y[..tile * tile], &self.mixer, cols / tile, tile);
                x = softmax::reference(&scores, shape.softmax().cols as usize);
            }
        }
        x
    }
}

/// Numbers between -0.1 and 0.1 from a seed.
fn numbers(count: u64, seed: u64) -> Vec<f32> {
    let number = |n: u64| {
        let bits = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (seed << 32));
        ((bits >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 0.2
    };
    (0..count).map(number).collect()
}

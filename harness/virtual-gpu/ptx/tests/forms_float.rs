//! Floating forms against plain Rust and exact arithmetic, over edge values and random ones.

mod support;

use support::{Random, check, doubles, flush, mixed, row, run_snippet, singles};

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

#[test]
fn single_precision() {
    check(
        &singles(),
        &[
            row("add.f32 %fd, %fa, %fb;", |a: f32, b, _| a + b),
            row("sub.rn.f32 %fd, %fa, %fb;", |a: f32, b, _| a - b),
            row("mul.f32 %fd, %fa, %fb;", |a: f32, b, _| a * b),
            row("fma.rn.f32 %fd, %fa, %fb, %fc;", |a: f32, b, c| a.mul_add(b, c)),
            row("div.rn.f32 %fd, %fa, %fb;", |a: f32, b, _| a / b),
            row("add.ftz.f32 %fd, %fa, %fb;", |a, b, _| flush(flush(a) + flush(b))),
            row("mul.ftz.f32 %fd, %fa, %fb;", |a, b, _| flush(flush(a) * flush(b))),
            row("fma.rn.sat.f32 %fd, %fa, %fb, %fc;", |a: f32, b, c| {
                let x = a.mul_add(b, c);
                if x > 0.0 { x.min(1.0) } else { 0.0 }
            }),
            row("sqrt.rn.f32 %fd, %fa;", |a: f32, _, _| a.sqrt()),
            row("rcp.rn.f32 %fd, %fa;", |a: f32, _, _| 1.0 / a),
            row("neg.f32 %fd, %fa;", |a: f32, _, _| -a),
            row("abs.f32 %fd, %fa;", |a: f32, _, _| a.abs()),
            row("copysign.f32 %fd, %fa, %fb;", |a: f32, b, _| b.copysign(a)),
            row("mov.f32 %fd, 0fBF800000;", |_: f32, _, _| -1.0f32),
            row("add.f32 %fd, %fa, 1.5;", |a: f32, _, _| a + 1.5),
            mixed("selp.f32 %fd, %fa, %fb, %pc;", |a: f32, b, c| if c { a } else { b }),
        ],
    );
}

#[test]
fn minimum_and_maximum_order_zeros_and_drop_nans() {
    // PTX ISA, "min": -0 is less than +0, and a number wins against NaN.
    fn key(x: f32) -> i64 {
        let bits = i64::from(x.to_bits());
        if bits & 0x8000_0000 != 0 { -(bits & 0x7FFF_FFFF) - 1 } else { bits }
    }
    fn pick(a: f32, b: f32, minimum: bool) -> f32 {
        match (a.is_nan(), b.is_nan()) {
            (true, _) => b,
            (_, true) => a,
            _ if (key(a) < key(b)) == minimum => a,
            _ => b,
        }
    }
    check(
        &singles(),
        &[
            row("min.f32 %fd, %fa, %fb;", |a, b, _| pick(a, b, true)),
            row("max.f32 %fd, %fa, %fb;", |a, b, _| pick(a, b, false)),
            row("max.NaN.f32 %fd, %fa, %fb;", |a: f32, b, _| {
                if a.is_nan() || b.is_nan() { f32::NAN } else { pick(a, b, false) }
            }),
        ],
    );
    let got = run_snippet("min.f32 %fd, %fa, %fb;", "%fd", &[[0x7FC0_0001, 0xFFC0_0002, 0]]);
    assert_eq!(got, [0x7FFF_FFFF], "the canonical NaN");
    let got = run_snippet("sub.f32 %fd, %fa, %fb;", "%fd", &[[0x7F80_0000, 0x7F80_0000, 0]]);
    assert_eq!(got, [0x7FFF_FFFF], "the canonical NaN");
}

/// `a * b + c` as a 320-bit fixed-point number, scaled by 2^300; `None` for NaN and infinity.
fn exact(a: f32, b: f32, c: f32) -> Option<Vec<i64>> {
    const LIMBS: usize = 22;
    // Limbs of 32 bits, least significant first; signed carries are resolved at the end. The scale
    // keeps the smallest product, 2^-298, above the lowest bit.
    fn add(sum: &mut [i64], mantissa: u64, exponent: i32, negative: bool) {
        let at = (exponent + 300) as usize;
        let wide = u128::from(mantissa) << (at % 32);
        for part in 0..3 {
            let limb = (wide >> (32 * part) & 0xFFFF_FFFF) as i64;
            sum[at / 32 + part] += if negative { -limb } else { limb };
        }
    }
    fn parts(x: f32) -> (u64, i32) {
        let (exponent, fraction) = (x.to_bits() >> 23 & 255, u64::from(x.to_bits() & 0x7F_FFFF));
        if exponent == 0 { (fraction, -149) } else { (fraction | 1 << 23, exponent as i32 - 150) }
    }
    if ![a, b, c].iter().all(|x| x.is_finite()) {
        return None;
    }
    let mut sum = vec![0i64; LIMBS];
    let ((ma, ea), (mb, eb), (mc, ec)) = (parts(a), parts(b), parts(c));
    add(&mut sum, ma * mb, ea + eb, a.is_sign_negative() != b.is_sign_negative());
    add(&mut sum, mc, ec, c.is_sign_negative());
    for at in 0..LIMBS - 1 {
        let carry = sum[at] >> 32;
        sum[at] -= carry << 32;
        sum[at + 1] += carry;
    }
    Some(sum)
}

/// Compares fixed-point numbers: the top limb carries the sign.
fn less(a: &[i64], b: &[i64]) -> bool {
    a.iter().rev().lt(b.iter().rev())
}

#[test]
fn directed_roundings_bracket_the_exact_value() {
    let inputs: Vec<[u64; 3]> = singles();
    let run =
        |mode: &str| run_snippet(&format!("fma.{mode}.f32 %fd, %fa, %fb, %fc;"), "%fd", &inputs);
    let (down, up, zero, near) = (run("rm"), run("rp"), run("rz"), run("rn"));
    let mut checked = 0;
    for (index, [a, b, c]) in inputs.iter().enumerate() {
        let Some(value) = exact(f(*a), f(*b), f(*c)) else { continue };
        let (down, up) = (f(down[index]), f(up[index]));
        let (zero, near) = (f(zero[index]), f(near[index]));
        let shown = format!("{:e} * {:e} + {:e}: {down:e} {up:e}", f(*a), f(*b), f(*c));
        // The lower bound is at most the value, and the next float is above it.
        let fixed = |x: f32| exact(x, 1.0, 0.0);
        if let Some(x) = fixed(down) {
            assert!(!less(&value, &x), "{shown}");
        }
        if let Some(x) = fixed(down.next_up()) {
            assert!(less(&value, &x), "{shown}");
        }
        if let Some(x) = fixed(up) {
            assert!(!less(&x, &value), "{shown}");
        }
        if let Some(x) = fixed(up.next_down()) {
            assert!(less(&x, &value), "{shown}");
        }
        assert!(near == down || near == up, "{shown} {near:e}");
        assert_eq!(zero, if value[21] < 0 { up } else { down }, "{shown}");
        checked += usize::from(down != up);
    }
    assert!(checked > 300, "only {checked} inexact cases");
    // PTX ISA and IEEE 754: an exact zero sum of opposite signs is -0 only when rounding down.
    let one = [[0x3F80_0000u64, 0x3F80_0000, 0xBF80_0000]];
    assert_eq!(run_snippet("fma.rm.f32 %fd, %fa, %fb, %fc;", "%fd", &one), [0x8000_0000]);
    assert_eq!(run_snippet("fma.rz.f32 %fd, %fa, %fb, %fc;", "%fd", &one), [0]);
}

#[test]
fn double_precision() {
    check(
        &doubles(),
        &[
            row("add.f64 %dd, %da, %db;", |a: f64, b, _| a + b),
            row("sub.f64 %dd, %da, %db;", |a: f64, b, _| a - b),
            row("mul.f64 %dd, %da, %db;", |a: f64, b, _| a * b),
            row("fma.rn.f64 %dd, %da, %db, %dc;", |a: f64, b, c| a.mul_add(b, c)),
            row("div.rn.f64 %dd, %da, %db;", |a: f64, b, _| a / b),
            row("sqrt.rn.f64 %dd, %da;", |a: f64, _, _| a.sqrt()),
            row("rcp.rn.f64 %dd, %da;", |a: f64, _, _| 1.0 / a),
            row("neg.f64 %dd, %da;", |a: f64, _, _| -a),
            row("abs.f64 %dd, %da;", |a: f64, _, _| a.abs()),
            row("setp.lt.f64 %pd, %da, %db;", |a: f64, b, _| a < b),
            row("setp.geu.f64 %pd, %da, %db;", |a: f64, b, _| a.is_nan() || b.is_nan() || a >= b),
        ],
    );
}

#[test]
fn approximations_are_within_their_bounds() {
    // PTX ISA: ex2 2^-22 relative, sin and cos 2^-20.9 absolute in [-pi, pi], rsqrt 2^-22.9,
    // tanh 2^-11 and lg2 2^-22 relative (the latter outside (0.5, 2)), div.full 2 ulp.
    let mut random = Random(9);
    let unit = |random: &mut Random| (random.next() >> 40) as f32 / (1u64 << 24) as f32;
    let inputs: Vec<[u64; 3]> = (0..500)
        .map(|_| [unit(&mut random) * 6.0 - 3.0, unit(&mut random) * 1e6 + 2.0, 0.0])
        .map(|row| row.map(|value| u64::from(value.to_bits())))
        .collect();
    type Bound<'b> = (&'b str, fn(f64, f64) -> f64, f64, bool);
    let table: [Bound<'_>; 7] = [
        ("ex2.approx.ftz.f32 %fd, %fa;", |a, _| a.exp2(), 2f64.powi(-22), true),
        ("sin.approx.f32 %fd, %fa;", |a, _| a.sin(), 2f64.powf(-20.9), false),
        ("cos.approx.f32 %fd, %fa;", |a, _| a.cos(), 2f64.powf(-20.9), false),
        ("tanh.approx.f32 %fd, %fa;", |a, _| a.tanh(), 2f64.powi(-11), true),
        ("rsqrt.approx.f32 %fd, %fb;", |_, b| 1.0 / b.sqrt(), 2f64.powf(-22.9), true),
        ("lg2.approx.f32 %fd, %fb;", |_, b| b.log2(), 2f64.powi(-22), true),
        ("div.full.f32 %fd, %fa, %fb;", |a, b| a / b, 2f64.powi(-22), true),
    ];
    for (snippet, reference, bound, relative) in table {
        for ([a, b, _], got) in inputs.iter().zip(run_snippet(snippet, "%fd", &inputs)) {
            let want = reference(f64::from(f(*a)), f64::from(f(*b)));
            let scale = if relative { want.abs() } else { 1.0 };
            let error = (f64::from(f(got)) - want).abs();
            assert!(error <= bound * scale, "{snippet} of {} {}: {}", f(*a), f(*b), f(got));
        }
    }
}

#[test]
fn comparisons_of_unordered_values() {
    fn un(a: f32, b: f32) -> bool {
        a.is_nan() || b.is_nan()
    }
    check(
        &singles(),
        &[
            row("setp.eq.f32 %pd, %fa, %fb;", |a: f32, b, _| a == b),
            row("setp.ne.f32 %pd, %fa, %fb;", |a, b, _| !un(a, b) && a != b),
            row("setp.gt.f32 %pd, %fa, %fb;", |a: f32, b, _| a > b),
            row("setp.equ.f32 %pd, %fa, %fb;", |a, b, _| un(a, b) || a == b),
            row("setp.neu.f32 %pd, %fa, %fb;", |a, b, _| un(a, b) || a != b),
            row("setp.ltu.f32 %pd, %fa, %fb;", |a, b, _| un(a, b) || a < b),
            row("setp.leu.f32 %pd, %fa, %fb;", |a, b, _| un(a, b) || a <= b),
            row("setp.num.f32 %pd, %fa, %fb;", |a, b, _| !un(a, b)),
            row("setp.nan.f32 %pd, %fa, %fb;", |a, b, _| un(a, b)),
            row("setp.eq.ftz.f32 %pd, %fa, %fb;", |a, b, _| flush(a) == flush(b)),
            mixed(
                "slct.b32.f32 %rd, %ra, %rb, %fc;",
                |a: u32, b, c: f32| {
                    if c >= 0.0 { a } else { b }
                },
            ),
            row("testp.subnormal.f32 %pd, %fa;", |a: f32, _, _| a.is_subnormal()),
            row("testp.notanumber.f64 %pd, %da;", |a: f64, _, _| a.is_nan()),
        ],
    );
}

//! Floating forms against plain Rust and exact arithmetic, over edge values and random ones.

mod support;

use support::{Random, check, doubles, run_snippet, singles};

const M: u64 = 0xFFFF_FFFF;

fn f(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn g(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn w(value: f32) -> u64 {
    u64::from(value.to_bits())
}

fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

#[test]
fn single_precision() {
    check(
        &singles(),
        &[
            ("add.f32 %fd, %fa, %fb;", "%fd", |a, b, _| w(f(a) + f(b))),
            ("sub.rn.f32 %fd, %fa, %fb;", "%fd", |a, b, _| w(f(a) - f(b))),
            ("mul.f32 %fd, %fa, %fb;", "%fd", |a, b, _| w(f(a) * f(b))),
            ("fma.rn.f32 %fd, %fa, %fb, %fc;", "%fd", |a, b, c| w(f(a).mul_add(f(b), f(c)))),
            ("div.rn.f32 %fd, %fa, %fb;", "%fd", |a, b, _| w(f(a) / f(b))),
            ("add.ftz.f32 %fd, %fa, %fb;", "%fd", |a, b, _| w(flush(flush(f(a)) + flush(f(b))))),
            ("mul.ftz.f32 %fd, %fa, %fb;", "%fd", |a, b, _| w(flush(flush(f(a)) * flush(f(b))))),
            ("fma.rn.sat.f32 %fd, %fa, %fb, %fc;", "%fd", |a, b, c| {
                let x = f(a).mul_add(f(b), f(c));
                w(if x > 0.0 { x.min(1.0) } else { 0.0 })
            }),
            ("sqrt.rn.f32 %fd, %fa;", "%fd", |a, _, _| w(f(a).sqrt())),
            ("rcp.rn.f32 %fd, %fa;", "%fd", |a, _, _| w(1.0 / f(a))),
            ("neg.f32 %fd, %fa;", "%fd", |a, _, _| w(-f(a))),
            ("abs.f32 %fd, %fa;", "%fd", |a, _, _| w(f(a).abs())),
            ("copysign.f32 %fd, %fa, %fb;", "%fd", |a, b, _| w(f(b).copysign(f(a)))),
            ("mov.f32 %fd, 0fBF800000;", "%fd", |_, _, _| w(-1.0)),
            ("add.f32 %fd, %fa, 1.5;", "%fd", |a, _, _| w(f(a) + 1.5)),
            (
                "selp.f32 %fd, %fa, %fb, %pc;",
                "%fd",
                |a, b, c| {
                    if c & 1 == 1 { a & M } else { b & M }
                },
            ),
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
            ("min.f32 %fd, %fa, %fb;", "%fd", |a, b, _| w(pick(f(a), f(b), true))),
            ("max.f32 %fd, %fa, %fb;", "%fd", |a, b, _| w(pick(f(a), f(b), false))),
            ("max.NaN.f32 %fd, %fa, %fb;", "%fd", |a, b, _| {
                w(if f(a).is_nan() || f(b).is_nan() { f32::NAN } else { pick(f(a), f(b), false) })
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
        let Some(value) = exact(f(*a), f(*b), f(*c)) else {
            continue;
        };
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
            ("add.f64 %dd, %da, %db;", "%dd", |a, b, _| (g(a) + g(b)).to_bits()),
            ("sub.f64 %dd, %da, %db;", "%dd", |a, b, _| (g(a) - g(b)).to_bits()),
            ("mul.f64 %dd, %da, %db;", "%dd", |a, b, _| (g(a) * g(b)).to_bits()),
            ("fma.rn.f64 %dd, %da, %db, %dc;", "%dd", |a, b, c| g(a).mul_add(g(b), g(c)).to_bits()),
            ("div.rn.f64 %dd, %da, %db;", "%dd", |a, b, _| (g(a) / g(b)).to_bits()),
            ("sqrt.rn.f64 %dd, %da;", "%dd", |a, _, _| g(a).sqrt().to_bits()),
            ("rcp.rn.f64 %dd, %da;", "%dd", |a, _, _| (1.0 / g(a)).to_bits()),
            ("neg.f64 %dd, %da;", "%dd", |a, _, _| a ^ 1 << 63),
            ("abs.f64 %dd, %da;", "%dd", |a, _, _| a & !(1 << 63)),
            ("setp.lt.f64 %pd, %da, %db;", "%pd", |a, b, _| u64::from(g(a) < g(b))),
            ("setp.geu.f64 %pd, %da, %db;", "%pd", |a, b, _| {
                u64::from(g(a).is_nan() || g(b).is_nan() || g(a) >= g(b))
            }),
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
        .map(|_| [w(unit(&mut random) * 6.0 - 3.0), w(unit(&mut random) * 1e6 + 2.0), 0])
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
    fn un(a: u64, b: u64) -> bool {
        f(a).is_nan() || f(b).is_nan()
    }
    check(
        &singles(),
        &[
            ("setp.eq.f32 %pd, %fa, %fb;", "%pd", |a, b, _| u64::from(f(a) == f(b))),
            ("setp.ne.f32 %pd, %fa, %fb;", "%pd", |a, b, _| u64::from(!un(a, b) && f(a) != f(b))),
            ("setp.gt.f32 %pd, %fa, %fb;", "%pd", |a, b, _| u64::from(f(a) > f(b))),
            ("setp.equ.f32 %pd, %fa, %fb;", "%pd", |a, b, _| u64::from(un(a, b) || f(a) == f(b))),
            ("setp.neu.f32 %pd, %fa, %fb;", "%pd", |a, b, _| u64::from(un(a, b) || f(a) != f(b))),
            ("setp.ltu.f32 %pd, %fa, %fb;", "%pd", |a, b, _| u64::from(un(a, b) || f(a) < f(b))),
            ("setp.leu.f32 %pd, %fa, %fb;", "%pd", |a, b, _| u64::from(un(a, b) || f(a) <= f(b))),
            ("setp.num.f32 %pd, %fa, %fb;", "%pd", |a, b, _| u64::from(!un(a, b))),
            ("setp.nan.f32 %pd, %fa, %fb;", "%pd", |a, b, _| u64::from(un(a, b))),
            ("setp.eq.ftz.f32 %pd, %fa, %fb;", "%pd", |a, b, _| {
                u64::from(flush(f(a)) == flush(f(b)))
            }),
            (
                "slct.b32.f32 %rd, %ra, %rb, %fc;",
                "%rd",
                |a, b, c| {
                    if f(c) >= 0.0 { a & M } else { b & M }
                },
            ),
            ("testp.subnormal.f32 %pd, %fa;", "%pd", |a, _, _| u64::from(f(a).is_subnormal())),
            ("testp.notanumber.f64 %pd, %da;", "%pd", |a, _, _| u64::from(g(a).is_nan())),
        ],
    );
}

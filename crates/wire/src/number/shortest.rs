//! Doubles to decimal digits, by Grisu2 (Florian Loitsch, "Printing Floating-Point Numbers Quickly and Accurately
//! with Integers", PLDI 2010).
//!
//! The digits always read back as the same double, and are the fewest possible for all but about one double in a
//! thousand. The reference prints Grisu2's answer for those too, so a generator that is always shortest
//! (Ryu, Schubfach) would differ from it now and then: rejected, though faster.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "digits, counts of them and binary exponents of doubles are small"
)]

/// `digits * 10^exponent`.
pub(super) struct Decimal {
    digits: [u8; DIGITS_MAX],
    len: usize,
    pub exponent: i32,
}

const DIGITS_MAX: usize = 18;

impl Decimal {
    pub fn digits(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    fn push(&mut self, digit: u64) {
        // No leading zeros.
        if digit != 0 || self.len != 0 {
            self.digits[self.len] = b'0' + digit as u8;
            self.len += 1;
        }
    }

    /// Takes the last digit down, in steps of `unit`, while that brings the number nearer to the true value, which
    /// lies `target` below the upper boundary, and keeps it above the lower one, `delta` below. `rest` is the
    /// distance from the number to the upper boundary.
    fn round_down(&mut self, target: u64, delta: u64, mut rest: u64, unit: u64) {
        while rest < target
            && delta - rest >= unit
            && (rest + unit < target || target - rest > rest + unit - target)
        {
            self.digits[self.len - 1] -= 1;
            rest += unit;
        }
    }
}

/// `significand * 2^exponent`.
#[derive(Clone, Copy)]
struct Float {
    significand: u64,
    exponent: i32,
}

impl Float {
    fn normalized(self) -> Self {
        let shift = self.significand.leading_zeros();
        Self { significand: self.significand << shift, exponent: self.exponent - shift as i32 }
    }

    /// The upper half of the product, rounded.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.significand) * u128::from(other.significand);
        Self {
            significand: ((product + (1 << 63)) >> 64) as u64,
            exponent: self.exponent + other.exponent + 64,
        }
    }
}

/// The digits of a finite positive double.
pub(super) fn shortest(value: f64) -> Decimal {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let biased = (bits >> 52) as i32 & 0x7ff;
    let float = match biased {
        0 => Float { significand: fraction, exponent: -1074 },
        _ => Float { significand: fraction | 1 << 52, exponent: biased - 1075 },
    };

    // The boundaries: halfway to the next double above and below, at one common exponent.
    let upper = Float { significand: float.significand * 2 + 1, exponent: float.exponent - 1 }.normalized();
    let nearer_below = if float.significand == 1 << 52 { 2 } else { 1 };
    let lower = Float {
        significand: ((float.significand << nearer_below) - 1)
            << (float.exponent - nearer_below - upper.exponent),
        exponent: upper.exponent,
    };

    let (power, power_exponent) = cached_power(upper.exponent);
    let scaled = float.normalized().times(power);
    let upper = upper.times(power);
    let lower = lower.times(power);
    // Each product is off by at most one: draw the boundaries in by that.
    generate(
        scaled.significand,
        upper.significand - 1,
        lower.significand + 1,
        upper.exponent,
        -power_exponent,
    )
}

fn generate(value: u64, upper: u64, lower: u64, exponent: i32, decimal_exponent: i32) -> Decimal {
    let mut out = Decimal { digits: [0; DIGITS_MAX], len: 0, exponent: decimal_exponent };
    let target = upper - value;
    let mut delta = upper - lower;
    let shift = -exponent as u32;
    let mut integer = upper >> shift;
    let mut fraction = upper & ((1 << shift) - 1);

    for place in (0..10).rev() {
        let unit = 10u64.pow(place);
        out.push(integer / unit);
        integer %= unit;
        let rest = (integer << shift) + fraction;
        if rest <= delta {
            out.exponent += place as i32;
            out.round_down(target, delta, rest, unit << shift);
            return out;
        }
    }
    let mut target_scale = 1u64;
    loop {
        fraction *= 10;
        delta *= 10;
        target_scale = target_scale.wrapping_mul(10);
        out.push(fraction >> shift);
        fraction &= (1 << shift) - 1;
        out.exponent -= 1;
        if fraction < delta {
            out.round_down(target.wrapping_mul(target_scale), delta, fraction, 1 << shift);
            return out;
        }
    }
}

const POWER_FIRST: i32 = -348;
const POWER_STEP: i32 = 8;

/// A power of ten that brings a number of this binary exponent to an exponent in -60..=-32, and its decimal
/// exponent. Where two would do, the one nearer to the logarithm's estimate, as in the reference.
fn cached_power(exponent: i32) -> (Float, i32) {
    const LOG10_2: f64 = 0.301_029_995_663_981_14;
    let estimate = (f64::from(-(exponent + POWERS.len() as i32)) * LOG10_2) as i32;
    let mut index = (estimate - POWER_FIRST) / POWER_STEP;
    loop {
        let power = power_of_ten(index);
        match exponent + power.exponent + 64 {
            ..-60 => index += 1,
            -31.. => index -= 1,
            _ => return (power, POWER_FIRST + index * POWER_STEP),
        }
    }
}

fn power_of_ten(index: i32) -> Float {
    // floor(log2(10) * 2^16) is exact enough for the exponents of the table.
    let exponent = (((POWER_FIRST + index * POWER_STEP) * 217_706) >> 16) - 63;
    Float { significand: POWERS[index as usize], exponent }
}

/// 10^-348, 10^-340, ... 10^340, as 64-bit significands rounded to nearest; the tests compute them anew.
#[rustfmt::skip]
static POWERS: [u64; 87] = [
    0xfa8fd5a0081c0288, 0xbaaee17fa23ebf76, 0x8b16fb203055ac76, 0xcf42894a5dce35ea,
    0x9a6bb0aa55653b2d, 0xe61acf033d1a45df, 0xab70fe17c79ac6ca, 0xff77b1fcbebcdc4f,
    0xbe5691ef416bd60c, 0x8dd01fad907ffc3c, 0xd3515c2831559a83, 0x9d71ac8fada6c9b5,
    0xea9c227723ee8bcb, 0xaecc49914078536d, 0x823c12795db6ce57, 0xc21094364dfb5637,
    0x9096ea6f3848984f, 0xd77485cb25823ac7, 0xa086cfcd97bf97f4, 0xef340a98172aace5,
    0xb23867fb2a35b28e, 0x84c8d4dfd2c63f3b, 0xc5dd44271ad3cdba, 0x936b9fcebb25c996,
    0xdbac6c247d62a584, 0xa3ab66580d5fdaf6, 0xf3e2f893dec3f126, 0xb5b5ada8aaff80b8,
    0x87625f056c7c4a8b, 0xc9bcff6034c13053, 0x964e858c91ba2655, 0xdff9772470297ebd,
    0xa6dfbd9fb8e5b88f, 0xf8a95fcf88747d94, 0xb94470938fa89bcf, 0x8a08f0f8bf0f156b,
    0xcdb02555653131b6, 0x993fe2c6d07b7fac, 0xe45c10c42a2b3b06, 0xaa242499697392d3,
    0xfd87b5f28300ca0e, 0xbce5086492111aeb, 0x8cbccc096f5088cc, 0xd1b71758e219652c,
    0x9c40000000000000, 0xe8d4a51000000000, 0xad78ebc5ac620000, 0x813f3978f8940984,
    0xc097ce7bc90715b3, 0x8f7e32ce7bea5c70, 0xd5d238a4abe98068, 0x9f4f2726179a2245,
    0xed63a231d4c4fb27, 0xb0de65388cc8ada8, 0x83c7088e1aab65db, 0xc45d1df942711d9a,
    0x924d692ca61be758, 0xda01ee641a708dea, 0xa26da3999aef774a, 0xf209787bb47d6b85,
    0xb454e4a179dd1877, 0x865b86925b9bc5c2, 0xc83553c5c8965d3d, 0x952ab45cfa97a0b3,
    0xde469fbd99a05fe3, 0xa59bc234db398c25, 0xf6c69a72a3989f5c, 0xb7dcbf5354e9bece,
    0x88fcf317f22241e2, 0xcc20ce9bd35c78a5, 0x98165af37b2153df, 0xe2a0b5dc971f303a,
    0xa8d9d1535ce3b396, 0xfb9b7cd9a4a7443c, 0xbb764c4ca7a44410, 0x8bab8eefb6409c1a,
    0xd01fef10a657842c, 0x9b10a4e5e9913129, 0xe7109bfba19c0c9d, 0xac2820d9623bf429,
    0x80444b5e7aa7cf85, 0xbf21e44003acdd2d, 0x8e679c2f5e44ff8f, 0xd433179d9c8cb841,
    0x9e19db92b4e31ba9, 0xeb96bf6ebadf77d9, 0xaf87023b9bf0ee6b,
];

#[cfg(test)]
pub(super) fn powers() -> impl Iterator<Item = (i32, u64, i32)> {
    (0..POWERS.len() as i32).map(|index| {
        let power = power_of_ten(index);
        (POWER_FIRST + index * POWER_STEP, power.significand, power.exponent)
    })
}

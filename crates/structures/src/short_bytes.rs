//! Comparing and copying names and elements of common lengths without a call: a call of the C library costs more than two
//! loads that overlap in the middle.

/// Returns whether `a` and `b` are equal.
#[inline(always)]
pub fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if len != b.len() {
        return false;
    }
    match len {
        8..=16 => a.first_chunk::<8>() == b.first_chunk() && a.last_chunk::<8>() == b.last_chunk(),
        4..=7 => a.first_chunk::<4>() == b.first_chunk() && a.last_chunk::<4>() == b.last_chunk(),
        1..=3 => a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1],
        _ => a == b,
    }
}

/// Copies `from` to `to`, which has the same length.
#[inline(always)]
pub(crate) fn copy_bytes(from: &[u8], to: &mut [u8]) {
    if let 8..=16 = from.len()
        && let (Some(first), Some(last)) = (from.first_chunk::<8>(), from.last_chunk::<8>())
        && from.len() == to.len()
    {
        to[..8].copy_from_slice(first);
        let end = to.len();
        to[end - 8..].copy_from_slice(last);
        return;
    }
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_each_length_counts() {
        for len in 0..40 {
            let bytes: Vec<u8> = (0..len).collect();
            let mut copy = vec![0xff; bytes.len()];
            copy_bytes(&bytes, &mut copy);
            assert!(same_bytes(&bytes, &copy) && copy == bytes, "length {len}");
            for at in 0..bytes.len() {
                copy[at] ^= 1;
                assert!(!same_bytes(&bytes, &copy), "byte {at} of {len}");
                copy[at] ^= 1;
            }
            assert!(bytes.is_empty() || !same_bytes(&bytes, &bytes[1..]));
        }
    }
}

//! The sizes the allocator really hands out: jemalloc with quantum 8, four classes to a doubling above 64 bytes.

/// The usable bytes of an allocation of `bytes`: 8, 16 .. 64, 80, 96, 112, 128, 160, 192, 224, 256, 320 ...
pub(super) const fn size_class(bytes: usize) -> usize {
    if bytes <= 64 {
        return bytes.next_multiple_of(8);
    }
    let doubling = usize::BITS - 1 - (bytes - 1).leading_zeros();
    bytes.next_multiple_of(1 << (doubling - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_allocator() {
        let classes = [
            0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640,
            768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120,
        ];
        for pair in classes.windows(2) {
            for bytes in pair[0] + 1..=pair[1] {
                assert_eq!(size_class(bytes), pair[1], "{bytes}");
            }
        }
        assert_eq!(size_class(0), 0);
    }
}

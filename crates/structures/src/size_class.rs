//! The allocator's size classes, so that a structure can grow to fill them and compute its memory.
//!
//! jemalloc built with a quantum of 8 bytes: multiples of 8 up to 64, then four classes to each doubling (80,
//! 96, 112, 128, 160, ...). Requesting a size between two classes wastes the difference.

/// The smallest class that holds `size` bytes; 0 for 0, which is not allocated at all.
#[inline]
pub const fn size_class(size: usize) -> usize {
    if size <= 64 {
        return (size + 7) & !7;
    }
    let step = size_step(size);
    (size + step - 1) & !(step - 1)
}

/// The difference between the class of `size` and the class below it, above 64 bytes.
#[inline]
pub const fn size_step(size: usize) -> usize {
    // The highest bit of size - 1 is the doubling, a quarter of it is the step.
    (1 << (usize::BITS - 1 - (size - 1).leading_zeros())) >> 2
}

/// The true size of an allocation of `size` bytes. Above the small classes jemalloc 5.3.1 rounds only to its
/// pages of 4 KB, which is less than the class: growing by classes still keeps reallocations few there.
#[inline]
pub const fn usable_size(size: usize) -> usize {
    const SMALL_CLASS_MAX: usize = 14_336;
    if size <= SMALL_CLASS_MAX { size_class(size) } else { size.next_multiple_of(4_096) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_allocator() {
        let classes = [
            8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640,
            768, 896, 1024, 1280,
        ];
        let mut previous = 0;
        for class in classes {
            for size in previous + 1..=class {
                assert_eq!(size_class(size), class, "{size}");
                assert!(class <= 64 || size_step(size) == class - previous, "{size}");
            }
            previous = class;
        }
        assert_eq!(size_class(0), 0);
        assert_eq!(size_class(8193), 10240);
        assert_eq!(size_class(1 << 20), 1 << 20);
        assert_eq!(size_class((512 << 20) + 1), 640 << 20);
    }
}

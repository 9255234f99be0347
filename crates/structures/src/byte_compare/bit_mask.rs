//! The lanes of a comparison that match, as bits.

/// A set of lanes: bit `i` for lane `i`, in a word with a bit for each. Iterating takes the lanes out, the lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BitMask<Bits>(pub(super) Bits);

/// Defines a mask of one width.
macro_rules! masks {
    ($($Bits:ty),*) => {$(
        impl BitMask<$Bits> {
            /// No lane.
            #[allow(dead_code, reason = "not of every width")]
            pub(crate) const NONE: Self = BitMask(0);

            /// The lanes of the mask below `lanes`, which is at least 1.
            #[allow(dead_code, reason = "not of every width")]
            #[inline(always)]
            pub(crate) fn below(self, lanes: usize) -> Self {
                let beyond = (<$Bits>::BITS as usize).saturating_sub(lanes);
                BitMask(self.0 & <$Bits>::MAX >> beyond)
            }

            /// The lowest lane.
            #[allow(dead_code, reason = "not of every width")]
            #[inline(always)]
            pub(crate) fn lowest(self) -> Option<usize> {
                (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
            }
        }

        impl Iterator for BitMask<$Bits> {
            type Item = usize;

            #[inline(always)]
            fn next(&mut self) -> Option<usize> {
                let lane = self.lowest()?;
                self.0 &= self.0 - 1;
                Some(lane)
            }
        }
    )*};
}
masks!(u32, u64, u128);

impl BitMask<u64> {
    /// The lanes of this mask, and behind them those of another.
    #[inline(always)]
    pub(crate) fn followed_by(self, next: BitMask<u64>) -> BitMask<u128> {
        BitMask(u128::from(self.0) | u128::from(next.0) << u64::BITS)
    }
}

//! Dice that fall the same way for the same numbers, on every machine.

/// A generator of numbers (SplitMix64), begun from the numbers that it is made of.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn of(numbers: &[u64]) -> Self {
        numbers.iter().fold(Self(0), |mut dice, number| {
            dice.0 ^= number;
            Self(dice.roll())
        })
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

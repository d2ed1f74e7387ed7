//! Sizes and times as people write them: `256MiB`, `1m30s`.

use std::time::Duration;

/// A number of bytes, more than none: `65536`, `64KiB`, `1MiB`, `1GiB`, `1kB`, `1MB`, `1GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// A time, more than none: `500ms`, `3s`, `10m`, `1h`, `1m30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(Duration);

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityInvalid {
    /// Not a number with a unit of bytes.
    #[error("a size is a whole number with B, kB, KiB, MB, MiB, GB or GiB, as 256MiB")]
    Size,
    /// Not numbers with units of time.
    #[error("a time is whole numbers with ms, s, m, h or d, as 500ms or 1m30s")]
    Time,
    /// Nothing at all.
    #[error("must be more than 0")]
    Zero,
    /// Does not fit.
    #[error("is too large")]
    TooLarge,
}

/// Largest first, so that `Display` finds the shortest exact form.
const SIZE_UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
const TIME_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// A hundred years: far beyond any setting, and safe to add to any clock.
const TIME_MAX_MS: u64 = 100 * 365 * 86_400_000;

impl ByteSize {
    /// The number of bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl HumanDuration {
    /// The time.
    pub fn get(self) -> Duration {
        self.0
    }
}

impl std::str::FromStr for ByteSize {
    type Err = QuantityInvalid;

    fn from_str(text: &str) -> Result<Self, QuantityInvalid> {
        let (number, unit, rest) = leading_quantity(text.trim(), QuantityInvalid::Size)?;
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "kib" | "k" => 1 << 10,
            "mib" | "m" => 1 << 20,
            "gib" | "g" => 1 << 30,
            _ => return Err(QuantityInvalid::Size),
        };
        if !rest.is_empty() {
            return Err(QuantityInvalid::Size);
        }
        match number.checked_mul(factor) {
            Some(0) => Err(QuantityInvalid::Zero),
            Some(bytes) => Ok(Self(bytes)),
            None => Err(QuantityInvalid::TooLarge),
        }
    }
}

impl std::str::FromStr for HumanDuration {
    type Err = QuantityInvalid;

    fn from_str(text: &str) -> Result<Self, QuantityInvalid> {
        let mut rest = text.trim();
        let mut total: u64 = 0;
        loop {
            let (number, unit, after) = leading_quantity(rest, QuantityInvalid::Time)?;
            let (_, factor) = TIME_UNITS.into_iter().find(|(name, _)| *name == unit).ok_or(QuantityInvalid::Time)?;
            total = number.checked_mul(factor).and_then(|ms| total.checked_add(ms)).ok_or(QuantityInvalid::TooLarge)?;
            rest = after.trim_start();
            if rest.is_empty() {
                break;
            }
        }
        match total {
            0 => Err(QuantityInvalid::Zero),
            ms if ms > TIME_MAX_MS => Err(QuantityInvalid::TooLarge),
            ms => Ok(Self(Duration::from_millis(ms))),
        }
    }
}

/// Splits `90s rest` into 90, `s` and what follows.
fn leading_quantity(text: &str, invalid: QuantityInvalid) -> Result<(u64, &str, &str), QuantityInvalid> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, after) = text.split_at(digits);
    if number.is_empty() {
        return Err(invalid);
    }
    let number = number.parse().map_err(|_| QuantityInvalid::TooLarge)?;
    let after = after.trim_start();
    let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
    let (unit, rest) = after.split_at(letters);
    Ok((number, unit, rest))
}

impl std::fmt::Display for ByteSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match SIZE_UNITS.iter().find(|(_, factor)| self.0 != 0 && self.0.is_multiple_of(*factor)) {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

impl std::fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut left = self.0.as_millis() as u64;
        for (unit, factor) in TIME_UNITS {
            if left >= factor {
                write!(f, "{}{unit}", left / factor)?;
                left %= factor;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("65536", 65536),
            ("64KiB", 65536),
            ("1MiB", 1 << 20),
            ("256MiB", 256 << 20),
            ("1GiB", 1 << 30),
            ("1kB", 1000),
            ("2MB", 2_000_000),
            ("10 MiB", 10 << 20),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5MiB", "1TiBB", "1MiB1", "12 apples"] {
            assert_eq!(bad.parse::<ByteSize>(), Err(QuantityInvalid::Size), "{bad}");
        }
        assert_eq!("0".parse::<ByteSize>(), Err(QuantityInvalid::Zero));
        assert_eq!("99999999999GiB".parse::<ByteSize>(), Err(QuantityInvalid::TooLarge));
        assert_eq!("99999999999999999999999".parse::<ByteSize>(), Err(QuantityInvalid::TooLarge));
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, ms) in
            [("3s", 3000), ("500ms", 500), ("10m", 600_000), ("1h", 3_600_000), ("1m30s", 90_000), ("1m 30s", 90_000)]
        {
            assert_eq!(text.parse::<HumanDuration>().map(HumanDuration::get), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "s", "3", "3 weeks", "-3s", "1.5s", "3s!"] {
            assert_eq!(bad.parse::<HumanDuration>(), Err(QuantityInvalid::Time), "{bad}");
        }
        assert_eq!("0s".parse::<HumanDuration>(), Err(QuantityInvalid::Zero));
        assert_eq!("999999999d".parse::<HumanDuration>(), Err(QuantityInvalid::TooLarge));
    }

    #[test]
    fn what_is_shown_can_be_read_back() {
        for text in ["256MiB", "1GiB", "64KiB", "1000"] {
            assert_eq!(text.parse::<ByteSize>().expect("size").to_string(), text);
        }
        for text in ["3s", "500ms", "10m", "1h", "1m30s", "1d2h3m4s5ms"] {
            assert_eq!(text.parse::<HumanDuration>().expect("time").to_string(), text);
        }
    }
}

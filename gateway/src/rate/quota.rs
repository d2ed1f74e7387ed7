//! How much a limit allows, as people write it: `100/s`, `6000/m burst=200`.

use std::str::FromStr;

/// In nanoseconds.
pub(super) const SECOND_NS: u64 = 1_000_000_000;
const UNITS: [(&str, u64); 3] = [("s", SECOND_NS), ("m", 60 * SECOND_NS), ("h", 3600 * SECOND_NS)];
/// A faster rate is no limit for one gateway, and could not be counted in whole nanoseconds with any precision.
const PER_SECOND_MAX: u64 = 1_000_000;
/// The most requests at once.
const BURST_MAX: u64 = 1_000_000;
/// How long an empty bucket may take to fill: who waits for longer is shut out, not limited.
const FILL_MAX_NS: u64 = 24 * 3600 * SECOND_NS;

/// The shape of a bucket: it holds `burst` requests and gets one back every `interval_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// How long one request's worth takes to come back, in nanoseconds; rounded up, so that no more pass than was said.
    pub(super) interval_ns: u64,
    /// How many requests may come at once, 1 or more.
    pub(super) burst: u64,
}

/// Why a text is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaInvalid {
    /// Not of the form.
    #[error("a rate is COUNT/UNIT with the unit s, m or h, and may say burst=COUNT, as \"100/s burst=200\"")]
    Form,
    /// Nothing at all may pass.
    #[error("a rate and a burst must be more than 0")]
    Zero,
    /// More than can be counted.
    #[error("a rate is at most 1000000 in a second, and a burst at most 1000000")]
    TooLarge,
    /// Empty for too long.
    #[error("with this rate a burst of that size takes more than a day to come back")]
    FillsTooSlowly,
}

impl Quota {
    /// How long an empty bucket takes to fill, in nanoseconds.
    pub(super) fn depth_ns(&self) -> u64 {
        self.burst * self.interval_ns
    }
}

impl FromStr for Quota {
    type Err = QuotaInvalid;

    /// Without a burst as many may come at once as the rate says for its unit.
    fn from_str(text: &str) -> Result<Self, QuotaInvalid> {
        let mut words = text.split_whitespace();
        let (count, unit) = words.next().and_then(|rate| rate.split_once('/')).ok_or(QuotaInvalid::Form)?;
        let (_, unit_ns) = *UNITS.iter().find(|(name, _)| *name == unit).ok_or(QuotaInvalid::Form)?;
        let count = whole_number(count)?;
        let burst = words.next().map(|word| whole_number(word.strip_prefix("burst=").ok_or(QuotaInvalid::Form)?));
        if words.next().is_some() {
            return Err(QuotaInvalid::Form);
        }
        let burst = burst.transpose()?.unwrap_or(count);
        if count == 0 || burst == 0 {
            return Err(QuotaInvalid::Zero);
        }
        if count > PER_SECOND_MAX * (unit_ns / SECOND_NS) || burst > BURST_MAX {
            return Err(QuotaInvalid::TooLarge);
        }
        let quota = Self { interval_ns: unit_ns.div_ceil(count), burst };
        // Below 2⁶⁴: at most an hour times a million.
        if quota.depth_ns() > FILL_MAX_NS {
            return Err(QuotaInvalid::FillsTooSlowly);
        }
        Ok(quota)
    }
}

/// Digits alone, without a sign.
fn whole_number(text: &str) -> Result<u64, QuotaInvalid> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuotaInvalid::Form);
    }
    text.parse().map_err(|_| QuotaInvalid::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<Quota>().map(|quota| (quota.interval_ns, quota.burst));
        assert_eq!(read("100/s burst=200"), Ok((10_000_000, 200)));
        assert_eq!(read("6000/m"), Ok((10_000_000, 6000)));
        assert_eq!(read(" 1000/h "), Ok((3_600_000_000, 1000)));
        // Rounded to the side of fewer requests.
        assert_eq!(read("3/s"), Ok((333_333_334, 3)));
        assert_eq!(read("1000000/s"), Ok((1000, 1_000_000)));
    }

    #[test]
    fn what_is_no_rate_is_refused_with_the_reason() {
        for text in
            ["", "100", "100/", "/s", "100/d", "100/S", "-1/s", "+1/s", "1.5/s", "1/s burst", "1/s burst=", "1/s x=1"]
        {
            assert_eq!(text.parse::<Quota>(), Err(QuotaInvalid::Form), "{text:?}");
        }
        assert_eq!("1/s burst=2 burst=2".parse::<Quota>(), Err(QuotaInvalid::Form));
        for text in ["0/s", "1/s burst=0"] {
            assert_eq!(text.parse::<Quota>(), Err(QuotaInvalid::Zero), "{text:?}");
        }
        for text in ["1000001/s", "1/s burst=1000001", "99999999999999999999/s"] {
            assert_eq!(text.parse::<Quota>(), Err(QuotaInvalid::TooLarge), "{text:?}");
        }
        assert_eq!("1/h burst=25".parse::<Quota>(), Err(QuotaInvalid::FillsTooSlowly));
        assert!("1/h burst=24".parse::<Quota>().is_ok());
    }
}

//! Milliseconds since 1970 as people read them: `2026-11-30T04:54:15Z`.

const MS_PER_DAY: i64 = 86_400_000;

/// RFC 3339 in UTC, to the second.
pub fn rfc3339(ms: i64) -> String {
    let (year, month, day) = civil(ms.div_euclid(MS_PER_DAY));
    let second = ms.rem_euclid(MS_PER_DAY) / 1000;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// RFC 3339 in UTC, to the millisecond.
pub fn rfc3339_ms(ms: i64) -> String {
    let to_the_second = rfc3339(ms);
    format!("{}.{:03}Z", to_the_second.trim_end_matches('Z'), ms.rem_euclid(1000))
}

/// Year, month and day of a day since 1970, in the proleptic Gregorian calendar
/// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_as_everybody_writes_them() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399_999), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_796_014_455_000), "2026-11-30T04:54:15Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59Z");
        assert_eq!(rfc3339_ms(1_796_014_455_007), "2026-11-30T04:54:15.007Z");
    }
}

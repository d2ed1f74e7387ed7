//! The `Date` of an answer that hyper does not write.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// The text of one second.
struct Rendered {
    second: i64,
    text: String,
}

thread_local! {
    static RENDERED: RefCell<Rendered> = const { RefCell::new(Rendered { second: i64::MIN, text: String::new() }) };
}

/// Appends the present time as RFC 9110 wants it; rendered once a second and thread.
pub fn append(line: &mut Vec<u8>) {
    let second = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    RENDERED.with_borrow_mut(|rendered| {
        if rendered.second != second {
            let since_1970 = Duration::from_secs(u64::try_from(second).unwrap_or_default());
            let text = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since_1970);
            *rendered = Rendered { second, text };
        }
        line.extend_from_slice(rendered.text.as_bytes());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_now_to_the_second() {
        let before = SystemTime::now();
        let mut line = Vec::new();
        append(&mut line);
        let said = httpdate::parse_http_date(std::str::from_utf8(&line).expect("ASCII")).expect("a date");
        // The coarse clock may be a little behind, and a second is cut off.
        assert!(said <= SystemTime::now() && said + Duration::from_secs(2) > before, "{said:?}");
    }
}

//! The addresses that `X-Forwarded-For` and `Forwarded` (RFC 7239) name, from right to left: the nearest hop first. Pure.
//!
//! `Forwarded` is split at every comma, also at one within quotes: no address holds one, and a quote that was opened by whoever
//! wrote the left must not swallow what the proxy appended on the right.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName, HeaderValue};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What one hop says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// Canonical: IPv4 within IPv6 is IPv4.
    Address(IpAddr),
    /// Nothing that can be read, a name or `unknown`.
    Nobody,
}

/// The hops of `X-Forwarded-For`; `None`: there is no such header.
pub(super) fn x_forwarded_for(headers: &HeaderMap) -> Option<impl Iterator<Item = Named>> {
    elements(headers, X_FORWARDED_FOR).map(|elements| elements.map(address_of))
}

/// The hops of `Forwarded`; `None`: there is no such header.
pub(super) fn forwarded(headers: &HeaderMap) -> Option<impl Iterator<Item = Named>> {
    elements(headers, FORWARDED).map(|elements| elements.map(forwarded_for))
}

/// The elements of all lines of a header, from the last to the first.
fn elements<'h>(headers: &'h HeaderMap, name: HeaderName) -> Option<impl Iterator<Item = &'h [u8]>> {
    if !headers.contains_key(&name) {
        return None;
    }
    let rightmost_first = |line: &'h HeaderValue| line.as_bytes().rsplit(|byte| *byte == b',');
    Some(headers.get_all(name).into_iter().rev().flat_map(rightmost_first).map(<[u8]>::trim_ascii))
}

fn address_of(text: &[u8]) -> Named {
    let address = std::str::from_utf8(text).ok().and_then(read_address);
    address.map_or(Named::Nobody, |address| Named::Address(address.to_canonical()))
}

/// `10.0.0.1`, `10.0.0.1:4711`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:4711`.
fn read_address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(with_port) = text.parse::<SocketAddr>() {
        return Some(with_port.ip());
    }
    text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

/// The `for` of one element: pairs separated by semicolons, all of which must be such.
fn forwarded_for(element: &[u8]) -> Named {
    let mut named = None;
    for pair in element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty()) {
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else { return Named::Nobody };
        let (name, value) = (&pair[..equals], unquoted(&pair[equals + 1..]));
        let Some(value) = value.filter(|_| !name.is_empty() && name.iter().copied().all(is_token_byte)) else {
            return Named::Nobody;
        };
        if name.eq_ignore_ascii_case(b"for") && named.replace(address_of(value)).is_some() {
            return Named::Nobody;
        }
    }
    named.unwrap_or(Named::Nobody)
}

/// A token, or what is within quotes; one with an escape is no address.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    if let [b'"', inner @ .., b'"'] = value {
        return (!inner.iter().any(|byte| matches!(byte, b'"' | b'\\'))).then_some(inner);
    }
    // Addresses with a colon should be quoted; many proxies do not.
    let bare = |byte: u8| is_token_byte(byte) || matches!(byte, b':' | b'[' | b']');
    (!value.is_empty() && value.iter().copied().all(bare)).then_some(value)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

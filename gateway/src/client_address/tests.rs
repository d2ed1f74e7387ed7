//! Who the client is behind proxies, and whether it may come in.

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

fn settings(trusted: &str, allow: &str, deny: &str) -> ClientSettings {
    let networks = |text: &str| text.parse().expect("networks");
    ClientSettings { trusted_proxies: networks(trusted), allow: networks(allow), deny: networks(deny) }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
    }
    headers
}

/// Who a peer within 10.0.0.0/8 or fd00::/8 says that its client is.
fn client(lines: &[(&'static str, &str)]) -> IpAddr {
    let settings = settings("10.0.0.0/8, fd00::/8", "", "");
    settings.client_of(ip("10.0.0.1"), &headers(lines)).expect("one client").address
}

#[test]
fn without_trusted_proxies_nothing_of_a_header_is_believed() {
    let sent = headers(&[("x-forwarded-for", "1.2.3.4"), ("forwarded", "for=5.6.7.8")]);
    for trusted in ["", "10.0.0.0/8"] {
        let told = settings(trusted, "", "").client_of(ip("::ffff:192.0.2.1"), &sent);
        assert_eq!(told, Ok(ClientAddress { address: ip("192.0.2.1"), by_trusted_proxy: false }));
    }
}

#[test]
fn the_first_untrusted_address_from_the_right_is_the_client() {
    for (sent, expected) in [
        ("203.0.113.9", "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9", "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9, 10.2.3.4, 10.9.9.9", "203.0.113.9"),
        ("203.0.113.9:4711 ,10.2.3.4:80", "203.0.113.9"),
        ("2001:db8::1, [fd00::1]:80", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("10.5.5.5, 10.2.3.4", "10.5.5.5"),
    ] {
        assert_eq!(client(&[("x-forwarded-for", sent)]), ip(expected), "{sent}");
    }
    assert_eq!(client(&[]), ip("10.0.0.1"));
    let two_lines = [("x-forwarded-for", "1.1.1.1, 203.0.113.9"), ("x-forwarded-for", "10.2.3.4")];
    assert_eq!(client(&two_lines), ip("203.0.113.9"));
}

#[test]
fn what_cannot_be_read_ends_the_way_at_the_last_that_could() {
    for (sent, expected) in [
        ("", "10.0.0.1"),
        ("unknown", "10.0.0.1"),
        ("203.0.113.9, , 10.2.3.4", "10.2.3.4"),
        ("203.0.113.9, example.org, 10.2.3.4", "10.2.3.4"),
        ("203.0.113.999", "10.0.0.1"),
        ("caf\u{e9}, 203.0.113.9", "203.0.113.9"),
    ] {
        assert_eq!(client(&[("x-forwarded-for", sent)]), ip(expected), "{sent}");
    }
}

#[test]
fn forwarded_is_read_alike() {
    for (sent, expected) in [
        ("for=203.0.113.9", "203.0.113.9"),
        ("For=\"[2001:db8::1]:4711\";proto=https, for=10.2.3.4;by=10.0.0.1", "2001:db8::1"),
        ("for=1.1.1.1, proto=http;for=203.0.113.9:80;host=example.org", "203.0.113.9"),
        ("for=_hidden, for=10.2.3.4", "10.2.3.4"),
        ("for=unknown", "10.0.0.1"),
        ("proto=https", "10.0.0.1"),
        ("for=1.1.1.1;for=2.2.2.2", "10.0.0.1"),
        ("for = 1.1.1.1", "10.0.0.1"),
        // A quote opened on the left swallows nothing that the proxy has appended.
        ("for=\"1.1.1.1, for=203.0.113.9", "203.0.113.9"),
        // What a client has put into its Host is no element of its own.
        ("for=203.0.113.9;host=\"a,for=1.1.1.1;b=\\\"c\"", "10.0.0.1"),
        ("for=203.0.113.9;host=\"a,for=1.1.1.1;b\"", "10.0.0.1"),
    ] {
        assert_eq!(client(&[("forwarded", sent)]), ip(expected), "{sent}");
    }
}

#[test]
fn two_headers_that_name_different_clients_are_refused() {
    let settings = settings("10.0.0.0/8", "", "");
    let told = |forwarded| {
        let sent = headers(&[("x-forwarded-for", "203.0.113.9"), ("forwarded", forwarded)]);
        settings.client_of(ip("10.0.0.1"), &sent).map(|client| client.address).map_err(|problem| problem.code)
    };
    assert_eq!(told("for=203.0.113.9;proto=https"), Ok(ip("203.0.113.9")));
    assert_eq!(told("for=10.0.0.9"), Err(ProblemCode::RequestInvalid));
    assert_eq!(told("for=1.1.1.1"), Err(ProblemCode::RequestInvalid));
}

#[test]
fn at_most_thirty_two_hops_are_looked_at() {
    let hops =
        |trusted: usize| ["203.0.113.9"].into_iter().chain(vec!["10.2.3.4"; trusted]).collect::<Vec<_>>().join(",");
    assert_eq!(client(&[("x-forwarded-for", &hops(31))]), ip("203.0.113.9"));
    assert_eq!(client(&[("x-forwarded-for", &hops(32))]), ip("10.2.3.4"));
}

#[test]
fn deny_wins_and_an_allow_list_shuts_all_others_out() {
    let may = |settings: &ClientSettings, address: &str| {
        let client = settings.client_of(ip(address), &HeaderMap::new()).expect("a client");
        settings.may_come_in(client).map_err(|problem| problem.code)
    };
    let refused = Err(ProblemCode::Forbidden);
    let both = settings("", "10.0.0.0/8,2001:db8::/32", "10.1.0.0/16, 10.2.2.2");
    for (address, expected) in [
        ("10.0.0.1", Ok(())),
        ("::ffff:10.0.0.1", Ok(())),
        ("2001:db8::1", Ok(())),
        ("10.1.2.3", refused),
        ("10.2.2.2", refused),
        ("192.0.2.1", refused),
        ("2001:db9::1", refused),
    ] {
        assert_eq!(may(&both, address), expected, "{address}");
    }
    let deny_only = settings("", "", "::ffff:10.0.0.0/104");
    assert_eq!((may(&deny_only, "10.9.9.9"), may(&deny_only, "11.0.0.1")), (refused, Ok(())));
}

#[test]
fn a_list_with_something_else_in_it_is_none() {
    for bad in ["10.0.0.0/33", "10.0.0", "example.org", "10.0.0.1-10.0.0.9", "10.0.0.0/8 10.1.0.0/16"] {
        let error = bad.parse::<Networks>().expect_err(bad);
        assert_eq!(error, NetworksInvalid::Network(bad.to_owned()));
    }
    assert_eq!(vec!["10.0.0.1"; 1025].join(",").parse::<Networks>(), Err(NetworksInvalid::TooMany));
}

proptest! {
    /// Whatever a client sends, behind one trusted proxy that appends its address it is that address.
    #[test]
    fn a_client_cannot_say_who_it_is(forged in "[ -~]{0,60}", lines in 0..3_usize, v6 in any::<bool>()) {
        let truth = if v6 { "2001:db8::7" } else { "203.0.113.9" };
        let mut x_forwarded_for = vec![("x-forwarded-for", forged.clone()); lines];
        x_forwarded_for.push(("x-forwarded-for", format!("{forged}, {truth}")));
        let sent: Vec<_> = x_forwarded_for.iter().map(|(name, value)| (*name, value.as_str())).collect();
        prop_assert_eq!(client(&sent), ip(truth));
        let element = if v6 { format!("{forged}, for=\"[{truth}]\"") } else { format!("{forged}, for={truth}") };
        prop_assert_eq!(client(&[("forwarded", &forged), ("forwarded", &element)]), ip(truth));
    }

    /// No bytes make it fail, and only an address that is named or the peer comes out.
    #[test]
    fn any_header_is_read(bytes in prop::collection::vec(prop::sample::select((0x20..=0xff_u8).collect::<Vec<_>>()), 0..80)) {
        let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
        for name in ["x-forwarded-for", "forwarded"] {
            let headers = HeaderMap::from_iter([(name.parse().expect("a name"), value.clone())]);
            let told = settings("10.0.0.0/8", "", "").client_of(ip("10.0.0.1"), &headers);
            prop_assert!(told.is_ok_and(|client| client.by_trusted_proxy));
        }
    }
}

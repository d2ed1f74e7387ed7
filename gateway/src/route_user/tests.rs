//! Who the user is, by header, token, address, cookie.

use http::HeaderValue;

use super::*;

type Line = (HeaderName, &'static [u8]);

fn id(value: &'static [u8]) -> Line {
    (X_USER_ID, value)
}

fn asked_of(lines: &[Line], asked: Asked<'_>) -> Result<String, ProblemCode> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, HeaderValue::from_bytes(value).expect("a value"));
    }
    user_of(&headers, asked).map(|user| user.as_str().to_owned()).map_err(|problem| problem.code)
}

fn keyless(keyless: &str, lines: &[Line]) -> Result<String, ProblemCode> {
    let keyless = &keyless.parse().expect("a setting");
    let client = Some("::ffff:10.0.0.7".parse().expect("address"));
    asked_of(lines, Asked { keyless, caller: Caller::Any, client, by_trusted_proxy: false })
}

#[test]
fn absent_empty_and_blank_are_alike() {
    for lines in [&[][..], &[id(b"")], &[id(b"   ")]] {
        assert_eq!(keyless("reject", lines), Err(ProblemCode::UserIdMissing));
        assert_eq!(keyless("client-ip", lines), Ok("ip:10.0.0.7".to_owned()));
    }
}

#[test]
fn two_headers_inner_blanks_and_other_bytes_are_refused() {
    for lines in [&[id(b"a"), id(b"a")][..], &[id(b"a b")], &[id(b"caf\xc3\xa9")], &[id(b"a\tb")], &[id(b""), id(b"a")]]
    {
        assert_eq!(keyless("reject", lines), Err(ProblemCode::UserIdInvalid));
    }
    assert_eq!(keyless("reject", &[id(b"user-1")]), Ok("user-1".to_owned()));
}

#[test]
fn a_cookie_or_header_stands_in_for_the_user_and_cannot_be_mistaken_for_one() {
    let by_cookie = |value| keyless("cookie:sid", &[(header::COOKIE, value)]);
    let user = by_cookie(b"a=1; sid=s3cret; b=2").expect("a user");
    assert!(user.starts_with("cookie:") && user.len() == 71 && !user.contains("s3cret"), "{user}");
    assert_eq!(by_cookie(b"sid=s3cret"), Ok(user.clone()));
    assert_ne!(by_cookie(b"sid=other"), Ok(user.clone()));
    for missing in [&b"sid="[..], b"xsid=1", b"sid", b"SID=1", b""] {
        assert_eq!(by_cookie(missing), Err(ProblemCode::UserIdMissing), "{missing:?}");
    }
    assert_eq!(by_cookie(b"sid=a; sid=b"), Err(ProblemCode::UserIdInvalid));

    let tenant = HeaderName::from_static("x-tenant");
    let by_header = |value| keyless("header:X-Tenant", &[(tenant.clone(), value)]);
    assert_eq!(by_header(b"acme"), Ok("header:acme".to_owned()));
    assert_eq!(by_header(b"ip:10.0.0.7"), Ok("header:ip:10.0.0.7".to_owned()));
    assert_eq!(
        (by_header(b"a b"), by_header(b" ")),
        (Err(ProblemCode::UserIdInvalid), Err(ProblemCode::UserIdMissing))
    );
    let twice = [(tenant.clone(), &b"a"[..]), (tenant.clone(), b"b")];
    assert_eq!(keyless("header:x-tenant", &twice), Err(ProblemCode::UserIdInvalid));
    let both = [(tenant, &b"acme"[..]), id(b"ada")];
    assert_eq!(keyless("header:x-tenant", &both), Ok("ada".to_owned()));
}

#[test]
fn nobody_can_send_what_only_stands_in() {
    for reserved in [&b"ip:10.0.0.7"[..], b"cookie:00", b"header:acme", b" ip:10.0.0.8 "] {
        for mode in ["client-ip", "cookie:sid", "header:x-tenant"] {
            assert_eq!(keyless(mode, &[id(reserved)]), Err(ProblemCode::UserIdInvalid));
        }
        assert!(keyless("reject", &[id(reserved)]).is_ok(), "nothing stands in, so it is an id like any other");
    }
}

#[test]
fn a_token_decides_over_the_header() {
    let user = |caller: fn(UserId) -> Caller, by_trusted_proxy, lines: &[Line]| {
        let caller = caller(UserId::parse(b"ada").expect("a user"));
        asked_of(lines, Asked { keyless: &Keyless::ClientIp, caller, client: None, by_trusted_proxy })
    };
    let (ada, forbidden) = (Ok("ada".to_owned()), Err(ProblemCode::Forbidden));
    let disagreeing = [&[id(b"bob")][..], &[id(b"ada"), id(b"bob")], &[id(b"ip:1.2.3.4")], &[id(b"a b")]];
    for lines in disagreeing {
        assert_eq!(user(Caller::Proven, false, lines), ada, "not believed");
        assert_eq!(user(Caller::Proven, true, lines), forbidden);
        assert_eq!(user(Caller::Bound, false, lines), forbidden);
        assert_eq!(user(Caller::Bound, true, lines), forbidden);
    }
    for lines in [&[][..], &[id(b"ada")], &[id(b" ")]] {
        for (caller, trusted) in
            [(Caller::Proven as fn(UserId) -> Caller, true), (Caller::Proven, false), (Caller::Bound, false)]
        {
            assert_eq!(user(caller, trusted, lines), ada);
        }
    }
}

#[test]
fn a_setting_that_names_nothing_fit_is_refused() {
    for bad in
        ["", "cookie", "cookie:", "cookie:a b", "header:", "header:a:b", "header:authorization", "header:Cookie", "ip"]
    {
        assert!(bad.parse::<Keyless>().is_err(), "{bad}");
    }
    assert_eq!("header:X-User-Id".parse::<Keyless>(), Err(KeylessInvalid::Name));
}

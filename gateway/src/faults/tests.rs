//! Rules are read or refused with the reason, and mean the requests that they say.

use super::*;
use tokio::time::Instant;

fn drill(rules: &str) -> Drill {
    let fault_rules = rules.parse().expect("rules");
    let settings = FaultSettings { faults: Faults::On, fault_rules };
    Drill::new(&settings, &mut Registry::default()).expect("on")
}

fn headers(name: &'static str, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))])
}

fn delay(ms: u64) -> Fault {
    Fault { delay: Some(Duration::from_millis(ms)), abort: None }
}

#[test]
fn bad_rules_are_refused_with_what_is_wrong_with_them() {
    let refused = |text: &str| text.parse::<FaultRules>().expect_err(text).to_string();
    assert!(refused("delay").contains("none of delay=TIME"));
    assert!(refused("delay=50ms colour=red").starts_with("\"colour=red\" is none of"));
    assert_eq!(refused("delay=1ms delay=2ms"), "a rule says delay twice");
    for delay in ["delay=", "delay=11s", "delay=0ms", "delay=-1s", "delay=5"] {
        assert_eq!(refused(delay), "a delay is a time of at most 10s, as 50ms", "{delay}");
    }
    for abort in ["abort=200", "abort=500", "abort=x"] {
        assert_eq!(refused(abort), "abort is 429, 503 or 504", "{abort}");
    }
    for share in ["0", "-0.1", "1.1", "NaN", "inf", "x"] {
        assert!(refused(&format!("abort=503 share={share}")).starts_with("a share is"), "{share}");
    }
    assert!(refused("abort=503 route=other").starts_with("a route is"));
    assert!(refused("abort=503 header=a,b").contains("is no name of a header"));
    assert_eq!(refused("share=0.5"), "a rule says delay or abort, or both");
    assert_eq!(refused(&"delay=1ms;".repeat(33)), "there are at most 32 rules");
    assert!("".parse::<FaultRules>().is_ok_and(|rules| rules.len() == 0));
}

#[test]
fn the_first_rule_that_means_a_request_decides_by_route_header_and_chance() {
    let drill = drill("delay=50ms share=0.25 route=get; abort=503 header=X-Drill; delay=1s route=put");
    let none = HeaderMap::new();
    let fault = |route, headers: &HeaderMap, chance: f64| drill.fault(route, headers, || chance).expect("no header");
    assert_eq!(fault(Route::get, &none, 0.24), Some(delay(50)));
    assert_eq!(fault(Route::get, &none, 0.25), None);
    assert_eq!(fault(Route::delete, &none, 0.0), None);
    assert_eq!(fault(Route::put, &none, 0.99), Some(delay(1000)));
    let aborted = Some(Fault { delay: None, abort: Some(StatusCode::SERVICE_UNAVAILABLE) });
    assert_eq!(fault(Route::put, &headers("x-drill", "yes"), 0.99), aborted);
}

#[test]
fn a_request_may_ask_for_a_fault_of_its_own() {
    let drill = drill("abort=503");
    let ask =
        |text| drill.fault(Route::get, &headers("x-shardcache-fault", text), || 0.0).map_err(|problem| problem.code);
    assert_eq!(ask("delay=200ms"), Ok(Some(delay(200))));
    let both = Fault { delay: Some(Duration::from_secs(1)), abort: Some(StatusCode::GATEWAY_TIMEOUT) };
    assert_eq!(ask("delay=1s abort=504"), Ok(Some(both)));
    for text in ["", "delay=11s", "abort=200", "delay=1s share=0.5", "delay=1s; abort=503"] {
        assert_eq!(ask(text), Err(ProblemCode::RequestInvalid), "{text:?}");
    }
}

#[test]
fn when_off_there_is_nothing_to_ask_whatever_the_rules_say() {
    let settings = FaultSettings { faults: Faults::Off, fault_rules: "abort=503".parse().expect("rules") };
    assert!(Drill::new(&settings, &mut Registry::default()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_delay_ends_and_the_request_goes_on_and_an_abort_is_an_answer() {
    let drill = drill("delay=1ms");
    let began = Instant::now();
    assert!(drill.inject(delay(300)).await.is_none());
    assert_eq!(began.elapsed(), Duration::from_millis(300));
    let abort = Fault { delay: None, abort: Some(StatusCode::TOO_MANY_REQUESTS) };
    let mut response = drill.inject(abort).await.expect("an answer");
    abort.tell(response.headers_mut());
    assert_eq!(
        (response.status(), &response.headers()["x-shardcache-fault"]),
        (StatusCode::TOO_MANY_REQUESTS, &"abort=429".parse().expect("a value"))
    );
    assert_eq!(drill.injected.get(&Labels { fault: Injected::delay }), 1);
    assert_eq!(drill.injected.get(&Labels { fault: Injected::abort }), 1);
}

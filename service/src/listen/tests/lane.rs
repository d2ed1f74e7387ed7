//! What is answered at once, mixed with what is not: in order, each its own, on one connection.

use super::*;

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")
}

fn put(body: &str) -> String {
    format!("PUT /put HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// The status of the next answer, who gave it, and its body.
async fn next_answer(stream: &mut TcpStream) -> (String, bool, String) {
    let head = up_to(stream, "\r\n\r\n").await;
    let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let mut body = vec![0; value("content-length").unwrap_or("0").parse().expect("a length")];
    timeout(SOON, stream.read_exact(&mut body)).await.expect("in time").expect("a body");
    let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
    (status, value("by") == Some("lane"), String::from_utf8(body).expect("text"))
}

/// Requests of all kinds, and what comes of each.
fn all_kinds() -> Vec<(String, (&'static str, bool, &'static str))> {
    vec![
        (get("/at-once/a"), ("200", true, "a")),
        (get("/"), ("200", false, "ok")),
        (get("/at-once/b"), ("200", true, "b")),
        (put("GET /at-once/x HTTP/1.1\r\n\r\n"), ("200", false, "27 bytes: ok")),
        (get("/at-once/c"), ("200", true, "c")),
        (get("/at-once/0"), ("200", false, "ok")),
        (put(""), ("200", false, "0 bytes: ok")),
        (get("/at-once/d"), ("200", true, "d")),
        (get("/at-once/e"), ("200", true, "e")),
    ]
}

#[tokio::test]
async fn requests_of_all_kinds_one_after_another_get_their_own_answers() {
    let server = Server::start(patient()).await;
    let mut client = server.connect().await;
    for (request, (status, by_lane, body)) in all_kinds() {
        send(&mut client, &request).await;
        assert_eq!(next_answer(&mut client).await, (status.to_owned(), by_lane, body.to_owned()), "{request}");
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order_however_they_are_cut_up() {
    let requests = all_kinds();
    let all: String = requests.iter().map(|(request, _)| request.as_str()).collect();
    for size in [1, 2, 7, 40, 100, 1000, all.len()] {
        let server = Server::start(patient()).await;
        let mut client = server.connect().await;
        let (mut reading, mut writing) = client.split();
        let sending = async {
            for piece in all.as_bytes().chunks(size) {
                writing.write_all(piece).await.expect("send");
                // The server gets a turn, so that it sees the pieces.
                tokio::task::yield_now().await;
            }
        };
        let receiving = async {
            for (_, (_, _, body)) in &requests {
                let mut read = String::new();
                while !read.ends_with(&format!("\r\n\r\n{body}")) {
                    read.push(char::from(reading.read_u8().await.expect("more of the answers")));
                }
            }
        };
        timeout(SOON, async { tokio::join!(sending, receiving) }).await.expect("answered in time");
    }
}

#[tokio::test]
async fn a_request_that_comes_while_another_waits_is_answered_after_it() {
    let server = Server::start(patient()).await;
    let mut client = server.connect().await;
    send(&mut client, GET_WAIT).await;
    server.request_has_come().await;
    send(&mut client, &get("/at-once/a")).await;
    let early = timeout(Duration::from_millis(100), client.readable()).await;
    assert!(early.is_err(), "the first is not answered");
    server.gate.go_on.add_permits(1);
    assert_eq!(next_answer(&mut client).await.2, "ok");
    assert_eq!(next_answer(&mut client).await, ("200".to_owned(), true, "a".to_owned()));
}

#[tokio::test]
async fn what_could_be_answered_at_once_is_left_to_hyper_while_an_answer_of_hypers_is_not_written_whole() {
    let server = Server::start(patient()).await;
    let mut client = server.connect().await;
    send(&mut client, &(get("/large") + &get("/at-once/a"))).await;
    // The head is here: the server is at the body, which no socket has room for, and hears of the second request.
    assert!(up_to(&mut client, "\r\n\r\n").await.contains("content-length: 67108864"));
    let mut large = vec![0; 64 << 20];
    timeout(SOON, client.read_exact(&mut large)).await.expect("in time").expect("the body");
    assert!(large.iter().all(|byte| *byte == b'x'), "nothing else in it");
    assert_eq!(next_answer(&mut client).await, ("200".to_owned(), false, "ok".to_owned()));
}

#[tokio::test]
async fn a_thousand_pipelined_requests_are_all_answered() {
    let server = Server::start(patient()).await;
    let mut client = server.connect().await;
    let echo = "x".repeat(500);
    let (mut reading, mut writing) = client.split();
    let all = get(&format!("/at-once/{echo}")).repeat(1000);
    let sending = async { writing.write_all(all.as_bytes()).await.expect("send") };
    let answers = echoed("lane", &echo).repeat(1000);
    let receiving = async {
        let mut read = vec![0; answers.len()];
        reading.read_exact(&mut read).await.expect("all answers");
        assert!(read == answers.as_bytes());
    };
    timeout(SOON, async { tokio::join!(sending, receiving) }).await.expect("answered in time");
}

#[tokio::test]
async fn a_reader_that_takes_no_answers_of_the_lane_is_cut_off() {
    let mut options = patient();
    options.pace.stuck_reader = Duration::from_millis(200);
    let server = Server::start(options).await;
    let mut stuck = server.connect().await;
    let requests = get(&format!("/at-once/{}", "x".repeat(1000))).repeat(1000);
    let sending = async { while stuck.write_all(requests.as_bytes()).await.is_ok() {} };
    timeout(SOON, sending).await.expect("closed in time");
}

#[tokio::test]
async fn what_has_no_certain_length_ends_the_lane_and_is_answered() {
    let server = Server::start(patient()).await;
    let mut client = server.connect().await;
    let chunked = "PUT /put HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    send(&mut client, &format!("{}{chunked}{}", get("/at-once/a"), get("/at-once/b"))).await;
    assert_eq!(next_answer(&mut client).await, ("200".to_owned(), true, "a".to_owned()));
    assert_eq!(next_answer(&mut client).await.2, "3 bytes: ok");
    assert_eq!(next_answer(&mut client).await, ("200".to_owned(), false, "ok".to_owned()));
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused_as_such() {
    let server = Server::start(patient()).await;
    let mut client = server.connect().await;
    send(&mut client, &get("/at-once/a")).await;
    assert_eq!(next_answer(&mut client).await.2, "a");
    send(&mut client, &format!("GET /at-once/a HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(40_000))).await;
    assert!(to_the_end(&mut client).await.starts_with("HTTP/1.1 431"));
}

#[tokio::test]
async fn a_client_that_hangs_up_while_its_request_waits_frees_its_place() {
    let server = Server::start(ServeOptions { max_connections: 1, ..patient() }).await;
    let mut gone = server.connect().await;
    send(&mut gone, &format!("{}{GET_WAIT}", get("/at-once/a"))).await;
    server.request_has_come().await;
    drop(gone);
    let mut next = server.connect().await;
    send(&mut next, &get("/at-once/b")).await;
    assert_eq!(next_answer(&mut next).await.2, "b");
}

#[tokio::test]
async fn nothing_overtakes_an_answer_that_is_on_its_way() {
    let server = Server::start(patient()).await;
    let mut client = server.connect().await;
    send(&mut client, &(get("/at-once/a") + &get("/soon/b") + &get("/at-once/c"))).await;
    assert_eq!(next_answer(&mut client).await.2, "a");
    server.request_has_come().await;
    send(&mut client, &(put("1") + &get("/soon/d") + &get("/"))).await;
    let early = timeout(Duration::from_millis(100), client.peek(&mut [0])).await;
    assert!(early.is_err(), "the second is not answered");
    server.gate.go_on.add_permits(2);
    for (by_lane, body) in [(true, "b"), (true, "c"), (false, "1 bytes: ok"), (true, "d"), (false, "ok")] {
        assert_eq!(next_answer(&mut client).await, ("200".to_owned(), by_lane, body.to_owned()));
    }
}

#[tokio::test]
async fn an_answer_on_its_way_is_given_up_when_its_client_goes_away_and_what_it_sent_behind_is_not_answered() {
    let server = Server::start(patient()).await;
    let mut client = server.connect().await;
    send(&mut client, &(get("/soon/a") + &get("/wait"))).await;
    server.request_has_come().await;
    drop(client);
    timeout(SOON, server.gate.over.acquire()).await.expect("given up in time").expect("open").forget();
    server.stop.cancel();
    let gate = Arc::clone(&server.gate);
    server.has_stopped().await;
    assert_eq!(gate.arrived.available_permits(), 0);
}

#[tokio::test]
async fn an_answer_on_its_way_that_takes_long_is_no_slow_peer() {
    let short = Duration::from_millis(50);
    let pace = PaceLimits { head: short, idle: short, stuck_reader: short };
    let server = Server::start(ServeOptions { pace, ..patient() }).await;
    let mut client = server.connect().await;
    send(&mut client, &get("/soon/a")).await;
    server.request_has_come().await;
    let early = timeout(Duration::from_millis(300), client.readable()).await;
    assert!(early.is_err(), "neither answered nor closed");
    server.gate.go_on.add_permits(1);
    assert_eq!(next_answer(&mut client).await.2, "a");
    assert_eq!(to_the_end(&mut client).await, "", "idle from there on");
}

//! The peers, each started on a free port and ready when it is returned.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use super::bench::Bench;
use super::http;
use super::postgres::Database;
use super::process::{Core, Process, run};
use crate::keyspace::KeySpace;
use crate::limits;

/// A running server with its address.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Takes the process once something listens.
    pub(crate) fn listening(mut process: Process, address: SocketAddr) -> anyhow::Result<Self> {
        process.wait(|| TcpStream::connect(address).is_ok())?;
        Ok(Self { process, address })
    }
}

/// hyper with one answer.
pub(crate) fn bare_hyper(bench: &Bench, core: Core, value_bytes: usize) -> anyhow::Result<Server> {
    let launch = bench.launch("bare-hyper", core);
    let address = bench.free_address()?;
    let mut command = launch.command(bench.program("bare-hyper")?);
    command.args(["--listen", &address.to_string(), "--value-bytes", &value_bytes.to_string()]);
    Server::listening(launch.start(&mut command)?, address)
}

/// nginx with one answer: the value of key 0 of user 0.
pub(crate) fn nginx_body(bench: &Bench, core: Core, value_bytes: usize) -> anyhow::Result<Server> {
    let body = String::from_utf8(KeySpace { users: 1, value_bytes }.value(0))?;
    if body.len() <= NGINX_WORD_BYTES {
        return nginx(bench, core, "nginx-body.conf", &[("@SETS@", ""), ("@BODY@", &body)]);
    }
    let parts = body.as_bytes().chunks(NGINX_WORD_BYTES).map(String::from_utf8_lossy);
    let (mut sets, mut names) = (String::new(), String::new());
    for (number, part) in parts.enumerate() {
        sets.push_str(&format!("set $part{number} \"{part}\"; "));
        names.push_str(&format!("${{part{number}}}"));
    }
    nginx(bench, core, "nginx-body.conf", &[("@SETS@", &sets), ("@BODY@", &names)])
}

/// What one word of nginx' configuration holds for sure; a longer body is put together from variables.
const NGINX_WORD_BYTES: usize = 3000;

/// nginx in front of a backend, by consistent hashing.
pub(crate) fn nginx_hash(bench: &Bench, core: Core, backend: SocketAddr) -> anyhow::Result<Server> {
    nginx(bench, core, "nginx-hash.conf", &[("@BACKEND@", &backend.to_string())])
}

fn nginx(bench: &Bench, core: Core, file: &str, marks: &[(&str, &str)]) -> anyhow::Result<Server> {
    let launch = bench.launch("nginx", core);
    let address = bench.free_address()?;
    let directory = bench.scratch().to_string_lossy().into_owned();
    let port = address.port().to_string();
    let config = bench.config(file, &[&[("@PORT@", port.as_str()), ("@DIR@", &directory)], marks].concat())?;
    let mut command = launch.command("nginx");
    command.arg("-p").arg(bench.scratch()).arg("-c").arg(config);
    Server::listening(launch.start(&mut command)?, address)
}

/// haproxy in front of a backend, by consistent hashing.
pub(crate) fn haproxy(bench: &Bench, core: Core, backend: SocketAddr) -> anyhow::Result<Server> {
    let launch = bench.launch("haproxy", core);
    let address = bench.free_address()?;
    let marks = [("@PORT@", address.port().to_string()), ("@BACKEND@", backend.to_string())];
    let marks: Vec<(&str, &str)> = marks.iter().map(|(mark, value)| (*mark, value.as_str())).collect();
    let config = bench.config("haproxy.cfg", &marks)?;
    let mut command = launch.command("haproxy");
    command.arg("-f").arg(config);
    Server::listening(launch.start(&mut command)?, address)
}

/// Redis without persistence.
pub(crate) fn redis(bench: &Bench, core: Core) -> anyhow::Result<Server> {
    let launch = bench.launch("redis", core);
    let address = bench.free_address()?;
    let mut command = launch.command("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(bench.scratch());
    Server::listening(launch.start(&mut command)?, address)
}

/// The URL of a Redis server.
pub(crate) fn redis_url(server: &Server) -> String {
    format!("redis://{}", server.address)
}

/// A number of Redis' `INFO`.
pub(crate) fn redis_info(server: &Server, field: &str) -> anyhow::Result<u64> {
    let mut cli = Command::new("redis-cli");
    let info = run(cli.args(["-p", &server.address.port().to_string(), "INFO"]), limits::ANSWER)?;
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(value.unwrap_or_default().trim().parse()?)
}

/// memcached with room for so many megabytes.
pub(crate) fn memcached(bench: &Bench, core: Core, megabytes: u64) -> anyhow::Result<Server> {
    let launch = bench.launch("memcached", core);
    let address = bench.free_address()?;
    let mut command = launch.command("memcached");
    let (port, megabytes) = (address.port().to_string(), megabytes.to_string());
    command.args(["-u", "nobody", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-p", &port, "-m", &megabytes]);
    Server::listening(launch.start(&mut command)?, address)
}

/// The cache-aside application.
pub(crate) fn app(bench: &Bench, core: Core, database: &Database, redis: &Server) -> anyhow::Result<Server> {
    let launch = bench.launch("cache-aside-app", core);
    let address = bench.free_address()?;
    let mut command = launch.command(bench.program("cache-aside-app")?);
    command.args(["--listen", &address.to_string()]);
    command.args(["--database-url", &database.url(), "--redis-url", &redis_url(redis)]);
    let mut process = launch.start(&mut command)?;
    process.wait(|| http::is_ok(address, "/readyz"))?;
    Ok(Server { process, address })
}

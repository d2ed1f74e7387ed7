//! The loop: whoever has an answer gets the next request.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token};

use super::connection::{Connection, Outstanding, Progress};
use super::cpu::{TICKS_PER_SECOND, process_ticks};
use super::draw::Draw;
use super::options::{Method, Options};
use super::report::Report;
use super::request::{Asked, Requests, mgets};
use crate::limits;

const READ_BUFFER_BYTES: usize = 64 << 10;
const EVENTS: usize = 1024;
/// Three digits: one in a thousand.
const DIGITS: u8 = 3;

/// Runs to its end.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let mut load = Load::new(options)?;
    load.connect()?;
    load.go()?;
    load.report()
}

struct Load<'a> {
    options: &'a Options,
    requests: Requests,
    draw: Draw,
    poll: Poll,
    connections: Vec<Connection>,
    /// Connections without a request, in a paced run.
    idle: Vec<usize>,
    /// How many requests may still be sent.
    left: u64,
    start: Instant,
    measured_from: Instant,
    end: Instant,
    /// How many paced requests have been sent.
    arrived: u64,
    outstanding: usize,
    ticks: Option<Ticks>,
    latencies: Histogram<u64>,
    max_by_second: Vec<u64>,
    errors: BTreeMap<String, u64>,
}

/// Processor times at the begin, and the differences at the end of the measured time.
struct Ticks {
    at: Instant,
    of: Vec<u64>,
    own: u64,
}

impl Ticks {
    fn now(pids: &[u32]) -> anyhow::Result<Self> {
        let of = pids.iter().map(|pid| process_ticks(*pid)).collect::<Result<_, _>>()?;
        Ok(Self { at: Instant::now(), of, own: process_ticks(std::process::id())? })
    }
}

impl<'a> Load<'a> {
    fn new(options: &'a Options) -> anyhow::Result<Self> {
        let now = Instant::now();
        let all_keys = mgets(options.keys, options.users);
        let left = match (options.requests, options.method) {
            (Some(requests), _) => requests,
            (None, Method::Mget) => all_keys,
            (None, _) => u64::MAX,
        };
        Ok(Self {
            options,
            requests: Requests::new(options),
            draw: Draw::new(options)?,
            poll: Poll::new()?,
            connections: Vec::new(),
            idle: Vec::new(),
            left,
            start: now,
            measured_from: now,
            end: now,
            arrived: 0,
            outstanding: 0,
            ticks: None,
            latencies: Histogram::new_with_max(limits::LATENCY_MAX_NS, DIGITS)?,
            max_by_second: Vec::new(),
            errors: BTreeMap::new(),
        })
    }

    fn connect(&mut self) -> anyhow::Result<()> {
        for index in 0..self.options.connections {
            let connection = self.open(index)?;
            self.connections.push(connection);
            self.idle.push(index);
        }
        Ok(())
    }

    fn open(&self, index: usize) -> anyhow::Result<Connection> {
        let mut connection = Connection::open(self.options.target)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut connection.stream, Token(index), interest)?;
        Ok(connection)
    }

    /// Whether the run ends after a number of requests, all of them measured.
    fn is_counted(&self) -> bool {
        self.left != u64::MAX || self.options.sequence.is_some()
    }

    fn go(&mut self) -> anyhow::Result<()> {
        self.start = Instant::now();
        let warm_up = if self.is_counted() { Duration::ZERO } else { self.options.warmed() };
        let length = if self.is_counted() { limits::FILL } else { self.options.measured() };
        self.measured_from = self.start + warm_up;
        self.end = self.measured_from + length;
        let mut events = Events::with_capacity(EVENTS);
        let mut buffer = vec![0; READ_BUFFER_BYTES];
        let mut now = self.start;
        while now < self.end && !self.is_over() {
            if self.ticks.is_none() && now >= self.measured_from {
                self.ticks = Some(Ticks::now(&self.options.cpu_of)?);
            }
            self.send_to_idle(now)?;
            self.poll.poll(&mut events, Some(self.wait(now)))?;
            for event in &events {
                now = Instant::now();
                self.serve(event.token().0, event.is_writable(), &mut buffer, now)?;
            }
            now = Instant::now();
            let failed: u64 = self.errors.values().sum();
            anyhow::ensure!(failed < limits::ERRORS_MAX, "too many errors: {:?}", self.errors);
        }
        self.end = now;
        Ok(())
    }

    /// Whether everything that was to be sent has been answered.
    fn is_over(&self) -> bool {
        self.left == 0 && self.outstanding == 0
    }

    /// How long to wait for events: until the next arrival of a paced run, or the end.
    fn wait(&self, now: Instant) -> Duration {
        let until_end = self.end.saturating_duration_since(now).min(Duration::from_millis(100));
        match self.due() {
            Some(due) if !self.idle.is_empty() => due.saturating_duration_since(now).min(until_end),
            _ => until_end,
        }
    }

    /// When the next request of a paced run is due.
    fn due(&self) -> Option<Instant> {
        self.options.rate.map(|rate| self.start + Duration::from_secs_f64(self.arrived as f64 / rate))
    }

    fn send_to_idle(&mut self, now: Instant) -> anyhow::Result<()> {
        while self.left > 0 && self.due().is_none_or(|due| due <= now) {
            let Some(index) = self.idle.pop() else { return Ok(()) };
            self.send(index, now)?;
        }
        Ok(())
    }

    /// Sends the next request, if there is one.
    fn send(&mut self, index: usize, now: Instant) -> anyhow::Result<()> {
        let next = if self.left == 0 { None } else { self.next() };
        let Some(asked) = next else {
            self.left = 0;
            self.idle.push(index);
            return Ok(());
        };
        let since = self.due().unwrap_or(now);
        self.left = if self.left == u64::MAX { self.left } else { self.left - 1 };
        self.arrived += 1;
        self.outstanding += 1;
        let connection = &mut self.connections[index];
        self.requests.write(asked, connection.out());
        match connection.send(Outstanding { asked, since }) {
            Ok(()) => Ok(()),
            Err(why) => self.fail(index, why),
        }
    }

    fn next(&mut self) -> Option<Asked> {
        let method = self.options.method;
        let key = match method {
            Method::Mget => self.arrived,
            _ => self.draw.next()?,
        };
        let write = method == Method::Get && self.draw.one_of(self.options.writes);
        Some(Asked { method: if write { Method::Put } else { method }, key })
    }

    fn serve(&mut self, index: usize, writable: bool, buffer: &mut [u8], now: Instant) -> anyhow::Result<()> {
        let connection = &mut self.connections[index];
        if writable && let Err(why) = connection.flush() {
            return self.fail(index, why);
        }
        let (progress, count) = connection.read(buffer);
        match progress {
            Progress::Waiting => Ok(()),
            Progress::Failed(why) => self.fail(index, why),
            Progress::Answered(outstanding, answer) => {
                let body = &connection.bytes(buffer, count)[answer.body];
                let right = self.requests.is_right(outstanding.asked, answer.status, body);
                connection.done();
                self.outstanding -= 1;
                if right {
                    self.record(now.saturating_duration_since(outstanding.since), now);
                } else {
                    *self.errors.entry(format!("{} or its body", answer.status)).or_default() += 1;
                }
                if self.options.rate.is_some() {
                    self.idle.push(index);
                    return Ok(());
                }
                self.send(index, now)
            }
        }
    }

    fn record(&mut self, latency: Duration, now: Instant) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let second = now.saturating_duration_since(self.start).as_secs() as usize;
        if self.max_by_second.len() <= second {
            self.max_by_second.resize(second + 1, 0);
        }
        self.max_by_second[second] = self.max_by_second[second].max(nanoseconds);
        if now >= self.measured_from {
            self.latencies.saturating_record(nanoseconds);
        }
    }

    /// Counts the failure and connects again.
    fn fail(&mut self, index: usize, why: &str) -> anyhow::Result<()> {
        *self.errors.entry(why.to_owned()).or_default() += 1;
        self.outstanding -= usize::from(self.connections[index].outstanding.is_some());
        self.connections[index] = self.open(index)?;
        self.idle.push(index);
        Ok(())
    }

    fn report(self) -> anyhow::Result<Report> {
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        let quantile = |quantile| microseconds(self.latencies.value_at_quantile(quantile));
        let seconds = self.end.saturating_duration_since(self.measured_from).as_secs_f64();
        let (mut cpu_us, mut own_cpu_us) = (Vec::new(), 0.0);
        if let Some(begin) = &self.ticks {
            let end = Ticks::now(&self.options.cpu_of)?;
            // Measured a moment longer than the answers were counted.
            let share = seconds / end.at.saturating_duration_since(begin.at).as_secs_f64().max(f64::EPSILON);
            let used = |begin: u64, end: u64| (end - begin) as f64 * 1e6 / TICKS_PER_SECOND as f64 * share.min(1.0);
            cpu_us = begin.of.iter().zip(&end.of).map(|(begin, end)| used(*begin, *end)).collect();
            own_cpu_us = used(begin.own, end.own);
        }
        Ok(Report {
            answers: self.latencies.len(),
            seconds,
            rps: self.latencies.len() as f64 / seconds.max(f64::EPSILON),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p99_9_us: quantile(0.999),
            max_us: microseconds(self.max_by_second.iter().copied().max().unwrap_or_default()),
            max_us_by_second: self.max_by_second.into_iter().map(microseconds).collect(),
            errors: self.errors,
            cpu_us,
            own_cpu_us,
        })
    }
}

//! One connection with at most one request outstanding.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;

use super::answer::{self, Answer};
use super::request::Asked;
use crate::limits;

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outstanding {
    pub(super) asked: Asked,
    /// When it was sent, or was due.
    pub(super) since: Instant,
}

/// What came of reading.
pub(super) enum Progress {
    /// The answer to the outstanding request.
    Answered(Outstanding, Answer),
    /// Not whole yet.
    Waiting,
    /// The connection is of no use any more.
    Failed(&'static str),
}

/// One keep-alive connection.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) outstanding: Option<Outstanding>,
    out: Vec<u8>,
    written: usize,
    /// The start of an answer that has not come whole.
    begun: Vec<u8>,
}

impl Connection {
    /// Connects; waits for it, so that no figure holds the time of connecting.
    pub(super) fn open(target: SocketAddr) -> std::io::Result<Self> {
        let stream = std::net::TcpStream::connect(target)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream);
        Ok(Self { stream, outstanding: None, out: Vec::new(), written: 0, begun: Vec::new() })
    }

    /// The buffer that [`Connection::send`] sends.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends what is in the buffer.
    pub(super) fn send(&mut self, outstanding: Outstanding) -> Result<(), &'static str> {
        self.outstanding = Some(outstanding);
        self.written = 0;
        self.flush()
    }

    /// Writes what is left to write.
    pub(super) fn flush(&mut self) -> Result<(), &'static str> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err("cannot send"),
            }
        }
        Ok(())
    }

    /// Reads what there is, into `buffer` from its start when nothing has begun. The answer's bytes are in the slice of
    /// [`Connection::bytes`].
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> (Progress, usize) {
        loop {
            let count = match self.stream.read(buffer) {
                Ok(0) => return (Progress::Failed("closed by the server"), 0),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return (Progress::Waiting, 0),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return (Progress::Failed("cannot receive"), 0),
            };
            if !self.begun.is_empty() {
                self.begun.extend_from_slice(&buffer[..count]);
            }
            let bytes = if self.begun.is_empty() { &buffer[..count] } else { &self.begun[..] };
            match (answer::parse(bytes), self.outstanding) {
                (Ok(Some(answer)), Some(outstanding)) if answer.body.end == bytes.len() => {
                    self.outstanding = None;
                    return (Progress::Answered(outstanding, answer), count);
                }
                (Ok(None), Some(_)) if bytes.len() < limits::ANSWER_MAX_BYTES => {
                    if self.begun.is_empty() {
                        self.begun.extend_from_slice(&buffer[..count]);
                    }
                    // A short read has emptied the socket: the next bytes are a new event.
                    if count < buffer.len() {
                        return (Progress::Waiting, 0);
                    }
                }
                _ => return (Progress::Failed("an answer that is none, or more than one"), 0),
            }
        }
    }

    /// The bytes that an answer's range is of; `buffer` as [`Connection::read`] left it.
    pub(super) fn bytes<'a>(&'a self, buffer: &'a [u8], count: usize) -> &'a [u8] {
        if self.begun.is_empty() { &buffer[..count] } else { &self.begun }
    }

    /// Forgets the answer that was looked at.
    pub(super) fn done(&mut self) {
        self.begun.clear();
    }
}

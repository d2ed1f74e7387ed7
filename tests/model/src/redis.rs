//! L2: one server, or a primary with a replica that takes over (R1, R2, R6–R8, A3).

use crate::database::SPACES_MAX;
use crate::state::{Content, KEYS_MAX, Leased};

/// The servers and which of them is the primary by now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Redis {
    /// All servers.
    pub servers: [Server; 2],
    /// The primary. Nodes may still be connected to the other one.
    pub primary: u8,
    /// The identity given out last.
    pub last_identity: u8,
}

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    /// `run_id/replid` while it is a primary, else 0.
    pub identity: u8,
    /// What each key holds: space, then key.
    pub cells: [[Cell; KEYS_MAX]; SPACES_MAX],
}

/// What a Redis key holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cell {
    /// Nothing.
    #[default]
    Empty,
    /// The lease of that operation.
    Lease(u8),
    /// An entry.
    Value(Content),
}

/// A node's session: all its commands go to this server, which had this identity when the connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// The server.
    pub server: u8,
    /// The identity read on the connection.
    pub identity: u8,
}

impl Redis {
    /// One primary of identity 1, and a replica without any.
    pub fn one_primary() -> Self {
        let first = Server { identity: 1, ..Server::default() };
        Self { servers: [first, Server::default()], primary: 0, last_identity: 1 }
    }

    /// A session with the present primary.
    pub fn connect(&self) -> Session {
        Session { server: self.primary, identity: self.servers[usize::from(self.primary)].identity }
    }

    /// The key in the space.
    pub fn cell(&self, at: Leased, key: usize) -> Cell {
        self.servers[usize::from(at.server)].cells[usize::from(at.space)][key]
    }

    /// The key in the space, to be set.
    pub fn cell_mut(&mut self, at: Leased, key: usize) -> &mut Cell {
        &mut self.servers[usize::from(at.server)].cells[usize::from(at.space)][key]
    }

    /// The replica becomes the primary: a new identity, and what it has copied so far.
    pub fn promote_replica(&mut self) {
        self.primary = 1 - self.primary;
        self.last_identity += 1;
        self.servers[usize::from(self.primary)].identity = self.last_identity;
    }

    /// The other server, a primary until now, becomes a replica of the primary and then the primary: all within a moment.
    pub fn demote_and_promote_other(&mut self) {
        self.copy_to_replica();
        self.promote_replica();
    }

    /// The primary restarts empty.
    pub fn restart(&mut self) {
        self.last_identity += 1;
        self.servers[usize::from(self.primary)] = Server { identity: self.last_identity, ..Server::default() };
    }

    /// The other server is, or becomes, a replica that has everything.
    pub fn copy_to_replica(&mut self) {
        let cells = self.servers[usize::from(self.primary)].cells;
        self.servers[usize::from(1 - self.primary)] = Server { identity: 0, cells };
    }
}

//! Before moka: one place for each of the last bits of a hash, with the entry asked for last of those that fall there.
//!
//! A look-up in moka reads some twenty cache lines, most of them for its policy; here it is one. The references are weak: what
//! moka drops, for its bound or its age, is gone here too. Nobody waits for a place: whoever finds it taken goes to moka.
//!
//! What a write drops or replaces must never be found again, so that it comes here after it has changed moka, and what a look-up
//! brings from moka is taken in only if nobody came in between:
//! 1. a reader notes the place's count of changes, and finds the entry in moka;
//! 2. a write removes it from moka, then clears the place and counts a change;
//! 3. the reader brings the entry, and finds another count.

use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

use super::Held;

/// One place for so many bytes of L1: with less than one percent of them there is one for most entries.
const BYTES_PER_PLACE: u64 = 4096;
/// The most places.
const PLACES_MAX: u64 = 1 << 20;

/// The places.
pub(super) struct Front {
    places: Box<[Mutex<Place>]>,
}

#[derive(Default)]
struct Place {
    /// The upper half of the entry's hash.
    upper: u32,
    changes: u32,
    held: Weak<Held>,
}

/// What a look-up found.
pub(super) enum Found {
    /// An entry of the hash.
    Entry(Arc<Held>),
    /// None; the changes of the place so far.
    Nothing(u32),
    /// Somebody else is there.
    Taken,
}

impl Front {
    pub(super) fn new(max_bytes: u64) -> Self {
        let places = (max_bytes / BYTES_PER_PLACE).clamp(1, PLACES_MAX).next_power_of_two();
        Self { places: (0..places).map(|_| Mutex::default()).collect() }
    }

    fn place(&self, hash: u64) -> &Mutex<Place> {
        &self.places[hash as usize & (self.places.len() - 1)]
    }

    pub(super) fn find(&self, hash: u64) -> Found {
        let place = match self.place(hash).try_lock() {
            Ok(place) => place,
            Err(TryLockError::Poisoned(place)) => place.into_inner(),
            Err(TryLockError::WouldBlock) => return Found::Taken,
        };
        let held = if place.upper == upper(hash) { place.held.upgrade() } else { None };
        held.map_or(Found::Nothing(place.changes), Found::Entry)
    }

    /// Takes in what was found in moka after the place had so many changes, if it still has.
    pub(super) fn bring(&self, hash: u64, held: &Arc<Held>, changes: u32) {
        if let Ok(mut place) = self.place(hash).try_lock()
            && place.changes == changes
        {
            (place.upper, place.held) = (upper(hash), Arc::downgrade(held));
        }
    }

    /// After an entry of the hash was put into moka, dropped or replaced by a write or a load.
    pub(super) fn changed(&self, hash: u64) {
        let mut place = self.place(hash).lock().unwrap_or_else(PoisonError::into_inner);
        place.changes = place.changes.wrapping_add(1);
        if place.upper == upper(hash) {
            place.held = Weak::new();
        }
    }

    /// After everything was dropped.
    pub(super) fn clear(&self) {
        for place in &self.places {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            place.changes = place.changes.wrapping_add(1);
            place.held = Weak::new();
        }
    }
}

fn upper(hash: u64) -> u32 {
    (hash >> 32) as u32
}

//! Tokens whose signature was good, so that a client's next request need not have it computed again.
//!
//! Bounded: sets of a few places, found by the token's digest. Nothing is remembered beyond what the token itself says, and all
//! of it goes with the keys that it was verified by.

use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use placement::UserId;

use super::claims::Good;
use crate::limits;

/// The SHA-256 of a token: who has another token with the same one has broken SHA-256.
pub(super) type Digest = [u8; SHA256_OUTPUT_LEN];

type Set = Mutex<[Option<(Digest, Good)>; limits::VERIFIED_WAYS]>;

/// Tokens that were verified by one set of keys.
pub(super) struct Verified(Box<[Set]>);

pub(super) fn digest_of(token: &[u8]) -> Digest {
    digest(&SHA256, token).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

impl Default for Verified {
    fn default() -> Self {
        Self((0..limits::VERIFIED_SETS).map(|_| Set::default()).collect())
    }
}

impl Verified {
    /// The user of a token that is remembered and good now.
    pub(super) fn user(&self, digest: &Digest, now: u64) -> Option<UserId> {
        let set = self.set(digest).lock().unwrap_or_else(PoisonError::into_inner);
        let (_, good) = set.iter().flatten().find(|(known, _)| known == digest)?;
        good.valid.contains(&now).then(|| good.user.clone())
    }

    /// Remembers a token, in the place of one that is good no longer, else of the one that ends first.
    pub(super) fn remember(&self, digest: Digest, good: Good, now: u64) {
        let mut set = self.set(&digest).lock().unwrap_or_else(PoisonError::into_inner);
        let worth = |place: &Option<(Digest, Good)>| match place {
            Some((known, _)) if *known == digest => 0,
            Some((_, good)) if good.valid.contains(&now) => good.valid.end,
            _ => 0,
        };
        if let Some(place) = set.iter_mut().min_by_key(|place| worth(place)) {
            *place = Some((digest, good));
        }
    }

    fn set(&self, digest: &Digest) -> &Set {
        let number = usize::from(u16::from_le_bytes([digest[0], digest[1]]));
        &self.0[number % self.0.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(name: &str, end: u64) -> Good {
        Good { user: UserId::parse(name.as_bytes()).expect("a user"), valid: 10..end }
    }

    #[test]
    fn a_token_is_remembered_as_long_as_it_is_good() {
        let verified = Verified::default();
        let digest = digest_of(b"token");
        verified.remember(digest, good("ada", 20), 15);
        let user = |now| verified.user(&digest, now).map(|user| user.as_str().to_owned());
        assert_eq!((user(10), user(19)), (Some("ada".to_owned()), Some("ada".to_owned())));
        assert_eq!((user(9), user(20)), (None, None));
        assert_eq!(verified.user(&digest_of(b"token2"), 15), None);
    }

    #[test]
    fn however_many_tokens_come_no_more_are_remembered_than_there_are_places() {
        let verified = Verified::default();
        let tokens: Vec<Digest> = (0..100_000_u32).map(|number| digest_of(&number.to_le_bytes())).collect();
        for digest in &tokens {
            verified.remember(*digest, good("ada", 20), 15);
        }
        let remembered = tokens.iter().filter(|digest| verified.user(digest, 15).is_some()).count();
        assert_eq!(remembered, limits::VERIFIED_SETS * limits::VERIFIED_WAYS);
    }

    #[test]
    fn the_same_token_takes_one_place_and_one_that_has_ended_goes_first() {
        let verified = Verified::default();
        let digest = |last: u8| {
            let mut digest = [7; 32];
            digest[31] = last;
            digest
        };
        for (last, end) in [(1, 100), (1, 100), (2, 12), (3, 90), (4, 80)] {
            verified.remember(digest(last), good("ada", end), 11);
        }
        assert!((1..=4).all(|last| verified.user(&digest(last), 11).is_some()));
        verified.remember(digest(5), good("ada", 70), 15);
        assert_eq!(
            [1, 2, 3, 4, 5].map(|last| verified.user(&digest(last), 15).is_some()),
            [true, false, true, true, true]
        );
    }
}

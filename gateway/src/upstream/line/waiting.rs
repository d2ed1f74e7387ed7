//! The questions of one line that have no answer yet. Pure.
//!
//! A question's number is its place and the count of questions so far: a place is used again only when the answer has come, a
//! number never. So an answer that comes twice, or that nobody asked for, is noticed.

use std::time::Duration;

use tokio::time::Instant;
use wire::line::OUTSTANDING_MAX;

/// The bits of a number that are its place.
const PLACE_BITS: u32 = 16;

/// All places, at most [`OUTSTANDING_MAX`]. `T` is who waits.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    places: Vec<Option<(u64, Place<T>)>>,
    free: Vec<usize>,
    asked: u64,
}

/// One question.
#[derive(Debug)]
pub(super) struct Place<T> {
    /// The entry it is about, `wire::line::name_hash`.
    pub(super) name: u64,
    pub(super) head_only: bool,
    /// Until when the answer is waited for.
    pub(super) deadline: Instant,
    /// Who waits; `None` once that is over.
    pub(super) to: Option<T>,
}

/// An answer that is nobody's: the two ends do not talk about the same any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer to what was not asked")]
pub(in crate::upstream) struct OutOfStep;

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), asked: 0 }
    }
}

impl<T> Waiting<T> {
    /// The number of the next question; `None`: all places are taken.
    pub(super) fn next_id(&self) -> Option<u64> {
        let place =
            self.free.last().copied().or_else(|| (self.places.len() < OUTSTANDING_MAX).then_some(self.places.len()));
        place.map(|place| self.asked << PLACE_BITS | place as u64)
    }

    /// Takes the place that [`Waiting::next_id`] has named.
    pub(super) fn begin(&mut self, id: u64, question: Place<T>) {
        self.asked += 1;
        match self.free.pop() {
            Some(place) => self.places[place] = Some((id, question)),
            None => self.places.push(Some((id, question))),
        }
    }

    /// Frees the place of a question that is answered about this entry.
    pub(super) fn answered(&mut self, id: u64, name: u64) -> Result<Place<T>, OutOfStep> {
        let place = (id & ((1 << PLACE_BITS) - 1)) as usize;
        let taken = self.places.get_mut(place).ok_or(OutOfStep)?;
        let question = taken.take_if(|(asked, question)| *asked == id && question.name == name).ok_or(OutOfStep)?.1;
        self.free.push(place);
        Ok(question)
    }

    /// Who has waited long enough. Their places stay taken.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<T> {
        let late = self.taken_mut().filter(|question| question.deadline <= now);
        late.filter_map(|question| question.to.take()).collect()
    }

    /// Whether somebody waits who is not gone.
    pub(super) fn somebody_waits(&self, gone: impl Fn(&T) -> bool) -> bool {
        self.places.iter().flatten().any(|(_, question)| question.to.as_ref().is_some_and(|to| !gone(to)))
    }

    /// Whether an answer is missing for longer than `patience` after it was waited for.
    pub(super) fn overdue(&self, now: Instant, patience: Duration) -> bool {
        self.places.iter().flatten().any(|(_, question)| now.saturating_duration_since(question.deadline) > patience)
    }

    /// Whether every question is answered.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// Whether more than one question has no answer.
    pub(super) fn are_several(&self) -> bool {
        self.places.len() > self.free.len() + 1
    }

    /// All who wait.
    pub(super) fn into_waiters(self) -> impl Iterator<Item = T> {
        self.places.into_iter().flatten().filter_map(|(_, question)| question.to)
    }

    fn taken_mut(&mut self) -> impl Iterator<Item = &mut Place<T>> {
        self.places.iter_mut().flatten().map(|(_, question)| question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(name: u64, to: u32) -> Place<u32> {
        Place { name, head_only: false, deadline: Instant::now(), to: Some(to) }
    }

    fn ask(waiting: &mut Waiting<u32>, name: u64, to: u32) -> u64 {
        let id = waiting.next_id().expect("a place");
        waiting.begin(id, question(name, to));
        id
    }

    #[test]
    fn an_answer_goes_to_its_question_once() {
        let mut waiting = Waiting::default();
        let (first, second) = (ask(&mut waiting, 10, 1), ask(&mut waiting, 20, 2));
        assert_eq!(waiting.answered(second, 20).map(|question| question.to), Ok(Some(2)));
        assert_eq!(waiting.answered(second, 20).err(), Some(OutOfStep));
        assert_eq!(waiting.answered(first, 10).map(|question| question.to), Ok(Some(1)));
        assert!(waiting.is_empty());
    }

    #[test]
    fn an_answer_about_another_entry_is_nobodys() {
        let mut waiting = Waiting::default();
        let id = ask(&mut waiting, 10, 1);
        assert_eq!(waiting.answered(id, 11).err(), Some(OutOfStep));
        assert_eq!(waiting.into_waiters().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_number_is_never_given_twice_though_its_place_is() {
        let mut waiting = Waiting::default();
        let first = ask(&mut waiting, 10, 1);
        waiting.answered(first, 10).expect("asked");
        let second = ask(&mut waiting, 10, 2);
        assert_ne!(first, second);
        assert_eq!(waiting.answered(first, 10).err(), Some(OutOfStep), "the first one's answer, once more");
        assert_eq!(waiting.places.len(), 1);
    }

    #[test]
    fn who_waited_too_long_is_let_go_and_the_place_stays_taken() {
        let mut waiting = Waiting::default();
        let now = Instant::now();
        let id = ask(&mut waiting, 10, 1);
        assert_eq!(waiting.expired(now + Duration::from_secs(1)), [1]);
        assert!(!waiting.is_empty() && !waiting.somebody_waits(|_| false));
        let other = ask(&mut waiting, 10, 2);
        assert!(waiting.somebody_waits(|_| false) && !waiting.somebody_waits(|_| true));
        assert_eq!(waiting.answered(id, 10).map(|question| question.to), Ok(None));
        assert_eq!(waiting.answered(other, 10).map(|question| question.to), Ok(Some(2)));
        assert!(!waiting.overdue(now + Duration::from_secs(60), Duration::ZERO));
    }

    #[test]
    fn places_are_bounded() {
        let mut waiting = Waiting::default();
        let ids: Vec<_> = (0..OUTSTANDING_MAX as u32).map(|to| ask(&mut waiting, 1, to)).collect();
        assert_eq!(waiting.next_id(), None);
        waiting.answered(ids[7], 1).expect("asked");
        assert!(waiting.next_id().is_some());
    }
}

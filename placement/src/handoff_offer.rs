//! What a receiver holds of a slot that a stream fills, and whether it may become the slot's content (protocol C8).
//!
//! Pure. Upholds I6 and I7: a reign of an offer is used by no look-up before it is adopted, and by one stream only.

use std::sync::Arc;

use crate::slot_hold::Reign;
use crate::{ChangeId, Incarnation, Tenure};

/// What one stream has brought of one slot, tagged with a reign that nobody looks up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// The ring change.
    pub change: ChangeId,
    /// The stream's id.
    pub stream: Arc<str>,
    /// Our incarnation when the stream was opened.
    pub incarnation: Incarnation,
    /// R': drawn for this stream and slot alone.
    pub reign: Reign,
    /// Whether the stream's end has been seen. From then on the offer outlives the stream.
    pub complete: bool,
}

/// What the journal says of a slot whose change has flipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlippedSlot {
    /// The ring change.
    pub change: ChangeId,
    /// The stream that the seal names for the slot.
    pub stream: Option<Arc<str>>,
    /// The receiver's incarnation at the seal.
    pub receiver_incarnation: Incarnation,
    /// The tenure that the flip gave the slot.
    pub tenure: Tenure,
}

impl Offer {
    /// The reign under which the slot's new row with this tenure is served warm; `None`: start from a fresh one.
    pub fn adopted(&self, flipped: &FlippedSlot, row_tenure: Tenure) -> Option<Reign> {
        let same_stream = flipped.change == self.change && flipped.stream.as_ref() == Some(&self.stream);
        let same_process = flipped.receiver_incarnation == self.incarnation;
        (self.complete && same_stream && same_process && flipped.tenure == row_tenure).then_some(self.reign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Offer {
        Offer {
            change: ChangeId(7),
            stream: "s1".into(),
            incarnation: Incarnation(3),
            reign: Reign::new(40),
            complete: true,
        }
    }

    fn flipped() -> FlippedSlot {
        FlippedSlot {
            change: ChangeId(7),
            stream: Some("s1".into()),
            receiver_incarnation: Incarnation(3),
            tenure: Tenure(90),
        }
    }

    #[test]
    fn a_complete_stream_that_the_seal_names_is_adopted_under_the_flips_tenure() {
        assert_eq!(offer().adopted(&flipped(), Tenure(90)), Some(Reign::new(40)));
    }

    #[test]
    fn an_offer_is_adopted_only_if_everything_fits() {
        let incomplete = Offer { complete: false, ..offer() };
        assert_eq!(incomplete.adopted(&flipped(), Tenure(90)), None);
        for other in [
            FlippedSlot { change: ChangeId(8), ..flipped() },
            FlippedSlot { stream: Some("s2".into()), ..flipped() },
            FlippedSlot { stream: None, ..flipped() },
            FlippedSlot { receiver_incarnation: Incarnation(4), ..flipped() },
        ] {
            assert_eq!(offer().adopted(&other, Tenure(90)), None, "{other:?}");
        }
        assert_eq!(offer().adopted(&flipped(), Tenure(91)), None, "a takeover after the flip");
    }
}

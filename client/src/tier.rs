//! Which tier an answer came from, by its `Cache-Status` header (RFC 9211).

/// Where a read was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// From the memory of the owner.
    L1,
    /// From Redis.
    L2,
    /// From the database.
    Origin,
    /// From the load that another request had begun.
    Collapsed,
    /// From the database, the caches passed by.
    Bypass,
}

impl Tier {
    /// Every tier, nearest first.
    pub const ALL: [Self; 5] = [Self::L1, Self::L2, Self::Origin, Self::Collapsed, Self::Bypass];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::L1 => "l1",
            Self::L2 => "l2",
            Self::Origin => "origin",
            Self::Collapsed => "collapsed",
            Self::Bypass => "bypass",
        }
    }

    /// Reads a header value; `None` when it names no tier of ours.
    pub fn of_cache_status(header: &str) -> Option<Self> {
        let members = || header.split(',').map(|member| member.split(';').map(str::trim));
        let says = |parameter: &str| members().any(|mut parts| parts.any(|part| part == parameter));
        if says("fwd=bypass") {
            return Some(Self::Bypass);
        }
        if says("collapsed") {
            return Some(Self::Collapsed);
        }
        members().filter(|parts| parts.clone().any(|part| part == "hit")).find_map(|mut parts| match parts.next()? {
            "shardcache-l1" => Some(Self::L1),
            "shardcache-l2" => Some(Self::L2),
            "shardcache-origin" => Some(Self::Origin),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tier_is_the_one_that_hit() {
        for (header, tier) in [
            ("shardcache-l1; hit", Some(Tier::L1)),
            ("shardcache-l1; fwd=miss, shardcache-l2; hit", Some(Tier::L2)),
            ("shardcache-l1; fwd=miss, shardcache-l2; fwd=miss; stored, shardcache-origin; hit", Some(Tier::Origin)),
            ("shardcache-l1; fwd=miss; collapsed", Some(Tier::Collapsed)),
            ("shardcache-l1; fwd=bypass; detail=sealed, shardcache-origin; hit", Some(Tier::Bypass)),
            ("some-cdn; hit", None),
            ("", None),
        ] {
            assert_eq!(Tier::of_cache_status(header), tier, "{header}");
        }
    }
}

//! Access traces: a stream of big-endian 32-bit keys, plain or compressed with xz.

use std::path::Path;
use std::process::Command;

/// One key of a trace: its type in bits 27 to 31, the id from bit 9, the index below. (The publisher gives the index bits 0
/// to 9 and the id bits 9 to 26; bit 9 is read as the id's, so that distinct keys stay distinct either way.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TraceKey(pub(crate) u32);

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("the trace cannot be read")]
    Read(#[source] std::io::Error),
    /// `xz` is not installed or cannot be started.
    #[error("cannot run xz, which decompresses the trace")]
    Xz(#[source] std::io::Error),
    /// `xz` says that the file is broken.
    #[error("xz cannot decompress the trace")]
    Compressed,
    /// Not a whole number of keys, or none.
    #[error("a trace of {bytes} bytes is not one or more keys of 4 bytes")]
    Length {
        /// The decompressed length.
        bytes: usize,
    },
}

impl TraceKey {
    const INDEX_BITS: u32 = 9;
    const ID_BITS: u32 = 18;

    /// What kind of thing was asked for.
    pub(crate) fn kind(self) -> u32 {
        self.0 >> (Self::INDEX_BITS + Self::ID_BITS)
    }

    /// Which one.
    pub(crate) fn id(self) -> u32 {
        (self.0 >> Self::INDEX_BITS) & ((1 << Self::ID_BITS) - 1)
    }

    /// Which part of it.
    pub(crate) fn index(self) -> u32 {
        self.0 & ((1 << Self::INDEX_BITS) - 1)
    }
}

/// The keys of a file in order; a name that ends in `.xz` goes through `xz -dc`.
pub(crate) fn read(path: &Path) -> Result<Vec<TraceKey>, TraceError> {
    let bytes = if path.extension().is_some_and(|extension| extension == "xz") {
        decompress(path)?
    } else {
        std::fs::read(path).map_err(TraceError::Read)?
    };
    decode(&bytes)
}

fn decompress(path: &Path) -> Result<Vec<u8>, TraceError> {
    // Opened here, so that a missing file is not taken for a broken one.
    let file = std::fs::File::open(path).map_err(TraceError::Read)?;
    let output = Command::new("xz").arg("-dc").stdin(file).output().map_err(TraceError::Xz)?;
    if output.status.success() { Ok(output.stdout) } else { Err(TraceError::Compressed) }
}

fn decode(bytes: &[u8]) -> Result<Vec<TraceKey>, TraceError> {
    let (keys, rest) = bytes.as_chunks::<4>();
    if keys.is_empty() || !rest.is_empty() {
        return Err(TraceError::Length { bytes: bytes.len() });
    }
    Ok(keys.iter().map(|key| TraceKey(u32::from_be_bytes(*key))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_big_endian_and_split_by_their_bits() {
        let keys = decode(&[0x08, 0, 0x02, 0x03, 0xff, 0xff, 0xff, 0xff]).expect("keys");
        let parts: Vec<_> = keys.iter().map(|key| (key.kind(), key.id(), key.index())).collect();
        assert_eq!(parts, [(1, 1, 3), (31, (1 << 18) - 1, 511)]);
    }

    #[test]
    fn half_a_key_and_no_key_are_refused() {
        assert!(matches!(decode(&[0; 6]), Err(TraceError::Length { bytes: 6 })));
        assert!(matches!(decode(&[]), Err(TraceError::Length { bytes: 0 })));
    }

    #[test]
    fn the_published_trace_has_its_published_counts() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces/web12.trace.xz");
        let keys = read(&path).expect("trace");
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!((keys.len(), distinct.len()), (95_607, 13_756));
    }

    #[test]
    fn a_missing_and_a_broken_file_are_told_apart() {
        let missing = Path::new("/nonexistent.trace.xz");
        assert!(matches!(read(missing), Err(TraceError::Read(_))));
        let broken = std::env::temp_dir().join(format!("shardcache-broken-{}.xz", std::process::id()));
        std::fs::write(&broken, b"not xz").expect("write");
        let result = read(&broken);
        std::fs::remove_file(&broken).expect("remove");
        assert!(matches!(result, Err(TraceError::Compressed)), "{result:?}");
    }
}

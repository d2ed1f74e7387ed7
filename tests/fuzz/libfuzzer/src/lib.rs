//! What every target is made of: a check, and a bound on the memory that it may use.

pub use {cap, fuzz, libfuzzer_sys};

/// The most that a check may hold at a time, in bytes: a few hundred times the longest input, which is 4 KiB.
pub const MEMORY_MAX: usize = 4 << 20;

/// A target that runs one check; memory over [`MEMORY_MAX`] is a crash.
#[macro_export]
macro_rules! target {
    ($check:ident) => {
        #[global_allocator]
        static ALLOCATOR: $crate::cap::Cap<std::alloc::System> =
            $crate::cap::Cap::new(std::alloc::System, $crate::MEMORY_MAX);

        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::fuzz::$check(data));
    };
}

//! Test only: the program `cache-node`, with one old bug that `SHARDCACHE_OLD_BUG` chooses (`cache_node::OldBug`).

use std::process::ExitCode;

#[path = "../main.rs"]
mod cache_node_program;

fn main() -> ExitCode {
    cache_node_program::main()
}

#!/usr/bin/env bash
# The long form of fuzzing: libFuzzer on every check of tests/fuzz, or on those that are named, one after the other. Also what
# is to be done with its finds.
#
# Usage: tests/fuzz/run.sh SECONDS [CHECK…]   so long each; new inputs go to target/fuzz/found/CHECK, crashes to
#                                             target/fuzz/crashes/CHECK-… (exit 1; a crash belongs into the corpus, under a name)
#        tests/fuzz/run.sh keep [CHECK…]      makes the corpus anew: few, small inputs that reach what all reach
# Needs cargo-fuzz (`cargo install cargo-fuzz --locked`) and a C++ compiler. Any toolchain will do.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly corpus=tests/fuzz/corpus out=target/fuzz
# In bytes. Every reader's cases fit; memory is bounded in libfuzzer/src/lib.rs.
readonly input_max=4096 kept_max=1024
# So many inputs of a check are kept beside those with names. The first reach the most.
readonly kept=14

what=${1:-}
shift || true
if [[ $what != keep && ! $what =~ ^[0-9]+$ ]] || ((${#what} > 6)); then
    sed -n '5,8s/^# //p' "${BASH_SOURCE[0]}"
    exit 2
fi
checks=("$@")
((${#checks[@]} > 0)) || mapfile -t checks < <(ls "$corpus")
for check in "${checks[@]}"; do
    [[ -f tests/fuzz/libfuzzer/fuzz_targets/$check.rs ]] || { echo "there is no check $check"; exit 2; }
done

# Without a sanitizer: there is no unsafe code of ours for one to watch. The variable is for the coverage flags.
RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$out cargo fuzz build --fuzz-dir tests/fuzz/libfuzzer --sanitizer none
host=$(rustc -vV | sed -n 's/^host: //p')

keep() {
    local found=$out/found/$1 chosen=$out/chosen/$1 inputs input
    mkdir -p "$found" "$out/crashes"
    rm -rf "$chosen"
    mkdir -p "$chosen"
    # By what code is reached, not how often: few inputs do.
    "$out/$host/release/$1" -set_cover_merge=1 -use_counters=0 -max_len="$kept_max" -artifact_prefix="$out/crashes/$1-" \
        "$chosen" "$corpus/$1" "$found"
    # What has a name was put there by hand, or was a crash once: it stays.
    find "$corpus/$1" -type f -regextype posix-egrep -regex '.*/[0-9a-f]{40}' -delete
    # In the order in which they were chosen.
    mapfile -t inputs < <(ls -tr "$chosen")
    for input in "${inputs[@]:0:kept}"; do cp "$chosen/$input" "$corpus/$1/"; done
    echo "$1: $(ls "$corpus/$1" | wc -l) inputs, $(du -bs "$corpus/$1" | cut -f1) bytes"
}

fuzz() {
    mkdir -p "$out/found/$1" "$out/crashes"
    echo "=== $1"
    "$out/$host/release/$1" -max_total_time="$what" -max_len="$input_max" -timeout=10 -rss_limit_mb=1024 \
        -artifact_prefix="$out/crashes/$1-" -print_final_stats=1 "$out/found/$1" "$corpus/$1"
}

# A crash prints a trace of its own, within the bound of memory.
export RUST_BACKTRACE=0

code=0
for check in "${checks[@]}"; do
    if [[ $what == keep ]]; then keep "$check"; else fuzz "$check" || code=1; fi
done
exit "$code"

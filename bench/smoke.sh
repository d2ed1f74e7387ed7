#!/usr/bin/env bash
# A few seconds of checked load on a standalone cluster of the dev build: that the load generator and the data path fit
# together, not how fast they are.
#
# Usage: bench/smoke.sh     (after `cargo build --workspace --bins`; needs xz)
# Exits 0 if every request was answered without an error and every body was right, and the cluster stopped cleanly.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly programs=${CARGO_TARGET_DIR:-target}/debug
# In seconds. A run takes 5 at most; the rest is for a busy machine.
readonly ready_limit=30 run_limit=60 stop_limit=20

scratch=$(mktemp -d)
readonly scratch
cluster=""

cleanup() {
    local code=$?
    if [[ -n $cluster ]]; then
        kill -KILL "$cluster" 2>/dev/null || true
    fi
    if ((code != 0)); then
        echo "--- the last lines of shardcache ---"
        tail -n 40 "$scratch/log" 2>/dev/null || true
    fi
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# There before anybody looks into it: a program in the background opens its files when it gets its turn.
: >"$scratch/out"
"$programs/shardcache" --listen 127.0.0.1:0 --data-dir "$scratch/data" >"$scratch/out" 2>"$scratch/log" </dev/null &
cluster=$!

url=""
for ((tenths = 0; tenths < ready_limit * 10; tenths++)); do
    url=$(sed -n 's/^shardcache is ready: \(http:[^ ]*\).*/\1/p' "$scratch/out")
    [[ -z $url ]] || break
    kill -0 "$cluster" 2>/dev/null || { echo "shardcache ended at its start"; cluster=""; exit 1; }
    sleep 0.1
done
[[ -n $url ]] || { echo "shardcache is not ready after $ready_limit s"; exit 1; }

load() {
    echo "--- shardcache-load $*"
    timeout "$run_limit" "$programs/shardcache-load" --target "$url" "$@" </dev/null
}

load --zipf 500:0.99 --users 50 --rate 300 --duration 3s --writes 10
# The start of a real trace, without a preload: absent entries must be absent until they are written.
load --trace tests/data/traces/web12.trace.xz --requests 1000 --rate 300 --writes 50 --preload false

kill -TERM "$cluster"
for ((tenths = 0; tenths < stop_limit * 10; tenths++)); do
    kill -0 "$cluster" 2>/dev/null || break
    sleep 0.1
done
kill -0 "$cluster" 2>/dev/null && { echo "shardcache does not stop within $stop_limit s"; exit 1; }
code=0
wait "$cluster" || code=$?
cluster=""
((code == 0)) || { echo "shardcache ended with $code"; exit 1; }
echo "smoke: clean"

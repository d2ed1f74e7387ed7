#!/usr/bin/env bash
# The interface against its document: schemathesis makes requests from gateway/openapi.json, right and wrong ones, sends them
# to a whole cluster of the dev build, and checks every answer.
#
# Usage: tests/api/schemathesis.sh [SEED]     (after `cargo build --workspace --bins`; needs python3-venv)
# Installs the versions of tests/api/requirements.txt under target/ on its first run. Prints the seed, what failed with the
# curl command that shows it, and "N passed, N failed": one for each phase of each operation. Exits 0 if none failed.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly repository=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
readonly programs=$target/debug tools=$target/schemathesis
seed=${1:-$((RANDOM * 32768 + RANDOM))}
# In seconds. The run itself needs about 30; the rest is for a busy machine.
readonly install_limit=300 ready_limit=30 run_limit=90 stop_limit=20
# Requests of a phase of an operation.
readonly examples=40

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
        tail -n 20 "$scratch/log" 2>/dev/null || true
    fi
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

if ! cmp -s tests/api/requirements.txt "$tools/requirements.txt"; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    timeout "$install_limit" "$tools/bin/pip" install --quiet --disable-pip-version-check -r tests/api/requirements.txt
    cp tests/api/requirements.txt "$tools/"
fi

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

echo "seed $seed"
code=0
# From the scratch directory: it leaves files where it runs.
(
    cd "$scratch"
    PYTHONPATH="$repository/tests/api" PYTHONDONTWRITEBYTECODE=1 timeout "$run_limit" "$tools/bin/schemathesis" \
        --config-file "$repository/tests/api/schemathesis.toml" run "$url/openapi.json" --seed "$seed" \
        --max-examples "$examples" --report junit --report-junit-path report.xml --no-color </dev/null
) || code=$?

kill -TERM "$cluster"
for ((tenths = 0; tenths < stop_limit * 10; tenths++)); do
    kill -0 "$cluster" 2>/dev/null || break
    sleep 0.1
done
kill -0 "$cluster" 2>/dev/null && { echo "shardcache does not stop within $stop_limit s"; exit 1; }
stopped=0
wait "$cluster" || stopped=$?
cluster=""
((stopped == 0)) || { echo "shardcache ended with $stopped"; exit 1; }
if grep -q panicked "$scratch/log"; then
    echo "shardcache panicked"
    exit 1
fi

[[ -s $scratch/report.xml ]] || { echo "schemathesis ended with $code, without a report"; exit 1; }
counts=$(sed -nE 's/^<testsuites errors="([0-9]+)" failures="([0-9]+)" skipped="([0-9]+)" tests="([0-9]+)".*/\1 \2 \3 \4/p' "$scratch/report.xml")
read -r errors failures skipped tests <<<"$counts"
failed=$((errors + failures))
((failed > 0 || code == 0)) || failed=1
echo "$((tests - skipped - errors - failures)) passed, $failed failed"
((failed == 0))

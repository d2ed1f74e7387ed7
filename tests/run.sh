#!/usr/bin/env bash
# Every check of the repository, on a fresh Debian or Ubuntu: format, lints, build, all tests, a smoke of checked load,
# and the compose stack, also under chaos, where a container engine answers.
#
# Usage: tests/run.sh       (as root or with sudo; Rust is needed, everything else is installed with apt)
# Prints a header and the time of each step, the failures again at the end, and closes with "N passed, N failed", summed
# over all steps; exits 0 if none failed. Takes no input and stops itself after 75 minutes (it should need 30 to 40 on two cores).
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
exec </dev/null 2>&1
export CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
readonly limit=4500

scratch=$(mktemp -d)
readonly scratch
passed=0 failed=0
failures=()  # "name of the step|log"
left_out=()
policy=""    # the policy-rc.d made here
step_pid=""

cleanup() {
    if [[ -n $step_pid ]]; then
        kill -TERM "$step_pid" 2>/dev/null
        wait "$step_pid" 2>/dev/null
    fi
    if [[ -n $policy ]]; then
        as_root rm -f "$policy"
    fi
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

header() { printf '\n=== %s\n' "$*"; }

as_root() {
    if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

# --- what the machine lacks -----------------------------------------------------------------------------------------

# Programs only: a shell's own `kill` is no use to a test.
has() { type -P "$1" >/dev/null; }
docker_answers() { has docker && timeout 20 docker info >/dev/null 2>&1; }
has_postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { has pg_config && [[ -x $(pg_config --bindir)/initdb ]]; }; }
has_faketime() { ls /usr/lib/*/faketime/libfaketime*.so.1 >/dev/null 2>&1; }
has_venv() { has python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; }

missing_packages() {
    has_postgres || echo postgresql
    has redis-server || echo redis-server
    has xz || echo xz-utils
    has curl || echo curl
    has cc || echo build-essential
    has pgrep && has kill || echo procps
    has_faketime || echo libfaketime
    has_venv || echo python3-venv
    if docker_answers; then
        has debootstrap || echo debootstrap
    fi
}

install_missing() {
    local packages
    mapfile -t packages < <(missing_packages)
    if ((${#packages[@]} == 0)); then
        echo "nothing to install"
        return 0
    fi
    has apt-get || { echo "there is no apt-get here; missing: ${packages[*]}"; return 1; }
    echo "installing ${packages[*]}"
    # Debian starts services when it installs them; the tests start their own, and none may stay behind.
    if [[ ! -e /usr/sbin/policy-rc.d ]]; then
        policy=/usr/sbin/policy-rc.d
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null && as_root chmod 755 "$policy"
    fi
    as_root apt-get update -qq &&
        as_root apt-get install -y -qq --no-install-recommends "${packages[@]}" >"$scratch/apt.log" 2>&1
    local code=$?
    ((code == 0)) || tail -n 20 "$scratch/apt.log"
    if [[ -n $policy ]]; then
        as_root rm -f "$policy"
        policy=""
    fi
    # Where the machine has a policy of its own, it may have let them start.
    local service
    for service in postgresql redis-server; do
        if [[ " ${packages[*]} " == *" $service "* ]]; then
            as_root service "$service" stop >/dev/null 2>&1
        fi
    done
    return "$code"
}

# --- steps ----------------------------------------------------------------------------------------------------------

# run NAME command…: runs a step within the time that is left; its log is in $log, its exit code in $code.
run() {
    local name=$1 start=$SECONDS left=$((limit - SECONDS))
    shift
    header "$name"
    log="$scratch/$((++steps)).log"
    if ((left <= 0)); then
        echo "not begun: the $limit s of the whole run are over" | tee "$log"
        code=124
        return
    fi
    tee "$log" <"$scratch/pipe" &
    local reader=$!
    timeout --kill-after=60 "$left" "$@" >"$scratch/pipe" 2>&1 &
    step_pid=$!
    wait "$step_pid"
    code=$?
    step_pid=""
    read_out "$reader"
    ((code != 124)) || echo "stopped: the $limit s of the whole run are over" | tee -a "$log"
    printf -- '--- %s: exit code %d after %d s\n' "$name" "$code" "$((SECONDS - start))"
}
steps=0 log="" code=0
mkfifo "$scratch/pipe"

# Waits until everything is in the log; a process that a step has left behind may hold the pipe open for ever.
read_out() {
    local tenths
    for ((tenths = 0; tenths < 100; tenths++)); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -TERM "$1" 2>/dev/null && echo "the step has left a process behind" | tee -a "$log"
    wait "$1" 2>/dev/null
}

# check NAME command…: a step that passes or fails as a whole.
check() {
    run "$@"
    if ((code == 0)); then passed=$((passed + 1)); else count_failure "$1"; fi
}

count_failure() {
    failed=$((failed + 1))
    failures+=("$1|$log")
}

# suites NAME command…: a step that reports counts of its own; failing without a count is one failure.
suites() {
    local counts suite_passed suite_failed
    run "$@"
    counts=$(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed;.*/\1 \2/p; s/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log" |
        awk '{ passed += $1; failed += $2 } END { print passed + 0, failed + 0 }')
    read -r suite_passed suite_failed <<<"$counts"
    passed=$((passed + suite_passed))
    failed=$((failed + suite_failed))
    if ((code != 0 && suite_failed == 0)); then
        count_failure "$1"
    elif ((suite_failed > 0)); then
        failures+=("$1|$log")
    fi
    while IFS= read -r line; do left_out+=("$line"); done < <(sed -n 's/^left out: /'"$1"': /p' "$log")
}

# What of a failed step's log is worth reading again: failed tests with their output, else the end.
digest() {
    if grep -qE '^(test .* FAILED$|not ok|FAILED)' "$1"; then
        awk '/^failures:$/ || /^FAILED/ { show = 1 } /^(test result: |ok )/ { show = 0 } show' "$1" | head -n 300
    else
        tail -n 40 "$1"
    fi
}

finish() {
    local failure line
    if ((${#failures[@]} > 0)); then
        for failure in "${failures[@]}"; do
            header "FAILED: ${failure%%|*}"
            digest "${failure#*|}"
        done
    fi
    if ((${#left_out[@]} > 0)); then
        header "left out"
        for line in "${left_out[@]}"; do echo "$line"; done
    fi
    header "done in $((SECONDS / 60)) min $((SECONDS % 60)) s"
    printf '%d passed, %d failed\n' "$passed" "$failed"
    ((failed == 0))
}

header "what the tests need"
if ! has cargo; then
    echo "cargo is not here: install Rust (https://rustup.rs)"
    exit 1
fi
rustc --version
if ! install_missing; then
    failed=1
    echo "the packages cannot be installed"
    printf '%d passed, %d failed\n' "$passed" "$failed"
    exit 1
fi

check "format" cargo fmt --all --check
check "lints" cargo clippy --workspace --all-targets --locked -- -D warnings
check "lints of the old bugs" cargo clippy -p cache-node --all-targets --features old-bugs --locked -- -D warnings
check "build" cargo build --workspace --bins --locked
check "build of the old bugs" cargo build --workspace --bin cache-node-old-bugs --features cache-node/old-bugs --locked
suites "tests" cargo test --workspace --locked --no-fail-fast
check "smoke of checked load and of the bench suite" bench/run.sh --smoke
suites "interface and document" tests/api/schemathesis.sh
suites "compose stack" tests/docker/compose.sh
# After it: the images are here.
suites "chaos across hosts" tests/docker/chaos.sh

finish

#!/usr/bin/env bash
# Compares shardcache with its peers, side by side: installs what is lacking with apt, builds, and measures.
#
# Usage: bench/run.sh [--smoke] [--only P1,P2] [--entries N] [--record]      (as root or with sudo; Rust is needed)
#   --smoke    small and short, on the dev build: whether it runs, not how fast
#   --only     some measurements
#   --entries  how many entries a ring change and the measurement of memory have (1000000)
#   --record   write the results into docs/MEASUREMENTS.md and docs/img
# Measures for at most 15 minutes, after the build; prints the table, also kept in target/bench/report.md. Exits 0 if every
# answer was right. Servers listen on loopback only, and are gone at the end.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
export CARGO_TERM_COLOR=never DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
# In seconds. A build from nothing takes some minutes on two cores.
readonly build_limit=1800 measure_limit=900 smoke_limit=300

scratch=$(mktemp -d)
readonly scratch
policy=""    # the policy-rc.d made here
suite=""

cleanup() {
    if [[ -n $suite ]]; then
        kill -TERM "$suite" 2>/dev/null || true
    fi
    if [[ -n $policy ]]; then
        as_root rm -f "$policy"
    fi
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

as_root() {
    if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

has() { type -P "$1" >/dev/null; }
has_postgres() { ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; }

missing_packages() {
    has nginx || echo nginx-light
    has haproxy || echo haproxy
    has redis-server || echo redis-server
    has redis-cli || echo redis-tools
    has memcached || echo memcached
    has_postgres || echo postgresql
    has xz || echo xz-utils
    has cc || echo build-essential
}

install_missing() {
    local packages
    mapfile -t packages < <(missing_packages)
    ((${#packages[@]} > 0)) || return 0
    has apt-get || { echo "there is no apt-get here; missing: ${packages[*]}"; return 1; }
    echo "installing ${packages[*]}"
    # Debian starts services when it installs them; the suite starts its own, and none may stay behind.
    if [[ ! -e /usr/sbin/policy-rc.d ]]; then
        policy=/usr/sbin/policy-rc.d
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
    fi
    as_root apt-get update -qq
    as_root apt-get install -y -qq --no-install-recommends "${packages[@]}" >"$scratch/apt.log" 2>&1 ||
        { tail -n 20 "$scratch/apt.log"; return 1; }
    if [[ -n $policy ]]; then
        as_root rm -f "$policy"
        policy=""
    fi
    # Where the machine has a policy of its own, it may have let them start.
    local service
    for service in nginx haproxy redis-server memcached postgresql; do
        if [[ " ${packages[*]} " == *" $service"* ]]; then
            as_root service "$service" stop >/dev/null 2>&1 || true
        fi
    done
}

has cargo || { echo "cargo is not here: install Rust (https://rustup.rs)"; exit 1; }
install_missing

profile=release limit=$measure_limit
build=(--release --bins -p cache-node -p gateway -p migrator -p standalone -p bench)
for argument in "$@"; do
    if [[ $argument == --smoke ]]; then
        # All of it, as the tests build it: another choice of packages would be another build.
        profile=debug limit=$smoke_limit build=(--workspace --bins)
    fi
done
timeout "$build_limit" cargo build --locked "${build[@]}"
if [[ $profile == debug ]]; then
    bench/smoke.sh
fi
# The suite's own directories are below this one, and go with it; Postgres, which does not run as root, must get there.
chmod 755 "$scratch"
TMPDIR=$scratch timeout --kill-after=30 "$limit" "${CARGO_TARGET_DIR:-target}/$profile/bench-suite" "$@" &
suite=$!
code=0
wait "$suite" || code=$?
suite=""
((code != 124)) || echo "stopped after $limit s"
exit "$code"

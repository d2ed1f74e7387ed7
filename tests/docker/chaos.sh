#!/usr/bin/env bash
# Chaos across hosts: starts the compose stack with a network per server (chaos.compose.yml) and two gateways, puts checked
# load on it, and cuts, freezes, kills and stops its containers by chance. What is demanded of it: tests/containers.
#
# Usage: tests/docker/chaos.sh [--seeds N] [--seed SEED] [--seconds S]     (Rust, Docker with Compose 1.29 or v2)
#   --seeds     how many runs (1)
#   --seed      the seed of the first, to see one again; else they are drawn
#   --seconds   how long the load of each run lasts (45)
# Prints a line for each claim, then "N passed, N failed"; exits 0 if none failed, or if no container engine answers.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly root
while (($# > 0)); do
    case $1 in
    --seeds) export SHARDCACHE_TEST_SEEDS=${2:?} ;;
    --seed) export SHARDCACHE_TEST_SEED=${2:?} ;;
    --seconds) export SHARDCACHE_TEST_SECONDS=${2:?} ;;
    *) sed -n 's/^# Usage: //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
    shift 2
done

if ! docker info >/dev/null 2>&1; then
    echo "left out: no container engine answers"
    exit 0
fi
if command -v docker-compose >/dev/null; then
    compose=(docker-compose)
elif docker compose version >/dev/null 2>&1; then
    compose=(docker compose)
else
    echo "left out: neither docker-compose nor docker compose is here"
    exit 0
fi

cd "$root"
child=""
export COMPOSE_PROJECT_NAME="shardcache-chaos-$$" SHARDCACHE_TEST_COMPOSE="${compose[*]}"

# One at a time: an engine (20.10) that ends several at once may keep a network for ever.
remove() { # remove "docker command that lists" docker command that removes…
    local one
    for one in $($1 --quiet --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME"); do
        "${@:2}" "$one" >/dev/null || echo "could not be removed: $one" >&2
    done
}

cleanup() {
    if [[ -n $child ]]; then
        kill -TERM "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    remove "docker ps --all" docker rm --force --volumes
    remove "docker network ls" docker network rm
    remove "docker volume ls" docker volume rm
}
trap cleanup EXIT
trap 'exit 130' INT TERM

tests/docker/images.sh "${compose[@]}"
# Waited for, so that a signal is not kept waiting.
cargo run --quiet --locked --package tests --bin containers &
child=$!
wait "$child"
child=""

#!/usr/bin/env bash
# Starts docker-compose.yml as it is and tries what the documentation promises of it: healthy at once and without a
# restart, PUT/GET/DELETE through the gateway, adding cache-node-4, a killed and a stopped node, outages of Redis and
# Postgres, a frozen program that shows as unhealthy, clean stops, data that outlives down and up. Field cases F02, J01,
# J02, J03.
#
# Usage: tests/docker/compose.sh        (bash, curl and Docker with Compose 1.29 or v2)
#   GATEWAY_PORT     the port to publish; without it 8080, or the next free one from 18080
#   OUTAGE_SECONDS   how long Redis, then Postgres are away (10)
# Prints a line for each claim, then "N passed, N failed"; exits 0 if none failed, or if no container engine answers.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly root
readonly outage_seconds=${OUTAGE_SECONDS:-10}
readonly users=50
readonly build_limit=3600 up_limit=300 healthy_limit=60 stop_limit=10 quick_limit=5 request_limit=10 image_limit_mb=150
# The lease of 3 s, the grace of 10 s, and what starting and polling add.
readonly takeover_limit=30
readonly members=(cache-node-1 cache-node-2 cache-node-3)
services=(postgres redis "${members[@]}" watch gateway)

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
scratch=$(mktemp -d)
readonly scratch
passed=0 failed=0 status="" base_url=""
export COMPOSE_PROJECT_NAME="shardcache-test-$$"
readonly standalone="$COMPOSE_PROJECT_NAME-standalone"
readonly down=("${compose[@]}" --profile scale-out --profile tools down --volumes --remove-orphans)

cleanup() {
    if ((failed > 0)); then
        "${compose[@]}" --profile scale-out logs --no-color --tail 40 >&2 || true
        ! docker inspect "$standalone" >/dev/null 2>&1 || docker logs --tail 40 "$standalone" >&2
    fi
    bounded "$up_limit" "${down[@]}" >/dev/null 2>&1 || echo "could not take the stack down" >&2
    docker rm --force --volumes "$standalone" >/dev/null 2>&1 || true
    rm -rf "$scratch"
    printf '%d passed, %d failed\n' "$passed" "$failed"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# check "claim" command…: the claim holds if the command succeeds; what it prints is shown only if not.
check() {
    local claim=$1
    shift
    if "$@" >"$scratch/check.log" 2>&1; then
        passed=$((passed + 1))
        printf 'ok      %s\n' "$claim"
    else
        failed=$((failed + 1))
        printf 'FAILED  %s\n' "$claim"
        tail -n 15 "$scratch/check.log" | awk '{ print "        " $0 }'
    fi
}

# A failure after which nothing else can be tried.
need() {
    local before=$failed
    check "$@"
    ((failed == before)) || exit 1
}

# In our own process group, so that whoever stops this script stops the command too, and the cleanup comes at once.
bounded() { timeout --foreground "$@"; }

within() { # within SECONDS command…: polls until the command succeeds.
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        ((SECONDS < end)) || return 1
        sleep 0.3
    done
}

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

choose_port() {
    local port=${GATEWAY_PORT:-8080}
    if [[ -z ${GATEWAY_PORT:-} ]] && ! port_is_free "$port"; then
        for ((port = 18080; port < 18180; port++)); do
            ! port_is_free "$port" || break
        done
    fi
    base_url="http://127.0.0.1:$port"
    # The test opens it to this machine only.
    export GATEWAY_PORT="127.0.0.1:$port"
}

container() { "${compose[@]}" ps -a -q "$1"; }
inspect() { docker inspect --format "$2" "$(container "$1")"; }

health_is() {
    local found
    found=$(inspect "$1" '{{.State.Health.Status}}')
    [[ $found == "$2" ]] || { echo "$1 is $found"; return 1; }
}

all_healthy() {
    local service
    for service in "${services[@]}"; do
        health_is "$service" healthy || return 1
    done
}

never_restarted() {
    local service count
    for service in "${services[@]}"; do
        count=$(inspect "$service" '{{.RestartCount}}')
        [[ $count == 0 ]] || { echo "$service restarted $count times"; return 1; }
    done
}

# request METHOD USER KEY [curl option…]: sets $status; the body is in $scratch/body, the head in $scratch/head.
request() {
    local method=$1 user=$2 key=$3
    shift 3
    [[ $method != HEAD ]] || set -- --head "$@"
    : >"$scratch/body"
    status=$(curl --silent --max-time "$request_limit" --request "$method" --header "X-User-ID: $user" \
        --output "$scratch/body" --dump-header "$scratch/head" --write-out '%{http_code}' "$@" \
        "$base_url/v1/entries/$key") || true
}

answers() { # answers STATUS METHOD USER KEY [curl option…]
    local expected=$1
    shift
    request "$@"
    [[ $status == "$expected" ]] || { echo "$status instead of $expected"; cat "$scratch/body"; return 1; }
}

holds() { # holds USER KEY VALUE: a GET returns exactly this.
    answers 200 GET "$1" "$2" && [[ $(<"$scratch/body") == "$3" ]]
}

write_all() {
    local i
    for ((i = 1; i <= users; i++)); do
        answers 201 PUT "user-$i" "kept/$i" --data-binary "value of $i" || return 1
    done
}

rewrite_all() {
    local i
    for ((i = 1; i <= users; i++)); do
        answers 204 PUT "user-$i" "kept/$i" --data-binary "value of $i" || return 1
    done
}

all_right() {
    local i
    for ((i = 1; i <= users; i++)); do
        holds "user-$i" "kept/$i" "value of $i" || { echo "user-$i is wrong"; return 1; }
    done
}

plain() { curl --silent --max-time "$request_limit" --output /dev/null --write-out '%{http_code}' "$base_url$1" || true; }
path_answers() { [[ $(plain "$2") == "$1" ]]; }
ring() { curl --silent --fail --max-time "$request_limit" "$base_url/v1/ring" | tr -d ' \n'; }
epoch_is() { ring | tee "$scratch/ring" | grep -q "\"epoch\":$1[,}]" || { cat "$scratch/ring"; return 1; }; }

# The member's object in the ring document says that it owns at least one slot.
owns_slots() {
    ring >"$scratch/ring"
    grep -oE "\\{\"id\":\"$1\"[^}]*\\}" "$scratch/ring" | grep -qE '"slots":[1-9]' || { cat "$scratch/ring"; return 1; }
}

owns_no_slots() { ! owns_slots "$1"; }

someone_is_served_by() {
    local i
    for ((i = 1; i <= users; i++)); do
        request GET "user-$i" "kept/$i"
        ! grep -qi "^x-cache-node: $1" "$scratch/head" || return 0
    done
    return 1
}

image_is_small_and_rootless() {
    local user size
    user=$(docker image inspect --format '{{.Config.User}}' "$1")
    size=$(($(docker image inspect --format '{{.Size}}' "$1") / 1000000))
    echo "user $user, $size MB"
    [[ $user == 10001:10001 ]] && ((size <= image_limit_mb))
}

# Sends a signal to the program itself: its container's first process is only the init.
signal_program() {
    local service=$1 signal=$2 program=${1%-[0-9]}
    [[ $service != watch ]] || program=migrator
    # shellcheck disable=SC2016 # expanded in the container
    docker exec "$(container "$service")" sh -c 'for process in /proc/[0-9]*; do
        read -r name <"$process/comm" && [ "$name" = "$1" ] && kill -s "$2" "${process#/proc/}" && found=yes
    done; [ "${found:-}" = yes ]' sh "$program" "$signal"
}

stops_cleanly() { # stops_cleanly SERVICE [SECONDS]
    local id began=$SECONDS code limit=${2:-$stop_limit}
    id=$(container "$1")
    "${compose[@]}" stop "$1" >/dev/null 2>&1
    code=$(docker inspect --format '{{.State.ExitCode}}' "$id")
    echo "exit code $code after $((SECONDS - began)) s"
    [[ $code == 0 ]] && ((SECONDS - began <= limit))
}

build_and_start() { bounded "$build_limit" "${compose[@]}" up -d --build; }

first_start() {
    need "the images can be built" tests/docker/images.sh "${compose[@]}"
    need "up builds and starts the stack" build_and_start
    need "every service is healthy within $healthy_limit s" within "$healthy_limit" all_healthy
    check "init has ended with 0" test "$(inspect init '{{.State.ExitCode}}')" = 0
    check "nothing was restarted" never_restarted
    local image
    for image in cache-node gateway migrator; do
        check "image $image: no root, at most $image_limit_mb MB" image_is_small_and_rootless "shardcache/$image"
    done
}

entries_through_the_gateway() {
    check "the gateway is ready" within 15 path_answers 200 /readyz
    check "the first ring has epoch 1" epoch_is 1
    check "PUT of a new key answers 201" answers 201 PUT alice greeting --data-binary hello
    check "GET returns what was put" holds alice greeting hello
    check "HEAD answers 200" answers 200 HEAD alice greeting
    check "PUT of a known key answers 204" answers 204 PUT alice greeting --data-binary "hello again"
    check "GET returns the new value" holds alice greeting "hello again"
    check "another user's equal key is another entry" answers 404 GET bob greeting
    check "DELETE answers 204" answers 204 DELETE alice greeting
    check "GET of a deleted key answers 404" answers 404 GET alice greeting
    check "DELETE of a deleted key answers 404" answers 404 DELETE alice greeting
    check "a request without a user answers 400" path_answers 400 /v1/entries/greeting
    check "$users users' keys are written" write_all
    check "and all read back right" all_right
}

# From here on the fourth node belongs to the stack, as an operator would have it.
scale_out() {
    need "the documented command starts cache-node-4" \
        bounded "$up_limit" "${compose[@]}" --profile scale-out up -d cache-node-4
    export COMPOSE_PROFILES=scale-out
    services+=(cache-node-4)
    need "cache-node-4 is healthy within $healthy_limit s" within "$healthy_limit" health_is cache-node-4 healthy
    need "the documented command adds cache-node-4" \
        bounded "$up_limit" "${compose[@]}" run --rm -T migrator add-node cache-node-4 </dev/null
    check "the ring has epoch 2" within 10 epoch_is 2
    check "cache-node-4 owns slots" owns_slots cache-node-4
    check "all keys are still right" all_right
    check "cache-node-4 serves some of them" someone_is_served_by cache-node-4
    check "status ends with 0" bounded "$up_limit" "${compose[@]}" run --rm -T migrator status </dev/null
}

# The failure controller: slots of a node that is killed are taken over, those of one that is stopped handed off first,
# and both get their share again.
nodes_go_and_come_back() {
    check "cache-node-3 can be killed" docker kill "$(container cache-node-3)"
    check "its slots are taken over" within "$takeover_limit" owns_no_slots cache-node-3
    check "its users can write again" within 15 rewrite_all
    "${compose[@]}" start cache-node-3 >/dev/null 2>&1
    check "back, it gets its share again" within "$takeover_limit" owns_slots cache-node-3
    check "all keys are right" all_right
    check "cache-node-4 stops with exit code 0" stops_cleanly cache-node-4
    check "and has handed its slots off" within 2 owns_no_slots cache-node-4
    check "all keys are right at once" all_right
    "${compose[@]}" start cache-node-4 >/dev/null 2>&1
    check "back, it gets its share again" within "$takeover_limit" owns_slots cache-node-4
    check "every service is healthy again" within "$healthy_limit" all_healthy
}

# Nothing but these answers while $outage_seconds pass, and /healthz always 200.
only_answers() {
    local allowed=$1 end=$((SECONDS + outage_seconds)) i=0
    while ((SECONDS < end)); do
        i=$((i % users + 1))
        request GET "user-$i" "kept/$i"
        [[ " $allowed " == *" $status "* ]] || { echo "GET answered $status"; return 1; }
        path_answers 200 /healthz || { echo "/healthz is not 200"; return 1; }
        sleep 0.1
    done
}

outage_of() { # outage_of SERVICE ALLOWED: J01
    local service=$1 allowed=$2 others=() one
    for one in "${services[@]}"; do [[ $one == "$service" ]] || others+=("$one"); done
    "${compose[@]}" stop "$service" >/dev/null 2>&1
    check "without $service every read answers one of: $allowed" only_answers "$allowed"
    local services=("${others[@]}")
    check "without $service all others stay healthy" all_healthy
    "${compose[@]}" start "$service" >/dev/null 2>&1
    services+=("$service")
    check "within 15 s of its return all are healthy" within 15 all_healthy
    check "and ready" within 15 path_answers 200 /readyz
    check "and all keys right" within 15 all_right
    check "nothing was restarted" never_restarted
}

frozen_is_unhealthy() { # J03: three intervals of 3 s, each probe at most 3 s
    check "a frozen $1 can be made" signal_program "$1" STOP
    check "a frozen $1 turns unhealthy" within 25 health_is "$1" unhealthy
    check "it can be thawed" signal_program "$1" CONT
    check "a thawed $1 turns healthy" within 15 health_is "$1" healthy
    check "and all keys are right" within 15 all_right
}

stops() { # F02
    local service
    # In the order of a `down`: without the failure controller no node waits for a handoff.
    for service in watch gateway cache-node-4 "${members[@]}"; do
        check "$service stops within $quick_limit s with exit code 0" stops_cleanly "$service" "$quick_limit"
    done
    for service in redis postgres; do
        check "$service stops within $stop_limit s with exit code 0" stops_cleanly "$service"
    done
}

down_and_up() { # J02
    need "down takes the stack away" bounded "$up_limit" "${compose[@]}" down
    need "up brings it back" bounded "$up_limit" "${compose[@]}" up -d
    need "every service is healthy within $healthy_limit s" within "$healthy_limit" all_healthy
    check "nothing was restarted" never_restarted
    check "all keys are still right" within 15 all_right
    check "all members of before own slots" within "$takeover_limit" owns_slots cache-node-4
}

nothing_is_left() {
    local filter="label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" left
    left=$(docker ps -aq --filter "$filter" && docker volume ls -q --filter "$filter" && docker network ls -q --filter "$filter")
    [[ -z $left ]] || { echo "$left"; return 1; }
}

one_container_cluster() {
    need "the image of the one-process cluster builds" \
        bounded "$build_limit" docker build --target shardcache --tag shardcache/shardcache .
    need "it starts" docker run --detach --init --name "$standalone" --publish "$GATEWAY_PORT:8080" shardcache/shardcache
    check "it is ready within $healthy_limit s" within "$healthy_limit" path_answers 200 /readyz
    check "it takes a PUT" answers 201 PUT alice greeting --data-binary hello
    check "it answers the GET" holds alice greeting hello
    check "it stops" bounded 15 docker stop --time 10 "$standalone"
    check "with exit code 0" test "$(docker inspect --format '{{.State.ExitCode}}' "$standalone")" = 0
    check "its image: no root, at most $image_limit_mb MB" image_is_small_and_rootless shardcache/shardcache
}

choose_port
first_start
entries_through_the_gateway
scale_out
nodes_go_and_come_back
outage_of redis "200"
outage_of postgres "200 503"
frozen_is_unhealthy cache-node-2
frozen_is_unhealthy gateway
frozen_is_unhealthy watch
stops
down_and_up
check "down --volumes takes everything away" bounded "$up_limit" "${down[@]}"
check "nothing is left" nothing_is_left
one_container_cluster
((failed == 0))

#!/usr/bin/env bash
# Makes sure that the images of docker-compose.yml are here: the base images, then our own, built from what is in the
# work tree. What is built already is not built again.
#
# Usage: tests/docker/images.sh COMPOSE…        (docker-compose, or: docker compose)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly root
readonly build_limit=3600
(($# > 0)) || { echo "usage: tests/docker/images.sh docker-compose" >&2; exit 2; }

cd "$root"
tests/docker/base-images.sh
# Builds take proxies as arguments only; they are no part of the cache's key.
arguments=()
for variable in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
    [[ -z ${!variable:-} ]] || arguments+=(--build-arg "$variable=${!variable}")
done
# In our own process group, so that whoever stops this script stops the command too.
exec timeout --foreground "$build_limit" "$@" build "${arguments[@]}"

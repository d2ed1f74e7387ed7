#!/usr/bin/env bash
# Makes sure the base images of the Dockerfile and of docker-compose.yml are here.
#
# Where a registry answers, they are pulled. Where none can be reached, stand-ins of the same names are made
# from Debian packages (debootstrap, `docker import`) and the Rust toolchain of this machine, so that the very
# same Dockerfile and compose file are built, started and tested. Stand-ins carry the label `shardcache.stand-in`;
# `docker rmi $(docker images -q --filter label=shardcache.stand-in)` removes them.
#
# Usage: tests/docker/base-images.sh [--force]
#   --force   pull or make again what is already here
# Making stand-ins needs root, the trixie signing keys (package debian-archive-keyring), and for the
# Rust image a toolchain of the version in its name.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
readonly suite=trixie
readonly base_image=debian:trixie-slim
readonly rust_image=rust:1.95-slim-trixie
readonly postgres_image=postgres:17
readonly valkey_image=valkey/valkey:8
readonly label=shardcache.stand-in
readonly host_bundle=/etc/ssl/certs/ca-certificates.crt
# Each step's bound in seconds; the slowest seen is a fifth of it or less.
readonly pull_limit=900 bootstrap_limit=900 build_limit=900

force=no
work=""
registry=unknown

say() { printf 'base-images: %s\n' "$*"; }
die() {
    printf 'base-images: %s\n' "$*" >&2
    exit 1
}

cleanup() {
    [[ -n $work ]] || return 0
    # An interrupted debootstrap leaves its mounts behind; deleting through them would reach the host.
    local mounted
    while read -r mounted; do
        umount "$mounted" || return 0
    done < <(awk -v under="$work/" 'index($2, under) == 1 { print $2 }' /proc/mounts | sort -r)
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

is_here() { docker image inspect "$1" >/dev/null 2>&1; }

# Pulls $1; after the first failure no further pull is tried.
pull() {
    [[ $registry != unreachable ]] || return 1
    if timeout "$pull_limit" docker pull --quiet "$1" >/dev/null 2>"$work/pull.log"; then
        registry=reached
        return 0
    fi
    [[ $registry != reached ]] || die "pulling $1 failed: $(tail -n 1 "$work/pull.log")"
    registry=unreachable
    say "no image registry can be reached ($(tail -n 1 "$work/pull.log")); making stand-ins"
    return 1
}

# The address of the host's Debian archive whose path ends in $1, from apt's own list of sources.
archive() {
    # shellcheck disable=SC2016 # apt's own placeholder
    apt-get indextargets --format '$(SITE)' 2>/dev/null | grep -E "/$1/?\$" | sort -u | head -n 1
}

require_keys() {
    command -v debootstrap >/dev/null || {
        say "installing debootstrap"
        timeout "$bootstrap_limit" apt-get install -qq -y --no-install-recommends debootstrap >/dev/null
    }
    [[ -e /usr/share/debootstrap/scripts/$suite ]] || die "this debootstrap does not know $suite: update it"
    [[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] || die "no Debian signing keys: install debian-archive-keyring"
}

# Writes apt's sources and proxies of this machine into the root file system $1.
configure_apt() {
    local root=$1 main=$2 security=$3 keys=/usr/share/keyrings/debian-archive-keyring.gpg
    {
        printf 'Types: deb\nURIs: %s\nSuites: %s %s-updates\nComponents: main\nSigned-By: %s\n' \
            "$main" "$suite" "$suite" "$keys"
        [[ -z $security ]] || printf '\nTypes: deb\nURIs: %s\nSuites: %s-security\nComponents: main\nSigned-By: %s\n' \
            "$security" "$suite" "$keys"
    } >"$root/etc/apt/sources.list.d/debian.sources"
    rm -f "$root/etc/apt/sources.list"
    apt-config dump | grep -E '^Acquire::https?::Proxy' >"$root/etc/apt/apt.conf.d/90host" || true
}

# Drops from the root file system $1 what Debian's own slim images leave out, now and for later packages.
slim_down() {
    local root=$1
    cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'CONFIG'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
path-exclude /usr/share/lintian/*
CONFIG
    find "$root/usr/share/doc" -type f ! -name copyright -delete
    find "$root/usr/share/doc" -mindepth 1 -type d -empty -delete
    rm -rf "$root"/usr/share/{info,locale,man,lintian}/* "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin \
        "$root"/var/cache/apt/archives/*.deb "$root"/var/log/*.log "$root"/var/log/apt/*
}

make_base() {
    local root=$work/root main security
    [[ $(id -u) == 0 ]] || die "debootstrap needs root"
    require_keys
    main=$(archive debian)
    security=$(archive debian-security)
    mkdir "$root"
    timeout "$bootstrap_limit" debootstrap --variant=minbase \
        --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$suite" "$root" ${main:+"$main"} \
        >"$work/debootstrap.log" 2>&1 || die "debootstrap failed: $(tail -n 3 "$work/debootstrap.log")"
    [[ -z $main ]] || configure_apt "$root" "$main" "$security"
    slim_down "$root"
    tar --numeric-owner --one-file-system -C "$root" -c . |
        timeout "$build_limit" docker import --change 'CMD ["bash"]' --change "LABEL $label=1" - "$base_image" >/dev/null
}

# Builds image $1 from stand-ins/$2.Dockerfile with the context in $work/$2.
build() {
    local image=$1 name=$2 again=()
    [[ $force == no ]] || again=(--no-cache)
    timeout "$build_limit" docker build "${again[@]}" --label "$label=1" --tag "$image" \
        --build-arg HTTP_PROXY --build-arg HTTPS_PROXY --build-arg NO_PROXY \
        --build-arg http_proxy --build-arg https_proxy --build-arg no_proxy \
        --file "$here/stand-ins/$name.Dockerfile" "$work/$name" >"$work/$name.log" 2>&1 ||
        die "building $image failed: $(tail -n 5 "$work/$name.log")"
}

make_rust() {
    local context=$work/rust sysroot version want=${rust_image#*:}
    want=${want%%-*}
    command -v rustc >/dev/null || die "no Rust toolchain here to make $rust_image from"
    version=$(rustc --version | cut -d ' ' -f 2)
    [[ $version == "$want".* ]] || die "$rust_image wants Rust $want, here is $version"
    sysroot=$(rustc --print sysroot)
    mkdir -p "$context/toolchain" "$context/cargo"
    # What rustup's minimal profile holds: compiler, cargo and the standard library of this machine's target.
    tar -C "$sysroot" -c --exclude=lib/rustlib/src --exclude='lib/rustlib/wasm*' --exclude='bin/*clippy*' \
        --exclude='bin/*fmt' --exclude='bin/rust-analyzer' --exclude='bin/*miri' bin lib |
        tar -C "$context/toolchain" -x
    cp "$host_bundle" "$context/ca-certificates.crt"
    # How this machine's cargo reaches its registry; never its credentials.
    local config=${CARGO_HOME:-$HOME/.cargo}/config.toml
    [[ ! -e $config ]] || cp "$config" "$context/cargo/config.toml"
    build "$rust_image" rust
}

make_postgres() {
    mkdir "$work/postgres"
    cp "$here/stand-ins/postgres-entrypoint.sh" "$work/postgres/"
    build "$postgres_image" postgres
}

make_valkey() {
    mkdir "$work/valkey"
    cp "$here/stand-ins/valkey-entrypoint.sh" "$work/valkey/"
    build "$valkey_image" valkey
}

# Pulls image $1, or makes it by calling $2.
provide() {
    local image=$1 make=$2
    if [[ $force == no ]] && is_here "$image"; then
        say "$image: here"
    elif pull "$image"; then
        say "$image: pulled"
    else
        "$make"
        say "$image: made from packages"
    fi
}

case "${1:-}" in
"") ;;
--force) force=yes ;;
*) die "usage: base-images.sh [--force]" ;;
esac
docker info >/dev/null 2>&1 || die "no container engine answers"
work=$(mktemp -d)
provide "$base_image" make_base
provide "$rust_image" make_rust
provide "$postgres_image" make_postgres
provide "$valkey_image" make_valkey
# What --force replaced lies around without a name; somebody else's prune may be under way, and does as well.
[[ $force == no ]] || docker image prune --force --filter "label=$label" >/dev/null || true

#!/bin/sh
# The rules of the official valkey image's entrypoint: a leading option or *.conf file means valkey-server;
# root hands /data and itself over to the user valkey; VALKEY_EXTRA_FLAGS are appended.
set -eu

case "${1:-}" in
-* | *.conf) set -- valkey-server "$@" ;;
esac
if [ "${1:-}" = valkey-server ]; then
    if [ "$(id -u)" = 0 ]; then
        find . \! -user valkey -exec chown valkey '{}' +
        exec setpriv --reuid=valkey --regid=valkey --clear-groups "$0" "$@"
    fi
    set -f # the flags hold a literal *
    # shellcheck disable=SC2086 # a list of flags
    exec "$@" ${VALKEY_EXTRA_FLAGS:-}
fi
exec "$@"

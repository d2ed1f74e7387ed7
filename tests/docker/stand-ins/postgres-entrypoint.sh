#!/usr/bin/env bash
# The part of the official postgres image's entrypoint that a plain server uses: POSTGRES_USER, POSTGRES_PASSWORD,
# POSTGRES_DB, POSTGRES_INITDB_ARGS, POSTGRES_HOST_AUTH_METHOD (each also as …_FILE), PGDATA, /docker-entrypoint-initdb.d.
set -Eeuo pipefail

# Sets $1 from the file named by $1_FILE, else from $1, else to $2.
setting() {
    local name=$1 file="${1}_FILE" fallback=${2:-}
    if [[ -n ${!file:-} ]]; then
        printf -v "$name" '%s' "$(<"${!file}")"
    else
        printf -v "$name" '%s' "${!name:-$fallback}"
    fi
}

prepare_directories() {
    mkdir -p "$PGDATA" /var/run/postgresql
    if [[ $(id -u) == 0 ]]; then
        chown -R postgres "$PGDATA"
        chown postgres /var/run/postgresql
    fi
    chmod 00700 "$PGDATA"
    chmod 03775 /var/run/postgresql
}

query() {
    PGHOST='' PGHOSTADDR='' psql -v ON_ERROR_STOP=1 --no-psqlrc --no-password --username "$POSTGRES_USER" "$@"
}

run_scripts() {
    local script
    for script in /docker-entrypoint-initdb.d/*; do
        case $script in
        *.sh) bash "$script" ;;
        *.sql) query --dbname "$POSTGRES_DB" --file "$script" ;;
        *.sql.gz) gunzip -c "$script" | query --dbname "$POSTGRES_DB" ;;
        esac
    done
}

initialise() {
    setting POSTGRES_PASSWORD
    setting POSTGRES_USER postgres
    setting POSTGRES_DB "$POSTGRES_USER"
    setting POSTGRES_INITDB_ARGS
    setting POSTGRES_HOST_AUTH_METHOD scram-sha-256
    if [[ -z $POSTGRES_PASSWORD && $POSTGRES_HOST_AUTH_METHOD != trust ]]; then
        printf 'error: POSTGRES_PASSWORD must be set for the first start\n' >&2
        exit 1
    fi
    export POSTGRES_USER POSTGRES_PASSWORD POSTGRES_DB
    local options=()
    read -ra options <<<"$POSTGRES_INITDB_ARGS"
    initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") "${options[@]}"
    printf '\nhost all all all %s\n' "$POSTGRES_HOST_AUTH_METHOD" >>"$PGDATA/pg_hba.conf"
    # On the socket only: nobody must take this for the finished server.
    pg_ctl -D "$PGDATA" -o "-c listen_addresses=''" -w start
    if [[ $POSTGRES_DB != postgres ]]; then
        query --dbname postgres --set db="$POSTGRES_DB" <<<'CREATE DATABASE :"db";'
    fi
    run_scripts
    pg_ctl -D "$PGDATA" -m fast -w stop
}

[[ ${1:-postgres} != -* ]] || set -- postgres "$@"
if [[ $1 == postgres ]]; then
    prepare_directories
    if [[ $(id -u) == 0 ]]; then
        exec setpriv --reuid=postgres --regid=postgres --init-groups "${BASH_SOURCE[0]}" "$@"
    fi
    [[ -s $PGDATA/PG_VERSION ]] || initialise
    unset POSTGRES_PASSWORD
fi
exec "$@"

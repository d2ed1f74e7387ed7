# Stand-in for postgres:17 from Debian trixie, whose PostgreSQL is 17: same user, paths, variables and signal.
FROM debian:trixie-slim
# The official image's user id, so that a volume can be handed from one to the other.
RUN groupadd --system --gid 999 postgres \
 && useradd --system --gid postgres --uid 999 --home-dir /var/lib/postgresql --shell /bin/bash postgres \
 && install -d -m 1777 -o postgres -g postgres /var/lib/postgresql /var/lib/postgresql/data /var/run/postgresql \
 && mkdir /docker-entrypoint-initdb.d
# No cluster of Debian's own: the entrypoint makes one in PGDATA.
RUN apt-get update \
 && apt-get install -y --no-install-recommends postgresql-common \
 && sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf \
 && apt-get install -y --no-install-recommends postgresql-17 \
 && rm -rf /var/lib/apt/lists/* \
 && sed -i "s/^#\?listen_addresses =.*/listen_addresses = '*'/" /usr/share/postgresql/17/postgresql.conf.sample
ENV LANG=C.UTF-8 PG_MAJOR=17 PGDATA=/var/lib/postgresql/data
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/17/bin
COPY postgres-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
RUN chmod 0755 /usr/local/bin/docker-entrypoint.sh
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["docker-entrypoint.sh"]
# SIGINT is PostgreSQL's fast shutdown.
STOPSIGNAL SIGINT
EXPOSE 5432
CMD ["postgres"]

# Stand-in for valkey/valkey:8 from Debian trixie, whose Valkey is 8.1: same user, volume and entrypoint rules.
FROM debian:trixie-slim
RUN groupadd --system --gid 999 valkey \
 && useradd --system --gid valkey --uid 999 --home-dir /data --shell /usr/sbin/nologin valkey \
 && apt-get update \
 && apt-get install -y --no-install-recommends valkey-server valkey-tools \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o valkey -g valkey /data
COPY valkey-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
RUN chmod 0755 /usr/local/bin/docker-entrypoint.sh
VOLUME /data
WORKDIR /data
ENTRYPOINT ["docker-entrypoint.sh"]
EXPOSE 6379
# The official image is built to listen without a password in a container; Debian's build is not.
ENV VALKEY_EXTRA_FLAGS="--protected-mode no --bind * -::*"
CMD ["valkey-server"]

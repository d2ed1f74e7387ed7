# All images of the product: targets cache-node, gateway, migrator and shardcache (the whole cluster in one process).
# Plain syntax throughout: Compose 1.29 with the classic builder builds it as well as BuildKit does.

# Manifests and empty target roots only, so that the dependencies' layer outlives every change of our own code.
FROM rust:1.95-slim-trixie AS manifests
WORKDIR /src
COPY . .
RUN find . -type f ! -name Cargo.toml ! -name Cargo.lock \
      ! -path '*/src/lib.rs' ! -path '*/src/main.rs' ! -path '*/src/bin/*.rs' \
      ! -path './*/tests/*.rs' ! -path './*/benches/*.rs' ! -name build.rs -delete \
 && for manifest in */Cargo.toml */*/Cargo.toml; do \
      package="${manifest%/*}"; \
      [ -d "$package/src" ] || { mkdir "$package/src"; : > "$package/src/lib.rs"; }; \
      sed -n 's/^path *= *"\(.*\.rs\)"/\1/p' "$manifest" | while read -r root; do \
        mkdir -p "$package/$(dirname "$root")"; : > "$package/$root"; \
      done; \
    done \
 && find . -name '*.rs' | while read -r root; do echo 'fn main() {}' > "$root"; done \
 && find . -type d -empty -delete

FROM rust:1.95-slim-trixie AS builder
# Small binaries; panics still name file and line.
ENV CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_DEBUG=none CARGO_PROFILE_RELEASE_STRIP=symbols
WORKDIR /src
COPY --from=manifests /src .
RUN cargo build --release --locked -p cache-node -p gateway -p migrator -p standalone
COPY . .
# Cargo goes by modification times, and the empty roots are younger than the real ones.
RUN find . -path ./target -prune -o -name '*.rs' -exec touch {} + \
 && cargo build --release --locked -p cache-node -p gateway -p migrator -p standalone \
 && mkdir /out \
 && cp target/release/cache-node target/release/gateway target/release/migrator target/release/shardcache /out/

FROM debian:trixie-slim AS runtime
RUN groupadd --gid 10001 shardcache \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir / --shell /usr/sbin/nologin shardcache
USER 10001:10001
STOPSIGNAL SIGTERM

FROM runtime AS cache-node
COPY --from=builder /out/cache-node /usr/local/bin/cache-node
EXPOSE 7000
ENTRYPOINT ["/usr/local/bin/cache-node"]

FROM runtime AS gateway
COPY --from=builder /out/gateway /usr/local/bin/gateway
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/gateway"]

FROM runtime AS migrator
COPY --from=builder /out/migrator /usr/local/bin/migrator
ENTRYPOINT ["/usr/local/bin/migrator"]

FROM runtime AS shardcache
USER root
RUN install -d -o 10001 -g 10001 /data
USER 10001:10001
COPY --from=builder /out/shardcache /usr/local/bin/shardcache
ENV SHARDCACHE_LISTEN=0.0.0.0:8080 SHARDCACHE_DATA_DIR=/data
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/shardcache"]

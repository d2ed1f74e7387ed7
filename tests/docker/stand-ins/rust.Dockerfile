# Stand-in for rust:1.95-slim-trixie: same packages, same paths, the toolchain of the machine that builds it.
FROM debian:trixie-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
# The package registry may sit behind a certificate that only this machine trusts.
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
ENV RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo
ENV PATH=/usr/local/cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
COPY toolchain /usr/local/rustup/toolchains/local
COPY cargo /usr/local/cargo
RUN mkdir -p /usr/local/cargo/bin \
 && ln -s /usr/local/rustup/toolchains/local/bin/* /usr/local/cargo/bin/ \
 && chmod -R a+w /usr/local/cargo \
 && cargo --version && rustc --version

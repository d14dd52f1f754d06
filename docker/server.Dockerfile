# The reduction server. Build it from the repository's root: docker build -f docker/server.Dockerfile -t localhost/shoal/server .
# Debian 13 for its newer UCX (1.18). CMake's -DSHOAL_BUILD_TESTS=OFF keeps the tests' packages out.
FROM docker.io/library/debian:trixie-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends \
      build-essential ca-certificates cmake ninja-build pkg-config \
      libabsl-dev libcivetweb-dev libgrpc++-dev libisal-dev libprotobuf-dev libssl-dev libucx-dev prometheus-cpp-dev \
      protobuf-compiler protobuf-compiler-grpc
WORKDIR /source
COPY . .
ARG JOBS=2
RUN cmake -S . -B /build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHOAL_BUILD_TESTS=OFF \
    && ninja -C /build -j "$JOBS" shoal-server shoalctl \
    && install -s -D -t /programs /build/bin/shoal-server /build/bin/shoalctl \
    && sh docker/list_runtime_packages.sh /programs/shoal-server /programs/shoalctl > /programs.packages

FROM docker.io/library/debian:trixie-slim
LABEL org.opencontainers.image.title="shoal-server" \
      org.opencontainers.image.description="Reduction server of Shoal"
# UCX loads its transports as modules at run time, so no dependency list shows the verbs libraries they need.
COPY --from=build /programs.packages /tmp/packages
RUN apt-get update && xargs apt-get install --yes --no-install-recommends ibverbs-providers < /tmp/packages \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /tmp/packages
COPY --from=build /programs /usr/local/bin
USER 10001:10001
ENTRYPOINT ["shoal-server"]
CMD ["--help"]

# The scheduler, and shoalctl to ask it. From the repository's root: docker build -f docker/scheduler.Dockerfile -t localhost/shoal/scheduler .
FROM docker.io/library/debian:trixie-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends \
      build-essential ca-certificates cmake ninja-build pkg-config \
      libabsl-dev libcivetweb-dev libgrpc++-dev libisal-dev libprotobuf-dev libssl-dev libucx-dev prometheus-cpp-dev \
      protobuf-compiler protobuf-compiler-grpc
WORKDIR /source
COPY . .
ARG JOBS=2
RUN cmake -S . -B /build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHOAL_BUILD_TESTS=OFF \
    && ninja -C /build -j "$JOBS" shoal-scheduler shoalctl \
    && install -s -D -t /programs /build/bin/shoal-scheduler /build/bin/shoalctl \
    && sh docker/list_runtime_packages.sh /programs/shoal-scheduler /programs/shoalctl > /programs.packages

FROM docker.io/library/debian:trixie-slim
LABEL org.opencontainers.image.title="shoal-scheduler" \
      org.opencontainers.image.description="Scheduler of Shoal"
COPY --from=build /programs.packages /tmp/packages
RUN apt-get update && xargs apt-get install --yes --no-install-recommends < /tmp/packages \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /tmp/packages \
    && install -d -o 10001 -g 10001 /var/lib/shoal
COPY --from=build /programs /usr/local/bin
USER 10001:10001
VOLUME /var/lib/shoal
EXPOSE 7070
ENTRYPOINT ["shoal-scheduler"]
CMD ["--listen=0.0.0.0:7070", "--state-file=/var/lib/shoal/scheduler.state"]

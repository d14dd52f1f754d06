# etcd for the cluster test, as build_kubernetes.sh has compiled it.
ARG BASE=docker.io/library/debian:trixie-slim
FROM ${BASE}
COPY etcd /usr/local/bin/etcd

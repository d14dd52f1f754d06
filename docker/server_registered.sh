#!/bin/sh
# Succeeds while the scheduler's shard map lists this server: the probe of the server's pods.
# Environment: SHOAL_SCHEDULER (HOST:PORT) and POD_NAME, under which the server registered.
set -eu
shoalctl --scheduler="$SHOAL_SCHEDULER" --timeout=4 map --json | grep -q "\"server_name\": *\"$POD_NAME\""

#!/usr/bin/env bash
# Puts prometheus and promtool into build/tools, from Debian's package but without installing it, which would start a
# service on this machine: the tests try the alerts and the dashboard's queries with them.
set -euo pipefail
phase=prometheus step_count=1
source "$(dirname "$0")/progress.sh"

tools=$repository/build/tools
begin_step "prometheus and promtool into build/tools"
if [ -x "$tools/prometheus" ] && [ -x "$tools/promtool" ]; then
  end_step "up to date"
  exit 0
fi
mkdir -p "$tools"
unpacked=$(mktemp -d "$tools/prometheus_package.XXXXXX")
trap 'rm -rf "$unpacked"; end_what_was_started' EXIT
cd "$unpacked"
run_logged prometheus apt-get download prometheus || die "apt-get could not download the package prometheus." \
  "Has apt-get update been run on this machine? See the lines above."
dpkg-deb --extract prometheus_*.deb .
mv usr/bin/prometheus usr/bin/promtool "$tools"
end_step "ready"

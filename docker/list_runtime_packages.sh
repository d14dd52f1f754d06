#!/bin/sh
# Names the Debian packages of the shared libraries that PROGRAMs need: an image installs these and no compiler.
# Usage: list_runtime_packages.sh PROGRAM...
set -eu
for library in $(ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u); do
  # dpkg knows files by the name they were packed under: /lib is a link to /usr/lib, or was not one then.
  real=$(realpath "$library")
  dpkg-query --search "$real" 2> /dev/null || dpkg-query --search "${real#/usr}"
done | sed 's/: .*//; s/:[a-z0-9]*$//' | sort -u

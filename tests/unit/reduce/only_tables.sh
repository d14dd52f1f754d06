#!/bin/sh
# only_tables.sh NM ARCHIVE: fails if a kernel file of the archive defines a symbol with external linkage but its table.
# (An instrumented build has symbols of the sanitizer's; they are not ours to judge.)
set -eu
symbols=$("$1" --defined-only --print-file-name --demangle "$2" | grep 'kernels_.*\.o:')
test -n "$symbols" || { echo "no kernel files in $2"; exit 1; }
if printf '%s\n' "$symbols" | grep -E ' [A-Zu-w] ' | grep -vE ' D shoal::k(Portable|Avx2|Avx512|Neon)Kernels$| (__odr_asan|_?_?asan|_?_?ubsan|DW\.ref\.__gxx_personality_v0$)'; then
  echo "these may be taken for other files' by the linker: a kernel file may only define its table"
  exit 1
fi

#!/usr/bin/env bash
# torch 2.14 and 2.15 both define C10D_BACKEND_HAS_HOOKS, by which c10d's header tells the authors of backends to guard
# their overrides. It stands for other functions in each: a backend whose overrides of 2.15's completion hooks are guarded
# by it does not compile with 2.14.
. "$(dirname "$0")/environment.sh"
python=$(command -v python3)
cat > "$folder/backend.cc" <<'EOF'
#include <torch/csrc/distributed/c10d/Backend.hpp>

class Guarded : public c10d::Backend {
 public:
  Guarded() : Backend(0, 1) {}
#ifdef C10D_BACKEND_HAS_HOOKS
  bool supportsCompletionHooks() const override { return true; }
#endif
};
#ifndef C10D_BACKEND_HAS_HOOKS
#error the macro is not defined
#endif
EOF
"$python" -m venv "$folder/fetch"
compiles() { # compiles VERSION
  "$folder/fetch/bin/python" -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps \
    --only-binary :all: --dest "$folder/$1" "torch==$1"
  "$python" -m zipfile --extract "$folder/$1"/torch-*.whl "$folder/$1"
  rm "$folder/$1"/torch-*.whl
  g++ -std=c++20 -fsyntax-only -isystem "$folder/$1/torch/include" \
    -isystem "$folder/$1/torch/include/torch/csrc/api/include" "$folder/backend.cc" 2> "$folder/$1/said"
}
if compiles 2.14.0; then
  echo "changed: it compiles with torch 2.14.0"
  exit 1
fi
echo "torch 2.14.0: $(grep -m 1 error "$folder/2.14.0/said" | sed 's/^.*error: //')"
grep -q "supportsCompletionHooks.*marked.*override" "$folder/2.14.0/said" || { echo "changed: another error"; exit 1; }
compiles 2.15.0 || { echo "changed: it does not compile with torch 2.15.0"; cat "$folder/2.15.0/said"; exit 1; }
echo "torch 2.15.0: compiles"

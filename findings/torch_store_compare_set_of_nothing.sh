#!/usr/bin/env bash
# A torch store's compare_set of a key that is not there returns the value that was expected, as if it were there, and
# sets nothing. So a loop that goes on with what the call has returned, as one does with a compare-and-swap, never ends
# once somebody has deleted the key. HashStore, FileStore and TCPStore do so, and the documentation names no result.
. "$(dirname "$0")/environment.sh"
python_packages torch==2.15.0

"$python" - "$folder" <<'EOF' | tee "$folder/seen"
import sys, torch
from torch.distributed import FileStore, HashStore, TCPStore

print("torch", torch.__version__)
stores = {"HashStore": HashStore(), "FileStore": FileStore(sys.argv[1] + "/store", 1), "TCPStore": TCPStore("127.0.0.1", 0, is_master=True)}
for name, store in stores.items():
    store.set("leader", "rank 0")
    held = store.compare_set("leader", "", "rank 1").decode()  # somebody else holds it
    store.delete_key("leader")
    rounds = 0
    while rounds < 1000 and (now := store.compare_set("leader", held, "rank 1").decode()) != "rank 1":
        held, rounds = now, rounds + 1
    print(f"{name}: the key is there: {store.check(['leader'])}, compare_set says {held!r} after {rounds} rounds")
EOF
[ "$(grep -c "the key is there: False, compare_set says 'rank 0' after 1000 rounds" "$folder/seen")" = 3 ] ||
  { echo "changed" >&2 && exit 1; }

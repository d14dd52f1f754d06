#!/usr/bin/env bash
# On one node torchrun ignores --master-addr, and says nothing, unless --master-port is given as well: MASTER_ADDR is the
# node's own name then. Where that name leads nowhere, as in many containers, ranks wait for it for five minutes.
. "$(dirname "$0")/environment.sh"
python_packages torch==2.15.0

address() { # OPTION...: which MASTER_ADDR a rank gets
  "$python" -m torch.distributed.run --master-addr 127.0.0.1 "$@" --no-python printenv MASTER_ADDR 2> "$folder/errors" |
    tail -n 1
}

own_name=$("$python" -c 'import socket; print(socket.getfqdn())')
alone=$(address)
with_port=$(address --master-port 29571)
"$python" -c 'import torch; print("torch", torch.__version__)'
echo "the node's own name:                                   $own_name"
echo "MASTER_ADDR, with --master-addr 127.0.0.1:             $alone"
echo "the same with --master-port 29571:                     $with_port"
[ "$alone" = "$own_name" ] && [ "$with_port" = 127.0.0.1 ] || { echo "changed" >&2 && exit 1; }

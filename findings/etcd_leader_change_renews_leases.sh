#!/usr/bin/env bash
# A lease of etcd that nobody renews lives twice as long if etcd's leader dies in it: the next leader begins all leases
# anew, and gives each an election timeout on top. A lock with a lease of 5 s is free after 11 to 12 s then, and those who
# count on 5 s and a little find it taken.
. "$(dirname "$0")/environment.sh"
debian_package etcd-server 3.4.23-4+b4
python3 - "$folder" <<'EOF'
import base64, json, socket, subprocess, sys, tempfile, time, urllib.error, urllib.request

MEMBERS, LEASE_S, KILLED_AFTER_S = 3, 5, 4
data = tempfile.mkdtemp(dir=sys.argv[1])
program = f"{sys.argv[1]}/etcd-server/usr/bin/etcd"


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


ports = free_ports(2 * MEMBERS)
clients = [f"http://127.0.0.1:{port}" for port in ports[:MEMBERS]]
peers = [f"http://127.0.0.1:{port}" for port in ports[MEMBERS:]]


def start(number):
    command = [program, "--name", f"m{number}", "--data-dir", f"{data}/{number}", "--log-level", "panic"]
    command += ["--listen-client-urls", clients[number], "--advertise-client-urls", clients[number]]
    command += ["--listen-peer-urls", peers[number], "--initial-advertise-peer-urls", peers[number]]
    command += ["--initial-cluster", ",".join(f"m{each}={url}" for each, url in enumerate(peers))]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read(url, body=None):
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read().decode()


def leader():
    """None: there is none, or not all answer."""
    try:
        lead = ["etcd_server_is_leader 1\n" in read(f"{url}/metrics") for url in clients]
    except (urllib.error.URLError, OSError):
        return None
    return lead.index(True) if any(lead) else None


def lives_s(after_s=0, strike=lambda: None):
    """How long a key with a lease of LEASE_S is there. `strike` is called after so many seconds."""
    other = clients[(leader() + 1) % MEMBERS]  # which stays
    granted_at = time.monotonic()
    lease = json.loads(read(f"{other}/v3/lease/grant", {"TTL": LEASE_S}))["ID"]
    key = base64.b64encode(b"lock").decode()
    read(f"{other}/v3/kv/put", {"key": key, "value": key, "lease": lease})
    time.sleep(after_s)
    strike()
    while True:
        try:
            # What this member knows, whether there is a leader or not.
            if "kvs" not in json.loads(read(f"{other}/v3/kv/range", {"key": key, "serializable": True})):
                return time.monotonic() - granted_at
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.05)


members = [start(number) for number in range(MEMBERS)]
try:
    deadline = time.monotonic() + 60
    while leader() is None:
        if time.monotonic() > deadline:
            sys.exit("etcd did not start")
        time.sleep(0.1)
    alone_s = lives_s()
    killed_s = lives_s(KILLED_AFTER_S, lambda: members[leader()].kill())
finally:
    for member in members:
        member.kill()
        member.wait()
version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
print(version)
print(f"a key with a lease of {LEASE_S} s was gone after {alone_s:.1f} s")
print(f"with the leader of etcd killed after {KILLED_AFTER_S} s, it was gone after {killed_s:.1f} s")
as_found = alone_s < LEASE_S + 2 and killed_s > KILLED_AFTER_S + LEASE_S + 1
sys.exit(None if as_found else "changed: expected 5 to 7 s, and more than 10 s")
EOF

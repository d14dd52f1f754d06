#!/bin/sh
# RDMA devices for the guest, in place of those that were there:
#
#   guest_devices.sh one     rxe0 on eth0: 10.0.0.1 and fd00::1
#   guest_devices.sh cable   besides rxe1 on eth1: 10.0.0.2 and fd00::2. What goes from one's address to the other's crosses
#                            a cable between eth0 and eth1, which tc can make lose packets
#   guest_devices.sh none    Ethernet alone: eth0
#
# Two namespaces would be plainer, but this kernel's rdma_rxe works in the first one only.
set -e
for device in rxe0 rxe1; do rdma link delete $device 2> /dev/null || true; done
ip link delete eth0 2> /dev/null || true
for version in -4 -6; do
  [ -n "$(ip $version rule show pref 0)" ] || ip $version rule add pref 0 lookup local
  ip $version rule flush  # all others
  ip $version rule add pref 32766 lookup main
done

add_addresses() { # add_addresses END DEVICE
  ip link set "$2" address 02:00:00:00:00:0"$1" up
  ip address add 10.0.0."$1"/24 dev "$2"
  ip address add fd00::"$1"/64 dev "$2" nodad
}

# A kernel keeps to itself what is sent to an address of its own, unless rules before that one say otherwise: what goes to
# the other end leaves by this one.
lead_over_cable() { # lead_over_cable VERSION NETWORK END OTHER_END DEVICE
  ip "$1" route add "$2$4" dev "$5" src "$2$3" table "10$3"
  ip "$1" rule add pref 10 iif "$5" lookup local
  ip "$1" rule add pref 11 from "$2$3" to "$2$3" lookup local
  ip "$1" rule add pref 12 to "$2$4" lookup "10$3"
  ip "$1" neighbour replace "$2$4" lladdr 02:00:00:00:00:0"$4" dev "$5" nud permanent
}

case $1 in
  one | none)
    ip link add eth0 type dummy
    add_addresses 1 eth0
    ;;
  cable)
    ip link add eth0 type veth peer name eth1
    for device in all eth0 eth1; do
      echo 1 > /proc/sys/net/ipv4/conf/$device/accept_local
      echo 0 > /proc/sys/net/ipv4/conf/$device/rp_filter
    done
    add_addresses 1 eth0
    add_addresses 2 eth1
    for network in "-4 10.0.0." "-6 fd00::"; do
      # shellcheck disable=SC2086  # two words
      lead_over_cable $network 1 2 eth0
      # shellcheck disable=SC2086
      lead_over_cable $network 2 1 eth1
    done
    for version in -4 -6; do
      ip $version rule add pref 13 lookup local
      ip $version rule delete pref 0
    done
    rdma link add rxe1 type rxe netdev eth1
    ;;
  *)
    echo "one, cable or none?" >&2
    exit 2
    ;;
esac
[ "$1" = none ] || rdma link add rxe0 type rxe netdev eth0

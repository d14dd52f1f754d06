#!/usr/bin/env bash
# Boots a machine that has RDMA devices (QEMU's emulation, Linux's Soft-RoCE) and runs a command in it as root:
#
#   boot_guest.sh FOLDER COMMAND     FOLDER is /run/shared in the guest, and the one thing there that outlives it
#
# The rest of the guest's files are this machine's own (guest_first_root.sh), less what processors newer than AVX2 need.
# Exit status: COMMAND's; 124: not done within GUEST_SECONDS (300); 125: the guest could not be started, or died.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
kernel=$(cd "$here/../.." && pwd)/build/tools/rdma_guest
shared=$(realpath "$1")

printf '%s\n' "$2" > "$shared/command"
cp "$here/guest_start.sh" "$shared/start"
rm -f "$shared/status"

folders=()
share_folder() { # share_folder TAG PATH OPTION
  folders+=(-fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap$3"
    -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}
share_folder host / ,readonly=on
share_folder kernel "$kernel" ,readonly=on
share_folder shared "$shared" ""

# The guest's output is a port that counts as unplugged when QEMU's input has ended, so that is a pipe without an end.
# And QEMU makes its output non-blocking, which the caller's must not become: hence the cat.
rm -f "$shared/endless"
mkfifo "$shared/endless"
outcome=0
timeout --foreground --kill-after 5 "${GUEST_SECONDS:-300}" qemu-system-x86_64 \
  -accel tcg,thread=multi -cpu max,la57=off -smp 2 -m 3072 \
  -nodefaults -no-user-config -no-reboot -display none -nic none \
  -kernel "$kernel/vmlinux" -initrd "$kernel/initramfs" \
  -append "console=ttyS0 panic=-1 loglevel=4 mitigations=off nokaslr audit=0 apparmor=0 nowatchdog" \
  -serial "file:$shared/console" \
  -chardev stdio,id=output,signal=off -device virtio-serial-pci -device virtserialport,chardev=output \
  "${folders[@]}" 0<> "$shared/endless" 2>&1 | cat || outcome=${PIPESTATUS[0]}

[ ! -s "$shared/status" ] || exit "$(cat "$shared/status")"
case $outcome in
  124 | 137) exit 124 ;;
esac
echo "the guest ended without a word; its console says:" >&2
tail -n 30 "$shared/console" >&2 || true
exit 125

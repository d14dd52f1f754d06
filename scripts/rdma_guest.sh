#!/usr/bin/env bash
# Prepares the kernel of the machine in which tests/rdma run: build/tools/rdma_guest. Once; `make clean` keeps it.
#
# It is Debian's full kernel, unpacked and never installed: the cloud kernel has neither Soft-RoCE (rdma_rxe) nor 9p.
set -euo pipefail
phase=rdma-guest step_count=1
source "$(dirname "$0")/progress.sh"

guest=$repository/build/tools/rdma_guest
recipe=$(cat scripts/rdma_guest.sh tests/rdma/guest_first_root.sh | sha256sum | cut -c 1-16)

unpack_kernel() { # unpack_kernel PACKAGE VERSION: into $work
  local modules=./lib/modules/$2 kernel=./lib/modules/$2/kernel
  (cd "$work" && run_logged rdma_kernel apt-get --quiet -o APT::Sandbox::User=root download "$1") || return 1
  dpkg-deb --fsys-tarfile "$work/$1"_*.deb | tar -x -C "$work" --exclude=wireless --exclude=ethernet --exclude=hw \
    "./boot/vmlinuz-$2" "$modules"/modules.{order,builtin,builtin.modinfo} \
    "$kernel"/{arch,crypto,lib,net} "$kernel"/fs/{9p,overlayfs,netfs,fscache,configfs} \
    "$kernel"/drivers/{net,infiniband,virtio,char} || return 1
  rm "$work/$1"_*.deb
  depmod -b "$work" "$2"
}

# The machine is emulated: what is unpacked here once, it needn't unpack at every start.
unpack_image() { # unpack_image VERSION
  local image=$work/boot/vmlinuz-$1 offset
  offset=$(LC_ALL=C grep -abom1 "$(printf '\3757zXZ')" "$image" | head -n 1 | cut -d: -f1)
  # xz complains of what follows its data in the image.
  tail -c +$((offset + 1)) "$image" | xz -dc > "$work/vmlinux" 2> /dev/null || true
  [ "$(head -c 4 "$work/vmlinux" | tail -c 3)" = ELF ]
}

# The first root: busybox and the modules by which the machine reaches this machine's own files.
pack_first_root() { # pack_first_root VERSION
  local root=$work/root module
  mkdir -p "$root"/{modules,dev,roots}
  cp "$(command -v busybox)" "$root/busybox"
  for module in virtio_pci 9pnet_virtio 9p overlay virtio_console; do
    modprobe -d "$work" -S "$1" --show-depends "$module"
  done | awk '/^insmod/ && !seen[$2]++ {print $2}' | while read -r module; do
    cp "$module" "$root/modules/"
    basename "$module"
  done > "$root/modules/in_order"
  install -m 755 tests/rdma/guest_first_root.sh "$root/init"
  (cd "$root" && find . | cpio -o -H newc --quiet) | zstd -q > "$work/initramfs"
  rm -r "$root"
}

begin_step "kernel for the machine with RDMA devices, in build/tools"
if [ "$(cat "$guest/recipe" 2> /dev/null)" = "$recipe" ]; then
  end_step "up to date"
  exit 0
fi
package=$(apt-cache depends linux-image-amd64 2> /dev/null | awk '/Depends: linux-image/ {print $2; exit}')
[ -n "$package" ] || die "apt knows no linux-image-amd64: is this Debian on x86-64? apt-get update may help."
version=${package#linux-image-}
mkdir -p build/tools
work=$(mktemp -d build/tools/rdma_guest_new.XXXXXX)
work=$repository/$work
trap 'rm -rf "$work"; end_what_was_started' EXIT
unpack_kernel "$package" "$version" || die "$package could not be fetched and unpacked (70 MB): no network?"
unpack_image "$version" || die "$package has no kernel packed by xz; scripts/rdma_guest.sh must learn its packing."
rm -r "${work:?}/boot"
pack_first_root "$version"
echo "$recipe" > "$work/recipe"
rm -rf "$guest"
mv -T "$work" "$guest"
end_step "$version"

#!/busybox sh
# The guest's first program, in the first root (scripts/rdma_guest.sh packs it): changes to the host's own root, which the
# guest sees read-only below a layer in memory. So what was just built runs here, and nothing here changes the host.
b=/busybox
$b mount -t devtmpfs devices /dev
for module in $($b cat /modules/in_order); do $b insmod "/modules/$module"; done
share=trans=virtio,version=9p2000.L,msize=262144
$b mount -t tmpfs memory /roots
$b mkdir /roots/host /roots/changes /roots/work /roots/guest
$b mount -t 9p -o ro,$share,cache=loose host /roots/host
$b mount -t overlay -o lowerdir=/roots/host,upperdir=/roots/changes,workdir=/roots/work layers /roots/guest ||
  $b poweroff -f
cd /roots/guest || exit
$b mkdir -p dev proc sys run lib/modules
$b mount -t tmpfs memory run
$b mkdir run/kernel run/shared
$b mount -t 9p -o ro,$share,cache=loose kernel run/kernel
$b mount -t 9p -o $share shared run/shared
$b mount -o bind run/kernel/lib/modules lib/modules
$b mount -o move /dev dev
exec $b switch_root . /bin/sh /run/shared/start

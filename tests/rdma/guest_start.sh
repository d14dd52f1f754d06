# The guest's first program in its final root: devices, then the command, then power off.
exec < /dev/null > /dev/console 2>&1
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc processes /proc
mount -t sysfs system /sys
mkdir -p /dev/shm /dev/pts
mount -t tmpfs memory /dev/shm
mount -t devpts terminals /dev/pts
hostname rdma-guest
ip link set lo up
modprobe -a crc32_generic rdma_rxe rdma_ucm ib_uverbs
ulimit -l unlimited
ulimit -n 65536
cd /
{
  sh /run/shared/command
  echo $? > /run/shared/status
} 2>&1 | cat > /dev/vport0p1
echo o > /proc/sysrq-trigger
sleep 60

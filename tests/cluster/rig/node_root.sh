#!/bin/sh
# node_root.sh NAME ROOT PROGRAMS: become a node, in fresh namespaces for mounts, network and host name, and wait.
# The node's root file system is ROOT: the host's programs and configuration stand in it read-only, /tmp is the host's,
# and whatever else is written or mounted there is the node's own, and is gone for the host when this process ends.
set -eu
name=$1 root=$2 programs=$3
echo "$name" >/proc/sys/kernel/hostname
mount --bind "$root" "$root"
for folder in usr etc; do
    mount --bind "/$folder" "$root/$folder"
    mount -o remount,bind,ro "$root/$folder"
done
mount --bind "$programs" "$root/opt/kubernetes"
mount -o remount,bind,ro "$root/opt/kubernetes"
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
mount --bind /tmp "$root/tmp"
mount -t sysfs sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 run "$root/run"
mkdir "$root/run/lock" "$root/run/netns"
# A kubelet sets kernel parameters of the whole machine. It finds them set, in files of its own.
for parameter in "$root"/opt/node/sysctl/*; do
    mount --bind "$parameter" "$root/proc/sys/$(basename "$parameter" | tr . /)"
done
cd "$root"
pivot_root . .
umount -l .
mount --make-rshared /
cd /
exec sleep infinity

#!/bin/sh
# ganesha.sh PACKAGES CONFIG PID LOG: become nfs-ganesha, in a mount namespace where its packages stand over the machine's
# own programs and configuration, as if they were installed there.
set -eu
packages=$1 config=$2 pid=$3 log=$4
mount -t overlay overlay -o "ro,lowerdir=$packages/usr:/usr" /usr
mount -t overlay overlay -o "ro,lowerdir=$packages/etc:/etc" /etc
mount -t tmpfs -o mode=755 run /run
mkdir -p /run/rpcbind
# Version 3 is served only where a portmapper can be told of it. This one has a network without a single address, and ends
# with us: nobody but us is ever to find it.
setpriv --pdeathsig KILL unshare --net rpcbind -f &
tries=0
until [ -S /run/rpcbind.sock ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 300 ] || { echo "rpcbind does not start" >&2; exit 1; }
    sleep 0.1
done
exec ganesha.nfsd -F -f "$config" -p "$pid" -L "$log"

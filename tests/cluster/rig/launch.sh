#!/bin/sh
# launch.sh PROCS LOG COMMAND...: start a program in the background and print its process id.
# It is in its control group before its first instruction, and is no child of who asked for it.
set -eu
procs=$1 log=$2
shift 2
echo $$ >"$procs"
setsid "$@" >>"$log" 2>&1 </dev/null &
echo $!

#!/bin/bash
# Two pretended nodes on one machine, to try the scripts of this folder: `up`, `on NODE COMMAND`, `down`, as root.
# Needs Debian's slurm-wlm, munge and iproute2.
#
# `login` (slurmctld), `n1` and `n2` (slurmd) are namespaces of Linux: each has its own host name, processes,
# loopback and address on a bridge, and no way out. Files and users are shared, as on a cluster with one file system.
# There are no cgroups and no accounting, and each node claims four cores, whatever the machine has.
set -euo pipefail

folder=${PRETEND_CLUSTER:-/tmp/pretend-cluster}
declare -A address=([login]=10.77.0.1 [n1]=10.77.0.11 [n2]=10.77.0.12)

on() { # NODE COMMAND...
    local pid
    pid=$(cat "$folder/$1.pid")
    nsenter --target "$pid" --net --uts --mount --pid --wdns="$PWD" "${@:2}"
}

start() { # NODE: its namespaces, with a shell as the first process that collects orphans
    # shellcheck disable=SC2016
    unshare --net --uts --mount --pid --fork --mount-proc bash -c 'while :; do sleep 1d & wait; done' &
    pgrep --parent $! >/dev/null || sleep 1
    pgrep --parent $! >"$folder/$1.pid"
    on "$1" hostname "$1"
    on "$1" ip link set lo up
    on "$1" mount --bind "$folder/hosts" /etc/hosts
    on "$1" mount --bind "$folder/slurm" /etc/slurm
    mkdir -p "$folder/$1/ray" /tmp/ray
    on "$1" mount --bind "$folder/$1/ray" /tmp/ray
}

plug() { # NODE: its cable to the bridge of `login`
    ip link add "to-$1" type veth peer name uplink
    ip link set uplink netns "$(cat "$folder/$1.pid")"
    ip link set "to-$1" netns "$(cat "$folder/login.pid")"
    on login ip link set "to-$1" master bridge up
    on "$1" ip address add "${address[$1]}/24" dev uplink
    on "$1" ip link set uplink up
}

up() {
    mkdir -p "$folder"/{slurm,state,n1,n2}
    chmod 755 "$folder"
    { echo "127.0.0.1 localhost"; for node in "${!address[@]}"; do echo "${address[$node]} $node"; done; } >"$folder/hosts"
    cat >"$folder/slurm/slurm.conf" <<-END
	ClusterName=pretended
	SlurmctldHost=login
	SlurmUser=root
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	SlurmdParameters=config_overrides
	SelectType=select/cons_tres
	SelectTypeParameters=CR_Core
	SchedulerParameters=bf_interval=5
	AccountingStorageType=accounting_storage/none
	JobAcctGatherType=jobacct_gather/none
	StateSaveLocation=$folder/state
	SlurmdSpoolDir=$folder/%n/spool
	SlurmctldPidFile=$folder/slurmctld.pid
	SlurmdPidFile=$folder/%n/slurmd.pid
	SlurmctldLogFile=$folder/slurmctld.log
	SlurmdLogFile=$folder/%n/slurmd.log
	ReturnToService=2
	PreemptType=preempt/partition_prio
	PreemptMode=REQUEUE
	NodeName=n[1-2] CPUs=4 RealMemory=4000
	PartitionName=low Nodes=n[1-2] PriorityTier=1 Default=YES
	PartitionName=high Nodes=n[1-2] PriorityTier=10 PreemptMode=OFF
	END
    echo "CgroupPlugin=cgroup/v1" >"$folder/slurm/cgroup.conf" # slurmd 22.05 does not start without one
    for node in login n1 n2; do start "$node"; done
    on login ip link add bridge type bridge
    on login ip address add "${address[login]}/24" dev bridge
    on login ip link set bridge up
    for node in n1 n2; do plug "$node"; done
    install --directory --owner=munge /run/munge
    pgrep -x munged >/dev/null || setpriv --reuid=munge --regid=munge --clear-groups munged
    on login slurmctld
    for node in n1 n2; do on "$node" slurmd; done
    until on login sinfo --noheader --states=idle | grep -q "n\[1-2\]"; do sleep 0.5; done
    on login sinfo --Node --long
}

down() { # the end of a first process ends all others of its namespaces
    for node in n1 n2 login; do kill -KILL "$(cat "$folder/$node.pid")" || true; done
    rm -rf "$folder"
}

"$@"

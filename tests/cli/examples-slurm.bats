#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Goal: the job array of examples/slurm, under a real slurmctld and slurmd on loopback: a job of a
# higher partition preempts a worker, Slurm's SIGTERM is its notice, it comes back from the queue,
# and the training continues with the bits of an undisturbed run.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    PATH=$PATH:/usr/sbin:/sbin
}

teardown() {
    if [ -e slurm.conf ]; then # its processes are slurmd's, not ours to kill
        timeout -s KILL 10 scancel --quiet --partition=spot || true
        timeout -s KILL 10 scancel --quiet --partition=high || true
        eventually '[ -z "$(timeout 10 squeue -h)" ]' || true
    fi
    job_teardown
}

free_port() {
    local port i
    for i in $(seq 50); do
        port=$((20000 + RANDOM % 10000))
        (: <>/dev/tcp/127.0.0.1/$port) 2>/dev/null || break
    done
    echo $port
}

cluster() {
    local tool host
    for tool in slurmctld slurmd sbatch munged; do
        command -v $tool >/dev/null || skip "no $tool (Debian slurmctld, slurmd, slurm-client, munge)"
    done
    [ "$(id -u)" = 0 ] || skip "slurmd needs root"
    host=$(hostname -s)
    mkdir state spool munge
    chmod 755 munge
    (umask 077 && head -c 128 /dev/urandom >munge/key)
    cat >slurm.conf <<END
ClusterName=t
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$PWD/munge/s
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
CommunicationParameters=NoInAddrAny
StateSaveLocation=$PWD/state
SlurmdSpoolDir=$PWD/spool
SlurmctldPidFile=$PWD/state/pid
SlurmdPidFile=$PWD/spool/pid
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
KillWait=5
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=$host NodeAddr=127.0.0.1 CPUs=4
PartitionName=spot Nodes=ALL PriorityTier=1 GraceTime=20 Default=YES PreemptMode=REQUEUE
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
END
    export SLURM_CONF=$PWD/slurm.conf
    background munged -F --force --key-file="$PWD/munge/key" --socket="$PWD/munge/s" --pid-file="$PWD/munge/pid" \
        --log-file="$PWD/munge/log" --seed-file="$PWD/munge/seed" >munged.err 2>&1
    eventually '[ -S munge/s ]'
    background slurmctld -D >slurmctld.err 2>&1
    background slurmd -D -N "$host" >slurmd.err 2>&1
    eventually '[ "$(timeout 10 sinfo -h -p spot -t idle -o %D)" = 1 ]'
}

queue() { # PARTITION STATE: how many elements
    timeout 10 squeue -h -r -p "$1" -t "$2" -o %i | wc -l
}

@test "Slurm preempts a worker for a higher partition; it comes back, the bits are the same (slurm)" {
    cluster
    pace=()
    [ -z "${SPOT_PACE-}" ] || pace=("LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$SPOT_PACE")
    background env SPOT_HOST=127.0.0.1 SPOT_LISTEN=127.0.0.1 SPOT_PORT="$(free_port)" "${pace[@]}" timeout 240 \
        "$BATS_TEST_DIRNAME/../../examples/slurm/submit.sh" --workers 3 "$PWD/d" -- -q --data "$PWD/corpus" $MODEL \
        --global-batch 5 --steps 100000 --lease 20s >coordinator.err 2>&1
    train=$pid
    seen d/events.jsonl joined 3
    more_steps d/events.jsonl

    # three of four processors are taken: two more take one from a worker
    timeout 120 sbatch --partition=high --ntasks=2 --output=high.out --wrap 'sleep 3'
    eventually '[ -e high.out ]'
    seen d/events.jsonl notice 1
    seen d/events.jsonl left 1
    more_steps d/events.jsonl
    eventually '[ "$(queue spot PENDING)" -eq 1 ]'

    # Slurm lets who was requeued wait for two minutes; not here
    requeued=$(timeout 10 squeue -h -r -p spot -t PENDING -o %A)
    timeout 10 scontrol update "JobId=$requeued" StartTime=now
    eventually '[ "$(queue spot RUNNING)" -eq 3 ]'
    seen d/events.jsonl joined 4
    eventually 'grep -q "\"event\":\"joined\".*\"name\":\"node-[123]-1\"" d/events.jsonl'
    more_steps d/events.jsonl
    [ "$(events d/events.jsonl rolled_back)" -eq 0 ]
    stops_right d/events.jsonl

    # who is cancelled stays away, though its worker leaves as it does after a preemption
    timeout 10 scancel --partition=spot
    eventually '[ -z "$(timeout 10 squeue -h)" ]'
    sleep 1
    [ -z "$(timeout 10 squeue -h)" ]
}

@test "scripts for Slurm say how they are used" {
    cd "$BATS_TEST_DIRNAME/../../examples/slurm"
    run -0 ./submit.sh --help
    [[ "$output" == usage:* ]]
    run -2 ./submit.sh
    run -2 ./submit.sh --workers x d -- --steps 3
    for script in worker coordinator exec serve; do
        run -0 ./$script.sbatch --help
        run -2 ./$script.sbatch
    done
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# shellcheck disable=SC1003,SC2001,SC2013,SC2016,SC2034,SC2086,SC2154
# Goal: the manifests of examples/kubernetes are valid, fit together, and the commands in them train
# through a preStop with the bits of an undisturbed run. There is no cluster here.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    manifests=$BATS_TEST_DIRNAME/../../examples/kubernetes
    python3 -c 'import yaml' 2>/dev/null || skip "no yaml (PyPI pyyaml, or kubernetes-validate)"
    python3 -c 'import json, sys, yaml
for name in sys.argv[1:]:
    for document in yaml.safe_load_all(open(name)):
        print(json.dumps(document))' "$manifests"/*.yaml >all
}

teardown() { job_teardown; }

pick() { jq -r "select(.kind == \"$1\" and .metadata.name == \"$2\") | $3" all; }

@test "the manifests are valid (kubernetes-validate)" {
    command -v kubernetes-validate >/dev/null || skip "no kubernetes-validate (PyPI)"
    for manifest in "$manifests"/*.yaml; do
        kubernetes-validate -k 1.30 --strict "$manifest"
    done
    # which could fail
    sed 's/podFailurePolicy/podFailurePolice/' "$manifests/workers.yaml" >bad.yaml
    run ! kubernetes-validate -k 1.30 --strict bad.yaml
}

@test "service, claim, secret, budget and Jobs name each other" {
    service=$(pick Service llm-coordinator .metadata.name):$(pick Service llm-coordinator '.spec.ports[0].port')
    [ "$(pick Job llm-worker '.spec.template.spec.containers[0].env[] | select(.name == "JOIN") | .value')" = "$service" ]
    jq -es '[.[] | select(.kind != "Job") | .spec.selector // empty | .matchLabels // .]
        - [.[] | .spec.template.metadata.labels // empty] == []' all
    for secret in $(jq -rs '[.[] | .spec.template.spec.volumes[]? | .secret.secretName // empty] | unique[]' all); do
        grep -q "secret generic $secret " "$manifests/README.md"
    done
    for app in ddp:Job:node:parallelism:coordinator chat:StatefulSet:worker:replicas:workers; do
        IFS=: read -r name kind role count service <<<"$app"
        [ "$(pick PodDisruptionBudget "$name-$role" .spec.minAvailable)" -lt "$(pick "$kind" "$name-$role" ".spec.$count")" ]
        [ "$(pick "$kind" "$name-$role" '.spec.template.spec.containers[0].env[] | select(.name == "JOIN") | .value')" = \
            "$name-$service:$(pick Service "$name-$service" '.spec.ports[0].port')" ]
        pick "$kind" "$name-$role" '.spec.template.spec.containers[0].lifecycle.preStop.exec.command[2]' | grep -q 'kill -TERM 1'
    done
    [ "$(pick StatefulSet chat-server '.spec.template.spec.containers[0].readinessProbe.httpGet.path')" = /ready ]
    # both sides of a trainer run the same
    jq -es '[.[] | select(.kind == "Job" and .metadata.labels.app == "ddp") | [.spec.template.spec.containers[0].env[] | select(.name == "TRAIN" or .name == "CHECKPOINT") | .value] | sort]
        | length == 2 and .[0] == .[1]' all
    [ "$(pick Job llm-coordinator '.spec.template.spec.volumes[] | .persistentVolumeClaim.claimName // empty')" = \
        "$(pick PersistentVolumeClaim llm .metadata.name)" ]
    [ "$(pick PodDisruptionBudget llm-worker .spec.minAvailable)" -lt "$(pick Job llm-worker .spec.parallelism)" ]
    # no volume is mounted that there is not
    jq -es 'all(.[] | select(.spec.template); [.spec.volumeClaimTemplates[]?.metadata.name] as $claims | .spec.template.spec |
        ([.containers[].volumeMounts[].name] | sort) == ([.volumes[].name] + $claims | sort))' all
    # no option is one that there is not
    jq -r '.spec.template.spec.containers[]?.args[0] // empty' all | tr -d '\\' | tr '\n' ' ' | sed 's/exec spot-run/\n&/g' | grep '^exec spot-run' | while read -r _ tool command rest; do
        for option in $(grep -oE -- '--[a-z-]+ ' <<<"${rest%%umask*}"); do
            grep -q -- "Fl -${option#--}\|Fl ${option#-} \| -${option#--}\b" "$BATS_TEST_DIRNAME/../../docs/man/$tool-$command.1" ||
                "$tool" "$command" "$option" --help >/dev/null || { echo "$command $option"; false; }
        done
    done
}

@test "their commands train; who is stopped by preStop leaves with a status that counts for nothing" {
    coordinator=$(pick Job llm-coordinator '.spec.template.spec.containers[0].args[0]')
    worker=$(pick Job llm-worker '.spec.template.spec.containers[0].args[0]')
    # a smaller model, with the options of this suite
    coordinator=$(sed 's/--layers 12 --width 768 --heads 12 --seq 1024/-q '"$MODEL"' --global-batch 5 --lease 20s/; s/--steps 100000//' <<<"$coordinator")
    openssl rand -hex 32 >key
    chmod 640 key # as a Secret with fsGroup is
    pace=("LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}${SPOT_PACE-}")
    mkdir job
    cp corpus job/text
    pod() { # TMPDIR NAME SCRIPT
        mkdir -p "$1"
        background env TMPDIR="$PWD/$1" KEY="$PWD/key" NAME="$2" NODE="node-$2" JOB="$PWD/job" THREADS=1 LISTEN=127.0.0.1:"$port" \
            JOIN=127.0.0.1:"$port" TRAIN_OPTIONS="--steps 100000" "${pace[@]}" sh -euc "$3" 2>>pods.err
    }
    for _ in $(seq 50); do
        port=$((20000 + RANDOM % 10000))
        (: <>/dev/tcp/127.0.0.1/$port) 2>/dev/null || break
    done
    pod tc c "$coordinator"
    c=$pid
    pod t1 w1 "$worker"
    first=$pid
    pod t2 w2 "$worker"
    second=$pid
    at_step job/events.jsonl 5
    stop=$(pick Job llm-worker '.spec.template.spec.containers[0].lifecycle.preStop.exec.command[2]')
    timeout 60 sh -c "$(sed "s/\([MR0]\) 1;/\1 $first;/g" <<<"$stop")" || true
    wait $first && status=0 || status=$?
    [ $status -eq 75 ]
    for job in llm-worker llm-coordinator; do
        pick Job $job '.spec.podFailurePolicy.rules[] | select(.action == "Ignore") | .onExitCodes.values // empty | .[]' | grep -qx 75
    done
    # the coordinator is moved to another node
    at_step job/events.jsonl 50
    kill -TERM $c
    wait $c && status=0 || status=$?
    [ $status -eq 75 ] || { echo "$status"; cat pods.err; tail -n 3 job/events.jsonl; false; }
    pod tc2 c "$coordinator"
    c=$pid
    more_steps job/events.jsonl
    train=$c
    stops_right job/events.jsonl
    kill -0 $second # waited, and will for ten minutes
}

@test "the commands of a trainer of one's own: preStop is the notice, and the coordinator goes on from its volume" {
    coordinator=$(pick Job ddp-coordinator '.spec.template.spec.containers[0].args[0]')
    node=$(pick Job ddp-node '.spec.template.spec.containers[0].args[0]')
    openssl rand -hex 32 >key
    cat >train <<'END'
#!/bin/sh
n=0
[ ! -e out/checkpoint-1 ] || n=$(cat out/checkpoint-1)
echo "$n" >>"$BEGAN"
trap 'echo "$n" >out/checkpoint-1; exit 0' TERM
mkdir -p out
while [ ! -e "$BEGAN.finish" ]; do
    n=$((n + 1))
    [ $((n % 5)) -ne 0 ] || echo "$n" >out/checkpoint-1
    sleep 0.05
done
END
    chmod +x train
    mkdir job
    for _ in $(seq 50); do
        port=$((20000 + RANDOM % 10000))
        (: <>/dev/tcp/127.0.0.1/$port) 2>/dev/null || break
    done
    pod() { # NAME SCRIPT
        mkdir -p "$1.tmp" "$1.work"
        background env TMPDIR="$PWD/$1.tmp" KEY="$PWD/key" NAME="$1" NODE="on-$1" JOB="$PWD/job" WORK="$PWD/$1.work" LISTEN=127.0.0.1:"$port" BEGAN="$PWD/began" \
            JOIN=127.0.0.1:"$port" CHECKPOINT='out/checkpoint-*' TRAIN="$PWD/train" EXEC_OPTIONS="-q --state-every 0.1s" sh -euc "$2" >>pods.out 2>>pods.err
    }
    pod c "$coordinator"
    c=$pid
    pod a "$node"
    first=$pid
    seen job/events.jsonl durable 2
    stop=$(pick Job ddp-node '.spec.template.spec.containers[0].lifecycle.preStop.exec.command[2]')
    timeout 60 sh -c "$(sed "s/\([MR0]\) 1;/\1 $first;/g" <<<"$stop")" || true
    wait $first && status=0 || status=$?
    [ $status -eq 75 ]
    # all nodes are gone, and then the coordinator is moved
    kill -TERM $c
    wait $c && status=0 || status=$?
    [ $status -eq 75 ]
    pod c "$coordinator"
    c=$pid
    pod b "$node"
    eventually '[ "$(wc -l <began)" -ge 2 ]'
    [ "$(tail -n 1 began)" -gt 0 ]
    : >began.finish
    wait $c
}

@test "what a preemption costs now is written where others read it, for Kubernetes, Slurm and Prometheus" {
    printf '#!/bin/sh\necho "$(basename "$0") $*" >>"%s/said"\n' "$PWD" >kubectl
    cp kubectl scontrol
    chmod +x kubectl scontrol
    (umask 077 && head -c 32 /dev/urandom >key)
    background timeout 100 spot-run exec -q --workers 1 --listen unix:j --key-file key --checkpoint 'ck*' -- sh -c 'echo 1 >ck; while [ ! -e finish ]; do sleep 0.05; done'
    job=$pid
    eventually 'spot-run status --join unix:j --key-file key --format json | grep -q seconds_lost_if_killed_now'
    export PATH=$PWD:$PATH EVERY=0.1
    background "$BATS_TEST_DIRNAME/../../examples/at-risk.sh" unix:j key kubernetes app=ddp
    background "$BATS_TEST_DIRNAME/../../examples/at-risk.sh" unix:j key slurm 7 8
    background "$BATS_TEST_DIRNAME/../../examples/at-risk.sh" unix:j key prometheus at-risk.prom
    eventually 'grep -q "^spot_exec_seconds_lost_if_killed_now [0-9]" at-risk.prom'
    eventually 'grep -q "kubectl annotate pods --overwrite -l app=ddp spot/seconds-lost-if-killed-now=[0-9]" said'
    eventually 'grep -q "scontrol update JobId=8 Comment=seconds_lost_if_killed_now=[0-9]" said'
    : >finish
    wait $job
}

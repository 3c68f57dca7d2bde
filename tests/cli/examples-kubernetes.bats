#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
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
    jq -es '[.[] | select(.kind == "Service" or .kind == "PodDisruptionBudget") | .spec.selector | .matchLabels // .]
        - [.[] | select(.kind == "Job") | .spec.template.metadata.labels] == []' all
    jq -es '[.[] | select(.kind == "Job") | .spec.template.spec.volumes[] | .secret.secretName // empty] | unique == ["llm-key"]' all
    grep -q 'secret generic llm-key ' "$manifests/README.md"
    [ "$(pick Job llm-coordinator '.spec.template.spec.volumes[] | .persistentVolumeClaim.claimName // empty')" = \
        "$(pick PersistentVolumeClaim llm .metadata.name)" ]
    [ "$(pick PodDisruptionBudget llm-worker .spec.minAvailable)" -lt "$(pick Job llm-worker .spec.parallelism)" ]
    # no volume is mounted that there is not
    jq -es 'all(.[] | select(.kind == "Job") | .spec.template.spec; ([.containers[].volumeMounts[].name] | sort) == ([.volumes[].name] | sort))' all
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

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Goal: the commands of examples/clouds for a live fleet keep the contract of spot-run fleet: a token launches once, a list has what
# was asked for, an end of what is gone is no error. Held against a kubectl and a Slurm of this file, which keep what they are told.

bats_require_minimum_version 1.5.0
load eventually
set -o pipefail

teardown() {
    [ ! -s pid ] || kill "$(cat pid)" || true
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    clouds=$BATS_TEST_DIRNAME/../../examples/clouds
    mkdir bin pods jobs
    PATH=$PWD/bin:$PATH
    printf '%s\n' instance_type,zone,spot_usd_per_h,on_demand_usd_per_h gpu,a,1, gpu,b,1, gpu,,,3 >catalogue.csv
    want 2 1
}

held() { # DIRECTORY: how many it has
    find "$1" -type f | wc -l
}

want() { # A B: spot machines in zones a and b
    jq -nc --argjson a "$1" --argjson b "$2" '{schema: "spot.plan/1", kind: "fleet", buy: [
        {zone: "a", instance_type: "gpu", market: "spot", count: $a}, {zone: "b", instance_type: "gpu", market: "spot", count: $b}]}' >plan.json
}

fleet() { # KIND OPTION...: a turn
    local kind=$1
    shift
    [ "$kind" = aws ] || set -- --drain "$clouds/$kind-fleet.sh drain" "$@"
    timeout 120 spot-run fleet --quiet --yes --once --state state --plan-command 'cat plan.json' --catalogue catalogue.csv --launch "$clouds/$kind-fleet.sh launch" \
        --terminate "$clouds/$kind-fleet.sh terminate" --list "$clouds/$kind-fleet.sh list" "$@"
}

kubectl_of_this_file() {
    cat >bin/kubectl <<'K'
#!/bin/bash
[ "$1" != --namespace ] || shift 2
case "$*" in
'create --dry-run=client -o json -f '*) cat "${@: -1}" ;;
'create -f -')
    new=$(mktemp pods.XXXXXX)
    cat >"$new"
    id=$(jq -r .metadata.name "$new")
    echo "$id" >>created
    [ ! -e "pods/$id" ] || { echo AlreadyExists >&2; exit 1; }
    [ ! -e die ] || { rm -f die; mv "$new" "pods/$id"; exit 1; }
    jq '.status.phase = "Running"' "$new" >"pods/$id"
    ;;
'get pods -l spot-fleet='*)
    find pods -type f -exec cat {} + | jq -s --arg of "${4#*=}" '{items: map(select(.metadata.labels["spot-fleet"] == $of))}' ;;
'get pod '*) [ ! -e "pods/$3" ] || echo "pod/$3" ;;
'delete pod '*) rm -f "pods/$3" ;;
*) echo "kubectl: $*" >&2; exit 9 ;;
esac
K
    chmod +x bin/kubectl
    export FLEET_POD=$PWD/pod.json
    echo '{"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": "llm"}}, "spec": {"containers": [{"name": "spot", "image": "i"}]}}' >pod.json
}

@test "kubernetes: pods on the pools of the plan, once each, also where a launch dies in the middle" {
    kubectl_of_this_file
    touch die # after the first pod was made
    fleet kubernetes
    [ "$(held pods)" -le 3 ]
    for pod in pods/*; do jq '.status.phase = "Running"' "$pod" >pod.new && mv pod.new "$pod"; done
    for _ in 1 2; do SPOT_SKEW_S=86400 LD_PRELOAD=$(dirname "$(command -v spot-run)")/../tests/skew.so fleet kubernetes; done
    [ "$(sort created | uniq -d | wc -l)" -eq 0 ]
    jq -s -e 'length == 3 and (map(.spec.nodeSelector["topology.kubernetes.io/zone"]) | sort == ["a", "a", "b"]) and
        all(.[]; .spec.nodeSelector["cloud.google.com/gke-spot"] == "true" and .spec.nodeSelector["node.kubernetes.io/instance-type"] == "gpu" and
            .metadata.labels == {app: "llm", "spot-fleet": "fleet"} and .spec.restartPolicy == "Never")' pods/*
    want 1 0
    for _ in 1 2 3; do fleet kubernetes; done
    [ "$(held pods)" -eq 1 ]
    SPOT_ID=gone "$clouds/kubernetes-fleet.sh" terminate
}

slurm_of_this_file() {
    # jobs/ID_ELEMENT has what squeue is asked for
    cat >bin/sbatch <<'S'
#!/bin/bash
n=1 comment='' name=''
for word; do
    case $word in
    --job-name=*) name=${word#*=} ;;
    --array=1-*) n=${word##*-} ;;
    --comment=*) comment=${word#*=} ;;
    --partition=* | --parsable | --constraint=*) ;;
    -*) exit 9 ;;
    esac
done
exec 9>>submitting # two launches at one time are two jobs
flock 9
echo "$*" >>submitted
id=$(($(wc -l <submitted) + 100))
for ((i = 1; i <= n; i++)); do echo "${id}_$i;$name;$comment;${SLURM_STATE:-RUNNING}" >"jobs/${id}_$i"; done
echo "$id"
S
    cat >bin/squeue <<'S'
#!/bin/bash
for word; do
    case $word in
    --name=*) name=${word#*=} ;;
    --jobs=*) job=${word#*=} ;;
    esac
done
cat jobs/* 2>/dev/null | awk -F ';' -v name="${name-}" -v job="${job-}" '(name == "" || $2 == name) && (job == "" || $1 == job)'
S
    cat >bin/scancel <<'S'
#!/bin/bash
case $1 in --signal=*) exit 0 ;; esac
[ -e "jobs/${@: -1}" ] || { echo 'Invalid job id specified' >&2; exit 1; }
rm "jobs/${@: -1}"
S
    chmod +x bin/*
    export FLEET_SCRIPT='worker.sbatch /shared'
}

@test "slurm: one array job for a launch, asked for again it is found by its name" {
    slurm_of_this_file
    fleet slurm --launch "$clouds/slurm-fleet.sh launch; exit 1" # submitted, and its end is not known
    [ "$(wc -l <submitted)" -eq 2 ]
    for _ in 1 2; do SPOT_SKEW_S=86400 LD_PRELOAD=$(dirname "$(command -v spot-run)")/../tests/skew.so fleet slurm; done
    [ "$(wc -l <submitted)" -eq 2 ]
    cut -d ';' -f 3 jobs/* | sort | uniq -c | awk '{ print $1, $2 }' | cmp - <(printf '%s\n' '2 a|gpu|spot' '1 b|gpu|spot')
    grep -q -- '--partition=spot worker.sbatch /shared$' submitted
    rm jobs/102_1 # taken away
    for _ in 1 2; do fleet slurm; done
    [ "$(held jobs)" -eq 3 ]
    want 0 0
    for _ in 1 2 3; do fleet slurm; done
    [ "$(held jobs)" -eq 0 ]
    SPOT_ID=5_1 "$clouds/slurm-fleet.sh" terminate # gone already
    FLEET_FEATURES=yes SPOT_TOKEN=fleet-1-1 SPOT_N=1 SPOT_ZONE=a SPOT_TYPE=gpu SPOT_MARKET=on-demand "$clouds/slurm-fleet.sh" launch
    tail -n 1 submitted | grep -qF -- '--partition=normal --constraint=gpu&a'
}

@test "aws: what the plan says, once a token, replaced when it is taken, against moto by the real aws" {
    for tool in aws moto_server; do
        "$tool" --version >/dev/null 2>&1 || "$tool" --help >/dev/null 2>&1 || skip "no $tool (PyPI awscli, moto[server])"
    done
    export AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=s AWS_DEFAULT_REGION=us-east-1 AWS_PAGER="" AWS_CONFIG_FILE=none AWS_SHARED_CREDENTIALS_FILE=none \
        AWS_EC2_METADATA_DISABLED=true MOTO_EC2_LOAD_DEFAULT_AMIS=true
    unset AWS_PROFILE
    moto_server -H 127.0.0.1 -p 0 >moto 2>&1 3>&- &
    echo $! >pid
    eventually 'grep -q "Running on http" moto'
    AWS_ENDPOINT_URL=$(sed -n 's/.*Running on \(http:[^ ]*\).*/\1/p' moto)
    export AWS_ENDPOINT_URL
    FLEET_IMAGE=$(aws ec2 describe-images --query 'Images[0].ImageId' --output text)
    export FLEET_IMAGE
    printf '%s\n' instance_type,zone,spot_usd_per_h,on_demand_usd_per_h m5.large,us-east-1a,1, m5.large,us-east-1b,1, >catalogue.csv
    want 1 1 # of a count 1:N moto gives one
    jq -c '.buy |= map(.instance_type = "m5.large" | .zone = "us-east-1" + .zone)' plan.json >plan.next && mv plan.next plan.json
    running() { aws ec2 describe-instances --filters Name=instance-state-name,Values=pending,running --output json | jq -r '.Reservations[].Instances[].InstanceId'; }
    fleet aws --launch "$clouds/aws-fleet.sh launch; exit 1" # made, and its end is not known
    SPOT_FLEET=fleet "$clouds/aws-fleet.sh" list >there
    [ "$(grep -c '"m5.large","spot","running"' there)" -eq 2 ]
    for _ in 1 2; do fleet aws; done
    [ "$(running | wc -l)" -eq 2 ]
    aws ec2 terminate-instances --instance-ids "$(running | head -n 1)" >/dev/null
    fleet aws
    [ "$(running | wc -l)" -eq 2 ]
    jq -c '.buy = []' plan.json >plan.next && mv plan.next plan.json
    for _ in 1 2; do fleet aws; done
    [ "$(running | wc -l)" -eq 0 ]
    SPOT_ID=i-0123456789abcdef0 "$clouds/aws-fleet.sh" terminate # never was
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Goal: the launchers of examples/clouds start what a plan says and does not run, once; they touch
# nothing without --apply and refuse what is no such plan, or too old. The one for AWS is held
# against moto's EC2 by the real aws; the other two print, and their text is compared.

bats_require_minimum_version 1.5.0
load eventually
set -o pipefail # what feeds jq -e must succeed, too

setup() {
    T=$BATS_TEST_TMPDIR
    clouds=$BATS_TEST_DIRNAME/../../examples/clouds
    cat >"$T/plan" <<'END'
{"schema": "spot.plan/1", "kind": "fleet", "buy": [
    {"zone": "us-east-1a", "instance_type": "m5.large", "market": "spot", "count": 2},
    {"zone": "", "instance_type": "c5.large", "market": "on-demand", "count": 1},
    {"zone": "us-east-1a", "instance_type": "m5.large", "market": "spot", "count": 1}]}
END
}

teardown() {
    [ ! -s "$T/pid" ] || kill "$(cat "$T/pid")" || true
}

# moto's EC2 at $endpoint
ec2() {
    local tool
    for tool in aws moto_server; do
        "$tool" --version >/dev/null 2>&1 || "$tool" --help >/dev/null 2>&1 || skip "no $tool (PyPI awscli, moto[server])"
    done
    export AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=s AWS_DEFAULT_REGION=us-east-1 AWS_PAGER= \
        AWS_CONFIG_FILE="$T/none" AWS_SHARED_CREDENTIALS_FILE="$T/none" AWS_EC2_METADATA_DISABLED=true \
        MOTO_EC2_LOAD_DEFAULT_AMIS=true
    unset AWS_PROFILE
    moto_server -H 127.0.0.1 -p 0 >"$T/moto" 2>&1 3>&- &
    echo $! >"$T/pid"
    local i
    for i in $(seq 600); do
        endpoint=$(sed -n 's/.*Running on \(http:[^ ]*\).*/\1/p' "$T/moto")
        [ -z "$endpoint" ] || break
        sleep 0.1
    done
    [ -n "$endpoint" ] || { cat "$T/moto"; false; }
    ami=$(asked describe-images --query 'Images[0].ImageId' --output text)
}

asked() { aws --endpoint-url "$endpoint" ec2 "$@"; }

launch() { timeout -s KILL 120 "$clouds/aws-launch.sh" --job llm --image "$ami" --endpoint-url "$endpoint" "$@" </dev/null; }

# how many run, by type and lifecycle
fleet() {
    asked describe-instances --filters Name=instance-state-name,Values=pending,running --output json |
        jq -c '[.Reservations[].Instances[] | "\(.InstanceType) \(.InstanceLifecycle // "on-demand") \(.Placement.AvailabilityZone)"]
            | group_by(.) | map({(.[0]): length}) | add // {}'
}

@test "aws: nothing without --apply, then what the plan says, then nothing more (aws, moto)" {
    ec2
    run -0 launch "$T/plan"
    [ "$(grep -c '^would start ' <<<"$output")" -eq 2 ]
    [[ "$output" == *'would start 3 of m5.large in us-east-1a, spot: aws '*'MarketType=spot'* ]]
    [ "$(fleet)" = '{}' ]

    run -0 launch --apply "$T/plan"
    [ "$(grep -o ' i-[0-9a-f]*' <<<"$output" | sort -u | wc -l)" -eq 4 ]
    fleet | jq -e '.["m5.large spot us-east-1a"] == 3 and (. | add) == 4'

    run -0 launch --apply "$T/plan"
    [ "$(grep -c '^holds ' <<<"$output")" -eq 2 ]
    [ "${#lines[@]}" -eq 2 ]
    fleet | jq -e 'add == 4'
}

# tier: world
@test "aws: what was taken away is replaced, what is beyond the plan ends on demand alone (aws, moto)" {
    ec2
    launch --apply "$T/plan"
    victim=$(asked describe-instances --filters Name=instance-type,Values=m5.large \
        --query 'Reservations[0].Instances[0].InstanceId' --output text)
    asked terminate-instances --instance-ids "$victim"
    # of another job, and not ours to count or to end
    asked run-instances --image-id "$ami" --instance-type m5.large \
        --tag-specifications 'ResourceType=instance,Tags=[{Key=spot-job,Value=other}]'
    run -0 launch --apply "$T/plan"
    [[ "$output" == *'started 1 of 1 of m5.large in us-east-1a, spot: i-'* ]]
    fleet | jq -e 'add == 5'

    jq '.buy |= [.[0]] | .buy[0].count = 1' "$T/plan" >"$T/less"
    run -0 launch --apply "$T/less"
    [ "$(grep -c '^beyond the plan: i-' <<<"$output")" -eq 3 ]
    fleet | jq -e 'add == 5'
    run -0 launch --apply --terminate "$T/less"
    [ "$(grep -c '^ended i-' <<<"$output")" -eq 3 ]
    fleet | jq -e 'add == 2 and .["m5.large spot us-east-1a"] == 1'
    asked describe-instances --filters Name=tag:spot-job,Values=other Name=instance-state-name,Values=running \
        --query 'length(Reservations)' | grep -x 1
}

# tier: world
@test "aws: what cannot be had is told, the rest is started, and the status is 1 (aws, moto)" {
    ec2
    jq '.buy[0].zone = "us-east-1z"' "$T/plan" >"$T/odd"
    run -1 launch --apply "$T/odd"
    [[ "$output" == *'could not start 2 of m5.large in us-east-1z, spot: '* ]]
    [ "$(grep -c '^started ' <<<"$output")" -eq 2 ]
    run -4 env endpoint= bash -c "'$clouds/aws-launch.sh' --job llm --image a --endpoint-url http://127.0.0.1:1 '$T/plan'"
}

@test "gcloud: the commands of what is missing, words quoted; a list of what runs is what counts" {
    echo '[]' >"$T/none"
    g() { "$clouds/gcloud-launch.sh" --job llm --zone us-east1-b "$@"; }
    sed -i 's/us-east-1a/us-central1-a/; s/m5.large/g2-standard-4/' "$T/plan"
    sed -i 's/c5.large/n2-standard-8/' "$T/plan"
    run -0 g --running "$T/none" --startup-script 'my worker.sh' "$T/plan"
    grep -qFx 'gcloud compute instances create llm-4 --zone=us-east1-b --machine-type=n2-standard-8 --labels=spot-job=llm\,spot-market=on-demand --metadata-from-file=startup-script=my\ worker.sh' <<<"$output"
    grep -qF -- '--machine-type=g2-standard-4 --labels=spot-job=llm\,spot-market=spot --provisioning-model=SPOT --instance-termination-action=DELETE' <<<"$output"
    [ "$(grep -c '^gcloud .* create ' <<<"$output")" -eq 4 ]
    [ "$(grep -o 'llm-[0-9]' <<<"$output" | sort -u | wc -l)" -eq 4 ]

    # the printed lines are words of a shell, and what they made is not made again
    gcloud() { # compute instances create NAME --zone= --machine-type= --labels= ...
        jq -n '$ARGS.positional as $a | def o($k): [$a[] | select(startswith("--\($k)=")) | ltrimstr("--\($k)=")][0];
            {name: $a[3], status: "RUNNING", creationTimestamp: "2026-01-01",
             zone: "https://www.googleapis.com/compute/v1/projects/p/zones/\(o("zone"))",
             machineType: "https://www.googleapis.com/compute/v1/projects/p/zones/z/machineTypes/\(o("machine-type"))",
             scheduling: {provisioningModel: (o("provisioning-model") // "STANDARD")},
             labels: (o("labels") | split(",") | map(split("=") | {(.[0]): .[1]}) | add)}' --args -- "$@"
    }
    eval "$output" | jq -s . >"$T/run"
    run -0 g --running "$T/run" "$T/plan"
    [ "$(grep -vc '^#' <<<"$output")" -eq 0 ]

    # one was preempted: its name is still taken, the next free one replaces it
    jq '(.[] | select(.scheduling.provisioningModel == "SPOT")) |= . | .[0].status = "TERMINATED"' "$T/run" >"$T/lost"
    run -0 g --running "$T/lost" "$T/plan"
    [ "$(grep -c '^gcloud .* create llm-5 ' <<<"$output")" -eq 1 ]
    [ "$(grep -vc '^#' <<<"$output")" -eq 1 ]
    jq '.buy |= [.[1]]' "$T/plan" >"$T/less"
    run -0 g --running "$T/run" "$T/less"
    [ "$(grep -c '^# beyond the plan: ' <<<"$output")" -eq 3 ]
    run -0 g --running "$T/run" --terminate "$T/less"
    [ "$(grep -c '^gcloud compute instances delete llm-[0-9] --zone=us-central1-a --quiet$' <<<"$output")" -eq 3 ]
    run -2 "$clouds/gcloud-launch.sh" --job llm --running "$T/none" "$T/plan"
}

@test "az: the commands of what is missing, words quoted; a list of what runs is what counts" {
    echo '[]' >"$T/none"
    a() { "$clouds/az-launch.sh" --job llm --resource-group 'my group' --image Debian:debian-12:12-gen2:latest --location eastus "$@"; }
    sed -i 's/us-east-1a/eastus-2/; s/m5.large/Standard_NC4as_T4_v3/; s/c5.large/Standard_D4s_v5/' "$T/plan"
    run -0 a --running "$T/none" "$T/plan"
    [ "$(grep -c '^az vm create --resource-group my\\ group ' <<<"$output")" -eq 4 ]
    grep -qF -- '--size Standard_NC4as_T4_v3 --image Debian:debian-12:12-gen2:latest --tags spot-job=llm spot-type=Standard_NC4as_T4_v3 spot-zone=eastus-2 spot-market=spot --no-wait --location eastus --zone 2 --priority Spot --eviction-policy Delete --max-price -1' <<<"$output"
    [ "$(grep -c -- '--priority Spot' <<<"$output")" -eq 3 ]
    ! grep Standard_D4s_v5 <<<"$output" | grep -e '--zone' || false
    az() { # vm create --resource-group G --name N ... --tags a=b c=d --no-wait
        jq -n '$ARGS.positional as $a | {name: $a[($a | index("--name")) + 1], powerState: "VM running", timeCreated: "2026",
            tags: ([$a[] | select(test("^spot-[a-z]+=")) | split("=") | {(.[0]): .[1]}] | add)}' --args -- "$@"
    }
    eval "$output" | jq -s . >"$T/run"
    run -0 a --running "$T/run" "$T/plan"
    [ "$(grep -vc '^#' <<<"$output")" -eq 0 ]
    jq '.[0].powerState = "VM deallocated"' "$T/run" >"$T/lost"
    run -0 a --running "$T/lost" "$T/plan"
    [ "$(grep -vc '^#' <<<"$output")" -eq 1 ]
    grep -q -- '--name llm-5 ' <<<"$output"
    jq '.buy = []' "$T/plan" >"$T/less"
    run -0 a --running "$T/run" --terminate "$T/less"
    [ "$(grep -c '^az vm delete --resource-group my\\ group --name llm-[1-4] --yes --no-wait$' <<<"$output")" -eq 4 ]
}

@test "a plan that is old, of another kind, or no plan is refused before anything is asked" {
    echo '[]' >"$T/none"
    mkdir "$T/bin"
    printf '#!/bin/sh\ntouch %s/asked\n' "$T" >"$T/bin/aws"
    chmod +x "$T/bin/aws"
    for script in "aws-launch.sh --image a --apply" "gcloud-launch.sh --zone z --running $T/none" \
        "az-launch.sh --resource-group g --image i --running $T/none"; do
        refused() { # STATUS TEXT PLAN
            run -"$1" --separate-stderr env PATH="$T/bin:$PATH" bash -c "'$clouds'/$script --job llm ${4-} '$3'"
            [[ "$stderr" == *"$2"* ]] || { echo "$script: $stderr"; false; }
            [ -z "$output" ]
            [ ! -e "$T/asked" ]
        }
        cp "$T/plan" "$T/old"
        touch -d '20 minutes ago' "$T/old"
        refused 3 'minutes old, more than 15m' "$T/old"
        refused 2 "expected a duration as 15m, got 'x'" "$T/plan" --max-age=x
        echo '{"schema": "spot.plan/1", "next": {"D": 1, "P": 1}}' >"$T/bad"
        refused 3 'expected a plan of kind fleet, got "train"' "$T/bad"
        echo '{"schema": "spot.plan/2", "kind": "fleet"}' >"$T/bad"
        refused 3 'expected a document spot.plan/1' "$T/bad"
        echo 'no json' >"$T/bad"
        refused 3 'expected a document spot.plan/1' "$T/bad"
        jq '.buy[1].instance_type = "m5; rm -rf /"' "$T/plan" >"$T/bad"
        refused 3 '/buy/1/instance_type' "$T/bad"
        jq '.buy[0].zone = "$(id)"' "$T/plan" >"$T/bad"
        refused 3 '/buy/0/zone' "$T/bad"
        jq '.buy[2].count = -1' "$T/plan" >"$T/bad"
        refused 3 '/buy/2/count' "$T/bad"
        jq '.buy[2].market = "free"' "$T/plan" >"$T/bad"
        refused 3 '/buy/2/market' "$T/bad"
        refused 2 "--job: expected" "$T/plan" "--job 'a b'"
        refused 2 "unknown option" "$T/plan" --aply
        run -0 bash -c "'$clouds'/${script%% *} --help"
        [[ "$output" == usage:* ]]
    done
    # what a real fleet plan looks like is what they take, from a pipe of any age
    spot-plan fleet --kind serve --catalogue "$clouds/../fleet/melange.csv" --load "$clouds/../fleet/melange.json" |
        "$clouds/az-launch.sh" --job llm --resource-group g --image i --running "$T/none" - | grep -- '--size A10G '
}

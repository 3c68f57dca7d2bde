#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Warm spares: who has no place mirrors what few hold, so that a kill moves nothing; the bits are those of the
# undisturbed job.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() { job_setup; }
teardown() { job_teardown; }

status() { spot-run status --join unix:j --format json; }

# warm HOW-MUCH NAME...: these members mirror that share of the state
warm() {
    local share=$1 name
    shift
    for name; do
        eventually "status | jq -e '.members[] | select(.name == \"$name\").warm | . != null and . $share' >/dev/null"
    done
}


join_all() { # NAME...: in this order
    local name n
    n=$(events log joined)
    for name; do
        worker "$name"
        printf -v "id_$name" %s "$pid"
        n=$((n + 1))
        seen log joined $n
    done
}

# Bytes that epochs waited for from the first loss on
moved_since_loss() { jq -s '(map(.event == "lost") | index(true)) as $i | .[$i:] | map(select(.event == "migrate") | .moved_byte + (.restored_byte // 0)) | add' log; }

kill_one() { # NAME: of the grid
    local id=id_$1
    train log --steps 1000000 --grid 2x2 --durable-every 1h
    join_all a b c d s
    warm '== 1' s
    more_steps log
    kill -9 ${!id}
    seen log lost 1
    more_steps log
    eventually 'grep formed log | tail -n 1 | jq -e ".place | index(\"s\") != null" >/dev/null'
    [ "$(moved_since_loss)" -eq 0 ]
    [ "$(events log rolled_back)" = 0 ]
    stops_right log
}

@test "a kill of the first of 2x2 moves nothing with one spare that is warm" { kill_one a; }
@test "nor does a kill of the second" { kill_one b; }
@test "nor of the third" { kill_one c; }
@test "nor of the last" { kill_one d; }

placed() { # NAME DOMAIN
    background spot-run worker -q --join unix:j --join-timeout 60s --name "$1" --domain "$2" 2>>workers.err
    seen log joined "$3"
}

@test "a spare that came before the buddy gets warm, and that is all: no epoch after epoch" {
    train log --steps 1000000 --grid 1x1 --durable-every 1h
    placed x z1 1
    placed c z1 2
    placed b z2 3
    warm '== 1' c
    local n
    n=$(events log formed)
    for _ in 1 2 3; do more_steps log; done
    [ "$(events log formed)" -eq "$n" ]
    status | jq -e '[.members[] | select(.name == "c").mirrors] == [[0]]'
    stops_right log
}

@test "two spares mirror different stages, a third what they do" {
    train log --steps 1000000 --grid 2x2 --layers 4 --durable-every 1h
    join_all a b c d s t
    warm '> 0.2' s t
    status | jq -e '[.members[] | select(.warm != null).warm] | add > 0.999 and add < 1.001'
    status | jq -e '[.members[] | select(.warm != null).mirrors] | sort == [[0], [1]]'
    spot-run status --join unix:j --format table >table
    grep -qE "warm [0-9]+ %: [01]" table
    join_all u
    warm '> 0.2' s t u
    kill -9 $id_a $id_d
    seen log lost 2
    more_steps log
    [ "$(moved_since_loss)" -eq 0 ]
    stops_right log --layers 4
}

@test "both replicas of a stage are killed at once: the spare has it, nothing is rolled back" {
    train log --steps 1000000 --grid 2x2 --durable-every 1h
    join_all a b c d s
    warm '== 1' s
    more_steps log
    place=$(grep formed log | tail -n 1 | jq -r '.place | .[1], .[3]')
    for name in $place; do
        id=id_$name
        kill -9 ${!id}
    done
    seen log lost 2
    more_steps log
    [ "$(events log rolled_back)" = 0 ]
    stops_right log
}

@test "a spare that is killed while it is warmed, or leaves, costs no step that was committed" {
    train log --steps 1000000 --grid 1x2 --layers 30 --durable-every 1h
    join_all a b s
    eventually 'status | jq -e ".members[] | select(.name == \"s\").warm | . != null and . > 0" >/dev/null'
    kill -9 $id_s
    seen log lost 1
    join_all t
    warm '> 0.4' t
    kill -TERM $id_t
    seen log notice 1
    more_steps log
    [ "$(events log rolled_back)" = 0 ]
    stops_right log --layers 30
}

@test "without buddies nothing is mirrored" {
    SPOT_TEST_BUDDIES=0 train log --steps 1000000 --grid 2x2 --durable-every 1h
    join_all a b c d s
    more_steps log
    more_steps log
    status | jq -e '[.members[] | select(.name == "s").warm] == [0]'
    stops_right log
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run train --store: one of several coordinators leads by a real etcd of three members; whatever dies
# or freezes, the bits are those of an undisturbed run.

# shellcheck disable=SC2016,SC2034,SC2086,SC2154,SC2030,SC2031 # sh evaluates; words; background sets $pid, etcd_up $store

bats_require_minimum_version 1.5.0
load job
load etcd
set -o pipefail # what feeds jq -e must succeed, too

setup() { job_setup; }
teardown() { job_teardown; }

# coordinator NAME EVENTS STATE ARGUMENTS...: what it says is in NAME.err; each line of its log takes a moment
coordinator() {
    local name=$1 log=$2 st=$3
    shift 3
    background env SPOT_TEST_STORE_LEASE_S=5 ${SPOT_PACE:+"LD_PRELOAD=$SPOT_PACE"} spot-run train --data corpus $MODEL --global-batch 5 --store "$store" \
        --lease 20s --listen "unix:$name" --events "$log" --state "$st" "$@" 2>>"$name.err"
}

# by_store NAME: a worker that finds whoever leads
by_store() {
    background spot-run worker -q --join "$store" --join-timeout 60s --name "$1" 2>>workers.err
}

says() { eventually "grep -q '$2' $1.err"; }

# steps_equal STEPS LOG...: the logs together have each step with the bits of an undisturbed run, however often
steps_equal() {
    local steps=$1
    shift
    undisturbed "$steps" | sed '$d' >want
    jq -rn '[inputs | select(.event == "committed") | [.step, .loss_hex]] | unique | .[][1]' "$@" >got
    cmp want got
}

ends_with() { # STATUS PID
    local status=0
    wait "$2" || status=$?
    [ "$status" -eq "$1" ] || { echo "ended with $status, not $1" >&2; return 1; }
}

@test "etcd: a standby takes over from a leader that is killed, and no commit is lost" {
    etcd_up
    coordinator a log st --steps 300
    a=$pid
    by_store w1
    by_store w2
    at_step log 20
    coordinator b log st --steps 300
    b=$pid
    says b "standing by"
    [ "$(spot-run status --join "$store" --join-timeout 60s | jq .steps)" = 300 ]
    at_step log 40
    kill -9 $a
    ends_with 0 $b
    grep -q '"event":"resumed"' log
    same_as log 300
    [ "$(stored log | jq -r .end)" = 'done' ]
    # who comes late is told that it is done, as it was
    coordinator c late late --steps 300
    ends_with 0 $pid
    tail -n 1 b.err >want
    tail -n 1 c.err | cmp - want
    [ ! -e late ]
}

# tier: world
@test "etcd: a leader that freezes for longer than its lease commits nothing any more" {
    etcd_up
    coordinator a log.a st.a --steps 300 --lease 2s # for which its workers believe it
    a=$pid
    by_store w1
    by_store w2
    says a "listening at"
    coordinator b log.b st.b --steps 300
    b=$pid
    at_step log.a 20
    says b "standing by"
    kill -STOP $a
    seen log.b resumed 1
    kill -CONT $a
    ends_with 75 $a
    # it may write a last line, which it had put into the store before; nothing that its successor does not know
    jq -en '[inputs | select(.event == "committed").step] | max <= $at' \
        --argjson at "$(jq 'select(.event == "resumed").step' log.b)" log.a
    says a "another coordinator leads the job now"
    ends_with 0 $b
    steps_equal 300 log.a log.b
}

# tier: world
@test "etcd: it loses its leader, its quorum, its past and its space: the job pauses at most" {
    etcd_up --quota-backend-bytes $((4 << 20))
    coordinator a log st --steps 100000
    train=$pid
    by_store w1
    by_store w2
    at_step log 10
    i=$(etcd_leads)
    kill -9 ${etcd_pid[$i]}
    more_steps log
    member $i --quota-backend-bytes $((4 << 20))
    eventually healthy
    asked 0 /v3/kv/compaction "{\"revision\":$(asked 0 /v3/kv/range "{\"key\":\"$(key x)\"}" | jq .header.revision),\"physical\":true}" >/dev/null
    more_steps log

    kill -STOP ${etcd_pid[1]} ${etcd_pid[2]}
    says a "the job pauses"
    n=$(events log committed)
    kill -CONT ${etcd_pid[1]} ${etcd_pid[2]}
    more_steps log

    : >a.err
    head -c 400000 /dev/zero | base64 -w0 >fill
    for k in $(seq 1 40); do
        printf '{"key":"%s","value":"%s"}' "$(key "fill$k")" "$(cat fill)" >put
        asked 0 /v3/kv/put @put >/dev/null || break
    done
    says a "the job pauses" # for want of space, or of an answer in time before that
    asked 0 /v3/maintenance/alarm '{"action":"GET","alarm":"NOSPACE"}' | jq -e '.alarms | length > 0'
    asked 0 /v3/kv/deleterange "{\"key\":\"$(key fill)\",\"range_end\":\"$(key film)\"}" >/dev/null
    asked 0 /v3/kv/compaction "{\"revision\":$(asked 0 /v3/kv/range "{\"key\":\"$(key x)\"}" | jq .header.revision),\"physical\":true}" >/dev/null
    for k in 0 1 2; do asked $k /v3/maintenance/defragment '{}' >/dev/null; done
    for k in $(asked 0 /v3/maintenance/alarm '{"action":"GET","alarm":"NOSPACE"}' | jq -r '.alarms[].memberID'); do
        asked 0 /v3/maintenance/alarm "{\"action\":\"DEACTIVATE\",\"memberID\":\"$k\",\"alarm\":\"NOSPACE\"}" >/dev/null
    done
    says a "the job continues"
    more_steps log
    stops_right log
}

# tier: world
@test "etcd: without a quorum a leader that is told to stop does, and nobody else leads" {
    etcd_up
    coordinator a log.a st --steps 100000
    train=$pid
    by_store w1
    at_step log.a 10
    kill -STOP ${etcd_pid[1]} ${etcd_pid[2]}
    coordinator b log.b st.b --steps 100000
    b=$pid
    says a "the job pauses"
    says b "no coordinator leads yet"
    kill -TERM $train
    ends_with 75 $train
    kill -TERM $b
    ends_with 75 $b
    [ ! -e log.b ]
    kill -CONT ${etcd_pid[1]} ${etcd_pid[2]}
}

# tier: world
@test "etcd: a leader that is told to leave hands over at once, state and log with it" {
    etcd_up
    coordinator a log st --steps 100000
    a=$pid
    says a "listening at"
    by_store w1
    by_store w2
    for i in 1 2 3; do
        coordinator b$i log st --steps 100000
        says b$i "standing by"
        more_steps log
        next=$pid
        kill -TERM $a
        ends_with 75 $a
        a=$next
        seen log resumed $i
        more_steps log
    done
    train=$a
    stops_right log
}

# tier: world
@test "etcd: a job is stopped through its store, for all coordinators, and goes on with --resume" {
    etcd_up
    coordinator a log st --steps 300
    a=$pid
    says a "listening at"
    coordinator b log st --steps 300
    b=$pid
    by_store w1
    at_step log 20
    says b "standing by"
    spot-run stop -q --join "$store" --join-timeout 60s
    ends_with 75 $a
    ends_with 1 $b
    says b "the job was stopped at step"
    by_store w2
    coordinator c log st --steps 300 --resume
    ends_with 0 $pid
    same_as log 300
}

# tier: world
@test "etcd: exec: a standby takes over the nodes of a leader that is killed, and a late one is told the end" {
    etcd_up
    exec_job() { # NAME
        SPOT_TEST_STORE_LEASE_S=2 background spot-run exec --store "$store" --lease 20s --listen "unix:$1" --events "$1.log" \
            -- sh -c 'echo $RANK >>begun; while [ ! -e finish ]; do sleep 0.02; done' 2>>"$1.err"
    }
    exec_node() { # NAME
        background spot-run exec --join "$store" --join-timeout 60s --name "$1" \
            -- sh -c 'echo $RANK >>begun; while [ ! -e finish ]; do sleep 0.02; done' >"$1.out" 2>>"$1.err"
    }
    exec_job a
    a=$pid
    says a "nodes join at"
    exec_job b
    b=$pid
    says b "standing by"
    exec_node n1
    n1=$pid
    exec_node n2
    n2=$pid
    eventually "grep -q 1 begun"
    kill -9 $a
    seen b.log joined 2
    seen b.log formed 1
    touch finish
    for id in $b $n1 $n2; do ends_with 0 $id; done
    seen b.log finished 1
    [ "$(stored log | jq -r .end)" = finished ]
    exec_job c
    ends_with 0 $pid
    [ ! -e c.log ]
    refuses 2 "the prefix belongs to another job" exec --store "$store" --listen unix:x -- true
}

# tier: world
@test "etcd: TLS with certificates of both sides and a password; wrong ones are refused" {
    certificate server ca
    certificate client ca
    certificate stranger other
    etcd_scheme=https etcd_curl=(--cacert ca.pem --cert client.pem --key client.key)
    secured=(--cert-file server.pem --key-file server.key --client-cert-auth --trusted-ca-file ca.pem --bcrypt-cost 4)
    etcd_up "${secured[@]}"
    for rule in 'user/add {"name":"root","password":"r"}' 'role/add {"name":"root"}' 'user/grant {"user":"root","role":"root"}' \
        'user/add {"name":"me","password":"a \"b:c"}' 'role/add {"name":"spot"}' 'user/grant {"user":"me","role":"spot"}' \
        'role/grant {"name":"spot","perm":{"permType":"READWRITE","key":"'"$(key spot/)"'","range_end":"'"$(key spot0)"'"}}' 'enable {}'; do
        asked 0 "/v3/auth/${rule%% *}" "${rule#* }" >/dev/null
    done
    (umask 077 && printf 'me:a "b:c\n' >user && printf 'me:wrong\n' >nobody)
    export SPOT_STORE_CA=ca.pem SPOT_STORE_CERT=client.pem SPOT_STORE_KEY=client.key SPOT_STORE_USER_FILE=user
    coordinator a log st --steps 100000
    train=$pid
    by_store w1
    at_step log 20
    spot-run status --join "$store" --join-timeout 60s | jq -e '.steps == 100000'
    SPOT_STORE_USER_FILE=nobody refuses 4 "authentication failed" status --join "$store"
    SPOT_STORE_USER_FILE="" refuses 4 "user name is empty" status --join "$store"
    SPOT_STORE_CA=other.pem refuses 4 "certificate" status --join "$store"
    SPOT_STORE_CERT=stranger.pem SPOT_STORE_KEY=stranger.key refuses 4 "expected an answer of etcd" status --join "$store"
    SPOT_STORE_CA="" refuses 2 "SPOT_STORE_CERT needs SPOT_STORE_CA" status --join "$store"
    SPOT_STORE_KEY="" refuses 2 "go together" status --join "$store"
    chmod 644 nobody
    SPOT_STORE_USER_FILE=nobody refuses 2 "others may read it" status --join "$store"
    # members that were started again know no token of before
    kill -9 "${etcd_pid[@]}"
    for i in 0 1 2; do member $i "${secured[@]}"; done
    more_steps log
    stops_right log
}

# tier: world
@test "etcd: a store of another job, and what is no store, are refused by name" {
    etcd_up
    coordinator a log st --steps 2
    a=$pid
    by_store w1
    ends_with 0 $a
    [ "$(stored log | jq -r .end)" = 'done' ]
    job="train --data corpus $MODEL --global-batch 5 --steps 2"
    refuses 2 "the prefix belongs to another job" $job --seed 2 --store "$store" --listen unix:x
    refuses 2 "--store" $job --store "$store"
    refuses 2 "must be one address and port that others reach" $job --store "$store" --listen 127.0.0.1:0
    (umask 077 && head -c 32 /dev/urandom >key)
    refuses 2 "must be one address and port that others reach" $job --store "$store" --listen 0.0.0.0:7000 --key-file key
    refuses 2 "expected a /PREFIX" $job --store "etcd://$etcd_members" --listen unix:x
    refuses 2 "expected etcd://HOST:PORT" $job --store "consul://x" --listen unix:x
    refuses 4 "no coordinator leads the job at etcd://" status --join "${store%/*}/other"
    refuses 2 "expected a /PREFIX" status --join "etcd://$etcd_members"
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 4 --workers 1 --listen unix:y --store "$store-2" --events log2
    same_as log2 4
}

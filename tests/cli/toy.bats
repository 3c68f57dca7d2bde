#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: clock, plain
# A group knows nothing of training: tests/toy counts, in each way that rounds can go, and a fault in any
# phase neither loses a round nor repeats one. The whole matrix is `make faults`.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    toy=$(dirname "$(command -v spot-run)")/../tests/toy-run
}
teardown() { job_teardown; }

cells() { # WAY PHASE FAULT ...
    run "$BATS_TEST_DIRNAME/../toy-faults.sh" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

commits() { # VIEW: how many
    grep -c "^$1 " commits || true
}

@test "in lockstep each round commits once, whatever strikes" {
    cells lockstep join kill form notice round stall vote cut commit coordinator recover replicas
}

@test "a view per replica: each round of each commits once, whatever strikes one" {
    cells replicas form kill vote stall commit everything quiesce two
}

@test "announced rounds commit once, whatever strikes" {
    cells announced join duplicate vote kill commit cut quiesce notice recover coordinator
}

@test "a replica whose member stands still does not hold up another replica" {
    background "$toy" coordinate replicas unix:j commits log 100000 60 1 2>log.err
    for name in r1.a r1.b r2.a r2.b; do
        background "$toy" member unix:j $name 2>>workers.err
        [ $name != r1.b ] || stopped=$pid
    done
    eventually '[ "$(commits 0)" -gt 5 ] && [ "$(commits 1)" -gt 5 ]'
    eventually '[ "$(events log joined)" -eq 4 ]'
    kill -STOP "$stopped"
    # what was on its way may still commit, no more
    settled 'commits 0'
    still=$(commits 0)
    going=$(commits 1)
    eventually '[ "$(commits 1)" -gt $((going + 50)) ]'
    [ "$(commits 0)" -eq "$still" ]
    kill -CONT "$stopped"
    eventually '[ "$(commits 0)" -gt $((still + 50)) ]'
}

@test "a replica forms anew while another one commits on" {
    background "$toy" coordinate replicas unix:j commits log 100000 60 1 2>log.err
    for name in r1.a r1.b r2.a r2.b; do
        background "$toy" member unix:j $name 2>>workers.err
        [ $name != r1.b ] || leaver=$pid
    done
    eventually '[ "$(events log joined)" -eq 4 ] && [ "$(commits 0)" -gt 5 ] && [ "$(commits 1)" -gt 5 ]'
    epochs=$(events log quiesce)
    going=$(commits 1)
    kill -KILL "$leaver"
    eventually '[ "$(events log quiesce)" -gt '"$epochs"' ] && [ "$(commits 1)" -gt $((going + 20)) ]'
    kept=$(commits 0)
    eventually '[ "$(commits 0)" -gt $((kept + 20)) ]'
}

@test "who votes gets further: no epoch ends for want of progress" {
    for way in lockstep announced; do
        background "$toy" coordinate $way unix:$way commits.$way log.$way 1000000 0.6 1 2>$way.err # 6 s
        for name in r1.a r1.b; do
            background "$toy" member unix:$way $name 2>>workers.err
        done
    done
    for way in lockstep announced; do
        eventually '[ "$(events log.'$way' joined)" -ge 2 ] && [ "$(wc -l <commits.'$way')" -gt 5 ]'
    done
    sleep 8 # longer than that
    run ! grep "no progress" lockstep.err announced.err
    [ "$(wc -l <commits.announced)" -gt 100 ]
}

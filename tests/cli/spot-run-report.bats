#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run report: what it counts is what the log says, and what is no log is named by its line.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() { job_setup; }
teardown() { job_teardown; }

# log FIRST LAST [SAMPLES-OF-A-STEP]: the events of a job that one member ran, steps FIRST to LAST
log() {
    jq -nc --argjson a "$1" --argjson z "$2" --argjson g "${3:-2}" '
        {schema: "spot.event/1", time_s: 0, epoch: 1, step: 0} as $e
        | $e + {event: "joined", epoch: 0, member: 1, name: "w", members: 1},
          $e + {event: "quiesce"},
          $e + {event: "migrate", transfers: 1, moved_byte: 0, restored_byte: 0},
          $e + {event: "formed", D: 1, P: 1, members: 1, place: ["w"]},
          (range($a; $z + 1) | . as $s
           | $e + {event: "step", time_s: $s, step: $s},
             $e + {event: "committed", time_s: ($s + 0.5), step: $s, loss: 1, loss_hex: "3f800000",
                   grad_norm: 1, compute_s: 0.1, samples: [range(($s - 1) * $g; $s * $g)]}),
          $e + {event: "done", time_s: ($z + 1), step: $z, loss: 1,
                state_xxh3_128: "00000000000000000000000000000001"}'
}

cell() { # WHAT REPORT: the row of that name
    jq -r --arg what "$1" '.. | objects | select(.what? == $what).measured' "$2"
}

report() { # STATUS ARGUMENTS...: into out and said
    local want=$1
    shift
    spot-run report --format jsonl "$@" >out 2>said && status=0 || status=$?
    [ "$status" -eq "$want" ] || { echo "report $* gave $status: $(cat said)" >&2; return 1; }
}

# moved TIME EPOCH EVENT FROM TO: an epoch that begins there, in which the step changes
moved() {
    jq -nc --argjson t $1 --argjson n $2 --arg event $3 --argjson from $4 --argjson to $5 '
        {schema: "spot.event/1", time_s: $t, epoch: $n, step: $to} as $e
        | $e + {event: "quiesce", step: $from}, $e + {event: $event, from: $from} + if $event == "rolled_back" then {to: $to} else {} end,
          $e + {event: "migrate", transfers: 1, moved_byte: 0, restored_byte: 1},
          $e + {event: "formed", D: 1, P: 1, members: 1, place: ["w"]}'
}

# steps FIRST LAST TIME EPOCH: those of ref, later
steps() {
    jq -c --argjson a $1 --argjson z $2 --argjson t $3 --argjson n $4 'select(.event == "step" or .event == "committed")
        | select(.step >= $a and .step <= $z) | .time_s += $t | .epoch = $n' ref
}

@test "a run is its reference only with every step, loss, sample and the weights" {
    log 1 40 >ref
    report 0 --reference ref ref
    [ "$(cell "losses equal to the undisturbed run" out)" = "40 of 40, bit for bit" ]
    # a coordinator that found more done than its log tells: what the log lacks is said, and not called lost
    { sed '/"step":20,/,$d' ref
      jq -nc '{schema: "spot.event/1", time_s: 29.6, step: 29} as $e
        | $e + {event: "resumed", epoch: 1}, $e + {event: "joined", epoch: 1, member: 1, name: "w", members: 1},
          $e + {event: "quiesce", epoch: 2},
          $e + {event: "migrate", epoch: 2, transfers: 1, moved_byte: 0, restored_byte: 1},
          $e + {event: "formed", epoch: 2, D: 1, P: 1, members: 1, place: ["w"]}'
      sed -n '/"step":30,/,$p' ref | sed 's/"epoch":1/"epoch":2/'; } >gap
    report 1 --reference ref gap
    [ "$(cell "losses equal to the undisturbed run" out)" = "30 of 40, bit for bit" ]
    [ "$(cell "samples lost" out)" = 0 ]
    grep -q "10 of 40 steps" said
    grep -q "gap: has no record of steps 20 to 29, which a restart found done" said
    sed 's/\[60,61\]/[60]/' gap >lost # step 31
    report 0 lost
    [ "$(cell "samples lost" out)" = 1 ]
    report 1 --reference gap ref
    [ "$(cell "losses equal to the undisturbed run" out)" = "30 of 40, bit for bit" ]
    sed '/"step":7,/s/3f800000/3f800001/' ref >bit
    report 1 --reference ref bit
    [ "$(cell "losses equal to the undisturbed run" out)" = "39 of 40, bit for bit" ]
    sed 's/1"}$/2"}/' ref >weights
    report 1 --reference ref weights
    grep -q "the weights differ from those of 'ref'" said
    grep -v '"done"' ref >undone
    report 1 --reference ref undone
    sed 's/\[10,11\]/[10]/' ref >lost
    report 1 --reference ref lost
    grep -q "1 samples are lost and 0 repeated" said
    sed 's/\[10,11\]/[9,10,11]/' ref >twice
    report 1 --reference ref twice
    grep -q "0 samples are lost and 1 repeated" said
    report 0 gap # nothing is promised of a run alone
    # a step that was undone and done again counts once
    { sed '/"step":21,/,$d' ref
      moved 20.6 2 rolled_back 20 10
      sed -n '/"step":11,/,$p' ref | jq -c '.time_s += 20 | .epoch = 2'; } >back
    report 0 --reference ref back
    [ "$(cell "steps recomputed" out)" = "10 committed ones, 0 in flight" ]
}

@test "state that is found again brings its commits back: each sample stands once" {
    log 1 40 >ref
    { sed '/"step":31,/,$d' ref
      moved 30.6 2 rolled_back 30 10
      steps 11 14 20 2
      moved 34.8 3 restored 14 30
      steps 31 40 5 3
      tail -n 1 ref | jq -c '.time_s += 5 | .epoch = 3'; } >found
    report 0 --reference ref found
    [ "$(cell "steps recomputed" out)" = "4 committed ones, 0 in flight" ]
    [ "$(cell "losses equal to the undisturbed run" out)" = "40 of 40, bit for bit" ]
    [ ! -s said ]
    local at edit
    at=$(grep -n '"restored"' found | cut -d: -f1)
    for edit in ${at}d ${at}p "${at}s/\"from\":14/\"from\":13/" "${at}s/\"from\":14/\"from\":30/" \
        "${at}s/\"step\":30/\"step\":14/" "${at}s/\"step\":30/\"step\":29/" "${at}s/\"epoch\":3/\"epoch\":2/" "${at}{h;d};$((at + 1)){G}"; do
        sed "$edit" found >edited
        report 3 edited || { echo "after $edit" >&2; return 1; }
        grep -q '^spot-run report: edited:[0-9]*:' said
    done
}

@test "state that is newer than the log is told as steps that it lacks; without a word it is refused" {
    log 1 40 >ref
    { sed '/"step":21,/,$d' ref
      jq -nc '{schema: "spot.event/1", time_s: 20.6, epoch: 1, step: 20, event: "resumed"},
          {schema: "spot.event/1", time_s: 20.6, epoch: 1, step: 20, event: "joined", member: 1, name: "w", members: 1}'
      moved 20.7 2 restored 20 25
      steps 26 40 1 2; } >crashed
    report 0 crashed
    grep -q "crashed: has no record of steps 21 to 25" said
    [ "$(wc -l <said)" = 1 ]
    sed '/"restored"/d' crashed >silent
    report 3 silent
    grep -q "silent:$(grep -n '"migrate"' silent | tail -n 1 | cut -d: -f1):.*/step: expected 20" said
}

@test "in a pipe a report is one spot.report/1 with the numbers of the table" {
    log 1 40 >ref
    spot-run report --reference ref --no-provenance ref | jq -e '
        .schema == "spot.report/1" and .steps == 40 and .samples_lost == 0 and .kills == 0 and .done
        and .reference_equal_steps == 40 and .reference_equal_weights
        and (.step_median_s | type) == "number"'
    # one pause of 2 s less the median step of 1 s, after a kill
    { sed '/"step":21,/,$d' ref
      jq -nc '{schema: "spot.event/1", time_s: 20.5, epoch: 1, step: 20, event: "lost", member: 1, name: "a", why: "x"},
              {schema: "spot.event/1", time_s: 20.6, epoch: 1, step: 20, event: "joined", member: 2, members: 1, name: "b"},
              ({schema: "spot.event/1", time_s: 20.6, epoch: 2, step: 20}
               | . + {event: "quiesce"}, . + {event: "migrate", transfers: 1, moved_byte: 0, restored_byte: 0},
                 . + {event: "formed", D: 1, P: 1, members: 1, place: ["b"]})'
      sed -n '/"step":21,/,$p' ref | jq -c '.time_s += 1 | .epoch = 2'; } >killed
    spot-run report --format json killed >out
    jq -e '.kills == 1 and .pause_kill_count == 1 and .pause_kill_median_s == .pause_kill_max_s and
           .pause_kill_max_s > 0.9 and .pause_kill_max_s < 1.1 and (has("pause_notice_count") | not)' out
    run spot-run report --format bogus ref
    [ "$status" -eq 2 ]
}

@test "a step may have as many samples as a line of 64 MiB holds" {
    log 1 2 1000000 >wide
    [ "$(wc -L <wide)" -gt 7000000 ]
    report 0 wide
    [ "$(cell "samples lost" out)" = 0 ]
    { cat wide; head -c 68000000 /dev/zero | tr '\0' ' '; echo; } >long
    report 3 long
    grep -q "long:10: expected an event, the line exceeds 64 MiB" said
}

@test "what is no event is named by file and line, status 3" {
    local head='{"schema":"spot.event/1","epoch":1' want line
    log 1 3 >good
    while read -r want line; do
        { sed -n 1,4p good; echo "$line"; sed 1,4d good; } >bad
        report 3 bad
        grep -q "^spot-run report: bad:5:[0-9]*: $want" said || { cat said >&2; false; }
    done <<END
/schema:.expected.*spot.event/1.*other/1 {"schema":"other/1","event":"done"}
/schema:.expected {"schema":"spot.event/2","event":"done","time_s":0,"epoch":1,"step":3}
/:.lacks.*schema {"event":"done","time_s":0,"epoch":1,"step":3}
/:.lacks.*'event' $head,"time_s":0,"step":0}
/event:.expected.a.string $head,"event":7,"time_s":0,"step":0}
/time_s:.expected.a.number $head,"event":"step","time_s":"x","step":{}}
/time_s:.*outside $head,"event":"step","time_s":-1,"step":1}
/step:.expected.an.integer $head,"event":"step","time_s":0,"step":{}}
/step:.*outside $head,"event":"step","time_s":0,"step":-1}
/:.lacks.*'epoch' {"schema":"spot.event/1","event":"step","time_s":0,"step":1}
/members:.*outside $head,"event":"joined","time_s":0,"step":0,"member":2,"members":-3}
/member:.*outside $head,"event":"lost","time_s":0,"step":0,"member":0}
/:.lacks.*'member' $head,"event":"notice","time_s":0,"step":0}
/D:.*outside $head,"event":"formed","time_s":0,"step":0,"D":0,"P":1,"members":1}
/restored_byte:.expected $head,"event":"migrate","time_s":0,"step":0,"restored_byte":[]}
/:.lacks.*'from' $head,"event":"rolled_back","time_s":0,"step":0,"to":0}
/:.lacks.*'from' $head,"event":"restored","time_s":0,"step":2}
/to:.*outside $head,"event":"rolled_back","time_s":0,"step":0,"from":1,"to":-1}
/step:.step.0 $head,"event":"committed","time_s":0,"step":0,"loss":1,"loss_hex":"3f800000","samples":[]}
/loss:.expected $head,"event":"committed","time_s":0,"step":1,"loss":null,"loss_hex":"3f800000","samples":[]}
/loss_hex:.expected.8 $head,"event":"committed","time_s":0,"step":1,"loss":1,"loss_hex":"3F80000g","samples":[]}
/:.lacks.*'samples' $head,"event":"committed","time_s":0,"step":1,"loss":1,"loss_hex":"3f800000"}
/samples/1:.expected.a.sample $head,"event":"committed","time_s":0,"step":1,"loss":1,"loss_hex":"3f800000","samples":[0,9223372036854775807]}
/samples/0:.expected.a.sample $head,"event":"committed","time_s":0,"step":1,"loss":1,"loss_hex":"3f800000","samples":[-9223372036854775808]}
/samples/0:.expected.a.sample $head,"event":"committed","time_s":0,"step":1,"loss":1,"loss_hex":"3f800000","samples":[0.5]}
/state_xxh3_128:.expected.32 $head,"event":"done","time_s":0,"step":3,"state_xxh3_128":"12"}
END
    { cat good; sed -n 5p good; } >bad # time goes back
    report 3 bad
    grep -q "bad:12:.*/time_s: 1 is before 4" said
    { sed 3q good; echo; printf ' \t\r\n'; sed 1,3d good; echo; } >blank # as every reader of a log takes it
    report 0 good
    cp out want
    report 0 blank
    cmp out want
    : >bad
    report 3 bad
    grep -q "bad: empty input" said
    # what a later version adds is passed over
    { echo '{"schema":"spot.event/1","event":"new","time_s":0}'; sed 's/}$/,"new":{}}/' good; } >later
    report 0 later
}

@test "members of a coordinator that crashed are counted no longer once others join" {
    local event='{"schema":"spot.event/1","epoch":1,"step":0'
    for t in 0 100 200; do # three members each time, none of them ever lost
        echo "$event,\"event\":\"resumed\",\"time_s\":$t}"
        for n in 1 2 3; do
            echo "$event,\"event\":\"joined\",\"time_s\":$t,\"member\":$n,\"name\":\"w\",\"members\":$n}"
        done
        event=${event/:$((t / 100 + 1)),/:$((t / 100 + 2)),}
        echo "$event,\"event\":\"quiesce\",\"time_s\":$t}"
        echo "$event,\"event\":\"migrate\",\"time_s\":$t,\"transfers\":0,\"moved_byte\":0,\"restored_byte\":0}"
        echo "$event,\"event\":\"formed\",\"time_s\":$t,\"D\":3,\"P\":1,\"members\":3,\"place\":[]}"
    done >crashed
    echo "${event/:4,/:5,},\"event\":\"quiesce\",\"time_s\":1200}" >>crashed
    report 0 crashed
    [ "$(cell machine-hours out)" = "1.000" ] # 3 members for 1200 s
}

@test "the log of a job that runs: an unfinished last line is left out, an unfinished other one is an error" {
    log 1 40 | sed '$d' >running
    { cat running; printf '{"schema":"spot.event/1","time_s":41,"ev'; } >torn
    report 0 running
    mv out whole
    report 0 torn
    cmp out whole
    grep -q "torn: the last line is unfinished" said
    { cat torn; echo; tail -n 1 running; } >broken
    report 3 broken
    grep -q "broken:$(wc -l <running | awk '{print $1 + 1}'):" said
}

@test "--plot - draws in place of the report; counts have a row and a whole number each" {
    log 1 40 | jq -c 'if .event == "joined" then range(3) as $i | . + {member: ($i + 1), members: ($i + 1)}
        elif .event == "formed" then .members = 3 else . end' >ref
    spot-run report --plot - ref >drawn
    run -1 grep -E '[{|]"|steps committed' drawn
    grep -q 'Committed steps' drawn
    [ "$(sed '/Committed steps/,$d' drawn | grep -oE '^ *[0-9.]+ [+|]' | tr -dc '0-9.\n' | head -n 4 | xargs)" = "3 2 1 0" ]
    spot-run report --plot - -o doc --format json ref >again
    cmp drawn again
    jq -e '.steps == 40' doc
}

@test "the report names its logs by their hash" {
    log 1 3 >ref
    printf '{"schema":' | cat ref - >cut
    spot-run report --reference ref cut >out || true
    [ "$(jq -r '.made_by.inputs[].name' out | xargs)" = "cut ref" ]
    jq -e '.made_by.inputs[0].xxh3 != .made_by.inputs[1].xxh3' out
    [ "$(spot-run report - <ref | jq -r '.made_by.inputs[] | "\(.name) \(.xxh3)"')" = \
        "<stdin> $(jq -r '.made_by.inputs[1].xxh3' out)" ]
}

@test "restarts of the coordinator are counted and drawn; bytes and tokens are told apart" {
    log 1 40 >ref
    report 0 ref
    run -1 grep restarts out
    { sed '/"step":21,/,$d' ref
      sed -n '2,4p' ref | jq -c '{schema, time_s: 20.6, epoch: 1, step: 20, event: "resumed"},
          {schema, time_s: 20.6, epoch: 1, step: 20, event: "joined", member: 1, name: "w", members: 1}' | head -n 2
      sed -n '2,4p' ref | jq -c '.time_s = 20.6 | .epoch = 2 | .step = 20'
      sed -n '/"step":21,/,$p' ref | jq -c '.time_s += 1 | .epoch = 2'; } >twice
    report 0 twice
    [ "$(cell "coordinator restarts" out)" = 1 ]
    spot-run report twice --plot p.gp | jq -e '.coordinator_restarts == 1'
    grep -q "^20.6 1" p.gp
    grep -q "impulses.*'coordinator restarts'" p.gp
    grep -q "loss (nats per token)" p.gp
    sed 's/"members":1,"place"/"members":1,"tokens":"bytes","place"/' ref >bytes
    spot-run report bytes --plot p.gp >/dev/null
    grep -q "loss (nats per byte)" p.gp
    run -1 grep restarts p.gp
}

# A run that loses its members at 20.5 and stays without a grid to 60; then it goes back to step 10. Its
# grid changes once more within less than can be seen.
outage() {
    local at
    log 1 60 >ref
    { sed '/"step":21,/,$d' ref
      jq -nc '{schema: "spot.event/1", time_s: 20.5, epoch: 1, step: 20, event: "lost", member: 1, name: "w", why: "x"},
              {schema: "spot.event/1", time_s: 60, epoch: 1, step: 20, event: "joined", member: 2, members: 1, name: "b"},
              ({schema: "spot.event/1", time_s: 60, epoch: 2, step: 10}
               | . + {event: "quiesce", step: 20}, . + {event: "rolled_back", from: 20, to: 10},
                 . + {event: "migrate", transfers: 1, moved_byte: 0, restored_byte: 1},
                 . + {event: "formed", D: 1, P: 1, members: 1, place: ["b"]})'
      sed -n '/"step":11,/,$p' ref | sed '/"step":41,/,$d' | jq -c '.time_s += 50 | .epoch = 2'
      for at in quiesce 'migrate","transfers":0,"moved_byte":0,"restored_byte":0,"x":"' \
          'formed","D":1,"P":1,"members":1,"x":"'; do
          echo '{"schema":"spot.event/1","time_s":90.5,"epoch":3,"step":40,"event":"'"$at"'"}'
      done
      sed -n '/"step":41,/,$p' ref | jq -c '.time_s += 50 | .epoch = 3'; } >gone
}

data() { # N: of the N-th series in p.gp
    sed -n "/^\$s$1 << EOD/,/^EOD/p" p.gp | sed '1d;$d'
}

@test "the picture: no grid while nobody is there, steps are held, and drop where they are rolled back" {
    outage
    spot-run report gone --plot p.gp >/dev/null
    [ "$(data 0 | xargs)" = "0 1 20.5 0 60 1 111 1" ] # members
    [ "$(data 1 | xargs)" = "0 1 20.5 0 60 1 111 1" ] # in the grid; not the change at 90.5
    [ "$(data 2 | xargs)" = "0 1 20.5 0 60 1 111 1" ] # stages
    grep -q '^plot $s0 with steps.* $s1 with steps.* $s2 with steps' p.gp
    grep -q '^plot $s3 with steps' p.gp
    [ "$(data 3 | head -n 1)" = "0 0" ]
    [ "$(data 3 | grep -A 2 '^20.5 ' | xargs)" = "20.5 20 60 10 61.5 11" ]
    [ "$(data 3 | tail -n 1)" = "111 60" ]
    # a log that ends in the outage
    sed '/"time_s":60/,$d' gone >cut
    echo '{"schema":"spot.event/1","time_s":80,"event":"later"}' >>cut
    spot-run report cut --plot p.gp >/dev/null
    [ "$(data 1 | xargs)" = "0 1 20.5 0 80 0" ]
    # the coordinator died at 20.5 or later, and its members are heard of no more
    jq -c 'if .event == "lost" then {schema, time_s, epoch, step, event: "durable", where: "disk"}
        elif .member == 2 then {schema, time_s, epoch, step, event: "resumed"}, . else . end' gone >died
    spot-run report died --plot p.gp >/dev/null
    [ "$(data 1 | xargs)" = "0 1 20.5 0 60 1 111 1" ]
    # in text, restarts are marks in the drawings of the others
    spot-run report died --plot - >drawn
    run -0 grep -c 'coordinator restarts' drawn
    [ "$output" = 3 ]
    run -1 grep -E '^ *coordinator restarts *$' drawn
    grep -q '^ *in the grid (#: coordinator restarts) *$' drawn
    grep -qE '[|+].*#' drawn
}

# tells LINE WHAT: the log in `edited` is refused by its line, or gives the report that it gave before
tells() {
    spot-run report --no-provenance edited >got 2>said && status=0 || status=$?
    case $status in
    3) grep -q '^spot-run report: edited:[0-9]*:' said ;;
    0) cmp -s want got || is_less "$1" "$2" ;;
    *) false ;;
    esac || { echo "line $1 $2 gave $status: $(cat said; diff want got)" >&2; return 1; }
}

# A line that is left out cannot be missed where nothing follows from it: the end of a log that goes
# on, a step that was cut short, the newest steps before a restart (a crash may lose them, and it is said).
is_less() {
    local line
    line=$(sed -n "$1p" log)
    [ "$2" = gone ] || return 1
    [ "$1" -ne "$n" ] || return 0
    [[ "$line" != *'"event":"step"'* ]] || { diff want got | grep '^[<>]' | grep -vq steps_in_flight || return 0; }
    [[ "$line" == *'"event":"committed"'* ]] && grep -q "has no record of steps" said
}

@test "an edited log is refused by its line, or tells the same: each line left out, twice, moved, changed" {
    local i kept="" n
    SPOT_TEST_BUDDIES=0 train log --steps 100000 --grid 1x2 --state st --durable-every 1h
    worker w1 && w1=$pid
    worker w2 && w2=$pid
    at_step log 5
    worker w3 && w3=$pid
    seen log joined 3
    kill -TERM $w1
    seen log left 1
    more_steps log
    worker w4
    kill -9 $w2 # the last copy of its stage
    seen log rolled_back 1
    more_steps log
    kill_job
    SPOT_TEST_BUDDIES=0 train log --steps 100000 --grid 1x2 --state st --durable-every 1h --resume
    seen log resumed 1
    at_step log $(($(jq -s 'map(select(.event == "committed").step) | max' log) + 5))
    stops_right log
    spot-run report --no-provenance log >want
    jq -e '.notices == 1 and .kills == 1 and .coordinator_restarts == 1 and .steps_recomputed > 0 and
        .samples_lost == 0 and .samples_repeated == 0' want
    n=$(wc -l <log)
    # beside the events, the steps around them
    for i in $(grep -nvE '"event":"(step|committed)"' log | cut -d: -f1) $n; do
        for i in $((i - 2)) $((i - 1)) $i $((i + 1)); do
            [ $i -gt 0 ] && [ $i -le $n ] && kept+=" $i"
        done
    done
    for i in $(printf '%s\n' $kept | sort -nu); do
        sed "${i}d" log >edited && tells $i gone
        sed "${i}p" log >edited && tells $i twice
        if [ $i -lt $n ]; then sed "${i}{h;d};$((i + 1)){G}" log >edited && tells $i later; fi
        sed "${i}s/\"epoch\":[0-9]*/\"epoch\":0/" log >edited && tells $i epoch
        sed "${i}s/\"epoch\":[0-9]*/\"epoch\":99/" log >edited && { [ $i -eq $n ] || tells $i epoch; }
        sed "${i}s/\"step\":[0-9]*/\"step\":0/" log >edited && tells $i step
        sed "${i}s/\"step\":[0-9]*/\"step\":999999/" log >edited && tells $i step
        sed "${i}s/\"time_s\":/\"time_s\":-/" log >edited && tells $i time
        sed "${i}s/\"members*\":[0-9]*/\"member\":7/" log >edited && tells $i member
        sed "${i}s/\"members\":[0-9]*/\"members\":7/" log >edited && tells $i members
    done
}

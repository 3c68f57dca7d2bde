#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# The page of a server in a real browser: who computed which token, and where one went. Skipped where there is none.

load eventually

# tier: world
@test "chromium shows the tokens of both workers and a mark where one was killed" {
    command -v chromium >/dev/null || skip "no chromium here"
    command -v python3 >/dev/null || skip "no python3 here"
    cd "$BATS_TEST_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 8 --width 512 --heads 8 --seq 512 --global-batch 1 --steps 2 --save model >train.log
    spot-run serve --model model --http 127.0.0.1:0 --listen unix:j 2>err 3>&- &
    server=$!
    local -a slow=(${SPOT_PACE:+env "LD_PRELOAD=$SPOT_PACE" SPOT_PACE_SEND_MS=20}) # a text that can be watched
    "${slow[@]}" spot-run worker -q --join unix:j --name amber 3>&- &
    amber=$!
    until grep -o 'http://[0-9.:]*' err >url; do sleep 0.1; done
    mkfifo ask
    python3 "$BATS_TEST_DIRNAME/../world/browse.py" "$(cat url)/#the%207.%20line" page.png <ask >told 3>&- &
    browser=$!
    exec 4>ask
    echo 1 >&4
    for _ in $(seq 2400); do # until the browser is there
        [ ! -s told ] || break
        sleep 0.1
    done
    said() { # EXPRESSION: its value
        local n
        n=$(wc -l <told)
        echo "$1" >&4
        for _ in $(seq 2400); do
            [ "$(wc -l <told)" -le "$n" ] || break
            sleep 0.05
        done
        tail -n 1 told
    }
    for _ in $(seq 2400); do
        [ "$(said 'document.querySelectorAll("[data-worker=amber]").length')" -lt 10 ] || break
        sleep 0.05
    done
    "${slow[@]}" spot-run worker -q --join unix:j --name blue 3>&- 4>&- &
    blue=$!
    for _ in $(seq 2400); do
        [ "$(said 'document.getElementById("workers").innerText.includes("blue")')" != true ] || break
        sleep 0.05
    done
    kill -9 $amber
    for _ in $(seq 2400); do
        [[ "$(said 'document.getElementById("said").textContent')" != '"done'* ]] || break
        sleep 0.1
    done
    [[ "$(said 'document.getElementById("said").textContent')" == '"done'* ]]
    all=$(said 'document.querySelectorAll(".token").length')
    both=$(said 'new Set([...document.querySelectorAll(".token")].map(t => t.dataset.worker)).size')
    colours=$(said 'new Set([...document.querySelectorAll(".token")].map(t => t.style.color)).size')
    marks=$(said '[...document.querySelectorAll("#text .died")].map(t => t.textContent).join("")')
    exec 4>&-
    wait $browser
    kill $server $blue
    cp page.png "${SPOT_PICTURE:-/dev/null}"
    echo "$all tokens of $both workers in $colours colours, marks $marks"
    [ "$all" -ge 100 ] && [ "$both" = 2 ] && [ "$colours" = 2 ]
    [ "$marks" = '"\u2020"' ] # a dagger
    [ -s page.png ]
}

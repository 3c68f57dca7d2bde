#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Goal: the loop over hosts of examples/ssh starts one worker a host, once, and gives notice; a job
# goes on through it with the bits of an undisturbed run.

# shellcheck disable=SC2016,SC2030,SC2031
bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    workers=$BATS_TEST_DIRNAME/../../examples/ssh/workers.sh
    (umask 077 && head -c 32 /dev/urandom >key)
    mkdir home
    for _ in $(seq 50); do
        port=$((20000 + RANDOM % 10000))
        (: <>/dev/tcp/127.0.0.1/$port) 2>/dev/null || break
    done
}

teardown() {
    cat home/*/*.pid 2>/dev/null >>pids || true
    job_teardown
}

# a job at 127.0.0.1:$port, workers h1 and h2 started, stopped and started again
lives() {
    printf '# of this test\nh1\n\nh2  two\n' >hosts
    echo h1 >one
    w() { timeout -s KILL 100 "$workers" "$@" </dev/null; }
    run -0 w list hosts
    [ "$output" = $'h1: none runs\nh2: none runs' ]
    train log --listen "127.0.0.1:$port" --key-file key --steps 100000
    run -0 w start --join "127.0.0.1:$port" --key-file key hosts -- --join-timeout 60s
    [[ "$output" == 'h1: started ('*$'\n''h2: started ('* ]]
    seen log joined 2
    run -0 w start --join "127.0.0.1:$port" --key-file key hosts
    [[ "$output" == 'h1: runs already ('*$'\n''h2: runs already ('* ]]
    more_steps log
    run -0 w stop one
    [ "$output" = 'h1: left' ]
    seen log notice 1
    run -0 w list hosts
    [[ "$output" == $'h1: none runs\nh2: runs ('* ]]
    run -0 w start --join "127.0.0.1:$port" --key-file key hosts
    seen log joined 3
    more_steps log
    [ "$(events log rolled_back)" -eq 0 ]
    stops_right log
    run -0 w stop hosts
    [ "$(find home -name '*.key' | wc -l)" -eq 0 ]
}

@test "workers on hosts, by a command in ssh's place" {
    cat >ssh <<'END'
#!/bin/sh
# each host has a home; a command line is for the shell of the other side
mkdir -p "home/$1" && cd "home/$1" && shift && exec sh -c "$*"
END
    chmod +x ssh
    sed -i "s|home/|$PWD/home/|g" ssh
    export SSH=$PWD/ssh
    lives
}

@test "workers on hosts, by a real sshd on loopback (sshd)" {
    sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || skip "no sshd (Debian openssh-server)"
    [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
    for _ in $(seq 50); do
        sport=$((20000 + RANDOM % 10000))
        (: <>/dev/tcp/127.0.0.1/$sport) 2>/dev/null || break
    done
    ssh-keygen -q -t ed25519 -N '' -f host_key
    ssh-keygen -q -t ed25519 -N '' -f user_key
    cp user_key.pub authorized
    # the home of a host, and the PATH, since a login has its own
    cat >shell <<END
#!/bin/sh
export PATH='$PATH'
mkdir -p '$PWD/home/'"\$1" && cd '$PWD/home/'"\$1" && eval "\$SSH_ORIGINAL_COMMAND"
END
    chmod +x shell
    background "$sshd" -D -e -f /dev/null -p "$sport" -o ListenAddress=127.0.0.1 -o HostKey="$PWD/host_key" \
        -o AuthorizedKeysFile="$PWD/authorized" -o StrictModes=no -o UsePAM=no -o PidFile=none \
        -o PermitRootLogin=yes -o ForceCommand="$PWD/shell \$(echo \"\$SSH_ORIGINAL_COMMAND\" | grep -o 'h[12]' | head -n 1)" 2>sshd.err
    export SSH="ssh -F $PWD/config"
    cat >config <<END
Host h1 h2
HostName 127.0.0.1
Port $sport
IdentityFile $PWD/user_key
IdentitiesOnly yes
BatchMode yes
UserKnownHostsFile $PWD/known
StrictHostKeyChecking accept-new
LogLevel ERROR
END
    eventually '(: <>/dev/tcp/127.0.0.1/$sport) 2>/dev/null'
    lives
}

@test "hosts that fail are told, and what is no list of hosts is refused" {
    printf 'good\nbad\n' >hosts
    printf '#!/bin/sh\n[ "$1" = good ] || { echo "no route" >&2; exit 255; }\nshift; exec sh -c "$*"\n' >ssh
    chmod +x ssh
    run -1 env SSH="$PWD/ssh" HOME="$PWD/home" "$workers" list --dir "$PWD/home/x" hosts
    [ "$output" = $'good: none runs\nno route\nbad: failed with status 255' ]
    run -0 "$workers" --help
    run -2 "$workers"
    run -2 "$workers" start hosts
    run -2 "$workers" list nowhere
    run -2 "$workers" list --job 'a/b' hosts
    echo '-oProxyCommand=touch x' >hosts
    run -2 "$workers" list hosts
    [ ! -e x ]
}

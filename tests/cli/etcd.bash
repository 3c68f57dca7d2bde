# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154,SC2034 # background sets $pid; who loads this uses the rest
# Three members of a real etcd on loopback, which end with the test; behind job.bash.

# ports N: so many that nobody listens at now
ports() {
    local port n=0
    for port in $(shuf -i 20000-32000 -n 200); do
        [ "$n" -lt "$1" ] || return 0
        ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || continue
        echo "$port"
        n=$((n + 1))
    done
}

# member I [OPTIONS]: start it, or start it again; its id in etcd_pid[I]
member() {
    local i=$1 client=${etcd_scheme:-http}://127.0.0.1:${etcd_port[$1]} peer=http://127.0.0.1:${etcd_port[$(($1 + 3))]}
    shift
    background etcd --name "n$i" --data-dir "etcd$i" --listen-client-urls "$client" --advertise-client-urls "$client" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "$etcd_cluster" \
        --heartbeat-interval 100 --election-timeout 1000 "$@" >"etcd$i.out" 2>&1
    etcd_pid[i]=$pid
}

# asked I PATH BODY: what member I answers
asked() { curl -fsS --max-time 20 "${etcd_curl[@]}" "${etcd_scheme:-http}://127.0.0.1:${etcd_port[$1]}$2" -d "$3"; }

healthy() {
    local i
    for i in 0 1 2; do
        [ "$(curl -fs --max-time 5 "${etcd_curl[@]}" "${etcd_scheme:-http}://127.0.0.1:${etcd_port[$i]}/health" | jq -r .health)" = true ] || return 1
    done
}

etcd_curl=() # of asked

# etcd_up [OPTIONS]: all of them; the store of the tests in $store
etcd_up() {
    local i
    command -v etcd >/dev/null || skip "no etcd (Debian: etcd-server)"
    etcd_pid=() etcd_members="" etcd_cluster=""
    mapfile -t etcd_port < <(ports 6)
    for i in 0 1 2; do
        etcd_cluster=${etcd_cluster:+$etcd_cluster,}n$i=http://127.0.0.1:${etcd_port[$((i + 3))]}
        etcd_members=${etcd_members:+$etcd_members,}127.0.0.1:${etcd_port[$i]}
    done
    for i in 0 1 2; do member $i "$@"; done
    store=etcd://$etcd_members/spot/job
    eventually healthy
}

# etcd_leads: the number of the member that leads the others
etcd_leads() {
    local i
    for i in 0 1 2; do
        ! asked $i /v3/maintenance/status '{}' | jq -e '.header.member_id == .leader' >/dev/null || { echo $i && return; }
    done
    false
}

# certificate NAME CA: NAME.pem and NAME.key, for 127.0.0.1, of a new CA where there is none yet. It has no CN: where there
# are passwords, etcd's gateway refuses who shows one
certificate() {
    [ -e "$2.pem" ] || openssl req -x509 -newkey rsa:2048 -nodes -keyout "$2.key" -out "$2.pem" -days 2 -subj "/CN=$2" \
        -addext basicConstraints=critical,CA:TRUE 2>/dev/null
    openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "/O=$1" 2>/dev/null
    printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days 2 -extfile "$1.ext" -out "$1.pem" 2>/dev/null
}

key() { printf '%s' "$1" | base64 -w0; }

# stored NAME: the record below the prefix
stored() { asked 0 /v3/kv/range "{\"key\":\"$(key "spot/job/$1")\"}" | jq -r '.kvs[0].value' | base64 -d; }

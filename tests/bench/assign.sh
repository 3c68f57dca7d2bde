#!/bin/sh
# SPDX-License-Identifier: MIT
# CPU time of assignments, best of 3, beside scipy's linear_sum_assignment where it is installed.
# usage: assign.sh [n...]   (default 512 1024; spot-migrate on PATH, else the one built here)
command -v spot-migrate >/dev/null || PATH=$PATH:$(dirname "$0")/../../build/release/bin
command -v spot-migrate >/dev/null || {
    echo "assign.sh: no spot-migrate on PATH, nor in build/release/bin: run make first" >&2
    exit 1
}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

matrix() { # kind n: one line of JSON
    awk -v kind="$1" -v n="$2" 'BEGIN {
        srand(7)
        for (i = 0; i < n; i++)
            for (k = 0; k < 4; k++) { a[i, k] = int(rand() * 1000); b[i, k] = int(rand() * 1000) }
        old_m = 4; new_m = 8; # ranks; 16 stages before, 8 after; the rest are replicas
        printf "{\"cost\":["
        for (i = 0; i < n; i++) {
            printf i ? ",[" : "["
            p = int(i / old_m) % 16; m = i % old_m
            for (j = 0; j < n; j++) {
                if (kind == "uniform")
                    c = int(rand() * 1e6)
                else if (kind == "ties")
                    c = int(rand() * 10)
                else if (kind == "lowrank")
                    c = a[i,0] * b[j,0] + a[i,1] * b[j,1] + a[i,2] * b[j,2] + a[i,3] * b[j,3]
                else { # bytes in common of two grids, negative
                    q = int(j / new_m) % 8; r = j % new_m
                    l = min((p + 1) * 4, (q + 1) * 8) - max(p * 4, q * 8)
                    h = min((m + 1) * 16, (r + 1) * 8) - max(m * 16, r * 8)
                    c = l > 0 && h > 0 ? -l * h * 1234567 : 0
                }
                printf j ? ",%d" : "%d", c
            }
            printf "]"
        }
        print "]}"
    }
    function min(x, y) { return x < y ? x : y }
    function max(x, y) { return x > y ? x : y }'
}

ours() { # milliseconds
    cat "$1" "$1" "$1" | spot-migrate assign -v - 2>&1 >/dev/null | awk '{ t = $(NF - 1) * 1e3; if (!n++ || t < best) best = t } END { printf "%.3f", best }'
}

scipys() {
    python3 - "$1" <<'PY' 2>/dev/null || printf -- -
import json, sys, time
import numpy
from scipy.optimize import linear_sum_assignment
cost = numpy.array(json.load(open(sys.argv[1]))["cost"], dtype=numpy.int64)
best = 1e9
for _ in range(3):
    begin = time.process_time()
    linear_sum_assignment(cost)
    best = min(best, time.process_time() - begin)
print("%.3f" % (best * 1e3), end="")
PY
}

export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
printf '%-10s %6s %12s %12s %8s\n' costs n ours_ms scipy_ms ratio
for n in "${@:-512 1024}"; do
    for size in $n; do
        for kind in uniform overlap lowrank ties; do
            matrix $kind "$size" >"$tmp/m"
            us=$(ours "$tmp/m") them=$(scipys "$tmp/m")
            printf '%-10s %6s %12s %12s %8s\n' $kind "$size" "$us" "$them" \
                "$(awk -v a="$us" -v b="$them" 'BEGIN { if (b > 0) printf "%.3f", a / b; else printf "-" }')"
        done
    done
done

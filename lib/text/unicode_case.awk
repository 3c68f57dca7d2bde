# SPDX-License-Identifier: MIT
# unicode_case.awk - simple small and capital letters as ranges of equal distance:
#   awk -f unicode_case.awk UnicodeData.txt >unicode_case.inc
# Each range: first, last, step between its letters, distance to the other case, 1 if to capitals.

BEGIN {
    FS = ";"
    print "/* Made by unicode_case.awk from UnicodeData.txt. */"
}

function value(hex,    i, n) {
    for (i = 1; i <= length(hex); i++)
        n = 16 * n + index("0123456789ABCDEF", substr(hex, i, 1)) - 1
    return n
}

function put(kind) {
    if (n[kind])
        rows[kind] = rows[kind] sprintf("{ 0x%X, 0x%X, %d, %d, %d },\n", first[kind], last[kind], step[kind], delta[kind], kind)
    n[kind] = 0
}

function add(kind, code, to) {
    gap = code - last[kind]
    if (n[kind] && delta[kind] == to - code && gap <= 2 && (n[kind] == 1 || gap == step[kind])) {
        step[kind] = gap
    } else {
        put(kind)
        first[kind] = code
        step[kind] = 1
        delta[kind] = to - code
    }
    n[kind]++
    last[kind] = code
}

$14 != "" { add(0, value($1), value($14)) }
$13 != "" { add(1, value($1), value($13)) }

END {
    put(0)
    put(1)
    printf "%s%s", rows[0], rows[1]
}

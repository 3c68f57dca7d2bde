# SPDX-License-Identifier: MIT
# unicode.awk - what is known of characters, as text that unicode_table.h reads:
#   awk -f unicode.awk CompositionExclusions.txt UnicodeData.txt >unicode.inc
# Both: https://www.unicode.org/Public/UCD/latest/ucd/ (Debian: unicode-data).

BEGIN {
    FS = ";"
    n_sign = split("LU LL LT LM LO M ND NL NO PC P S Z C LU_LL", sign, " ")
    for (i = 1; i <= n_sign; i++)
        number_of[sign[i]] = i - 1
}

function value(hex,    i, n) {
    for (i = 1; i <= length(hex); i++)
        n = 16 * n + index("0123456789ABCDEF", substr(hex, i, 1)) - 1
    return n
}

# A digit below 64 ends a number, those before it count 23 each: '(' is 0.
function digit(d,    c) {
    c = sprintf("%c", 40 + d)
    return c == "?" || c == "\\" ? "\\" c : c
}

function put(n,    text, high) {
    text = digit(n % 64)
    for (high = int(n / 64); high; high = int((high - 1) / 23))
        text = digit(64 + (high - 1) % 23) text
    if (length(line text) > 96)
        flush()
    line = line text
}

function put_signed(n) {
    put(n < 0 ? -2 * n - 1 : 2 * n)
}

function flush() {
    if (line != "")
        printf "\"%s\",\n", line
    line = ""
}

function begin(name, what) {
    flush()
    printf "%s defined UNICODE_%s /* %s */\n", name == "CATEGORY" ? "#if" : "#elif", name, what
}

# --- categories: runs, with those of capital and small letters by turns ---

function end_run() {
    if (run)
        runs[n_run++] = 16 * (last - first) + number_of[run]
    run = ""
}

function add(code, now, follows) {
    if (follows && (now == run || (run == "LU_LL" && now == ((code - first) % 2 ? "LL" : "LU"))))
        ;
    else if (follows && run == "LU" && first == last && now == "LL")
        run = "LU_LL"
    else {
        end_run()
        run = now
        first = code
    }
    last = code
}

# --- letters of the other case: ranges of equal distance ---

function end_case(k) {
    if (n_case[k])
        cases[k] = cases[k] " " case_first[k] - case_before[k] " " \
                   2 * (case_last[k] - case_first[k]) + (case_step[k] == 2) " " case_delta[k]
    case_before[k] = case_last[k]
    n_case[k] = 0
}

function add_case(k, code, to,    gap) {
    gap = code - case_last[k]
    if (n_case[k] && case_delta[k] == to - code && gap <= 2 && (n_case[k] == 1 || gap == case_step[k])) {
        case_step[k] = gap
    } else {
        end_case(k)
        case_first[k] = code
        case_step[k] = 1
        case_delta[k] = to - code
    }
    n_case[k]++
    case_last[k] = code
}

function put_cases(k,    part, n, i) {
    end_case(k)
    n = split(cases[k], part, " ")
    for (i = 1; i <= n; i += 3) {
        put(part[i])
        put(part[i + 1])
        put_signed(part[i + 2])
    }
}

FILENAME ~ /Exclusions/ {
    if ($0 ~ /^[0-9A-F]/)
        excluded[value(substr($0, 1, match($0, /[^0-9A-F]/) - 1))] = 1
    next
}

# The categories that patterns name. Marks, separators and unassigned characters have one each.
{
    code = value($1)
    now = $3 ~ /^[MZC]/ ? substr($3, 1, 1) : $3 == "Pc" ? "PC" : $3 ~ /^[PS]/ ? substr($3, 1, 1) : toupper($3)
    follows = code == last + 1 || $2 ~ /, Last>$/
    if (!follows && code)
        add(last + 1, "C", run != "")
    if (!follows && code)
        last = code - 1
    add(code, now, 1)
    if ($14 != "")
        add_case(0, code, value($14))
    if ($13 != "")
        add_case(1, code, value($13))
    if ($4 != "0")
        order[code] = $4
    if ($6 != "" && $6 !~ /^</)
        parts[code] = $6
    if ($4 != "0" || code in parts)
        code_of[n_code++] = code
}

END {
    print "/* Made by unicode.awk from UnicodeData.txt. */"
    begin("CATEGORY", "of each run: 16 * (length - 1) + category")
    end_run()
    for (i = 0; i < n_run; i++)
        put(runs[i])
    begin("SMALL", "of each range: what lies before it, 2 * (length - 1) + is it of each second, distance")
    put_cases(0)
    begin("CAPITAL", "the same")
    put_cases(1)
    # A pair is not made again where it is excluded, or where it begins with, or is, a combining character.
    begin("PARTS", "differences: 2 * character, is it not made of these; its first part; its second one or 0")
    for (i = 0; i < n_code; i++)
        if ((code = code_of[i]) in parts) {
            many = split(parts[code], part, " ")
            a = value(part[1])
            b = many > 1 ? value(part[2]) : 0
            put(2 * (code - code_before) + (code in excluded || code in order || a in order))
            put_signed(a - a_before)
            put_signed(b - b_before)
            code_before = code
            a_before = a
            b_before = b
        }
    begin("ORDER", "of each run of combining characters: what lies before it, length - 1, class")
    before = 0
    for (i = 0; i < n_code; i++)
        if ((code = code_of[i]) in order) {
            for (last = code; (last + 1) in order && order[last + 1] == order[code]; last++)
                delete order[last + 1]
            put(code - before)
            put(last - code)
            put(order[code])
            before = last
        }
    flush()
    print "#endif"
}

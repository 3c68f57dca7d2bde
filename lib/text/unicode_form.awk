# SPDX-License-Identifier: MIT
# unicode_form.awk - canonical decompositions, and the order of combining characters:
#   awk -f unicode_form.awk CompositionExclusions.txt UnicodeData.txt >unicode_form.inc
# Both: https://www.unicode.org/Public/UCD/latest/ucd/ (Debian: unicode-data).

BEGIN {
    FS = ";"
}

function value(hex,    i, n) {
    for (i = 1; i <= length(hex); i++)
        n = 16 * n + index("0123456789ABCDEF", substr(hex, i, 1)) - 1
    return n
}

function put(text) {
    if (length(line text) > 98) {
        print line
        line = ""
    }
    line = line (line ? " " : "") text
}

FILENAME ~ /Exclusions/ {
    if ($0 ~ /^[0-9A-F]/)
        excluded[value(substr($0, 1, match($0, /[^0-9A-F]/) - 1))] = 1
    next
}

{
    code = value($1)
    if ($4 != "0")
        order[code] = $4
    if ($6 != "" && $6 !~ /^</)
        parts[code] = $6
    if ($4 != "0" || code in parts)
        code_of[n++] = code
}

# A pair is not made again where it is excluded, or where it begins with, or is, a combining character.
END {
    print "/* Made by unicode_form.awk from UnicodeData.txt. */"
    print "#ifdef APART /* a character, its two parts or one and 0; APART: not made of them */"
    for (i = 0; i < n; i++)
        if ((code = code_of[i]) in parts) {
            many = split(parts[code], part, " ")
            first = value(part[1])
            put(sprintf("%s0x%X, 0x%X, %s,",
                        code in excluded || code in order || first in order ? "APART " : "", code,
                        first, many > 1 ? sprintf("0x%X", value(part[2])) : 0))
        }
    print line
    line = ""
    print "#else /* ranges of combining characters, and their class */"
    for (i = 0; i < n; i++)
        if ((code = code_of[i]) in order) {
            for (last = code; (last + 1) in order && order[last + 1] == order[code]; last++)
                delete order[last + 1]
            put(sprintf("{ 0x%X, 0x%X, %s },", code, last, order[code]))
        }
    print line
    print "#endif"
}

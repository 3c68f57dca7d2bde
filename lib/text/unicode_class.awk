# SPDX-License-Identifier: MIT
# unicode_class.awk - letters (general category L*) and numbers (N*) as sorted ranges:
#   awk -f unicode_class.awk UnicodeData.txt >unicode_class.inc
# UnicodeData.txt: https://www.unicode.org/Public/UCD/latest/ucd/ (Debian: unicode-data).

BEGIN {
    FS = ";"
    print "/* Made by unicode_class.awk from UnicodeData.txt: letters and numbers. */"
}

function value(hex,    i, n) {
    for (i = 1; i <= length(hex); i++)
        n = 16 * n + index("0123456789ABCDEF", substr(hex, i, 1)) - 1
    return n
}

function flush() {
    if (class != "")
        printf "%s{ 0x%X, 0x%X, %s },", n++ % 3 ? " " : "\n", first, last, class
}

{
    code = value($1)
    now = $3 ~ /^L/ ? "LETTER" : $3 ~ /^N/ ? "NUMBER" : ""
    # "<..., Last>" ends the range that the line before began
    if (now == class && (code == last + 1 || $2 ~ /, Last>$/)) {
        last = code
        next
    }
    flush()
    class = now
    first = last = code
}

END {
    flush()
    print ""
}

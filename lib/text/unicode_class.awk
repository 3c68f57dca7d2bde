# SPDX-License-Identifier: MIT
# unicode_class.awk - general categories as sorted ranges; what is in none is C:
#   awk -f unicode_class.awk UnicodeData.txt >unicode_class.inc
# UnicodeData.txt: https://www.unicode.org/Public/UCD/latest/ucd/ (Debian: unicode-data).

BEGIN {
    FS = ";"
    print "/* Made by unicode_class.awk from UnicodeData.txt: ranges of categories; LU_LL: capital and"
    print " * small letters by turns. */"
}

function value(hex,    i, n) {
    for (i = 1; i <= length(hex); i++)
        n = 16 * n + index("0123456789ABCDEF", substr(hex, i, 1)) - 1
    return n
}

function flush(    text) {
    if (class == "" || class == "C")
        return
    text = sprintf("{ 0x%X, 0x%X, %s },", first, last, class)
    if (line && length(line text) > 98) {
        print line
        line = ""
    }
    line = line (line ? " " : "") text
}

# The categories that patterns name: of marks, separators and what is no character one each.
{
    code = value($1)
    now = $3 ~ /^[MZ]/ ? substr($3, 1, 1) : $3 ~ /^C/ ? "C" : $3 == "Pc" ? "PC" : $3 ~ /^P/ ? "P" : \
          $3 ~ /^S/ ? "S" : toupper($3)
    follows = code == last + 1 || $2 ~ /, Last>$/
    if (follows && now == class) {
        last = code
        next
    }
    if (follows && class == "LU" && first == last && now == "LL") {
        class = "LU_LL"
        last = code
        next
    }
    if (follows && class == "LU_LL" && now == ((code - first) % 2 ? "LL" : "LU")) {
        last = code
        next
    }
    flush()
    class = now
    first = last = code
}

END {
    flush()
    if (line)
        print line
}

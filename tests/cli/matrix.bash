# SPDX-License-Identifier: MIT
# What the fault matrices share: a world that is stopped at a frame, faults, a table of what came of it.
# The script sets $faults, $phases and cell() PHASE FAULT, which ends with `row`.
# shellcheck disable=SC2034,SC2154  # variables of the script that sources this

faults="notice kill stall cut duplicate coordinator two replicas everything"
declare -A w=() # process ids of workers, by name
passed=0 failed=0

network() { echo "$*" >commands; } # to tests/tool/proxy.c
strike() { kill "-$1" "${w[$2]}" || missed=yes; }

# row PHASE FAULT WORD MS DETAIL: a line of the table; WORD is FAILED or what is right
row() {
    printf '%-9s %-12s %-12s %6s ms   %s\n' "$@" | tee -a "$top/table"
    [ "$3" = FAILED ] && failed=$((failed + 1)) && return
    passed=$((passed + 1))
}

# each_cell [few | PHASE FAULT ...]: few is one fault per phase
each_cell() {
    local n=0 all=($faults) phase fault
    case ${1-} in
    few)
        for phase in $phases; do
            cell "$phase" "${all[$((n++ % ${#all[@]}))]}"
        done
        ;;
    '')
        for phase in $phases; do
            for fault in $faults; do cell "$phase" "$fault"; done
        done
        ;;
    *)
        while [ $# -ge 2 ]; do
            cell "$1" "$2"
            shift 2
        done
        ;;
    esac
}

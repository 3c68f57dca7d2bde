#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: tokenizers of three kinds give what another library gives, on random texts.
bats_require_minimum_version 1.5.0

@test "ids and texts are those of the library tokenizers" {
    python3 -c 'import tokenizers' 2>/dev/null || skip "the module tokenizers is not here"
    local n=${SPOT_WORLD:+2000}
    n=${n:-200} # texts of each kind and way
    "$BATS_TEST_DIRNAME/../world/compare_tokenizers.py" "$BATS_TEST_DIRNAME/../../build/release/tests/tokens" "$n"
}

#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: tokenizers of three kinds give what another library gives, on random texts.
bats_require_minimum_version 1.5.0
load eventually

@test "ids and texts are those of the library tokenizers" {
    python3 -c 'import tokenizers' 2>/dev/null || skip "the module tokenizers is not here"
    local n=200 # texts of each kind and way
    ! in_tier world || n=2000
    "$BATS_TEST_DIRNAME/../world/compare_tokenizers.py" "$BATS_TEST_DIRNAME/../../build/release/tests/tokens" "$n"
}

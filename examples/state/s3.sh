#!/bin/sh
# SPDX-License-Identifier: MIT
# Durable state in a bucket, by the AWS command line:
#   spot-run train ... --state-command 'sh examples/state/s3.sh bucket/prefix'
# An object of more than 50 GB needs `aws s3 cp --expected-size`. Other stores that speak S3: AWS_ENDPOINT_URL.
set -eu
place=$1 verb=$2 key=$3
bucket=${place%%/*}
prefix=${place#"$bucket"}
prefix=${prefix#/}
prefix=${prefix:+$prefix/}
case $verb in
put) aws s3 cp --only-show-errors - "s3://$bucket/$prefix$key" ;;
get) aws s3 cp --only-show-errors "s3://$bucket/$prefix$key" - ;;
list) # pages of a thousand keys are asked for one after the other
    aws s3api list-objects-v2 --bucket "$bucket" --prefix "$prefix$key" --query 'Contents[].[Size,Key]' --output text |
        while read -r bytes name; do
            [ "$bytes" = None ] || echo "$bytes ${name#"$prefix"}"
        done
    ;;
delete) aws s3 rm --only-show-errors "s3://$bucket/$prefix$key" ;;
*) echo "no verb $verb" >&2 && exit 2 ;;
esac

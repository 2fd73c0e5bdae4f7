#!/bin/sh
# What people do today to shuffle a shard set: take it apart, shuffle the list of samples, put it together.
#   extract_shuf_tar.sh OUTPUT SCRATCH SHARD...
set -eu
output=$1 scratch=$2
shift 2
mkdir "$scratch"
for shard; do tar -xf "$shard" -C "$scratch"; done
cd "$scratch"
ls -U | sed 's/\..*$//' | sort -u | shuf | sed 's/.*/&.cls\n&.jpg/' | tar -cf "$output" --no-recursion -T -
sync "$output"
cd /
rm -rf "$scratch"

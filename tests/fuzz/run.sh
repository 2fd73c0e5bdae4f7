#!/bin/sh
# Runs one fuzz target for a while: run.sh TARGET CORPUS. What it finds new goes into CORPUS, in the build folder;
# an input that breaks it is left beside that, and its name printed.
set -eu
target=$1
corpus=$2
seeds=$(dirname "$0")/corpus/$(basename "$target")
mkdir -p "$corpus"
if [ ! -d "$seeds" ]; then seeds=; fi
exec "$target" -max_total_time="${MILLRACE_FUZZ_SECONDS:-5}" -max_len=16384 -rss_limit_mb=2048 -timeout=20 \
    -artifact_prefix="$corpus-broken-by-" -print_final_stats=1 "$corpus" ${seeds:+"$seeds"}

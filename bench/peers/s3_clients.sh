#!/bin/sh
# Current S3 clients, unmodified, against a store with keys: a node alone, or with --cluster a playground of four nodes of which
# one was killed, in buckets copies=2 and 2+1. Prints a line for each check; fails if a check does.
#
#     bench/peers/s3_clients.sh [--cluster] [PORT]
#
# Needs build/millrace (or MILLRACE), python3 with venv, curl, and go for rclone, mc, minio-go's functional tests and rclone's
# tests of S3. Clients are installed into build/peers/s3_clients once: remove it to get newer ones.
set -eu
cd "$(dirname "$0")/../.."
alone=yes
if [ "${1:-}" = --cluster ]; then alone=no; shift; fi
port="${1:-19480}"
export MILLRACE="${MILLRACE:-$PWD/build/millrace}"
peers="$PWD/build/peers/s3_clients"
data="$peers/data"
rclone=v1.75.1
rclone_s3="$peers/go/pkg/mod/github.com/rclone/rclone@$rclone/backend/s3"
minio_go="${MINIO_GO:-v7.4.1}"
commands=s5cmd
failed=0
mkdir -p "$peers"
rm -rf "$data"

install_python() { # ENVIRONMENT PACKAGES...
  environment="$peers/$1"
  shift
  [ ! -e "$environment/installed" ] || return 0
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet "$@"
  touch "$environment/installed"
}

install_go() {
  export GOPATH="$peers/go" GOFLAGS="${GOFLAGS:-} -modcacherw"
  [ -e "$GOPATH/bin/rclone" ] || go install "github.com/rclone/rclone@$rclone"
  # The releases of mc are no versions to go: it takes the newest commit that it can have.
  [ -e "$GOPATH/bin/mc" ] || go install github.com/minio/mc@latest
  commands="s5cmd rclone mc"
  [ -e "$GOPATH/bin/rclone-s3-tests" ] ||
    (cd "$rclone_s3" && go test -c -o "$GOPATH/bin/rclone-s3-tests" .)
  [ ! -e "$GOPATH/bin/minio-go-functional" ] || return 0
  rm -rf "$peers/minio-go"
  mkdir "$peers/minio-go"
  # A program of its own: inside its module the tag that guards it would apply to all packages. Requests signed with version 2
  # in headers are not served, so its tests of them are left out.
  (
    cd "$peers/minio-go"
    printf 'module functional\ngo 1.24\nrequire github.com/minio/minio-go/v7 %s\n' "$minio_go" >go.mod
    sed -E '/^\/\/ ?(go:build|\+build) mint/d; /^[[:blank:]]+test[A-Za-z0-9]*V2\(\)$/d' \
      "$(go mod download -json "github.com/minio/minio-go/v7@$minio_go" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/functional_tests.go" >main.go
    go mod tidy >/dev/null 2>&1
    go build -o "$GOPATH/bin/minio-go-functional" main.go
  )
}

start_node() {
  keys=$("$MILLRACE" --quiet keys create --data "$data" --admin)
  "$MILLRACE" --quiet up --data "$data" --listen "127.0.0.1:$port" &
  process=$!
  until curl -sf "$MILLRACE_ENDPOINT/-/ready" >/dev/null; do kill -0 "$process"; sleep 0.1; done
  export $keys
}

start_cluster() {
  mkdir -p "$data"
  "$MILLRACE" --json --quiet up --nodes 4 --data "$data" --listen "127.0.0.1:$port" >"$data/nodes.json" &
  process=$!
  until [ -s "$data/nodes.json" ]; do kill -0 "$process"; sleep 0.1; done
  keys=$("$MILLRACE" --quiet keys create --registry "$data/registry" --admin)
  export $keys
}

lose_the_last_node() {
  kill -9 "$(sed 's/.*"pid":\([0-9]*\).*/\1/' "$data/nodes.json")"
  until "$MILLRACE" --json cluster status "$MILLRACE_ENDPOINT" | grep -q '"state":"away"'; do sleep 0.5; done
}

try_clients() {
  "$python" bench/peers/s3_clients.py boto3 pyarrow s3torchconnector || failed=1
  "$peers/s3fs/bin/python" bench/peers/s3_clients.py s3fs || failed=1
  "$python" bench/peers/s3_commands.py $commands || failed=1
}

# The tests that clients have of their own make their buckets by themselves, without redundancy.
try_rclone_tests() {
  log="$peers/rclone-tests.log"
  cat >"$data/rclone.conf" <<CONF
[TestS3Millrace]
type = s3
provider = Other
endpoint = $MILLRACE_ENDPOINT
access_key_id = $MILLRACE_ACCESS_KEY
secret_access_key = $MILLRACE_SECRET_KEY
region = us-east-1
list_url_encode = true
CONF
  # They look for files of their source.
  (
    cd "$rclone_s3"
    RCLONE_CONFIG="$data/rclone.conf" rclone-s3-tests -test.v -remote TestS3Millrace: >"$log" 2>&1
  ) || failed=1
  for outcome in PASS SKIP FAIL; do
    echo "rclone $rclone, its tests of S3: $outcome $(grep -c -- "--- $outcome" "$log" || true)"
  done
  grep -- '--- FAIL' "$log" || true
}

try_minio_go() {
  log="$peers/minio-go/log.json"
  SERVER_ENDPOINT="${MILLRACE_ENDPOINT#http://}" ACCESS_KEY="$MILLRACE_ACCESS_KEY" SECRET_KEY="$MILLRACE_SECRET_KEY" ENABLE_HTTPS=0 ENABLE_KMS=0 \
    MINT_MODE=full RUN_ON_FAIL=1 minio-go-functional >"$log" || true
  for status in PASS NA FAIL; do
    echo "minio-go $minio_go: $status $(grep -c "\"status\":\"$status\"" "$log" || true)"
  done
  sed -n 's/.*"name":"minio-go: \([^"]*\)".*"status":"FAIL".*"message":"\([^"]*\)".*/  \1: \2/p' "$log" | sort | uniq -c >"$log.failed"
  cat "$log.failed"
  # Known: requests signed with version 2, forms, lists with metadata, checksums of single parts (docs/compatibility.md).
  ! grep -Ev 'test(Copy|Replace)ObjectWithChecksums: MakeBucket|testPresignedPostPolicy|testListUnsorted|testTrailingChecksums' "$log.failed" ||
    failed=1
  grep -q '"status":"PASS"' "$log" || failed=1
}

install_python python 'boto3[crt]' numpy pyarrow s3torchconnector s5cmd
install_python s3fs s3fs # it wants a botocore of its own choice
if command -v go >/dev/null; then install_go; else echo "no go: rclone, mc and minio-go are left out"; fi
python="$peers/python/bin/python"
export PATH="$peers/python/bin:$peers/go/bin:$PATH" MILLRACE_ENDPOINT="http://127.0.0.1:$port"

process=
trap '[ -z "$process" ] || { kill $process; wait $process; }' EXIT
if [ $alone = yes ]; then
  start_node
  "$python" bench/peers/s3_trial.py
  try_clients
else
  start_cluster
  for redundancy in copies=2 2+1; do PEERS_REDUNDANCY=$redundancy "$python" bench/peers/s3_trial.py; done
  lose_the_last_node
  for redundancy in copies=2 2+1; do
    export PEERS_REDUNDANCY=$redundancy
    try_clients
  done
fi
if command -v go >/dev/null; then
  try_rclone_tests
  try_minio_go
fi
exit $failed

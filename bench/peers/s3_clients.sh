#!/bin/sh
# Current S3 clients, installed into build/peers, against a node of their own: boto3, s3fs, pyarrow and s3torchconnector
# by pip; minio-go's functional tests by go, where there is one. Prints versions and outcomes for docs/compatibility.md.
set -eu
cd "$(dirname "$0")/../.."
millrace="$PWD/build/millrace"
peers="$PWD/build/peers/s3_clients"
port="${1:-19480}"
minio_go="${MINIO_GO:-v7.4.1}"
rm -rf "$peers"
mkdir -p "$peers"
python3 -m venv "$peers/python"
"$peers/python/bin/pip" install --quiet 'boto3[crt]' pyarrow s3torchconnector
# s3fs wants a botocore of its own choice.
python3 -m venv "$peers/s3fs"
"$peers/s3fs/bin/pip" install --quiet s3fs

keys=$("$millrace" --quiet keys create --data "$peers/data" --admin)
export $keys
"$millrace" --quiet up --data "$peers/data" --listen "127.0.0.1:$port" &
node=$!
trap 'kill $node; wait $node' EXIT
until curl -sf "http://127.0.0.1:$port/-/ready" >/dev/null; do kill -0 $node; done

export MILLRACE_ENDPOINT="http://127.0.0.1:$port"
"$peers/python/bin/python" bench/peers/s3_clients.py boto3 pyarrow s3torchconnector || echo "some clients failed"
"$peers/s3fs/bin/python" bench/peers/s3_clients.py s3fs || echo "some clients failed"

command -v go >/dev/null || exit 0
export GOPATH="$peers/go" GOFLAGS="-mod=mod -modcacherw"
mkdir "$peers/minio-go"
cd "$peers/minio-go"
printf 'module functional\ngo 1.24\nrequire github.com/minio/minio-go/v7 %s\n' "$minio_go" >go.mod
# A program of its own: inside its module the tag that guards it would apply to all packages. Requests signed with version 2
# in headers are not served, so its tests of them are left out.
sed -E '/^\/\/ ?(go:build|\+build) mint/d; /^[[:blank:]]+test[A-Za-z0-9]*V2\(\)$/d' \
  "$(go mod download -json "github.com/minio/minio-go/v7@$minio_go" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/functional_tests.go" >main.go
go mod tidy >/dev/null 2>&1
go build -o functional main.go
SERVER_ENDPOINT="127.0.0.1:$port" ACCESS_KEY="$MILLRACE_ACCESS_KEY" SECRET_KEY="$MILLRACE_SECRET_KEY" ENABLE_HTTPS=0 ENABLE_KMS=0 \
  MINT_MODE=full RUN_ON_FAIL=1 ./functional >log.json || true
for status in PASS NA FAIL; do
  echo "minio-go $minio_go: $status $(grep -c "\"status\":\"$status\"" log.json || true)"
done
sed -n 's/.*"name":"minio-go: \([^"]*\)".*"status":"FAIL".*"message":"\([^"]*\)".*/  \1: \2/p' log.json | sort | uniq -c

"""Current S3 clients of Python against the node at MILLRACE_ENDPOINT, with the keys of MILLRACE_ACCESS_KEY and
MILLRACE_SECRET_KEY. The arguments name the clients. One line for each: its version and what it did, or the error.
bench/peers/s3_clients.sh runs it.
"""
import importlib.metadata
import io
import os
import sys
import traceback

ENDPOINT, ACCESS, SECRET = (os.environ[name] for name in ("MILLRACE_ENDPOINT", "MILLRACE_ACCESS_KEY", "MILLRACE_SECRET_KEY"))
os.environ.update(AWS_ACCESS_KEY_ID=ACCESS, AWS_SECRET_ACCESS_KEY=SECRET, AWS_DEFAULT_REGION="us-east-1", AWS_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true")
BUCKET, BIG = "peers-python", os.urandom(21_000_000)


def plain_client():
    import botocore.session
    return botocore.session.get_session().create_client("s3", endpoint_url=ENDPOINT)


def try_boto3():
    import boto3
    s3 = boto3.client("s3", endpoint_url=ENDPOINT)
    s3.upload_fileobj(io.BytesIO(BIG), BUCKET, "boto3/big")
    back = io.BytesIO()
    s3.download_fileobj(BUCKET, "boto3/big", back)
    assert back.getvalue() == BIG
    for algorithm in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
        s3.put_object(Bucket=BUCKET, Key="boto3/sum", Body=b"body", ChecksumAlgorithm=algorithm)
        assert s3.head_object(Bucket=BUCKET, Key="boto3/sum", ChecksumMode="ENABLED")["ChecksumType"] == "FULL_OBJECT"
    s3.copy_object(Bucket=BUCKET, Key="boto3/a b+c", CopySource={"Bucket": BUCKET, "Key": "boto3/sum"})
    assert s3.list_object_versions(Bucket=BUCKET, Prefix="boto3/a")["Versions"][0]["VersionId"] == "null"
    return "uploads in parts, checksums, copies, versions"


def try_s3fs():
    import s3fs
    files = s3fs.S3FileSystem(key=ACCESS, secret=SECRET, client_kwargs={"endpoint_url": ENDPOINT}, use_listings_cache=False)
    with files.open(f"{BUCKET}/s3fs/dir/big", "wb") as out:
        out.write(BIG)
    with files.open(f"{BUCKET}/s3fs/dir/big", "rb") as file:
        file.seek(10_000_000)
        assert file.read(100) == BIG[10_000_000:10_000_100]
    files.touch(f"{BUCKET}/s3fs/dir/empty")
    assert files.cat(f"{BUCKET}/s3fs/dir/empty") == b""
    files.mv(f"{BUCKET}/s3fs/dir/big", f"{BUCKET}/s3fs/dir/a b+c")
    assert sorted(files.ls(f"{BUCKET}/s3fs/dir")) == [f"{BUCKET}/s3fs/dir/a b+c", f"{BUCKET}/s3fs/dir/empty"]
    files.rm(f"{BUCKET}/s3fs", recursive=True)
    return "write, seek, move, list, remove"


def try_pyarrow():
    from pyarrow import fs
    files = fs.S3FileSystem(access_key=ACCESS, secret_key=SECRET, endpoint_override=ENDPOINT, region="us-east-1")
    with files.open_output_stream(f"{BUCKET}/pyarrow/big") as out:
        out.write(BIG)
    with files.open_input_file(f"{BUCKET}/pyarrow/big") as file:
        assert file.read_at(100, 5_000_000) == BIG[5_000_000:5_000_100] and file.size() == len(BIG)
    files.move(f"{BUCKET}/pyarrow/big", f"{BUCKET}/pyarrow/a b+c")
    assert [info.path for info in files.get_file_info(fs.FileSelector(f"{BUCKET}/pyarrow"))] == [f"{BUCKET}/pyarrow/a b+c"]
    files.delete_dir(f"{BUCKET}/pyarrow")
    return "write, read at, move, list, remove"


def try_s3torchconnector():
    from s3torchconnector import S3Checkpoint, S3ClientConfig, S3MapDataset
    s3 = plain_client()
    for key, body in (("torch/a", b"a"), ("torch/empty", b""), ("torch/big", BIG)):
        s3.put_object(Bucket=BUCKET, Key=key, Body=body)
    config = S3ClientConfig(force_path_style=True)
    data = S3MapDataset.from_prefix(f"s3://{BUCKET}/torch/", region="us-east-1", endpoint=ENDPOINT, s3client_config=config)
    assert {item.key: item.read() for item in data} == {"torch/a": b"a", "torch/empty": b"", "torch/big": BIG}
    checkpoint = S3Checkpoint(region="us-east-1", endpoint=ENDPOINT, s3client_config=config)
    with checkpoint.writer(f"s3://{BUCKET}/torch-out/big") as out:
        out.write(BIG)
    assert s3.get_object(Bucket=BUCKET, Key="torch-out/big")["Body"].read() == BIG
    return "data set with an empty object, checkpoint"


def main():
    s3 = plain_client()
    s3.create_bucket(Bucket=BUCKET)
    failed = 0
    clients = {"boto3": try_boto3, "s3fs": try_s3fs, "pyarrow": try_pyarrow, "s3torchconnector": try_s3torchconnector}
    for name in sys.argv[1:]:
        work, version = clients[name], importlib.metadata.version(name)
        try:
            print(f"{name} {version}: {work()}: good")
        except Exception:
            failed += 1
            print(f"{name} {version}: {traceback.format_exc()}")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    for page in pages:
        if "Contents" in page:
            s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": one["Key"]} for one in page["Contents"]]})
    s3.delete_bucket(Bucket=BUCKET)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""Current S3 clients of Python against a store. The arguments name the clients: boto3, s3fs, pyarrow, s3torchconnector.

Prints a line for each check, and what went wrong. bench/peers/s3_clients.sh runs it; s3_trial.py says what it needs.
"""
import functools
import importlib.metadata
import io

from s3_trial import ACCESS, BEFORE, BIG, ENDPOINT, MANY, SECRET, TREE, body_of, keys_of, must_equal, put_all, run_trials

PART = 10_000_000


def try_boto3(trial):
    import boto3
    s3, bucket = boto3.client("s3", endpoint_url=ENDPOINT), trial.bucket
    trial.check_made(lambda: s3.create_bucket(Bucket=bucket))

    def move(source, target):
        s3.copy_object(Bucket=bucket, Key=target, CopySource={"Bucket": bucket, "Key": source})
        s3.delete_object(Bucket=bucket, Key=source)

    with trial.check("read what was there before"):
        must_equal({name: body_of(s3, BEFORE, f"tree/{name}") for name in TREE}, TREE)
    with trial.check("21 MB in parts and back, a range"):
        s3.upload_fileobj(io.BytesIO(BIG), bucket, "big")
        back = io.BytesIO()
        s3.download_fileobj(bucket, "big", back)
        assert back.getvalue() == BIG
        assert s3.get_object(Bucket=bucket, Key="big", Range=f"bytes={PART}-{PART + 99}")["Body"].read() == BIG[PART:PART + 100]
    with trial.check("checksums CRC32, CRC32C, CRC64NVME, SHA1, SHA256"):
        for algorithm in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
            s3.put_object(Bucket=bucket, Key="sum", Body=b"body", ChecksumAlgorithm=algorithm)
            assert s3.head_object(Bucket=bucket, Key="sum", ChecksumMode="ENABLED")["ChecksumType"] == "FULL_OBJECT"
    trial.check_moves(move)
    with trial.check("1100 keys by prefix, by delimiter, as versions"):
        put_all(s3, bucket, MANY, "many/")
        assert keys_of(s3, bucket, "many/") == [f"many/{name}" for name in MANY]
        assert [one["Prefix"] for one in s3.list_objects_v2(Bucket=bucket, Prefix="m", Delimiter="/")["CommonPrefixes"]] == ["many/", "move/", "moved/"]
        assert s3.list_object_versions(Bucket=bucket, Prefix="big")["Versions"][0]["VersionId"] == "null"
    with trial.check("tags"):
        tags = [{"Key": "a b", "Value": "1+1"}]
        s3.put_object_tagging(Bucket=bucket, Key="big", Tagging={"TagSet": tags})
        assert s3.get_object_tagging(Bucket=bucket, Key="big")["TagSet"] == tags
    trial.check_link(lambda key: s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}))
    with trial.check("delete many, remove the bucket"):
        keys = keys_of(s3, bucket)
        for at in range(0, len(keys), 1000):
            assert "Errors" not in s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys[at:at + 1000]]})
        s3.delete_bucket(Bucket=bucket)


def try_s3fs(trial):
    import s3fs
    files = s3fs.S3FileSystem(key=ACCESS, secret=SECRET, client_kwargs={"endpoint_url": ENDPOINT}, use_listings_cache=False)
    bucket = trial.bucket
    trial.check_made(lambda: files.mkdir(bucket))
    with trial.check("read what was there before"):
        must_equal({name: files.cat(f"{BEFORE}/tree/{name}") for name in TREE}, TREE)
        assert len(files.ls(f"{BEFORE}/many")) == len(MANY)
    with trial.check("write, seek, an empty object"):
        with files.open(f"{bucket}/dir/big", "wb") as out:
            out.write(BIG)
        with files.open(f"{bucket}/dir/big", "rb") as file:
            file.seek(PART)
            assert file.read(100) == BIG[PART:PART + 100]
        files.touch(f"{bucket}/dir/empty")
        must_equal(trial.objects("dir/"), {"big": BIG, "empty": b""})
    trial.check_moves(lambda source, target: files.mv(f"{bucket}/{source}", f"{bucket}/{target}"))
    trial.check_link(lambda key: files.sign(f"{bucket}/{key}"))
    with trial.check("list, remove all, remove the bucket"):
        assert sorted(files.ls(f"{bucket}/dir")) == [f"{bucket}/dir/big", f"{bucket}/dir/empty"]
        files.rm(bucket, recursive=True)
        assert not files.exists(bucket)


def try_pyarrow(trial):
    from pyarrow import fs
    files = fs.S3FileSystem(access_key=ACCESS, secret_key=SECRET, endpoint_override=ENDPOINT, region="us-east-1",
                            allow_bucket_creation=True, allow_bucket_deletion=True)
    bucket = trial.bucket
    trial.check_made(lambda: files.create_dir(bucket))

    def read(path):
        with files.open_input_stream(path) as file:
            return file.read()

    with trial.check("read what was there before"):
        must_equal({name: read(f"{BEFORE}/tree/{name}") for name in TREE}, TREE)
        assert len(files.get_file_info(fs.FileSelector(f"{BEFORE}/many"))) == len(MANY)
    with trial.check("write, read at an offset"):
        with files.open_output_stream(f"{bucket}/dir/big") as out:
            out.write(BIG)
        with files.open_input_file(f"{bucket}/dir/big") as file:
            assert file.read_at(100, PART) == BIG[PART:PART + 100] and file.size() == len(BIG)
    trial.check_moves(lambda source, target: files.move(f"{bucket}/{source}", f"{bucket}/{target}"))
    with trial.check("list, remove all, remove the bucket"):
        assert [one.path for one in files.get_file_info(fs.FileSelector(f"{bucket}/dir"))] == [f"{bucket}/dir/big"]
        files.delete_dir(bucket)


def try_s3torchconnector(trial):
    from s3torchconnector import S3Checkpoint, S3ClientConfig, S3MapDataset
    config = S3ClientConfig(force_path_style=True)
    place = {"region": "us-east-1", "endpoint": ENDPOINT, "s3client_config": config}
    trial.check_made(lambda: trial.s3.create_bucket(Bucket=trial.bucket))
    with trial.check("a data set of what was there before"):
        items = {item.key.removeprefix("tree/"): item.read() for item in S3MapDataset.from_prefix(f"s3://{BEFORE}/tree/", **place)}
        must_equal(items, TREE)
        assert len(S3MapDataset.from_prefix(f"s3://{BEFORE}/many/", **place)) == len(MANY)
    with trial.check("checkpoints of 21 MB and of odd names"):
        checkpoint = S3Checkpoint(**place)
        for name, body in TREE.items():
            with checkpoint.writer(f"s3://{trial.bucket}/{name}") as out:
                out.write(body)
        must_equal(trial.objects(""), TREE)
    for key in keys_of(trial.s3, trial.bucket):
        trial.s3.delete_object(Bucket=trial.bucket, Key=key)
    trial.s3.delete_bucket(Bucket=trial.bucket)


if __name__ == "__main__":
    works = {"boto3": try_boto3, "s3fs": try_s3fs, "pyarrow": try_pyarrow, "s3torchconnector": try_s3torchconnector}
    run_trials({name: (functools.partial(importlib.metadata.version, name), work) for name, work in works.items()})

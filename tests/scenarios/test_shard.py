"""millrace shard: directories, manifests and streams become shards, and mistakes are told."""
import hashlib
import json
import os
import pathlib
import subprocess

import pytest

from archives import Sample, assert_whole_tar, put, read_members, read_samples, sample_set, shards_like, small_shard


# -- shard: directories --------------------------------------------------------------------------------------

def class_tree(top, classes, count=6):
    for name in classes:
        for number in range(count):
            put(top / name / f"{number}.jpg", f"{name} {number}")
    return top


def classes_in(path):
    return {sample.key: sample.fields["cls"].decode() for sample in read_samples(path)}


def test_class_directories_become_numbers(millrace, tmp_path):
    class_tree(tmp_path / "train", ["dog", "cat", "ant"])
    millrace("shard", "train", "--classes", "classes.txt", "-o", "train.tar")
    assert (tmp_path / "classes.txt").read_text() == "ant\ncat\ndog\n"
    assert classes_in(tmp_path / "train.tar") == {f"{name}/{n}": str(number) for number, name in enumerate(["ant", "cat", "dog"]) for n in range(6)}


def test_a_classes_file_is_used_again_for_other_directories(millrace, tmp_path):
    class_tree(tmp_path / "train", ["dog", "cat", "ant"])
    class_tree(tmp_path / "val", ["dog"])
    millrace("shard", "train", "--classes", "classes.txt", "-o", "train.tar")
    millrace("shard", "val", "--classes", "classes.txt", "-o", "val.tar")
    assert set(classes_in(tmp_path / "val.tar").values()) == {"2"}
    assert (tmp_path / "classes.txt").read_text() == "ant\ncat\ndog\n"
    class_tree(tmp_path / "other", ["dog", "emu"])
    assert "emu" in millrace("shard", "other", "--classes", "classes.txt", "-o", "other.tar", code=2).err
    assert not (tmp_path / "other.tar").exists()


def test_classes_need_class_directories_and_no_cls_files(millrace, tmp_path):
    put(tmp_path / "flat" / "1.jpg")
    assert "class" in millrace("shard", "flat", "--classes", "c.txt", "-o", "out.tar", code=2).err
    put(tmp_path / "both" / "cat" / "1.jpg")
    put(tmp_path / "both" / "cat" / "1.cls")
    assert "cls" in millrace("shard", "both", "--classes", "c.txt", "-o", "out.tar", code=2).err
    small_shard(tmp_path / "in.tar")
    assert "--classes" in millrace("shard", "in.tar", "--classes", "c.txt", "-o", "out.tar", code=2).err
    assert not (tmp_path / "c.txt").exists() and not (tmp_path / "out.tar").exists()


def test_shuffling_a_directory_depends_on_the_seed_alone(millrace, tmp_path):
    class_tree(tmp_path / "data", ["dog", "cat"], 40)
    results = {}
    for name, seed, jobs in [("a", 1, 1), ("b", 1, 4), ("c", 2, 1)]:
        millrace("shard", "data", "--shuffle", "--seed", seed, "-j", jobs, "-o", f"{name}-%d.tar", "--max-samples", "30")
        results[name] = [path.read_bytes() for path in map(pathlib.Path, shards_like(tmp_path, f"{name}-*.tar"))]
    assert results["a"] == results["b"] != results["c"]
    assert sample_set(read_samples(*shards_like(tmp_path, "a-*.tar"))) == sample_set(read_samples(*shards_like(tmp_path, "c-*.tar")))


def test_files_of_no_sample_are_counted_not_packed(millrace, tmp_path):
    put(tmp_path / "data" / "1.jpg")
    put(tmp_path / "data" / "README")
    put(tmp_path / "data" / "__meta__" / "x.txt")
    outcome = millrace("shard", "data", "-o", "out.tar")
    assert [m.name for m in read_members(tmp_path / "out.tar")] == ["1.jpg"]
    assert "count=2" in outcome.err


def test_two_files_that_are_one_field_are_refused(millrace, tmp_path):
    put(tmp_path / "data" / "1.jpg")
    put(tmp_path / "data" / "1.JPG")
    error = millrace("shard", "data", "-o", "out.tar", code=2).err
    assert "1.jpg" in error and "1.JPG" in error


def test_a_directory_without_samples_is_an_error(millrace, tmp_path):
    (tmp_path / "empty").mkdir()
    millrace("shard", "empty", "-o", "out.tar", code=1)
    millrace("shard", "absent", "-o", "out.tar", code=1)
    assert not (tmp_path / "out.tar").exists()


def test_the_output_may_lie_inside_the_directory_that_is_sharded(millrace, tmp_path):
    class_tree(tmp_path / "data", ["dog"])
    millrace("shard", "data", "-o", "data/out.tar")
    assert len(read_samples(tmp_path / "data" / "out.tar")) == 6


# -- shard: manifests ----------------------------------------------------------------------------------------

def test_a_tsv_manifest_names_files_and_gives_text(millrace, tmp_path):
    put(tmp_path / "pictures" / "a.jpg", b"A")
    put(tmp_path / "pictures" / "b.jpg", b"B")
    (tmp_path / "list.tsv").write_text("__key__\t@jpg\ttxt\t@png\r\ntrain/1\tpictures/a.jpg\tcaption one\t\r\n\r\ntrain/2\tpictures/b.jpg\t\tpictures/a.jpg\n")
    millrace("shard", "list.tsv", "-o", "out.tar")
    assert read_samples(tmp_path / "out.tar") == [Sample("train/1", {"jpg": b"A", "txt": b"caption one"}),
                                                 Sample("train/2", {"jpg": b"B", "txt": b"", "png": b"A"})]


def test_a_json_manifest_gives_files_text_numbers_and_json(millrace, tmp_path):
    put(tmp_path / "files" / "a.jpg", b"A")
    rows = [{"__key__": "1", "jpg": {"file": "a.jpg"}, "txt": "é", "cls": 7, "json": {"json": {"a": [1, None]}}, "flag": True, "score": -0.5}]
    (tmp_path / "list.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    millrace("shard", "list.jsonl", "--root", "files", "-o", "out.tar")
    [sample] = read_samples(tmp_path / "out.tar")
    assert sample.key == "1"
    assert json.loads(sample.fields.pop("json")) == {"a": [1, None]}
    assert sample.fields == {"jpg": b"A", "txt": "é".encode(), "cls": b"7", "flag": b"true", "score": b"-0.5"}


GOOD_TSV = "__key__\ttxt\n"
GOOD_JSON = '{"__key__": "good", "txt": "x"}\n'


@pytest.mark.parametrize("text,line", [
    ("txt\tcls\n1\t2\n", 1), ("__key__\n1\n", 1), ("__key__\t__key__\n1\t2\n", 1), ("__key__\ttxt\ttxt\n1\t2\t3\n", 1), ("__key__\t@txt\ttxt\n", 1),
    ("__key__\t\n1\t2\n", 1), ("__key__\tTXT\n1\t2\n", 1), ("__key__\ta/b\n1\t2\n", 1), ("__key__\t__url__\n1\t2\n", 1), ("", 1),
    (GOOD_TSV + "1\ta\tb\n", 2), (GOOD_TSV + "1\ta\n2\n", 3), (GOOD_TSV + "1\ta\n\n1\tb\n", 4), (GOOD_TSV + "a.b\tx\n", 2), (GOOD_TSV + "\tx\n", 2),
    (GOOD_TSV + "1\ta\n__meta__/1\tx\n", 3), ("__key__\t@jpg\n1\t\n", 2), (GOOD_TSV + "d.e/1.2\tx\n", 2),
])
def test_mistakes_in_a_tsv_manifest_are_told_with_their_line(millrace, tmp_path, text, line):
    (tmp_path / "list.tsv").write_text(text)
    error = millrace("shard", "list.tsv", "-o", "out.tar", code=2).err
    assert "list.tsv" in error and f"line {line}:" in error
    assert not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("text,line", [
    ("nonsense\n", 1), ('["a"]\n', 1), (GOOD_JSON + '{"txt": "x"}\n', 2), (GOOD_JSON + '{"__key__": 5.5, "txt": "x"}\n', 2), (GOOD_JSON * 2, 2),
    (GOOD_JSON + '{"__key__": "a.b", "txt": "x"}\n', 2), (GOOD_JSON + '\n{"__key__": "", "txt": "x"}\n', 3), ('{"__key__": "1"}\n', 1),
    ('{"__key__": "1", "TXT": "x"}\n', 1), ('{"__key__": "1", "a/b": "x"}\n', 1), ('{"__key__": "1", "__x__": "x"}\n', 1),
    ('{"__key__": "1", "": "x"}\n', 1), ('{"__key__": "1", "txt": null}\n', 1), ('{"__key__": "1", "txt": ["x"]}\n', 1),
    ('{"__key__": "1", "txt": {"file": 5}}\n', 1), ('{"__key__": "1", "txt": {"file": "a", "json": 1}}\n', 1), ('{"__key__": "1", "txt": {"url": "x"}}\n', 1),
    ('{"__key__": "nul\\u0000", "txt": "x"}\n', 1), ('{"__key__": "1", "txt": {"json": ' + "[" * 1000 + "]" * 1000 + "}}\n", 1),
    (GOOD_JSON + '{"__key__": "1", "txt": "cut', 2),
])
def test_mistakes_in_a_json_manifest_are_told_with_their_line(millrace, tmp_path, text, line):
    (tmp_path / "list.jsonl").write_text(text)
    error = millrace("shard", "list.jsonl", "-o", "out.tar", code=2).err
    assert "list.jsonl" in error and f"line {line}:" in error
    assert not (tmp_path / "out.tar").exists()


@pytest.mark.parametrize("path", ["../secret.txt", "sub/../../secret.txt", "ABSOLUTE", "link.txt", "linked-directory/secret.txt", "absolute-link.txt", "/proc/self/environ"])
def test_a_manifest_cannot_reach_files_outside_its_root(millrace, tmp_path, path):
    secret = put(tmp_path / "secret.txt", b"secret")
    root = tmp_path / "root"
    put(root / "sub" / "x.txt")
    os.symlink("../secret.txt", root / "link.txt")
    os.symlink("..", root / "linked-directory")
    os.symlink(secret, root / "absolute-link.txt")
    (root / "list.jsonl").write_text(json.dumps({"__key__": "k", "txt": {"file": str(secret) if path == "ABSOLUTE" else path}}))
    error = millrace("shard", "root/list.jsonl", "-o", "out.tar", code=1).err
    assert "leads out" in error and '"k"' in error
    assert not (tmp_path / "out.tar").exists()


def test_links_inside_a_manifests_root_are_followed(millrace, tmp_path):
    put(tmp_path / "real" / "x.txt", b"x")
    os.symlink("real/x.txt", tmp_path / "link.txt")
    (tmp_path / "list.tsv").write_text("__key__\t@txt\nk\tlink.txt\n")
    millrace("shard", "list.tsv", "-o", "out.tar")
    assert read_samples(tmp_path / "out.tar") == [Sample("k", {"txt": b"x"})]


def test_missing_and_unfit_files_of_a_manifest_are_named(millrace, tmp_path):
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name, code in [("absent.jpg", 1), ("directory", 2), ("fifo", 2)]:
        (tmp_path / "list.tsv").write_text(f"__key__\t@jpg\nthe-key\t{name}\n")
        error = millrace("shard", "list.tsv", "-o", "out.tar", code=code).err
        assert "the-key" in error and name in error
    assert sorted(os.listdir(tmp_path)) == ["directory", "fifo", "list.tsv"]


def test_one_directory_or_manifest_at_a_time(millrace, tmp_path):
    put(tmp_path / "a" / "1.jpg")
    put(tmp_path / "b" / "1.jpg")
    millrace("shard", "a", "b", "-o", "out.tar", code=2)


# -- tarshards -----------------------------------------------------------------------------------------------

def test_called_as_tarshards_it_cuts_a_stream(millrace, tmp_path):
    os.symlink(millrace.binary, tmp_path / "tarshards")
    stream = small_shard(tmp_path / "in.tar", 25).read_bytes()
    millrace("out-%06d.tar", "-c", "10", stdin=stream, program=str(tmp_path / "tarshards"))
    assert [len(read_samples(path)) for path in shards_like(tmp_path, "out-*.tar")] == [10, 10, 5]
    millrace("bytes-%d.tar.gz", "-s", "5KB", stdin=stream, program=str(tmp_path / "tarshards"))
    assert len(read_samples(*shards_like(tmp_path, "bytes-*.tar.gz"))) == 25
    assert "Example" in millrace("--help", program=str(tmp_path / "tarshards")).text
    millrace(code=2, program=str(tmp_path / "tarshards"))


def test_a_stream_that_ends_early_is_an_error_and_the_last_shard_is_not_written(millrace, tmp_path):
    stream = small_shard(tmp_path / "in.tar", 25).read_bytes()[:25_000]
    millrace("shard", "-", "-o", "out-%d.tar", "--max-samples", "5", stdin=stream, code=1)
    found = read_samples(*shards_like(tmp_path, "out-*.tar"))
    assert len(found) % 5 == 0
    for path in shards_like(tmp_path, "out-*.tar"):
        assert_whole_tar(path)


def test_hidden_files_of_a_directory_are_no_samples(millrace, tmp_path):
    for name in ("a/0001.jpg", "a/0001.cls", "a/.DS_Store", "b/.hidden.jpg", "b/0002.jpg"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"x")
    millrace("shard", "in", "-o", "out-%d.tar")
    assert [row["key"] for row in millrace.json("tar", "ls", "out-0.tar")] == ["a/0001", "b/0002"]


# -- shard: streams whose samples are scattered -----------------------------------------------------------------

def scattered_tree(top, count):
    for number in range(count):
        put(top / f"{number:05}.jpg", f"jpg {number}")
        put(top / f"{number:05}.cls", f"{number % 10}")
    return top


def in_disorder(tmp_path, tree):
    """What tar makes of a directory that lists its files in the order of hashes."""
    names = sorted((path.name for path in tree.iterdir()), key=lambda name: hashlib.md5(name.encode()).digest())
    (tmp_path / "names.txt").write_text("\n".join(names))
    subprocess.run(["tar", "-cf", tmp_path / "in.tar", "-C", tree, "-T", tmp_path / "names.txt"], check=True)
    first = list(dict.fromkeys(name.split(".")[0] for name in names))
    return (tmp_path / "in.tar").read_bytes(), first


def test_a_tar_stream_in_the_order_of_the_directory_becomes_whole_samples(millrace, tmp_path):
    data, first = in_disorder(tmp_path, scattered_tree(tmp_path / "photos", 400))
    told = millrace("shard", "-", "-o", "out-%06d.tar", "--max-samples", "150", stdin=data)
    assert "gathered samples" in told.err and "--sort=name" in told.err, told.err
    samples = [sample for path in shards_like(tmp_path, "out-*.tar") for sample in read_samples(path)]
    assert [sample.key for sample in samples] == first
    assert all(sample.fields == {"jpg": f"jpg {int(sample.key)}".encode(), "cls": str(int(sample.key) % 10).encode()} for sample in samples)
    assert all(report["ok"] for report in millrace.json("tar", "verify", *shards_like(tmp_path, "out-*.tar")))
    # The same in little memory, by its other name, and from a file.
    once = [pathlib.Path(path).read_bytes() for path in shards_like(tmp_path, "out-*.tar")]
    millrace("shard", "in.tar", "--memory", "4MiB", "-o", "again-%06d.tar", "--max-samples", "150")
    assert [pathlib.Path(path).read_bytes() for path in shards_like(tmp_path, "again-*.tar")] == once


def test_strict_order_refuses_scattered_samples_and_gathering_tools_take_them(millrace, tmp_path):
    data, first = in_disorder(tmp_path, scattered_tree(tmp_path / "photos", 50))
    refused = millrace("shard", "-", "--in-order", "-o", "out.tar", stdin=data, code=1)
    assert "scattered" in refused.err and not (tmp_path / "out.tar").exists()
    assert "--gather" in millrace("tar", "cat", "in.tar", "-o", "out.tar", code=1).err
    for verb, output in (("cat", "cat.tar"), ("merge", "merge.tar"), ("split", "split-%d.tar")):
        millrace("tar", verb, "in.tar", "--gather", "-o", output)
        name = output.replace("%d", "0")
        assert [sample.key for sample in read_samples(tmp_path / name)] == first, verb
    millrace("shard", "-", "--shuffle", "--seed", "3", "-o", "shuffled.tar", stdin=data)
    shuffled = read_samples(tmp_path / "shuffled.tar")
    assert sorted(sample.key for sample in shuffled) == sorted(first) and [sample.key for sample in shuffled] != first
    assert all(set(sample.fields) == {"jpg", "cls"} for sample in shuffled)


# -- shard: annotations --------------------------------------------------------------------------------------

COCO = {"info": {"year": 2017}, "categories": [{"id": 1, "name": "cat"}],
        "images": [{"id": 139, "file_name": "000139.jpg", "width": 4, "height": 3}, {"id": 285, "file_name": "sub/000285.JPG", "width": 5, "height": 6}],
        "annotations": [{"id": 1, "image_id": 285, "category_id": 1, "bbox": [1.5, 2, 3, 4]}, {"id": 2, "image_id": 139, "category_id": 1, "segmentation": [[1, 2]]},
                        {"id": 3, "image_id": 285, "category_id": 1}]}


def coco_images(top):
    put(top / "000139.jpg", "one")
    put(top / "sub" / "000285.JPG", "two")


@pytest.mark.parametrize("columns", [["--key", "id", "--file", "file_name"], []])
def test_annotations_as_coco_has_them_become_the_field_json(millrace, tmp_path, columns):
    coco_images(tmp_path / "images")
    put(tmp_path / "instances.json", json.dumps(COCO))
    millrace("shard", "instances.json", *columns, "--root", "images", "-o", "out.tar")
    first, second = read_samples(tmp_path / "out.tar")
    assert (first.key, first.fields["jpg"], second.key, second.fields["jpg"]) == ("139", b"one", "285", b"two")
    assert json.loads(first.fields["json"]) == {**COCO["images"][0], "annotations": [COCO["annotations"][1]]}
    assert json.loads(second.fields["json"]) == {**COCO["images"][1], "annotations": [COCO["annotations"][0], COCO["annotations"][2]]}


def test_rows_with_whole_numbers_as_keys_and_nested_annotations_are_taken(millrace, tmp_path):
    coco_images(tmp_path)
    rows = [{**image, "annotations": [{"bbox": [1, 2]}]} for image in COCO["images"]]
    put(tmp_path / "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    millrace("shard", "rows.jsonl", "--key", "id", "--file", "file_name", "-o", "out.tar")
    assert [(sample.key, json.loads(sample.fields["json"])) for sample in read_samples(tmp_path / "out.tar")] == [(str(row["id"]), row) for row in rows]
    put(tmp_path / "keys.jsonl", '{"__key__": 7, "cls": 1}\n')
    millrace("shard", "keys.jsonl", "-o", "keys.tar")
    assert [sample.key for sample in read_samples(tmp_path / "keys.tar")] == ["7"]


@pytest.mark.parametrize("change, said", [
    (lambda coco: coco["annotations"].append({"image_id": 7}), "annotation 4: image_id 7 is no id of an image"),
    (lambda coco: coco["annotations"].append({"id": 7}), "annotation 4: has no image_id"),
    (lambda coco: coco["images"].append({"id": 139, "file_name": "a.jpg"}), 'image 3: key "139" came before'),
    (lambda coco: coco["images"].append({"id": 9}), "image 3: has no text file_name"),
    (lambda coco: coco["images"].append({"id": 9, "file_name": "noending"}), 'image 3: the file "noending" has no ending'),
    (lambda coco: coco["images"].append({"file_name": "a.jpg"}), "image 3: has no text or whole number id"),
    (lambda coco: coco.pop("images"), "neither a list nor an object with a list of images"),
])
def test_annotations_that_do_not_fit_are_refused(millrace, tmp_path, change, said):
    coco_images(tmp_path)
    coco = json.loads(json.dumps(COCO))
    change(coco)
    put(tmp_path / "instances.json", json.dumps(coco))
    assert said in millrace("shard", "instances.json", "-o", "out.tar", code=2).err


def test_columns_are_refused_where_nothing_is_named_by_them(millrace, tmp_path):
    put(tmp_path / "a.tsv", "__key__\tcls\n1\t2\n")
    assert "--key and --file are for JSON" in millrace("shard", "a.tsv", "--key", "id", "-o", "out.tar", code=2).err
    put(tmp_path / "photos" / "1.jpg", "x")
    assert "--key and --file need a manifest" in millrace("shard", "photos", "--file", "f", "-o", "out.tar", code=2).err

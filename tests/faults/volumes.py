"""Small real file systems in image files, on loop devices; unmounted whatever happens to the test."""
import os
import pathlib
import subprocess
import time


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


class Volume:
    def __init__(self, directory, size, *make):
        """`make` is the mkfs command, to which the image is added."""
        self.image = pathlib.Path(directory) / "image"
        self.path = pathlib.Path(directory) / "volume"
        self.size = size
        self.make = make

    def __enter__(self):
        self.path.mkdir(parents=True)
        with open(self.image, "wb") as image:
            image.truncate(self.size)
        run(*self.make, self.image)
        # -o loop: the device goes with the last mount, also where this process is killed before it can unmount.
        run("mount", "-o", "loop", self.image, self.path)
        return self

    def leave(self, left):
        """Fills all but `left` bytes with a file of someone else's, that takes no time to write."""
        facts = os.statvfs(self.path)
        size = facts.f_bavail * facts.f_frsize - left
        number = 0
        while size > 65536:
            number += 1
            ballast = self.path / f"ballast-{number}"
            try:
                with open(ballast, "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, size)
            except OSError:
                ballast.unlink(missing_ok=True)
                size //= 2
                continue
            facts = os.statvfs(self.path)
            size = min(size, facts.f_bavail * facts.f_frsize - left)

    def give_back(self):
        for ballast in self.path.glob("ballast-*"):
            ballast.unlink()

    def __exit__(self, *_):
        for _ in range(50):
            if subprocess.run(["umount", str(self.path)], capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        subprocess.run(["umount", "--lazy", str(self.path)], capture_output=True)


# The images are sparse: what counts is that they are as large as drives, so that limits in percent mean what they do there.
SIZE = 6 << 30


def ext4(directory, *flags):
    return Volume(directory, SIZE, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", *flags)


def xfs(directory):
    return Volume(directory, SIZE, "mkfs.xfs", "-q", "-f")

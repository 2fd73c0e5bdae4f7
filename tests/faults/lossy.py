"""A mounted lossyfs, whose power can be cut."""
import contextlib
import os
import pathlib
import signal
import subprocess

from program import HANG_SECONDS, REPOSITORY


def program():
    return os.path.join(REPOSITORY, os.environ.get("LOSSYFS", "build/release/tests/faults/lossyfs"))


REFUSALS = {"read-only": signal.SIGHUP, "failing": signal.SIGPWR}


class Lossy:
    def __init__(self, mountpoint, sync_ms=0, write_ms=0, seed=1):
        self.path = pathlib.Path(mountpoint)
        self.command = [program(), str(self.path), "--sync-ms", str(sync_ms), "--write-ms", str(write_ms),
                        "--seed", str(seed)]

    def __enter__(self):
        self.path.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "mounted\n"
        return self

    def cut_power(self, torn=False):
        """Nobody may have files open."""
        self.process.send_signal(signal.SIGUSR2 if torn else signal.SIGUSR1)
        assert self.process.stdout.readline().startswith("power lost")

    def refuse(self, how):
        """Until mend(), every change is an error. `how`: "read-only" (EROFS) or "failing" (EIO, and writes done in part)."""
        self.refusal = REFUSALS[how]
        self.process.send_signal(self.refusal)
        assert self.process.stdout.readline() == how + "\n"

    def mend(self):
        self.process.send_signal(self.refusal)
        assert self.process.stdout.readline() == "writable\n"

    @contextlib.contextmanager
    def unreadable(self):
        """Every read that the page cache does not answer is EIO meanwhile; changes are taken."""
        self.process.send_signal(signal.SIGALRM)
        assert self.process.stdout.readline() == "unreadable\n"
        yield
        self.process.send_signal(signal.SIGALRM)
        assert self.process.stdout.readline() == "readable\n"

    @contextlib.contextmanager
    def standing_still(self):
        """Nothing is answered meanwhile, reads neither."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def __exit__(self, *_):
        # The name goes at once, also where a failed test left something open.
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            subprocess.run(["umount", "--lazy", str(self.path)], capture_output=True)

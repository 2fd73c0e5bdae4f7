"""Does to a fleet what a schedule says, and takes everything back at the end."""
import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import struct
import threading
import time

from clusters import progress
from fleet import skewed
from program import has_fault_points
from store_client import wait_until

BROKEN = (OSError, http.client.HTTPException, ValueError, AssertionError, StopIteration, KeyError)
# How long what loses or moves bytes for good waits for a cluster in order. Not a limit of the store: others kill its nodes meanwhile.
PATIENCE_SECONDS = 60


class Nemesis:
    """Runs in the thread that calls run(). `expected` says of every node what it should be now: up, down, or armed to crash."""

    def __init__(self, fleet, history, say):
        self.fleet, self.history, self.say = fleet, history, say
        self.expected = {node.name: "up" for node in fleet.nodes}
        for node in fleet.nodes:
            node.began_at = 0
        self.cuts = {}      # event -> pairs
        self.threads = []
        self.counts = {}
        self.registry_locks = []
        self.dead_members = []

    def run(self, events, seconds):
        began = time.monotonic()
        steps = sorted([(one.start, 1, one) for one in events] + [(one.end, 0, one) for one in events], key=lambda step: step[:2])
        for at, is_start, event in steps:
            self._watch_until(began + at)
            self.history.event(("begin " if is_start else "end ") + str(event))
            action = getattr(self, ("_begin_" if is_start else "_end_") + event.kind, None)
            if action:
                action(event)
        self._watch_until(began + seconds)

    def heal(self):
        """Takes everything back. Gives nodes that ended by themselves another life, so that what they hold can be looked at."""
        self._look()
        self._release_registry()
        for member in self.dead_members:
            if not member.is_running:
                member.start(self.fleet.etcd.members)
        if self.fleet.network.has_cuts:
            self.cuts = {}
            self._apply_cuts()
            for node in self.fleet.nodes:
                self.fleet.network.slow(node.name, None)
        for node in self.fleet.nodes:
            if node.line:
                node.line.spoil("pass", 0)
            if node.is_running:
                node.process.send_signal(signal.SIGCONT)
            if self.expected[node.name] == "armed":
                self._kill(node)
            if not node.is_running and self.expected[node.name] != "starting":
                self._start(node)
        for thread in self.threads:
            thread.join()
        self.history.event("healed")

    def count(self, what, by=1):
        self.counts[what] = self.counts.get(what, 0) + by

    # Nodes.

    def _nodes(self, event):
        """Those of the event that are still members."""
        return [node for node in self.fleet.nodes if node.name in event.nodes]

    def _kill(self, node):
        self.expected[node.name] = "down"
        if node.is_running:
            node.process.kill()
            node.process.wait()

    def _start(self, node, env=None, state="up"):
        node.began_at = len(node.said())
        node.start(wait=False, env=env)
        self.expected[node.name] = state

    def _watch_until(self, moment):
        while True:
            self._look()
            left = moment - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.2))

    def _look(self):
        """A node that ended although nobody killed it is a violation; but a node does not start without its registry, and is started again."""
        for node in list(self.fleet.nodes):
            if self.expected.get(node.name) != "up" or not node.process or node.is_running:
                continue
            said = node.said()[node.began_at:]
            if node.process.returncode == 1 and "millrace serves at" not in said and any(word in said.splitlines()[-1] for word in ("etcd", "registry", "the cluster at")):
                self.count("starts without a registry")
            else:
                self.history.violate("ended", node.name, f"ended by itself with {node.process.returncode}: {said[-1500:]}")
            self._start(node)

    def _begin_kill(self, event):
        for node in self._nodes(event):
            self._kill(node)
            self.count("kills")

    def _end_kill(self, event):
        for node in self._nodes(event):
            self._start(node)

    def _begin_crash(self, event):
        """It dies by itself, at the n-th fault point that it passes."""
        for node in self._nodes(event):
            self._kill(node)
            self.count("kills")
            self._start(node, {"MILLRACE_CRASH_AT": str(event.detail)}, "armed")

    def _end_crash(self, event):
        for node in self._nodes(event):
            if not node.is_running:
                self.count("crashes at fault points")
            self._kill(node)
            self._start(node)

    def _begin_stop(self, event):
        for node in self._nodes(event):
            if node.is_running:
                node.process.send_signal(signal.SIGSTOP)
            self.count("stops")

    def _end_stop(self, event):
        for node in self._nodes(event):
            if node.is_running:
                node.process.send_signal(signal.SIGCONT)

    def _begin_skew(self, event):
        for node in self._nodes(event):
            self._kill(node)
            self._start(node, skewed(event.detail))
            self.count("skews")

    def _end_skew(self, event):
        for node in self._nodes(event):
            self._kill(node)
            self._start(node)

    # The network.

    def _apply_cuts(self):
        self.fleet.network.set_cuts({pair for pairs in self.cuts.values() for pair in pairs})

    def _begin_partition(self, event):
        direction, whom = event.detail
        others = [node.name for node in self.fleet.nodes if node.name not in event.nodes] if whom != "registry" else []
        if self.fleet.etcd and whom != "peers":
            others += [member.place.name for member in self.fleet.etcd.members]
        pairs = set()
        for node in self._nodes(event):
            if direction != "from it":
                pairs |= {(other, node.name) for other in others}
            if direction != "to it":
                pairs |= {(node.name, other) for other in others}
        self.cuts[event] = pairs
        self._apply_cuts()
        self.count("partitions")

    def _end_partition(self, event):
        self.cuts.pop(event, None)
        self._apply_cuts()

    def _begin_slow(self, event):
        for node in self._nodes(event):
            self.fleet.network.slow(node.name, event.detail)
            self.count("slow links")

    def _end_slow(self, event):
        for node in self._nodes(event):
            self.fleet.network.slow(node.name, None)

    def _begin_line(self, event):
        for node in self._nodes(event):
            node.line.spoil(*event.detail)
            self.count(f"lines spoiled: {event.detail[0]}")

    def _end_line(self, event):
        for node in self._nodes(event):
            node.line.spoil("pass", 0)

    # The last drive of a node.

    def _begin_volume(self, event):
        for node in self._nodes(event):
            self.count(f"volumes {event.detail}")
            if event.detail.startswith("power"):
                self._kill(node)
                node.volume.cut_power(torn=event.detail == "power lost, torn")
            elif event.detail == "stuck":
                node.volume.process.send_signal(signal.SIGSTOP)
            elif event.detail == "unreadable":
                node.unreadable = contextlib.ExitStack()
                node.unreadable.enter_context(node.volume.unreadable())
            else:
                node.volume.refuse(event.detail)

    def _end_volume(self, event):
        for node in self._nodes(event):
            if event.detail.startswith("power"):
                self._start(node)
            elif event.detail == "stuck":
                node.volume.process.send_signal(signal.SIGCONT)
            elif event.detail == "unreadable":
                node.unreadable.close()
            else:
                node.volume.mend()

    # The registry.

    def _begin_registry(self, event):
        self.count("registry away")
        if self.fleet.etcd:
            self.cuts[event] = {pair for node in self.fleet.nodes for member in self.fleet.etcd.members
                                for pair in ((node.name, member.place.name), (member.place.name, node.name))}
            self._apply_cuts()
            return
        # Whoever holds the lock keeps all others out of the directory, and whoever holds the other one keeps them from replacing the lock. A node
        # that stands still may have it: then the registry is away already.
        first_byte = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        for name in ("takeover", "lock"):
            self.registry_locks.append(os.open(self.fleet.registry / name, os.O_RDWR | os.O_CREAT, 0o600))
            for _ in range(200):
                with contextlib.suppress(BlockingIOError, PermissionError):
                    fcntl.fcntl(self.registry_locks[-1], fcntl.F_OFD_SETLK, first_byte)
                    break
                time.sleep(0.005)

    def _end_registry(self, event):
        if self.fleet.etcd:
            self._end_partition(event)
        self._release_registry()

    def _release_registry(self):
        while self.registry_locks:
            os.close(self.registry_locks.pop())

    def _begin_member(self, event):
        members = [member for member in self.fleet.etcd.members if member.is_running]
        if len(members) < len(self.fleet.etcd.members):
            return
        chosen = next((member for member in members if member.leads), members[0]) if event.detail == "leader" else members[-1]
        chosen.kill()
        self.dead_members.append(chosen)
        self.count("registry members killed")

    def _end_member(self, event):
        while self.dead_members:
            self.dead_members.pop().start(self.fleet.etcd.members)

    # What takes longer runs beside the rest.

    def _beside(self, work, event):
        def run():
            try:
                work(event)
            except BROKEN as reason:
                self.say(f"{event.kind} of {','.join(event.nodes)} was given up: {reason or type(reason).__name__}")
                self.count(f"{event.kind} given up")

        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _wait(self, condition, what):
        def quietly():
            with contextlib.suppress(*BROKEN):
                return condition()
            return False

        wait_until(quietly, what, PATIENCE_SECONDS)

    def _begin_drive(self, event):
        self._beside(self._lose_drive, event)

    def _lose_drive(self, event):
        """A drive whose directory comes back empty. It is given up and taken in again as a new one."""
        node, = self._nodes(event)
        path = node.drives[0]
        self._wait(self.fleet.is_clean, "the cluster is not in order before a drive is lost")
        self._kill(node)
        for child in path.iterdir():
            shutil.rmtree(child) if child.is_dir() else child.unlink()
        self._start(node)
        self.count("drives lost")
        self.history.event(f"{path} is empty")
        for action in ("remove", "add"):
            self._wait(lambda: node.ask("POST", "/-/drives", json.dumps({"action": action, "path": str(path)})).status == 200,
                       f"the drive could not be given: {action}")
        self._wait(self.fleet.is_clean, "the cluster is not in order after a drive was lost")

    def _begin_membership(self, event):
        self._beside(self._replace, event)

    def _replace(self, event):
        """A new node joins, an old one is drained and removed."""
        old, = self._nodes(event)
        new = self.fleet.add_node()
        self.expected[new.name], new.began_at = "starting", 0
        self._wait(lambda: self.fleet.join(new) or True, "nobody gave a token")
        self._wait(lambda: new.ask("GET", "/-/ready").status == 200, "the new node never became ready")
        self.expected[new.name] = "up"
        self.count("joined")
        self._wait(lambda: self.fleet.change("drain", old).status == 200, "the node could not be drained")
        self.count("drained")

        def is_empty():
            told = next(progress(one) for one in self.fleet.living if one is not old)
            return told[old.address] and told[old.address]["slices"] == 0 and self.fleet.is_clean()

        self._wait(is_empty, "the drained node never became empty")
        self.expected[old.name] = "down"
        old.process.send_signal(signal.SIGTERM)
        old.process.wait(timeout=60)
        self._wait(lambda: self.fleet.change("remove", old).status == 200, "the node could not be removed")
        self.fleet.nodes.remove(old)
        self.fleet.former.append(old)
        self.count("removed")


def possible_kinds(fleet, wanted):
    """Of the wanted kinds those that can be done here, and why the others cannot."""
    notes = {}
    if not fleet.network.has_cuts:
        notes.update(dict.fromkeys(("partition", "slow"), f"no network namespaces ({fleet.network.why})"))
        if fleet.etcd:
            notes["registry"] = notes["slow"]
    if not fleet.has_volumes:
        notes["volume"] = "the drives are plain directories"
    if not fleet.has_lines:
        notes["line"] = "the nodes reach each other directly"
    if not has_fault_points():
        notes["crash"] = "this build has no fault points"
    if fleet.etcd is None:
        notes["member"] = "the registry is a directory"
    if skewed(1) is None:
        notes["skew"] = "libfaketime is not installed"
    return [kind for kind in wanted if kind not in notes], {kind: why for kind, why in notes.items() if kind in wanted}

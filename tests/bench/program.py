"""The two programs that are compared, each on a device of its own, and what the kernel says of them.

A look is asked of overlaykey by USR1, and of the script by ending the `sleep` that it waits for, so that ten thousand
take seconds; each is waited for until the program sleeps again.
"""
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cloudbox import Cloudbox

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 120  # seconds that anything may be waited for; no look or heal that works comes near it
TICK = 1000 / os.sysconf("SC_CLK_TCK")


def proc(pid, name):
    """A file of /proc/PID; empty if that process has ended."""
    try:
        with open(f"/proc/{pid}/{name}") as file:
            return file.read()
    except OSError:
        return ""


def fields(pid, name):
    """The numbers in /proc/PID/status or smaps_rollup, by their names."""
    words = (line.replace(":", " ").split() for line in proc(pid, name).splitlines())
    return {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdigit()}


def stat(pid):
    """/proc/PID/stat from the state on: the name before it may hold blanks."""
    return proc(pid, "stat").rpartition(")")[2].split() or ["X"] * 50


def children(pid):
    return [int(child) for child in proc(pid, f"task/{pid}/children").split()]


class Program:
    """One under way. In `work` are the documents that its device can show: healthy.json, lost.json, big.json."""
    running = []

    def __init__(self, work, shows="healthy", prefix=()):
        self.work, self.folder = work, tempfile.mkdtemp(dir=work)
        self.shows(shows)
        os.mkfifo(f"{self.folder}/calls")
        # Both ends of it, so that no call waits for a reader.
        self.pipe, self.calls = os.open(f"{self.folder}/calls", os.O_RDWR | os.O_NONBLOCK), []
        environment = {"PATH": f"{HERE}:/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "BENCH": self.folder}
        begun = time.monotonic()
        with open(f"{self.folder}/output", "w") as output:
            self.process = subprocess.Popen(
                [*prefix, *self.argv], env={**environment, **self.settings()}, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        self.pid = self.process.pid
        Program.running.append(self)
        self.hears("status")
        self.first_look = (time.monotonic() - begun) * 1000

    def shows(self, document):
        os.symlink(f"../{document}.json", f"{self.folder}/new")
        os.replace(f"{self.folder}/new", f"{self.folder}/status.json")

    # ---- waiting

    def hears(self, verb):
        """Waits for a call of `tailscale VERB`."""
        end = time.monotonic() + LIMIT
        while verb not in self.calls:
            self.give_up_if_hopeless(f"tailscale {verb}", end)
            if select.select([self.pipe], [], [], 1)[0]:
                self.calls += os.read(self.pipe, 65536).decode().split()

    def settles(self):
        """Waits until it sleeps; what it has called until then is no news any more."""
        self.until("its sleep", self.sleeps)
        while select.select([self.pipe], [], [], 0)[0]:
            os.read(self.pipe, 65536)
        self.calls.clear()

    def looks(self, times):
        for _ in range(times):
            self.hurry()
            self.hears("status")
            self.settles()

    def heals(self, times):
        """Waits until it has healed so often since its start."""
        self.until(f"heal {times}", lambda: self.said().count("registered again") == times)
        self.settles()

    def until(self, what, condition):
        end = time.monotonic() + LIMIT
        while not condition():
            self.give_up_if_hopeless(what, end)
            time.sleep(0.0005)

    def give_up_if_hopeless(self, what, end):
        if time.monotonic() > end or stat(self.pid)[0] in "ZX":
            sys.exit(f"tests/bench/run: {' '.join(self.argv)}: waited in vain for {what}; it said:\n{self.said()}")

    def said(self):
        with open(f"{self.folder}/output") as output:
            return output.read()

    # ---- figures: memory in KiB, CPU time in ms

    def memory(self):
        rollup, status = fields(self.pid, "smaps_rollup"), fields(self.pid, "status")
        return {"RSS, KiB": rollup["Rss"], "PSS, KiB": rollup["Pss"], "anonymous, KiB": rollup["Anonymous"],
                # The kernel notes the peak from counters that lag behind.
                "peak, KiB": max(status["VmHWM"], rollup["Rss"])}

    def pss_with_children(self):
        return sum(fields(pid, "smaps_rollup")["Pss"] for pid in (self.pid, *children(self.pid)))

    def threads(self):
        return fields(self.pid, "status")["Threads"]

    def files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def switches(self):
        status = fields(self.pid, "status")
        return status["voluntary_ctxt_switches"] + status["nonvoluntary_ctxt_switches"]

    def cpu(self):
        """Its own: the clock of clock_getcpuclockid(3), to the nanosecond."""
        return time.clock_gettime(~self.pid << 3 | 2) * 1000

    def childrens_cpu(self):
        """That of the children that have ended; in ticks of 10 ms, so it takes many of them."""
        return sum(map(int, stat(self.pid)[13:15])) * TICK

    # ---- the end

    def stop(self):
        """Ends it by TERM: how long that takes (ms), how many processes it leaves, its children's CPU in all."""
        self.settles()
        own, begun = self.cpu(), time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        _, _, usage = os.wait4(self.pid, 0)
        took = (time.monotonic() - begun) * 1000
        self.process.returncode = 0
        return took, self.clean_up(), (usage.ru_utime + usage.ru_stime) * 1000 - own

    def clean_up(self):
        """Ends what is left of it, and says how many processes that were."""
        Program.running.remove(self)
        os.close(self.pipe)
        session = str(self.process.pid)
        left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if stat(pid)[3] == session]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder)
        return len(left)


class Overlaykey(Program):
    argv = []  # the binary that is measured, and `run`

    def settings(self):
        return {"OVERLAYKEY_CLOUDBOX_URL": Cloudbox.url, "OVERLAYKEY_TOKEN_FILE": f"{self.work}/token",
                "OVERLAYKEY_AGENT_NAME": "router-1", "OVERLAYKEY_CA_FILE": f"{self.work}/ca.pem",
                "OVERLAYKEY_RUN_DIR": f"{self.folder}/run", "OVERLAYKEY_INTERVAL": "1h",
                "OVERLAYKEY_MEMBERSHIP_INTERVAL": "0"}

    def hurry(self):
        os.kill(self.pid, signal.SIGUSR1)

    def sleeps(self):
        # In this order: it sleeps while a child runs, too.
        return not children(self.pid) and stat(self.pid)[0] == "S"


class Script(Program):
    argv = ["/bin/sh", f"{HERE}/script"]

    def settings(self):
        return {"CLOUDBOX_URL": Cloudbox.url, "TOKEN_FILE": f"{self.work}/token", "AGENT_NAME": "router-1",
                "INTERVAL": "3600", "CURL_CA_BUNDLE": f"{self.work}/roots.pem"}

    def hurry(self):
        [sleep] = children(self.pid)
        os.kill(sleep, signal.SIGPIPE)  # a death of which the shell says nothing

    def sleeps(self):
        return [proc(child, "comm") for child in children(self.pid)] == ["sleep\n"]

"""The work of tests/bench/run: measure.py BINARY [EMULATOR ARM-BINARY]…

Every figure is the kernel's, of the programs as they are: nothing is built into them for it.
"""
import json
import os
import platform
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from cloudbox import Cloudbox, serve
from program import HERE, Overlaykey, Program, Script, children

STARTS = 15
QUIET = 20  # seconds without a look
HEALS = 5  # before each overlaykey waits twice as long as before the last: the sixth alone would take half a minute
WARM, LOOKS = 100, {Overlaykey: 10_000, Script: 1_000}  # one of the script takes ten times as long
BIG, BIG_LOOKS = 900_000, 100  # bytes: what 600 peers make where --peers=false is not heeded
CALLS = 500  # of the scripted tailscale alone

# The goals, for a static binary on x86_64; MB and kB as the kernel counts them.
MEMORY = {"anonymous, KiB": 256, "peak, KiB": 2.5 * 1024}
BEFORE_TLS, AFTER_TLS = {"RSS, KiB": 1.2 * 1024, **MEMORY}, {"RSS, KiB": 2.0 * 1024, **MEMORY}
GROWTH = {f"more than after {WARM} looks: {what}": 0 for what in ("RSS, KiB", "anonymous, KiB", "open files")}


def documents():
    """healthy.json, lost.json, and big.json: the healthy node in a large tailnet."""
    def read(name):
        with open(f"{HERE}/../data/{name}-1.102.3.json") as file:
            return json.load(file)

    def write(name, document):
        with open(f"{WORK}/{name}.json", "w") as file:
            json.dump(document, file, indent=2)
        return os.path.getsize(file.name)

    write("healthy", read("running"))
    write("lost", read("logged-out"))
    big = read("running-with-peer")
    [peer] = big["Peer"].values()
    while write("big", big) < BIG:
        known = len(big["Peer"])
        big["Peer"].update({f"nodekey:{number:064x}": peer for number in range(known, known + 20)})


# ---- the table

def compare(title, situation, goals):
    """Brings both programs into a situation, which returns figures by their names."""
    ours, theirs = situation(Overlaykey), situation(Script)
    print(f"\n{title}")
    for name, value in ours.items():
        row(title, name, value, theirs[name], goals.get(name))


def row(title, name, ours, theirs, goal):
    def shown(value):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"

    ratio = f"{theirs / ours:.2f}" if ours and theirs else "-"
    line = f"  {name:42}{shown(ours):>12}{shown(theirs):>12}{ratio:>9}"
    if goal is not None and HELD:
        line += f"   at most {goal:,g}"
        if ours > goal:
            line += ": MISSED"
            missed.append(f"{title}: {name}")
    print(line, flush=True)


# ---- the situations

def start_and_end(kind):
    firsts, ends, left = [], [], []
    for _ in range(STARTS):
        program = kind(WORK)
        firsts.append(program.first_look)
        end, processes, _ = program.stop()
        ends.append(end)
        left.append(processes)
    return {"start to first look, ms": statistics.median(firsts), "TERM to exit, ms": statistics.median(ends),
            "processes left running": max(left)}


def idle(kind):
    program = kind(WORK)
    program.settles()
    switches, begun = program.switches(), time.monotonic()
    time.sleep(QUIET)
    minutes = (time.monotonic() - begun) / 60
    figures = {**program.memory(), "PSS with children, KiB": program.pss_with_children(),
               "threads": program.threads(), "open files": program.files(),
               "context switches a minute": (program.switches() - switches) / minutes}
    program.stop()
    return figures


def healing(kind):
    asked = Cloudbox.asked
    program = kind(WORK, shows="lost")
    program.heals(1)
    cpu = program.cpu()
    for heal in range(2, HEALS + 1):
        program.shows("lost")
        program.hurry()
        program.heals(heal)
    figures = {"heals": HEALS, "TLS connections a heal": (Cloudbox.asked - asked) / HEALS, **program.memory(),
               "threads": program.threads(), "open files": program.files(),
               "own CPU a heal, ms": (program.cpu() - cpu) / (HEALS - 1)}
    _, _, childrens_cpu = program.stop()
    return {**figures, "children's CPU a heal, ms": childrens_cpu / HEALS,
            "peak of its largest process, KiB": largest_process(kind)}


def largest_process(kind):
    """The peak of the program or of one of its children in a heal. It is started by time(1), for with a process' peak
    the kernel counts what it had before exec, and that would be this Python's."""
    program = kind(WORK, shows="lost", prefix=["/usr/bin/time", "-q", "-f", "%M", "-o", f"{WORK}/largest"])
    [program.pid] = children(program.pid)
    program.heals(1)
    os.kill(program.pid, signal.SIGTERM)
    program.process.wait()
    program.clean_up()
    with open(f"{WORK}/largest") as file:
        return int(file.read())


def large_document(kind):
    program = kind(WORK, shows="big")
    program.settles()
    cpu, childrens_cpu = program.cpu(), program.childrens_cpu()
    program.looks(BIG_LOOKS)
    figures = {**program.memory(), "own CPU a look, ms": (program.cpu() - cpu) / BIG_LOOKS,
               "children's CPU a look, ms": (program.childrens_cpu() - childrens_cpu) / BIG_LOOKS}
    program.stop()
    return figures


def many_looks(kind):
    program = kind(WORK, shows="lost")
    program.heals(1)  # so that what TLS leaves in memory is there
    program.looks(WARM)
    memory, files, switches = program.memory(), program.files(), program.switches()
    cpu, childrens_cpu = program.cpu(), program.childrens_cpu()
    looks = LOOKS[kind] - WARM
    program.looks(looks)
    figures = {"looks": LOOKS[kind], "own CPU a look, ms": (program.cpu() - cpu) / looks,
               "children's CPU a look, ms": (program.childrens_cpu() - childrens_cpu) / looks,
               "context switches a look": (program.switches() - switches) / looks, **program.memory()}
    more = [figures[name] - memory[name] for name in ("RSS, KiB", "anonymous, KiB")]
    more.append(program.files() - files)
    program.stop()
    return {**figures, **dict(zip(GROWTH, more))}


def scripted_tailscale():
    """The CPU time of one call, made by a shell, in ms."""
    os.symlink("/dev/null", f"{WORK}/calls")
    os.symlink("healthy.json", f"{WORK}/status.json")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["/bin/sh", "-c", f"i=0; while [ $((i += 1)) -le {CALLS} ]; do tailscale status; done"],
                   env={"PATH": f"{HERE}:/usr/bin:/bin", "BENCH": WORK}, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000 / CALLS


def under_emulator(emulator, binary):
    """Prints what is not the emulator's."""
    Overlaykey.argv = [emulator, binary, "run"]
    program = Overlaykey(WORK, shows="lost")
    program.heals(1)
    files = program.files()
    program.looks(WARM)
    more = program.files() - files
    end, left, _ = program.stop()
    print(f"  {os.path.basename(binary)}: heals, {WARM} looks (more open files: {more}),\n"
          f"    first look after {program.first_look:.0f} ms, exit {end:.0f} ms after TERM "
          f"(processes left running: {left})", flush=True)


# ---- all of it

def first_line(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def is_static(binary):
    with open(binary, "rb") as file:
        return b"/ld-" not in file.read(4096)  # the loader's name stands near the start


def main():
    serve(WORK)
    documents()
    with open(f"{WORK}/token", "w") as token:
        os.fchmod(token.fileno(), 0o600)
        token.write("bench-token\n")
    print(f"{first_line(BINARY, '--version')}\n  {BINARY}, {os.path.getsize(BINARY):,} bytes")
    print(f"beside tests/bench/script with {os.path.basename(os.path.realpath('/bin/sh'))}, "
          f"{' '.join(first_line('curl', '--version').split()[:2])}, {first_line('jq', '--version')}; "
          "ratio: theirs to ours")
    print(f"A call of the scripted tailscale costs {scripted_tailscale():.2f} ms of CPU by itself.")
    if not HELD:
        print("The goals are those of a static binary on x86_64, and not held here.")
    print(f"\n{'':44}{'overlaykey':>12}{'sh+curl+jq':>12}{'ratio':>9}")
    compare(f"start and end (medians of {STARTS})", start_and_end, {})
    compare(f"idle before the first TLS exchange ({QUIET} s)", idle, {**BEFORE_TLS, "context switches a minute": 0})
    compare("healing at every look", healing, AFTER_TLS)
    compare(f"status document of {os.path.getsize(f'{WORK}/big.json'):,} bytes", large_document, MEMORY)
    compare("many looks, after a heal", many_looks, {"own CPU a look, ms": 1, **AFTER_TLS, **GROWTH})
    if EMULATED:
        print("\nunder qemu-user: memory, threads and CPU time would be the emulator's, and are not shown")
    for emulator, binary in EMULATED:
        under_emulator(emulator, binary)


BINARY, EMULATED = sys.argv[1], list(zip(sys.argv[2::2], sys.argv[3::2]))
HELD = platform.machine() == "x86_64" and is_static(BINARY)
Overlaykey.argv = [BINARY, "run"]
missed = []
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
WORK = tempfile.mkdtemp(prefix="overlaykey-bench.")
try:
    main()
finally:
    for program in list(Program.running):
        program.clean_up()
    shutil.rmtree(WORK)
for goal in missed:
    print(f"MISSED {goal}")
sys.exit(bool(missed))

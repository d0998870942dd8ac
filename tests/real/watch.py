#!/usr/bin/env python3
"""Write down every command line and environment that is seen in a network namespace: watch.py NAMESPACE FILE

One line a find, `PID cmdline …` or `PID environ …`, each once, looked for every 20 ms until killed.
"""
import os
import sys
import time

NAMESPACE = os.stat(f"/run/netns/{sys.argv[1]}").st_ino
os.umask(0o077)
seen = set()
with open(sys.argv[2], "a", buffering=1, errors="replace") as out:
    while True:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{pid}/ns/net").st_ino != NAMESPACE:
                    continue
                for what in ("cmdline", "environ"):
                    with open(f"/proc/{pid}/{what}", errors="replace") as file:
                        text = " ".join(file.read().replace("\0", " ").split())
                    if (pid, what, text) not in seen:
                        seen.add((pid, what, text))
                        out.write(f"{pid} {what} {text}\n")
            except OSError:  # it has ended meanwhile
                pass
        time.sleep(0.02)

#!/usr/bin/env python3
"""A stand-in cloudbox that mints real Headscale keys: cloudbox.py LAB ADDRESS PORT HEADSCALE

In the folder LAB it finds, and reads again at each request:
  token            who may ask
  cloudbox.mode    what is answered: ok, 503html (a gateway's page), badkey-once (a key nobody knows, then ok)
  cloudbox.login   the login server that is handed out
and it leaves there:
  cloudbox.log     one JSON line a request, without keys
  secrets          (0600) the token and the end of each key, for comparison with what must not hold them
"""
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LAB, ADDRESS, PORT, HEADSCALE = sys.argv[1:5]
BAD_KEY = "hskey-auth-aaaaaaaaaaaa-" + "0" * 64
MINTING = threading.Lock()


def read(name):
    with open(f"{LAB}/{name}") as file:
        return file.read().strip()


def append(name, line):
    with open(f"{LAB}/{name}", "a") as file:
        file.write(line + "\n")


def headscale(*args):
    out = subprocess.run([HEADSCALE, "-c", f"{LAB}/headscale.yaml", *args, "-o", "json"],
                         capture_output=True, text=True, check=True).stdout
    return json.loads(out or "null")


def mint():
    """A fresh single-use key of the user `edge`, who is made anew when the server has lost its users."""
    with MINTING:
        user = next((u for u in headscale("users", "list") or [] if u["name"] == "edge"), None)
        user = user or headscale("users", "create", "edge")
        return headscale("preauthkeys", "create", "-u", str(user["id"]), "-e", "10m")["key"]


class Cloudbox(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(200, "text/plain", "here\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, kind, text = self.authkey(body)
        append("cloudbox.log", json.dumps({"at": round(time.time(), 2), "path": self.path, "status": status}))
        self.answer(status, kind, text)

    def authkey(self, body):
        if self.path != "/api/v1/overlay/authkey":
            return 404, "application/json", "{}"
        if read("cloudbox.mode") == "503html":
            return 503, "text/html", "<html><h1>503 Service Temporarily Unavailable</h1></html>"
        if self.headers.get("Authorization") != "Bearer " + read("token"):
            return 401, "application/json", "{}"
        try:
            if not json.loads(body)["agent_name"]:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            return 400, "application/json", '{"error":"no agent_name"}'
        try:
            key = self.next_key()
        except (subprocess.CalledProcessError, ValueError) as error:
            # headscale's complaint, for whoever reads cloudbox.out
            print(error, getattr(error, "stderr", ""), file=sys.stderr, flush=True)
            return 500, "application/json", '{"error":"the control server gave no key"}'
        return 200, "application/json", json.dumps({
            "overlay_login_server": read("cloudbox.login"), "overlay_auth_key": key,
            "overlay_pod_cidr": "10.42.7.0/24", "expires_in_seconds": 600})

    def next_key(self):
        if read("cloudbox.mode") == "badkey-once":
            with open(f"{LAB}/cloudbox.mode", "w") as mode:
                mode.write("ok\n")
            key = BAD_KEY
        else:
            key = mint()
        append("secrets", key[-40:])  # before it is out: nobody can hold it earlier
        return key

    def answer(self, status, kind, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


os.umask(0o077)
append("secrets", read("token"))
server = ThreadingHTTPServer((ADDRESS, int(PORT)), Cloudbox)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(f"{LAB}/server.pem", f"{LAB}/server.key")
server.socket = tls.wrap_socket(server.socket, server_side=True)
server.serve_forever()

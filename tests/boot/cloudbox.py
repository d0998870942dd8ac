#!/usr/bin/env python3
"""The cloudbox and the control server of all machines, over TLS: cloudbox.py FOLDER NODE-KEY

It knows no node but the one with NODE-KEY. In FOLDER it finds server.pem and server.key, and `token`, which a request
for a key must carry; and it leaves there:
  port         where it listens, on loopback
  keys.log     one line a key: the name of the host that it was made for
"""
import collections
import http.server
import json
import os
import ssl
import sys

FOLDER, NODE_KEY = sys.argv[1:]
keys = collections.Counter()


class Cloudbox(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(200, {"publicKey": "mkey:00"})

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/verify":
            self.answer(200, {"Allow": question["NodePublic"] == NODE_KEY})
        elif self.path != "/api/v1/overlay/authkey":
            self.answer(404, {})
        elif self.headers["Authorization"] != f"Bearer {token}":
            self.answer(401, {})
        else:
            host = question["agent_name"]
            keys[host] += 1
            with open(f"{FOLDER}/keys.log", "a") as log:
                log.write(host + "\n")
            self.answer(200, {"overlay_login_server": f"https://{self.headers['Host']}",
                              "overlay_auth_key": f"key-{keys[host]}-of-{host}",
                              "overlay_pod_cidr": "10.42.7.0/24", "expires_in_seconds": 600})

    def answer(self, status, what):
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


with open(f"{FOLDER}/token") as file:
    token = file.read().strip()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cloudbox)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(f"{FOLDER}/server.pem", f"{FOLDER}/server.key")
# The handshake in the request's own thread: a slow machine does not keep another one waiting.
server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
with open(f"{FOLDER}/port.new", "w") as file:
    file.write(str(server.server_port))
os.rename(file.name, f"{FOLDER}/port")
server.serve_forever()

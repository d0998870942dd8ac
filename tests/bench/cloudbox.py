"""The HTTPS server that both programs ask, on loopback."""
import http.server
import json
import os
import ssl
import subprocess
import threading

SYSTEM_ROOTS = "/etc/ssl/certs/ca-certificates.crt"


class Cloudbox(http.server.BaseHTTPRequestHandler):
    """Issues keys, and is the control server as well, which knows every node."""
    protocol_version = "HTTP/1.1"
    url, asked = "", 0

    def do_GET(self):
        self.answer({"publicKey": "mkey:00"})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/verify":
            self.answer({"Allow": True})
        else:
            self.answer({"overlay_login_server": Cloudbox.url, "overlay_auth_key": f"bench-key-{Cloudbox.asked}",
                         "overlay_pod_cidr": "10.42.7.0/24", "expires_in_seconds": 600})

    def answer(self, what):
        Cloudbox.asked += 1
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def certificates(folder):
    new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30"
    ca = "-subj /CN=bench -keyout ca.key -out ca.pem"
    host = "-subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=CA:FALSE " \
           "-CA ca.pem -CAkey ca.key -keyout key.pem -out cert.pem"
    for options in ca, host:
        subprocess.run(f"{new} {options}".split(), cwd=folder, check=True, capture_output=True)
    # curl is to read what overlaykey reads: the system's roots too.
    with open(f"{folder}/roots.pem", "wb") as roots:
        for path in filter(os.path.exists, (SYSTEM_ROOTS, f"{folder}/ca.pem")):
            with open(path, "rb") as file:
                roots.write(file.read())


def serve(folder):
    """Starts it in a thread; leaves ca.pem, and in roots.pem that with the system's, in the folder."""
    certificates(folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cloudbox)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(f"{folder}/cert.pem", f"{folder}/key.pem")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Cloudbox.url = f"https://localhost:{server.server_port}"

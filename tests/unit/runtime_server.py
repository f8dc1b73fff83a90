"""A server small enough to start in every test: `runtime_server.py [--stubborn] [--child] PORT`.

--stubborn ignores SIGTERM; --child starts a second, stubborn process in a session of its own, as workers
of real servers are. It prints the length of SECRET, never SECRET.
"""

import http.server
import os
import signal
import subprocess
import sys

if "--stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "--child" in sys.argv:
    sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True)
    print("child", child.pid, flush=True)
print("serving", len(os.environ.get("SECRET", "")), "\x1b[0m", flush=True)
sys.stderr.write("this is stderr\n")
host = os.environ.get("BIND", "127.0.0.1")
http.server.HTTPServer((host, int(sys.argv[-1])), http.server.SimpleHTTPRequestHandler).serve_forever()

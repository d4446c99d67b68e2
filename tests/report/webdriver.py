"""A small client of the WebDriver protocol for headless Chromium: https://www.w3.org/TR/webdriver2/. Standard library
only."""
import base64
import json
import os
import re
import select
import shutil
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's id, fixed by the standard
# Chromium as root in a container: no sandbox, and no large /dev/shm.
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking"]


def missing():
    """Return the programs that are missing."""
    return [name for name in ("chromium", "chromedriver", "pdftoppm") if shutil.which(name) is None]


class Browser:
    """A browser window. Use it in a `with` statement."""

    def __init__(self, timeout_s=120):
        self.timeout_s = timeout_s
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.session = None
        try:
            self.url = f"http://127.0.0.1:{self.port()}"
            options = {"binary": shutil.which("chromium"), "args": ARGUMENTS}
            wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            self.session = self.send("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def port(self):
        """chromedriver chooses a free port and prints it."""
        end = time.monotonic() + self.timeout_s
        printed = b""
        while time.monotonic() < end:
            if not select.select([self.driver.stdout], [], [], 1)[0]:
                continue
            part = os.read(self.driver.stdout.fileno(), 4096)  # not readline(): its buffer would hide lines from select()
            printed += part
            found = re.search(rb"started successfully on port (\d+)", printed)
            if found:
                return int(found.group(1))
            if not part:
                break
        raise RuntimeError(f"chromedriver did not start: {printed.decode(errors='replace')}")

    def close(self):
        if self.session is not None:
            try:
                self.send("DELETE", f"/session/{self.session}")
            except (OSError, RuntimeError):
                pass
        self.driver.kill()
        self.driver.wait()
        self.driver.stdout.close()

    def send(self, method, path, body=None):
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=self.timeout_s) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode(errors='replace')[:500]}") from error

    def command(self, path, body=None, method="POST"):
        return self.send(method, f"/session/{self.session}{path}", body)

    def open(self, path):
        self.command("/url", {"url": f"file://{path}"})

    def run(self, script, *arguments):
        return self.command("/execute/sync", {"script": script, "args": list(arguments)})

    def developer(self, name, **parameters):
        """Call a function of the DevTools protocol."""
        return self.command("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def resize(self, width, height):
        self.developer("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.drawn()

    def prefer(self, scheme):
        """Set the colour scheme: "light" or "dark"."""
        self.developer("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.drawn()

    def drawn(self):
        """Wait until the page has been drawn again."""
        script = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(null)))"
        self.command("/execute/async", {"script": script, "args": []})

    def log(self):
        """Return the messages of the console since the last call."""
        return self.command("/se/log", {"type": "browser"})

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.command("/screenshot", method="GET")))

    def print_pdf(self):
        return base64.b64decode(self.command("/print", {}))

    def print_pixels(self, dpi):
        """Print the page. Returns its sheets as bytes, three for each pixel."""
        found, data = [], subprocess.run(["pdftoppm", "-r", str(dpi), "-"], input=self.print_pdf(), capture_output=True,
                                         check=True).stdout
        while data:  # P6 pictures, one after the other
            head = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
            end = head.end() + 3 * int(head.group(1)) * int(head.group(2))
            found.append(data[head.end():end])
            data = data[end:]
        return found

    def mouse(self, *steps):
        """Move the mouse in the window: ("move", x, y), ("down",), ("up",)."""
        kinds = {"move": "pointerMove", "down": "pointerDown", "up": "pointerUp"}
        actions = []
        for kind, *place in steps:
            action = {"type": kinds[kind]}
            if place:
                action.update({"x": round(place[0]), "y": round(place[1]), "duration": 50, "origin": "viewport"})
            else:
                action["button"] = 0
            actions.append(action)
        pointer = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        self.command("/actions", {"actions": [pointer]})

"""`gpuwhy watch --listen`: what it serves, to whom, and that Prometheus reads it."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import unittest
import urllib.parse

from support import GIB, GPUWHY, WAIT_S, Case, wait_for

SOURCE = pathlib.Path(os.environ["GPUWHY_SOURCE"])
OLD = {"Accept": "text/plain;version=0.0.4"}


class Server(Case):
    def serve(self, *options, address="127.0.0.1:0"):
        process = subprocess.Popen([GPUWHY, "watch", "--interval", "1", "--listen", address, *options],
                                   env=self.environment, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.stop, process)
        line = process.stderr.readline()
        found = re.search(r"http://(\S+):(\d+)/metrics", line)
        self.assertIsNotNone(found, line)
        self.process, self.address = process, (found[1].strip("[]"), int(found[2]))

    @staticmethod
    def stop(process):
        if process.poll() is None:
            process.terminate()
        process.wait(WAIT_S)
        process.stderr.close()

    def request(self, path="/metrics", method="GET", headers=None, body=None):
        with contextlib.closing(http.client.HTTPConnection(*self.address, timeout=WAIT_S)) as connection:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()

    def samples(self):
        return [line for line in self.request()[2].splitlines() if not line.startswith("#")]


def families(text):
    """Names and types of the families of an answer."""
    return dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text))


class Answers(Server):
    def test_types_and_paths(self):
        self.serve()
        status, headers, text = self.request()
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(text.endswith("\n# EOF\n"))
        status, headers, old = self.request(headers=OLD)
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        self.assertNotIn("# EOF", old)
        status, headers, body = self.request(method="HEAD")
        self.assertEqual((status, body), (200, ""))
        self.assertGreater(int(headers["Content-Length"]), 1000)
        status, _, body = self.request("/")
        self.assertEqual(status, 200)
        self.assertIn("/metrics", body)
        self.assertEqual(self.request("/metrics/")[0], 404)
        for method in "POST", "PUT", "DELETE", "OPTIONS":
            status, headers, _ = self.request(method=method, body="x" * 100000)
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(WAIT_S), 0)

    def test_every_sample_belongs_to_a_described_family(self):
        self.run_program(gib=3).do(f"alloc {1000 * GIB}")
        self.serve()
        wait_for(lambda: any("gpuwhy_run_process_memory" in line for line in self.samples()), "the run")
        text = self.request()[2]
        types = families(text)
        helps = dict(re.findall(r"(?m)^# HELP (\S+) (.+)$", text))
        self.assertEqual(set(types), set(helps))
        suffix = {"counter": "_total", "info": "_info", "gauge": ""}
        family, seen = None, set()
        for line in text.splitlines():
            if line.startswith("# TYPE"):
                family = line.split()[2]
            elif not line.startswith("#"):
                name = re.match(r"[a-z_]+", line)[0]
                self.assertEqual(name, family + suffix[types[family]])
                self.assertRegex(line, r'^\w+(\{(\w+="[^"]*"(,\w+="[^"]*")*)\})? [0-9.e+-]+$')
                series = line.rsplit(" ", 1)[0]
                self.assertNotIn(series, seen)
                seen.add(series)
        # Labels must not grow without bounds: no command lines.
        self.assertNotIn("card_user", text)

    def test_the_document_lists_the_families(self):
        self.serve()
        document = (SOURCE / "docs" / "metrics.md").read_text()
        listed = dict(re.findall(r"(?m)^\| `(gpuwhy_\w+)` \| (\w+) \|", document))
        suffix = {"counter": "_total", "info": "_info", "gauge": ""}
        served = {name + suffix[kind]: kind for name, kind in families(self.request()[2]).items()}
        self.assertEqual(listed, served)
        for path in "prometheus/alerts.yml", "grafana/dashboard.json":
            names = set(re.findall(r"gpuwhy_[a-z_]+", (SOURCE / "packaging" / path).read_text()))
            self.assertEqual(names - set(served), set(), path)

    def test_an_ended_run_disappears(self):
        program = self.run_program(gib=3)
        self.serve()
        wait_for(lambda: any("gpuwhy_run_memory_needed_bytes{" in line for line in self.samples()), "the run")
        program.end()
        wait_for(lambda: not any("gpuwhy_run_" in line or "user=" in line for line in self.samples()), "its end")

    def test_a_scrape_does_not_wait_for_a_look(self):
        self.serve("--interval", "3600")
        stamp = next(line for line in self.samples() if line.startswith("gpuwhy_snapshot_timestamp_seconds"))
        for _ in range(200):  # all answers come from the same snapshot
            self.assertIn(stamp, self.samples())

    def test_more_slow_connections_than_there_is_room_for(self):
        """They send a byte now and then. The oldest of them give way to each scrape."""
        self.serve()
        slow = [socket.create_connection(self.address) for _ in range(200)]
        for connection in slow:
            with contextlib.suppress(OSError):
                connection.sendall(b"GET /metrics HTTP/1.1\r\nX")
        for _ in range(100):
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.sendall(b"a")
            self.assertEqual(self.request()[0], 200)
        open_count = 0
        for connection in slow:
            connection.setblocking(False)
            try:
                open_count += connection.recv(1) != b""
            except BlockingIOError:
                open_count += 1
            except OSError:
                pass
            connection.close()
        self.assertLess(open_count, 64)

    def test_one_request_a_connection(self):
        self.serve()
        with socket.create_connection(self.address) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
            answer = b""
            while part := connection.recv(4096):
                answer += part
        self.assertEqual(answer.count(b"HTTP/1.1 200"), 1)

    def test_names_of_the_host(self):
        """A web page can point a name of its own at this address, but it cannot choose another name."""
        self.serve("--allow-host", "gpu7.example", "--allow-host", "proxy")
        for name in ("127.0.0.1", "localhost:80", "LOCALHOST", "[::1]:9465", "10.1.2.3:9465", socket.gethostname(),
                     "gpu7.example:9465", "Proxy"):
            self.assertEqual(self.request(headers={"Host": name})[0], 200, name)
        for name in ("rebind.example", "rebind.example:9465", "localhost.rebind.example", "127.0.0.1.rebind.example",
                     "1.2.3", "", "[", "[]", "[::1].example", ":", "x" * 5000, "proxy.example"):
            status, _, text = self.request(headers={"Host": name})
            self.assertIn(status, (403, 431), name)
            self.assertNotIn("gpuwhy_", text)
        with socket.create_connection(self.address) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            self.assertIn(b" 200 ", connection.recv(100))

    def test_many_clients_and_slow_ones(self):
        self.serve()
        slow = [socket.create_connection(self.address) for _ in range(20)]
        for connection in slow:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        self.assertEqual(self.request()[0], 200)
        for connection in slow:
            connection.close()
        with socket.create_connection(self.address) as bad:
            bad.sendall(b"\x00\xff" * 5000 + b"\r\n\r\n")
            while bad.recv(4096):
                pass
        self.assertEqual(self.request()[0], 200)


class Addresses(Server):
    def fails(self, text, *words):
        done = self.gpuwhy("watch", "--listen", *words)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        self.assertIn(text, done.stderr)

    def test_only_loopback_unless_asked(self):
        for address in "0.0.0.0:0", "[::]:0":
            self.fails("--allow-remote", address)
        self.serve("--allow-remote", address="0.0.0.0:0")

    def test_wrong_addresses(self):
        for address in "9465", "127.0.0.1", "127.0.0.1:", ":9465", "127.0.0.1:x", "127.0.0.1:99999", "x" * 300 + ":1":
            self.fails("--listen", address)

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            self.fails("another program already uses this port", f"127.0.0.1:{other.getsockname()[1]}")

    def test_ipv6(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            self.skipTest("no IPv6 here")
        self.serve(address="[::1]:0")
        self.assertEqual(self.request()[0], 200)


@unittest.skipUnless(shutil.which("promtool") and shutil.which("prometheus"), "Prometheus is missing")
class Prometheus(Server):
    def test_promtool_accepts_metrics_and_rules(self):
        self.run_program(gib=3)
        self.serve()
        wait_for(lambda: any("gpuwhy_run_memory_needed_bytes{" in line for line in self.samples()), "the run")
        done = subprocess.run(["promtool", "check", "metrics"], input=self.request(headers=OLD)[2], text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
        done = subprocess.run(["promtool", "check", "rules", SOURCE / "packaging/prometheus/alerts.yml"], text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_dashboard_is_complete(self):
        dashboard = json.loads((SOURCE / "packaging/grafana/dashboard.json").read_text())
        self.assertGreater(len(dashboard["panels"]), 5)
        for panel in dashboard["panels"]:
            self.assertTrue(panel["title"] and all(target["expr"] for target in panel["targets"]))

    def start_prometheus(self):
        config = (SOURCE / "packaging/prometheus/scrape.yml").read_text()
        config = config.replace("localhost:9465", "%s:%d" % self.address).replace("15s", "1s")
        config += f'rule_files: ["{SOURCE}/packaging/prometheus/alerts.yml"]\n'
        (self.folder / "prometheus.yml").write_text(config)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        log = open(self.folder / "prometheus.log", "w")
        self.addCleanup(log.close)
        process = subprocess.Popen(["prometheus", f"--config.file={self.folder}/prometheus.yml",
                                    f"--storage.tsdb.path={self.folder}/data",
                                    f"--web.listen-address=127.0.0.1:{port}"],
                                   stdout=log, stderr=log)
        self.addCleanup(process.wait, WAIT_S)
        self.addCleanup(process.terminate)
        return port

    def query(self, port, expression):
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)) as connection:
                connection.request("GET", "/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
                answer = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):  # it is still starting
            return None
        return answer["data"]["result"] if answer["status"] == "success" else None

    def test_prometheus_scrapes_it(self):
        program = self.run_program(gib=3)
        self.assertEqual(program.do(f"alloc {1000 * GIB}"), 2)
        self.serve()
        port = self.start_prometheus()
        needed = wait_for(lambda: self.query(port, "gpuwhy_run_memory_needed_bytes"), "the first series")
        self.assertGreater(float(needed[0]["value"][1]), 3 * GIB)
        self.assertEqual(needed[0]["metric"]["job"], "gpuwhy")
        wait_for(lambda: self.query(port, "gpuwhy_run_failed_calls_total == 1"), "the failed call")
        self.assertEqual(self.query(port, "gpuwhy_gpu_memory_total_bytes")[0]["metric"]["gpu"], "0")
        self.assertEqual(self.query(port, "up")[0]["value"][1], "1")
        # Every expression of the dashboard is one that Prometheus understands.
        dashboard = json.loads((SOURCE / "packaging/grafana/dashboard.json").read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                self.assertIsNotNone(self.query(port, target["expr"].replace("$instance", ".*")), target["expr"])
        self.assertTrue(self.query(port, 'gpuwhy_gpu_user_memory_bytes{user="root"}'))
        # The series of an ended run end, too.
        program.end()
        wait_for(lambda: self.query(port, "gpuwhy_run_memory_needed_bytes") == [], "the end of the series")

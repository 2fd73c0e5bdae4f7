"""Shows the progress of a loader: a line on a terminal, and metrics for Prometheus."""
from __future__ import annotations

import http.server
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, TextIO

Report = Callable[[], Dict[str, Any]]


class ProgressLine:
    """ 120/500 batches  1,234 samples/s  56 MB/s  limit: decode """

    def __init__(self, total: Optional[int] = None, stream: Optional[TextIO] = None, every_seconds: float = 0.5):
        self.total, self.every = total, every_seconds
        self.stream = stream or sys.stderr
        self.visible = self.stream.isatty()
        self.done, self.last = 0, 0.0

    def step(self, report: Report) -> None:
        self.done += 1
        now = time.monotonic()
        if not self.visible or now - self.last < self.every:
            return
        self.last = now
        found = report()
        batches = f"{self.done}/{self.total}" if self.total is not None else str(self.done)
        self.stream.write(f"\r\033[K{batches} batches  {found['samples_per_second']:,.0f} samples/s  "
                          f"{found['bytes_per_second'] / 1e6:,.0f} MB/s  limit: {found['limit']}")
        self.stream.flush()

    def close(self) -> None:
        if self.visible and self.done:
            self.stream.write("\r\033[K")
            self.stream.flush()
        self.visible = False


def metrics_text(report: Dict[str, Any]) -> str:
    """A report in Prometheus' text format."""
    lines: List[str] = []

    def add(name: str, kind: str, value: float, labels: str = "") -> None:
        if not labels or not any(line.startswith(f"# TYPE millrace_loader_{name} ") for line in lines):
            lines.append(f"# TYPE millrace_loader_{name} {kind}")
        lines.append(f"millrace_loader_{name}{labels} {value}")

    add("samples_total", "counter", report.get("samples", 0))
    add("batches_total", "counter", report.get("batches", 0))
    add("bytes_total", "counter", report.get("bytes", 0))
    add("consumer_wait_seconds_total", "counter", report.get("waited_seconds", 0))
    add("faults_total", "counter", report.get("faults", 0))
    add("memory_peak_bytes", "gauge", report.get("memory_peak", 0))
    for name in ("busy_seconds", "count", "bytes"):
        for stage in report.get("stages", []):
            add(f"stage_{name}_total", "counter", stage[name], f'{{stage="{stage["name"]}"}}')
    return "\n".join(lines) + "\n"


def serve_metrics(report: Report, port: int = 0, host: str = "127.0.0.1") -> http.server.ThreadingHTTPServer:
    """Answers GET /metrics with what `report()` says then; `server_port` is where, shutdown() ends it.

        server = serve_metrics(batches.report, 9401)
    """
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path in ("/metrics", "/")
            body = metrics_text(report()).encode() if found else b"only /metrics is here\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer((host, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server

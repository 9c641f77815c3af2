"""Starts the server that the scenarios talk to."""

import json
import subprocess
import tempfile


class Server:
    """A server with a new folder; it ends with the `with` block."""

    def __init__(self, program, *hubs):
        self.folder = tempfile.TemporaryDirectory()
        command = [program, self.folder.name, *hubs]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.said = json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)
        self.folder.cleanup()

    def connection_string(self, key=None):
        """For a connection that is not encrypted."""
        return self._text(f"localhost:{self.said['amqp']}", key) + ";UseDevelopmentEmulator=true"

    def encrypted(self, port):
        """Options for a connection that is; the client takes its port from one of them."""
        return {
            "text": self._text("localhost", None),
            "custom_endpoint_address": f"sb://localhost:{self.said[port]}",
            "connection_verify": self.said["certificate"],
        }

    def _text(self, host, key):
        key = key or self.said["key"]
        return (
            f"Endpoint=sb://{host};"
            f"SharedAccessKeyName={self.said['key_name']};SharedAccessKey={key}"
        )

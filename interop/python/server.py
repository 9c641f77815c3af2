"""The server that the scenarios talk to."""

import json


class Server:
    """What the server said about itself."""

    def __init__(self, said):
        self.said = json.loads(said)

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

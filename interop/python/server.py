"""The server that the scenarios talk to."""

import json


class Server:
    """What the server said about itself."""

    def __init__(self, said):
        self.said = json.loads(said)

    def connection_string(self, key=None):
        """For a connection that is not encrypted."""
        return self._text(f"localhost:{self.said['amqp']}", key) + ";UseDevelopmentEmulator=true"

    def without_port(self):
        """The same, with a namespace that has no port."""
        return {
            "conn_str": self._text("localhost", None) + ";UseDevelopmentEmulator=true",
            "custom_endpoint_address": f"sb://localhost:{self.said['amqp']}",
        }

    def encrypted(self, port):
        """Options for a connection that is; the client takes its port from one of them."""
        return {
            "text": self._text("localhost", None),
            "custom_endpoint_address": f"sb://localhost:{self.said[port]}",
            "connection_verify": self.said["certificate"],
        }

    def blobs(self, key=None):
        """For the Blob service."""
        account = self.said["account"]
        return (
            f"DefaultEndpointsProtocol=http;AccountName={account};"
            f"AccountKey={key or self.said['account_key']};"
            f"BlobEndpoint=http://127.0.0.1:{self.said['blob']}/{account};"
        )

    def _text(self, host, key):
        key = key or self.said["key"]
        return (
            f"Endpoint=sb://{host};"
            f"SharedAccessKeyName={self.said['key_name']};SharedAccessKey={key}"
        )

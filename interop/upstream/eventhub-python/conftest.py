"""What the tests that azure-eventhub and its stores carry ask for, at a server of ours.

They speak to a namespace of Azure by its name, and to no port but the usual ones. So this
name is resolved to the ports of the server, and no other name is resolved at all. Their
token for event hubs is a web token that the server's key has signed.
"""

import base64
import hashlib
import hmac
import json
import os
import signal
import socket
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from types import ModuleType, SimpleNamespace

import certifi
import pytest
from azure.core.credentials import AccessToken, AzureNamedKeyCredential
from azure.core.settings import settings
from azure.eventhub import EventHubProducerClient, TransportType
from azure.eventhub._pyamqp import ReceiveClient
from azure.eventhub._pyamqp.authentication import SASTokenAuth
from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore
from azure.eventhub.extensions.checkpointstoreblobaio import (
    BlobCheckpointStore as AsyncBlobCheckpointStore,
)
from _pytest.runner import runtestprotocol

sys.path.insert(0, str(Path(__file__).parent / "azure-eventhub"))

from tracing_common import FakeSpan  # noqa: E402

SERVER = json.loads(os.environ["STEADFAST_SERVER"])
HOST = SERVER["namespace"]
ADDRESS = SERVER["address"]
PARTITIONS = 2
SIDE_BY_SIDE = 64
LONGEST_S = 150
DAY_S = 24 * 60 * 60
# What is spoken at the usual ports.
PORTS = {5671: SERVER["amqps"], 443: SERVER["http"]}

resolve = socket.getaddrinfo


def resolve_here(host, port, *arguments, **options):
    """Knows the namespace and this machine, as if there were no network."""
    if host in (HOST, HOST.encode()):
        host, port = ADDRESS, PORTS[int(port)]
    elif host != ADDRESS:
        raise socket.gaierror(socket.EAI_NONAME, f"{host} is not resolved")
    return resolve(host, port, *arguments, **options)


socket.getaddrinfo = resolve_here
certifi.where = lambda: SERVER["certificate"]


def key_of_blobs(is_async=False):
    """The credential for blobs, with a client of either kind."""
    return AzureNamedKeyCredential(SERVER["account"], SERVER["account_key"])


# What the tests of the stores take from a package that is not published. They put the name
# of an account into an address; ours is a path, and a fragment hides the rest.
devtools = ModuleType("devtools_testutils")
devtools.get_credential = key_of_blobs
sys.modules["devtools_testutils"] = devtools
BLOBS = f"{ADDRESS}:{SERVER['blob']}/{SERVER['account']}"
os.environ["AZURE_STORAGE_ACCOUNT"] = f"{BLOBS}#"


def signed_token():
    """A web token, as an identity provider would hand it out."""

    def text(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    ends = int(time.time()) + 3600
    claims = {"exp": ends, "aud": "https://eventhubs.azure.net"}
    parts = [{"alg": "HS256", "typ": "JWT"}, claims]
    signed = ".".join(text(json.dumps(part).encode()) for part in parts)
    key = SERVER["key"].encode()
    signature = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    return AccessToken(f"{signed}.{text(signature)}", ends)


class Credential:
    def get_token(self, *scopes, **options):
        return signed_token()

    def close(self):
        pass


class AsyncCredential:
    async def get_token(self, *scopes, **options):
        return signed_token()

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        pass


def ask(method, path, body=None):
    """The server's own interface, at the same address."""
    request = urllib.request.Request(
        f"https://{ADDRESS}:{SERVER['http']}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {SERVER['key']}",
            "Content-Type": "application/json",
        },
        method=method,
    )
    context = ssl.create_default_context(cafile=SERVER["certificate"])
    try:
        with urllib.request.urlopen(request, context=context) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        why = error.read().decode()
        raise AssertionError(f"{method} {path}: {error.code} {why}") from error


class EventHubs:
    """As much of the resource manager as the tests use: retention."""

    def get(self, _group, _namespace, name):
        hub = json.loads(ask("GET", f"/v1/eventhubs/{name}"))
        days = (hub.get("retention_s") or 0) // DAY_S
        return SimpleNamespace(as_dict=lambda: {"message_retention_in_days": days})

    def create_or_update(self, _group, _namespace, name, properties):
        days = properties["message_retention_in_days"]
        ask("PATCH", f"/v1/eventhubs/{name}", {"retention_s": days * DAY_S})


@pytest.fixture
def resource_mgmt_client():
    return SimpleNamespace(event_hubs=EventHubs())


@pytest.fixture
def sleep():
    """Whether to wait for minutes until a connection ends; without, it is closed."""
    return False


@pytest.fixture(scope="session", params=[False], ids=["pyamqp"])
def uamqp_transport(request):
    return request.param


@pytest.fixture(
    scope="session",
    params=[TransportType.Amqp, TransportType.AmqpOverWebsocket],
    ids=["amqp", "ws"],
)
def socket_transport(request):
    return request.param


@pytest.fixture(scope="session")
def timeout_factor():
    return 1


@pytest.fixture(scope="session")
def fake_span():
    return FakeSpan


@pytest.fixture
def enable_tracing(fake_span):
    settings.tracing_implementation.set_value(fake_span)
    yield fake_span
    settings.tracing_implementation.set_value(None)


@pytest.fixture(scope="session")
def get_credential():
    return Credential


@pytest.fixture(scope="session")
def get_credential_async():
    return AsyncCredential


@pytest.fixture
def live_eventhub():
    """An event hub of its own for each test."""
    name = f"eh{uuid.uuid4()}"
    ask("POST", "/v1/eventhubs", {"name": name, "partitions": PARTITIONS})
    yield {
        "resource_group": "live",
        "hostname": HOST,
        "key_name": SERVER["key_name"],
        "access_key": SERVER["key"],
        "namespace": "live",
        "event_hub": name,
        "consumer_group": "$Default",
        "partition": "0",
        "connection_str": connection_string(HOST, SERVER["key_name"], SERVER["key"], name),
    }
    ask("DELETE", f"/v1/eventhubs/{name}")


def connection_string(host, key_name, key, hub):
    return (
        f"Endpoint=sb://{host}/;SharedAccessKeyName={key_name};"
        f"SharedAccessKey={key};EntityPath={hub}"
    )


@pytest.fixture
def connection_str(live_eventhub):
    return live_eventhub["connection_str"]


@pytest.fixture
def invalid_hostname(live_eventhub):
    hub = live_eventhub["event_hub"]
    host = "invalid123.servicebus.windows.net"
    return connection_string(host, SERVER["key_name"], SERVER["key"], hub)


@pytest.fixture
def invalid_key(live_eventhub):
    return connection_string(HOST, SERVER["key_name"], "invalid", live_eventhub["event_hub"])


@pytest.fixture
def invalid_policy(live_eventhub):
    return connection_string(HOST, "invalid", SERVER["key"], live_eventhub["event_hub"])


@pytest.fixture
def receivers(live_eventhub):
    """A reader of each partition, below the SDK's clients."""
    hub = live_eventhub["event_hub"]
    group = live_eventhub["consumer_group"]
    uri = f"sb://{HOST}/{hub}"
    opened = []
    for partition in range(PARTITIONS):
        source = f"amqps://{HOST}/{hub}/ConsumerGroups/{group}/Partitions/{partition}"
        auth = SASTokenAuth(uri, uri, SERVER["key_name"], SERVER["key"])
        reader = ReceiveClient(HOST, source, auth=auth, timeout=30, link_credit=500)
        reader.open()
        opened.append(reader)
    yield opened
    for reader in opened:
        reader.close()


@pytest.fixture
def senders(live_eventhub):
    """A producer per partition."""
    client = EventHubProducerClient(HOST, live_eventhub["event_hub"], Credential())
    made = [client._create_producer(partition_id=id) for id in client.get_partition_ids()]
    yield made
    for producer in made:
        producer.close()
    client.close()


@pytest.fixture
def connstr_receivers(live_eventhub, receivers):
    return live_eventhub["connection_str"], receivers


@pytest.fixture
def auth_credentials(live_eventhub):
    return HOST, live_eventhub["event_hub"], Credential


@pytest.fixture
def auth_credentials_async(live_eventhub):
    return HOST, live_eventhub["event_hub"], AsyncCredential


@pytest.fixture
def auth_credential_receivers(live_eventhub, receivers):
    return HOST, live_eventhub["event_hub"], Credential, receivers


@pytest.fixture
def auth_credential_receivers_async(live_eventhub, receivers):
    return HOST, live_eventhub["event_hub"], AsyncCredential, receivers


@pytest.fixture
def auth_credential_senders(live_eventhub, senders):
    return HOST, live_eventhub["event_hub"], Credential, senders


@pytest.fixture
def auth_credential_senders_async(live_eventhub, senders):
    return HOST, live_eventhub["event_hub"], AsyncCredential, senders


def store(kind):
    container = f"blobcontainer{uuid.uuid4()}"
    return kind(f"https://{BLOBS}", container, credential=key_of_blobs())


@pytest.fixture
def checkpoint_store():
    return store(BlobCheckpointStore)


@pytest.fixture
def checkpoint_store_aio():
    return store(AsyncBlobCheckpointStore)


def pytest_configure(config):
    for marker in ("liveTest", "livetest", "live_test_only"):
        config.addinivalue_line("markers", f"{marker}: at a server")


def pytest_runtestloop(session):
    """Runs each test in a process of its own, many at a time: most of the time they wait."""
    if session.config.option.collectonly:
        return True
    waiting = list(session.items)
    running = {}
    outcomes = {}
    while waiting or running:
        while waiting and len(running) < SIDE_BY_SIDE:
            test = Running(waiting.pop(0))
            running[test.pid] = test
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            time.sleep(0.02)
            for test in running.values():
                test.kill_if_late()
            continue
        test = running.pop(pid)
        # A test has passed if it passes with all of its parameters.
        outcomes[test.name] = outcomes.get(test.name, True) and status == 0
        if status != 0:
            print(test.output(), flush=True)
    for name, is_good in outcomes.items():
        print("ok" if is_good else "FAILED", name, flush=True)
    session.testsfailed = list(outcomes.values()).count(False)
    return True


class Running:
    """A test in its process."""

    def __init__(self, item):
        self.name = item.nodeid.split("[")[0]
        self.ends = time.monotonic() + LONGEST_S
        self.file = tempfile.TemporaryFile()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(self.file.fileno(), 1)
            os.dup2(self.file.fileno(), 2)
            os._exit(run(item))

    def kill_if_late(self):
        if time.monotonic() > self.ends:
            os.kill(self.pid, signal.SIGKILL)

    def output(self):
        self.file.seek(0)
        return self.file.read().decode(errors="replace")


def run(item):
    """The status of the process: 0 if the test has passed."""
    begins = time.monotonic()
    reports = runtestprotocol(item, nextitem=None, log=False)
    took = time.monotonic() - begins
    print(f"{item.nodeid}: {[report.outcome for report in reports]} after {took:.0f} s")
    for report in reports:
        if not report.passed:
            print(report.longreprtext or report.longrepr)
            print(report.caplog)
    sys.stdout.flush()
    return 0 if all(report.passed for report in reports) else 1

"""The server that the scenarios talk to, and workers on it."""

import contextlib
import json
import logging
import time
import uuid

from durabletask import client, worker
from durabletask.azuremanaged.client import DurableTaskSchedulerClient
from durabletask.azuremanaged.worker import DurableTaskSchedulerWorker

# How long anything may take before a scenario fails.
PATIENCE = 60

# What goes on is of interest only where something fails.
logging.getLogger("durabletask").setLevel(logging.CRITICAL)
for name in ("durabletask-worker", "durabletask-client"):
    logging.getLogger(name).setLevel(logging.CRITICAL)


class Server:
    """Where the server is, and whether we name our task hub or not."""

    def __init__(self, said):
        self.said = json.loads(said)
        self.address = f"localhost:{self.said['port']}"
        self.is_managed = self.said.get("managed", False)
        self.is_encrypted = "certificate" in self.said
        self.metadata = [("authorization", f"Bearer {self.said['key']}")] if self.said.get("key") else []

    def client(self, hub="default", **options):
        if self.is_managed or hub != "default":
            return DurableTaskSchedulerClient(
                host_address=self.address, taskhub=hub, token_credential=None, secure_channel=self.is_encrypted,
                logger=quiet(), **options,
            )
        return client.TaskHubGrpcClient(
            host_address=self.address, metadata=self.metadata, secure_channel=self.is_encrypted,
            logger=quiet(), **options)

    def new_worker(self, hub="default", **options):
        if self.is_managed or hub != "default":
            return DurableTaskSchedulerWorker(
                host_address=self.address, taskhub=hub, token_credential=None, secure_channel=self.is_encrypted,
                logger=quiet(), **options,
            )
        return worker.TaskHubGrpcWorker(
            host_address=self.address, metadata=self.metadata, secure_channel=self.is_encrypted,
            logger=quiet(), **options)

    @contextlib.contextmanager
    def running(
        self, orchestrators=(), activities=(), entities=(), hub="default", filters=None, payloads=None):
        """A client, while a worker with this code runs."""
        options = {"payload_store": payloads} if payloads else {}
        with self.new_worker(hub, **options) as own:
            for each in orchestrators:
                own.add_orchestrator(each)
            for each in activities:
                own.add_activity(each)
            for each in entities:
                own.add_entity(each)
            if filters is not None:
                own.use_work_item_filters(filters)
            own.start()
            yield self.client(hub, **options)

    def blobs(self):
        """For the Blob service."""
        account, key = self.said["account"], self.said["account_key"]
        return (
            f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};"
            f"BlobEndpoint=http://127.0.0.1:{self.said['blob']}/{account};"
        )


def quiet():
    logger = logging.getLogger("scenarios")
    logger.setLevel(logging.CRITICAL)
    return logger


def fresh(name):
    """An id that nobody has used."""
    return f"{name}-{uuid.uuid4().hex[:12]}"


def completed(own, instance, timeout=PATIENCE):
    """The state of an instance that has ended well."""
    state = own.wait_for_orchestration_completion(instance, timeout=timeout)
    assert state is not None, f"there is no {instance}"
    assert state.runtime_status == client.OrchestrationStatus.COMPLETED, (
        state.runtime_status, state.failure_details, state.serialized_output)
    return state


def output(own, instance, timeout=PATIENCE):
    """What an instance that has ended well came to."""
    serialized = completed(own, instance, timeout).serialized_output
    return None if serialized is None else json.loads(serialized)


def until(what, is_so, timeout=PATIENCE):
    """Waits for something that nobody tells us."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not in time: {what}")

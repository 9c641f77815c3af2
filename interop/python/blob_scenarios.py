"""What azure-storage-blob does with blobs, and what it must see."""

import io
import urllib.request
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone

from azure.core import MatchConditions
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import (
    BlobBlock,
    BlobClient,
    BlobLeaseClient,
    BlobServiceClient,
    ContainerClient,
    ContentSettings,
    generate_account_sas,
    generate_blob_sas,
    generate_container_sas,
)


def box(server, name="box"):
    container = ContainerClient.from_connection_string(server.blobs(), name)
    container.create_container()
    return container


def refused(call, kind, code):
    try:
        call()
    except kind as error:
        assert error.error_code == code, error
    else:
        raise AssertionError(f"{code} was expected")


def blobs_with_bodies(server):
    container = box(server)
    refused(container.create_container, ResourceExistsError, "ContainerAlreadyExists")
    assert container.exists()
    body = bytes(range(256)) * 8192
    settings = ContentSettings(content_type="application/json", content_language="de")
    blob = container.upload_blob(
        "houses/42.json", body, metadata={"House": "42"}, content_settings=settings
    )
    assert blob.download_blob().readall() == body
    part = blob.download_blob(offset=300_000, length=7, validate_content=True).readall()
    assert part == body[300_000:300_007]
    found = blob.get_blob_properties()
    assert found.size == len(body) and found.metadata == {"house": "42"}, found
    assert found.content_settings.content_type == "application/json"
    assert found.content_settings.content_language == "de"
    assert len(found.content_settings.content_md5) == 16
    refused(lambda: container.upload_blob("houses/42.json", b""), ResourceExistsError, "BlobAlreadyExists")
    blob.upload_blob(b"", overwrite=True)
    assert blob.download_blob().readall() == b""
    blob.delete_blob()
    assert not blob.exists()
    refused(blob.download_blob, ResourceNotFoundError, "BlobNotFound")
    most = bytes(16 * 1024 * 1024)
    container.upload_blob("most", most, validate_content=True)
    assert container.download_blob("most").readall() == most


def blobs_in_blocks(server):
    box(server)
    # Bodies over 1 MiB go in blocks, four at a time.
    settings = {"max_single_put_size": 1 << 20, "max_block_size": 1 << 20}
    container = ContainerClient.from_connection_string(server.blobs(), "box", **settings)
    body = bytes(range(256)) * 80_000 + b"the end"
    blob = container.upload_blob("large", body, max_concurrency=4, metadata={"House": "42"})
    assert blob.download_blob(max_concurrency=4).readall() == body
    committed, waiting = blob.get_block_list("all")
    assert len(committed) == 20 and not waiting, (committed, waiting)
    part = blob.download_blob(offset=(1 << 20) - 3, length=6).readall()
    assert part == body[(1 << 20) - 3 : (1 << 20) + 3]
    refused(lambda: container.upload_blob("large", body), ResourceExistsError, "BlobAlreadyExists")
    # The blocks of the upload that was refused still wait.
    blob.stage_block("more", b" and more")
    _, waiting = blob.get_block_list("all")
    assert len(waiting) == 21 and waiting[-1].size == 9, waiting
    blob.commit_block_list([*committed, BlobBlock("more")])
    assert blob.download_blob().readall() == body + b" and more"
    _, waiting = blob.get_block_list("all")
    assert not waiting, waiting
    assert blob.get_blob_properties().metadata == {}
    unknown = [BlobBlock("none")]
    refused(lambda: blob.commit_block_list(unknown), HttpResponseError, "InvalidBlockList")
    # One request, larger than what the server holds of a body.
    whole = ContainerClient.from_connection_string(server.blobs(), "box", max_single_put_size=1 << 28)
    large = bytes(40 * 1024 * 1024)
    assert whole.upload_blob("whole", large).download_blob().readall() == large


class Pattern(io.RawIOBase):
    """A body whose pages of 4 KiB have their own numbers in every 8 bytes."""

    def __init__(self, size):
        super().__init__()
        self.size, self.at = size, 0

    @staticmethod
    def part(start, end):
        first = start // 4096
        pages = (number.to_bytes(8, "big") * 512 for number in range(first, end // 4096 + 1))
        return b"".join(pages)[start - first * 4096 : end - first * 4096]

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def readinto(self, buffer):
        end = min(self.at + len(buffer), self.size)
        buffer[: end - self.at] = self.part(self.at, end)
        read, self.at = end - self.at, end
        return read

    def __len__(self):
        return self.size


def slow_readers(server, blob, size, count=8):
    """Readers that ask for all of a blob at once, and take some of it."""
    soon = datetime.now(timezone.utc) + timedelta(minutes=5)
    token = generate_blob_sas(
        server.said["account"], blob.container_name, blob.blob_name,
        account_key=server.said["account_key"], permission="r", expiry=soon)
    with ExitStack() as open_ones:
        readers = [
            open_ones.enter_context(urllib.request.urlopen(f"{blob.url}?{token}")) for _ in range(count)
        ]
        for at in range(0, 4 << 20, 1 << 20):
            for reader in readers:
                assert int(reader.headers["content-length"]) == size
                is_same = reader.read(1 << 20) == Pattern.part(at, at + (1 << 20))
                assert is_same, at


def blobs_of_256_mebibytes(server):
    """Whole and in blocks; read whole, by range and by version."""
    box(server)
    most = 256 << 20
    settings = [("whole", {"max_single_put_size": most}), ("blocks", {"max_single_put_size": 1 << 20})]
    for name, options in settings:
        container = ContainerClient.from_connection_string(
            server.blobs(), "box", max_chunk_get_size=4 << 20, max_single_get_size=4 << 20, **options)
        blob = container.get_blob_client(name)
        written = blob.upload_blob(Pattern(most), length=most, max_concurrency=2)
        assert blob.get_blob_properties().size == most
        committed, _ = blob.get_block_list("all")
        assert len(committed) == {"whole": 0, "blocks": 64}[name], len(committed)
        at = 0
        for part in blob.download_blob(max_concurrency=2).chunks():
            is_same = part == Pattern.part(at, at + len(part))
            assert is_same, at
            at += len(part)
        assert at == most, at
        same = {"etag": written["etag"], "match_condition": MatchConditions.IfNotModified}
        for start in [0, 1, (1 << 18) - 3, (4 << 20) - 3, most // 2 + 5, most - 7]:
            part = blob.download_blob(offset=start, length=7, **same).readall()
            assert part == Pattern.part(start, start + 7), (name, start)
        slow_readers(server, blob, most)
        behind = lambda: blob.download_blob(offset=most, length=1)
        refused(behind, HttpResponseError, "InvalidRange")
        blob.set_blob_metadata({"n": "new"}, **same)
        former = lambda: blob.download_blob(offset=0, length=7, **same)
        refused(former, ResourceModifiedError, "ConditionNotMet")
        again = lambda: blob.upload_blob(b"", overwrite=True, **same)
        refused(again, ResourceModifiedError, "ConditionNotMet")
        assert blob.get_blob_properties().size == most
        if name == "whole":
            unread = Pattern(most + 1)
            large = container.get_blob_client("more")
            more = lambda: large.upload_blob(unread, length=most + 1)
            refused(more, HttpResponseError, "InvalidInput")
            assert not large.exists()
        blob.delete_blob()
    assert not list(container.list_blobs())


def leases_and_folders(server):
    container = box(server)
    for name in ["a/1", "a/2", "b", "c/d/1"]:
        container.upload_blob(name, b"")
    walked = [each.name for each in container.walk_blobs()]
    assert sorted(walked) == ["a/", "b", "c/"], walked
    assert [each.name for each in container.walk_blobs("a/")] == ["a/1", "a/2"]
    blob = container.get_blob_client("b")
    lease = blob.acquire_lease(15)
    found = blob.get_blob_properties().lease
    assert (found.state, found.status, found.duration) == ("leased", "locked", "fixed"), found
    refused(lambda: blob.acquire_lease(15), ResourceExistsError, "LeaseAlreadyPresent")
    refused(lambda: blob.set_blob_metadata({}), HttpResponseError, "LeaseIdMissing")
    blob.upload_blob(b"mine", overwrite=True, lease=lease)
    former = BlobLeaseClient(blob, lease.id)
    lease.change("c0ffee00-0000-4000-8000-000000000001")
    lease.renew()
    refused(former.renew, ResourceExistsError, "LeaseIdMismatchWithLeaseOperation")
    late = lambda: blob.set_blob_metadata({}, lease=former)
    refused(late, HttpResponseError, "LeaseIdMismatchWithBlobOperation")
    assert lease.break_lease(0) == 0
    assert blob.get_blob_properties().lease.state == "broken"
    again = blob.acquire_lease(-1)
    assert blob.get_blob_properties().lease.duration == "infinite"
    again.release()
    blob.delete_blob()


def lists_and_conditions(server):
    container = box(server)
    for number in range(25):
        container.upload_blob(f"a/{number:02}", b"", metadata={"n": str(number)})
    container.upload_blob("b/ü & <x>", b"x")
    names = [blob.name for blob in container.list_blobs(results_per_page=10)]
    assert names == [f"a/{number:02}" for number in range(25)] + ["b/ü & <x>"], names
    some = list(container.list_blobs(name_starts_with="a/1", include=["metadata"]))
    assert [blob.metadata["n"] for blob in some] == [str(number) for number in range(10, 20)]
    blob = container.get_blob_client("a/00")
    listed = next(iter(container.list_blobs(name_starts_with="a/00")))
    tag = blob.get_blob_properties().etag
    assert tag.strip('"') == listed.etag.strip('"'), (tag, listed.etag)
    same = {"etag": listed.etag, "match_condition": MatchConditions.IfNotModified}
    blob.set_blob_metadata({"n": "new"}, **same)
    refused(lambda: blob.set_blob_metadata({}, **same), ResourceModifiedError, "ConditionNotMet")
    missing = container.get_blob_client("missing")
    refused(
        lambda: missing.set_blob_metadata({}, match_condition=MatchConditions.IfMissing),
        ResourceNotFoundError,
        "BlobNotFound",
    )


def signatures(server):
    container = box(server)
    container.upload_blob("a b/ü", b"text")
    account, key = server.said["account"], server.said["account_key"]
    url = f"http://127.0.0.1:{server.said['blob']}/{account}"
    soon = datetime.now(timezone.utc) + timedelta(minutes=5)

    def reader(token, name="a b/ü"):
        return BlobClient(url, "box", name, credential=token)

    def blob(**options):
        options = {"permission": "r", "expiry": soon} | options
        return generate_blob_sas(account, "box", "a b/ü", account_key=key, **options)

    assert reader(blob()).download_blob().readall() == b"text"
    past = datetime.now(timezone.utc) - timedelta(minutes=1)
    for bad in [
        blob(expiry=past),
        blob(start=soon),
        generate_blob_sas(account, "box", "other", account_key=key, permission="r", expiry=soon),
        generate_blob_sas(account, "box", "a b/ü", account_key="d3Jvbmc=", permission="r", expiry=soon),
    ]:
        refused(reader(bad).download_blob, ClientAuthenticationError, "AuthenticationFailed")
    for less in [blob(permission="w"), blob(protocol="https"), blob(ip="10.0.0.1")]:
        refused(reader(less).download_blob, HttpResponseError, "AuthorizationPermissionMismatch")
    assert reader(blob(ip="127.0.0.1")).download_blob().readall() == b"text"
    whole = generate_container_sas(account, "box", account_key=key, permission="rlc", expiry=soon)
    listed = ContainerClient(url, "box", credential=whole)
    assert [each.name for each in listed.list_blobs()] == ["a b/ü"]
    reader(whole, "new").upload_blob(b"1")
    for overwrite in [
        lambda: reader(whole, "new").upload_blob(b"2", overwrite=True),
        lambda: reader(whole, "new").upload_blob(b"2"),
    ]:
        refused(overwrite, ResourceExistsError, "BlobAlreadyExists")
    token = generate_account_sas(
        account, account_key=key, resource_types="co", permission="rwdlc", expiry=soon
    )
    service = BlobServiceClient(url, credential=token)
    service.create_container("second").upload_blob("x", b"y")
    service.delete_container("second")


def a_bad_account_key(server):
    text = server.blobs("d3Jvbmcga2V5")
    container = ContainerClient.from_connection_string(text, "box")
    refused(container.create_container, ClientAuthenticationError, "AuthenticationFailed")


ALL = [
    blobs_with_bodies,
    blobs_in_blocks,
    blobs_of_256_mebibytes,
    leases_and_folders,
    lists_and_conditions,
    signatures,
    a_bad_account_key,
]

// What @azure/storage-blob does with blobs, and what it must see.

import assert from "node:assert/strict";
import { ContainerClient } from "@azure/storage-blob";

async function fails(promise, statusCode, code) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.statusCode, statusCode, error);
    assert.equal(error.code ?? error.details?.errorCode, code, error);
    return true;
  });
}

async function blobsWithBodies(server) {
  const container = new ContainerClient(server.blobs(), "box");
  await container.create();
  await fails(container.create(), 409, "ContainerAlreadyExists");
  const blob = container.getBlockBlobClient("houses/42 ü.json");
  const body = Buffer.alloc(600_000, "abc");
  const written = await blob.uploadData(body, {
    blobHTTPHeaders: { blobContentType: "application/json" },
    metadata: { house: "42" },
  });
  assert.deepEqual(await blob.downloadToBuffer(), body);
  assert.deepEqual(await blob.downloadToBuffer(5, 10), body.subarray(5, 15));
  const found = await blob.getProperties();
  assert.equal(found.etag, written.etag);
  assert.equal(found.contentType, "application/json");
  assert.deepEqual(found.metadata, { house: "42" });
  const conditions = { ifMatch: written.etag };
  await blob.setMetadata({ house: "" }, { conditions });
  await fails(blob.setMetadata({}, { conditions }), 412, "ConditionNotMet");
  const fresh = { conditions: { ifNoneMatch: "*" } };
  await fails(blob.upload("", 0, fresh), 409, "BlobAlreadyExists");
  const listed = [];
  for await (const each of container.listBlobsFlat({ includeMetadata: true, prefix: "houses/" })) {
    listed.push([each.name, each.metadata]);
  }
  assert.deepEqual(listed, [["houses/42 ü.json", { house: "" }]]);
  await blob.delete();
  await fails(blob.setMetadata({}), 404, "BlobNotFound");
  const wrong = new ContainerClient(server.blobs("d3Jvbmcga2V5"), "box");
  await fails(wrong.create(), 403, "AuthenticationFailed");
}

async function blobsInBlocks(server) {
  const container = new ContainerClient(server.blobs(), "box");
  await container.create();
  const blob = container.getBlockBlobClient("large/1");
  const body = Buffer.alloc(5_000_000, "abcdefg");
  const size = 1 << 20;
  await blob.uploadData(body, { maxSingleShotSize: size, blockSize: size, concurrency: 4 });
  assert.deepEqual(await blob.downloadToBuffer(), body);
  const lists = await blob.getBlockList("all");
  assert.equal(lists.committedBlocks.length, 5);
  const folders = [];
  for await (const each of container.listBlobsByHierarchy("/")) {
    folders.push([each.kind, each.name]);
  }
  assert.deepEqual(folders, [["prefix", "large/"]]);
  const lease = blob.getBlobLeaseClient();
  await lease.acquireLease(15);
  assert.equal((await blob.getProperties()).leaseState, "leased");
  await fails(blob.setMetadata({}), 412, "LeaseIdMissing");
  await blob.setMetadata({}, { conditions: { leaseId: lease.leaseId } });
  await lease.releaseLease();
  await blob.delete();
}

export const blobScenarios = [blobsWithBodies, blobsInBlocks];

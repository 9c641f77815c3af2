// What the client does, and what it must see.

import assert from "node:assert/strict";
import net from "node:net";
import {
  EventHubBufferedProducerClient,
  EventHubConsumerClient,
  EventHubProducerClient,
  earliestEventPosition,
  latestEventPosition,
} from "@azure/event-hubs";
import WebSocket from "ws";

const NO_RETRY = { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } };

// Key, and its partition of 16.
const VECTORS = {
  a: 12,
  alphabet: 6,
  pk1: 13,
  "house-42": 15,
  "house-99999": 3,
  123456789012: 5,
  1234567890123: 10,
  abcdefghijklmnopqrstuvwx: 4,
  Straße: 14,
  "partition-key-that-is-longer-than-24-bytes": 5,
};

function producer(server, hub, options = {}) {
  return new EventHubProducerClient(server.connectionString(), hub, options);
}

async function send(server, hub, events, options) {
  const client = producer(server, hub);
  await client.sendBatch(events, options);
  await client.close();
}

// So many events of a partition, from a position on.
async function read(server, hub, partition, startPosition, count, options = {}) {
  const { text, client: clientOptions, ...rest } = options;
  const client = new EventHubConsumerClient(
    "$Default",
    text ?? server.connectionString(),
    hub,
    clientOptions ?? {},
  );
  const events = [];
  try {
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${events.length} of ${count}`)), 30_000);
      client.subscribe(
        partition,
        {
          async processEvents(some) {
            events.push(...some);
            if (events.length >= count) {
              clearTimeout(timer);
              resolve();
            }
          },
          async processError(error) {
            clearTimeout(timer);
            reject(error);
          },
        },
        { startPosition, maxWaitTimeInSeconds: 1, ...rest },
      );
    });
  } finally {
    await client.close();
  }
  return events;
}

async function rejects(promise, code, words) {
  try {
    await promise;
  } catch (error) {
    assert.equal(error.code, code, error);
    assert.match(error.message, words);
    return;
  }
  assert.fail("it should have failed");
}

async function properties(server) {
  const client = producer(server, "HOUSES");
  const hub = await client.getEventHubProperties();
  assert.equal(hub.name, "houses");
  assert.deepEqual(hub.partitionIds, ["0", "1", "2", "3"]);
  assert.ok(Math.abs(Date.now() - hub.createdOn.getTime()) < 3_600_000);
  const empty = await client.getPartitionProperties("3");
  assert.equal(empty.isEmpty, true);
  assert.equal(empty.lastEnqueuedSequenceNumber, -1);
  assert.equal(empty.lastEnqueuedOffset, "-1");
  await client.close();
}

async function batchOf500(server) {
  const client = producer(server, "houses");
  const batch = await client.createBatch({ partitionId: "0" });
  for (let number = 0; number < 500; number += 1) {
    assert.ok(batch.tryAdd({ body: number }));
  }
  await client.sendBatch(batch);
  await client.close();
  const events = await read(server, "houses", "0", earliestEventPosition, 500);
  events.forEach((event, number) => {
    assert.equal(event.body, number);
    assert.equal(event.sequenceNumber, number);
    assert.equal(typeof event.offset, "string");
  });
}

async function keyedSends(server) {
  const client = producer(server, "keys");
  for (const [key, partition] of Object.entries(VECTORS)) {
    const before = await client.getPartitionProperties(String(partition));
    await client.sendBatch([{ body: key }], { partitionKey: key });
    const after = await client.getPartitionProperties(String(partition));
    const grown = after.lastEnqueuedSequenceNumber - before.lastEnqueuedSequenceNumber;
    assert.equal(grown, 1, key);
  }
  await client.close();
  const [event] = await read(server, "keys", "15", earliestEventPosition, 1);
  assert.equal(event.partitionKey, "house-42");
}

async function typedProperties(server) {
  const time = new Date();
  const sent = { text: "Straße", whole: 2 ** 40, real: 1.5, yes: true, time };
  const body = Buffer.from([0, 1, 254, 255]);
  const event = { body, properties: sent, contentType: "application/octet-stream", messageId: "m" };
  await send(server, "typed", [event]);
  await send(server, "typed", [{ body: { deep: [1, { a: null }] } }]);
  const [first, second] = await read(server, "typed", "0", earliestEventPosition, 2);
  assert.deepEqual(Buffer.from(first.body), body);
  assert.equal(first.contentType, "application/octet-stream");
  assert.equal(first.messageId, "m");
  const { time: got, ...rest } = first.properties;
  assert.equal(Number(got), time.getTime());
  assert.deepEqual(rest, { text: "Straße", whole: 2 ** 40, real: 1.5, yes: true });
  assert.deepEqual(second.body, { deep: [1, { a: null }] });
}

async function everyKindOfPosition(server) {
  for (let number = 0; number < 3; number += 1) {
    await send(server, "positions", [{ body: `${number}-a` }, { body: `${number}-b` }]);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const all = await read(server, "positions", "0", earliestEventPosition, 6);
  const third = all[2];
  const cases = [
    [{ offset: third.offset }, 3],
    [{ offset: third.offset, isInclusive: true }, 2],
    [{ sequenceNumber: third.sequenceNumber }, 3],
    [{ sequenceNumber: third.sequenceNumber, isInclusive: true }, 2],
    [{ enqueuedOn: new Date(third.enqueuedTimeUtc.getTime() - 1) }, 2],
  ];
  for (const [start, first] of cases) {
    const events = await read(server, "positions", "0", start, 6 - first);
    assert.deepEqual(
      events.map((event) => event.body),
      all.slice(first).map((event) => event.body),
      JSON.stringify(start),
    );
  }
  const latest = read(server, "positions", "0", latestEventPosition, 1);
  let isDone = false;
  latest.finally(() => (isDone = true)).catch(() => {});
  while (!isDone) {
    await send(server, "positions", [{ body: "late" }]);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  assert.equal((await latest)[0].body, "late");
}

async function beyondTheEnd(server) {
  const start = { offset: "99999999" };
  await rejects(
    read(server, "positions", "0", start, 1, { client: NO_RETRY }),
    "ArgumentError",
    /The supplied offset '99999999' is invalid/,
  );
}

async function unknownEventHub(server) {
  const client = producer(server, "nowhere", NO_RETRY);
  const words = /The messaging entity 'nowhere' could not be found/;
  await rejects(client.getEventHubProperties(), "MessagingEntityNotFoundError", words);
  await rejects(client.createBatch(), "MessagingEntityNotFoundError", words);
  await rejects(client.sendBatch([{ body: 1 }]), "MessagingEntityNotFoundError", words);
  await client.close();
}

async function badKey(server) {
  const client = new EventHubProducerClient(server.connectionString("wrong"), "houses", NO_RETRY);
  await rejects(client.sendBatch([{ body: 1 }]), "UnauthorizedError", /STF-6003/);
  await client.close();
}

async function tooLarge(server) {
  const client = producer(server, "large", NO_RETRY);
  const batch = await client.createBatch();
  assert.equal(batch.maxSizeInBytes, 1_048_576);
  await client.sendBatch([{ body: Buffer.alloc(1_047_000) }]);
  const larger = client.sendBatch([{ body: Buffer.alloc(1_100_000) }]);
  await rejects(larger, "MessageTooLargeError", /message-size-exceeded/);
  await client.sendBatch([{ body: "again" }]);
  await client.close();
  const events = await read(server, "large", "0", earliestEventPosition, 2);
  assert.equal(events[1].body, "again");
}

async function stolenByOwnerLevel(server) {
  await send(server, "epochs", [{ body: "x" }]);
  const clients = [1, 2].map(
    () => new EventHubConsumerClient("$Default", server.connectionString(), "epochs"),
  );
  const listen = (client, ownerLevel, onError) =>
    new Promise((resolve) => {
      client.subscribe(
        "0",
        {
          async processEvents(events) {
            if (events.length > 0) resolve();
          },
          async processError(error) {
            onError(error);
          },
        },
        { ownerLevel, startPosition: earliestEventPosition, maxWaitTimeInSeconds: 1 },
      );
    });
  let told;
  const stolen = new Promise((resolve) => (told = resolve));
  await listen(clients[0], 1, told);
  await listen(clients[1], 2, (error) => assert.fail(error));
  const error = await stolen;
  assert.equal(error.code, "ReceiverDisconnectedError", error);
  assert.match(error.message, /New receiver '.*' with higher epoch of '2'/);
  // A lower level is refused, and the owner goes on.
  await rejects(
    read(server, "epochs", "0", earliestEventPosition, 1, { ownerLevel: 1, client: NO_RETRY }),
    "ReceiverDisconnectedError",
    /with a higher epoch '2' already exists/,
  );
  await Promise.all(clients.map((client) => client.close()));
}

async function lastEnqueuedProperties(server) {
  await send(server, "positions", [{ body: "one" }, { body: "two" }]);
  const client = new EventHubConsumerClient("$Default", server.connectionString(), "positions");
  const told = await new Promise((resolve, reject) => {
    client.subscribe(
      "0",
      {
        async processEvents(events, context) {
          if (events.length > 0) resolve(context.lastEnqueuedEventProperties);
        },
        async processError(error) {
          reject(error);
        },
      },
      { startPosition: earliestEventPosition, trackLastEnqueuedEventProperties: true },
    );
  });
  await client.close();
  const inner = producer(server, "positions");
  const end = await inner.getPartitionProperties("0");
  await inner.close();
  assert.equal(told.sequenceNumber, end.lastEnqueuedSequenceNumber);
  assert.equal(told.offset, end.lastEnqueuedOffset);
}

async function bufferedAndIdempotent(server) {
  const problems = [];
  const client = new EventHubBufferedProducerClient(server.connectionString(), "idempotent", {
    onSendEventsErrorHandler: async (context) => problems.push(context.error),
    enableIdempotentRetries: true,
    maxWaitTimeInMs: 50,
  });
  for (let number = 0; number < 100; number += 1) {
    await client.enqueueEvent({ body: number }, { partitionId: "1" });
  }
  await client.close();
  assert.deepEqual(problems, []);
  const events = await read(server, "idempotent", "1", earliestEventPosition, 100);
  assert.deepEqual(
    events.map((event) => event.body),
    [...Array(100).keys()],
  );
}

// A proxy that on demand swallows the server's next bytes and breaks the connection.
async function forgetful(port) {
  const proxy = { loses: false, lost: 0 };
  const listener = net.createServer((client) => {
    const upstream = net.connect(port, "127.0.0.1");
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      socket.on("error", end);
      socket.on("close", end);
    }
    client.on("data", (bytes) => upstream.write(bytes));
    upstream.on("data", (bytes) => {
      if (!proxy.loses) {
        client.write(bytes);
        return;
      }
      proxy.loses = false;
      proxy.lost += 1;
      end();
    });
  });
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  proxy.port = listener.address().port;
  proxy.close = () => listener.close();
  return proxy;
}

// A producer that numbers its events. The SDK has the option for its buffered client;
// its own tests set it like this.
function idempotent(text, options, partitions) {
  const client = new EventHubProducerClient(text, "idempotent", options);
  client._enableIdempotentRetries = true;
  client._partitionOptions = partitions;
  return client;
}

// Acknowledgements are lost; what is sent again is stored once.
async function lostAcknowledgements(server) {
  const proxy = await forgetful(server.said.amqp);
  const client = idempotent(server.connectionString(undefined, proxy.port), {
    retryOptions: { retryDelayInMs: 50, timeoutInMs: 5_000 },
  });
  await client.getPartitionPublishingProperties("0");
  const expected = [];
  for (let round = 0; round < 20; round += 1) {
    const events = [...Array(5).keys()].map((index) => ({ body: round * 5 + index }));
    // The link is open, so that what comes next is the acknowledgement.
    proxy.loses = round % 5 === 3;
    await client.sendBatch(events, { partitionId: "0" });
    expected.push(...events.map((event) => event.body));
  }
  assert.equal(proxy.lost, 4);
  await client.close();
  proxy.close();
  const reader = producer(server, "idempotent");
  const end = await reader.getPartitionProperties("0");
  await reader.close();
  assert.equal(end.lastEnqueuedSequenceNumber, expected.length - 1);
  const events = await read(server, "idempotent", "0", earliestEventPosition, expected.length);
  assert.deepEqual(
    events.map((event) => event.body),
    expected,
  );
}

// Producers that must not go on.
async function refusedProducers(server) {
  const next = (partition) => {
    const partitions = partition && { 1: partition };
    return idempotent(server.connectionString(), NO_RETRY, partitions);
  };
  const first = next();
  const bodies = ["one", "two", "three", "four", "five"].map((body) => ({ body }));
  await first.sendBatch(bodies, { partitionId: "1" });
  const own = await first.getPartitionPublishingProperties("1");
  assert.ok(Number.isSafeInteger(own.producerGroupId), own.producerGroupId);
  assert.equal(own.lastPublishedSequenceNumber, 5);
  const { ownerLevel, producerGroupId } = own;
  const one = () => [{ body: "more" }];
  const cases = [
    [{ ownerLevel: -1 }, "ArgumentOutOfRangeError", /must be zero or positive/],
    [{ producerGroupId, startingSequenceNumber: 1 }, "SequenceOutOfOrderError", /old sequence/],
  ];
  for (const [partition, code, words] of cases) {
    const client = next(partition);
    await rejects(client.sendBatch(one(), { partitionId: "1" }), code, words);
    await client.close();
  }
  const owner = next({ ownerLevel: ownerLevel + 7, producerGroupId, startingSequenceNumber: 5 });
  await owner.sendBatch(one(), { partitionId: "1" });
  const late = first.sendBatch(one(), { partitionId: "1" });
  await rejects(late, "ProducerDisconnectedError", /Received:0 Current:7/);
  await owner.close();
  await first.close();
}

// A partition that is not there.
async function unknownPartition(server) {
  const client = producer(server, "houses", NO_RETRY);
  const code = "ArgumentOutOfRangeError";
  for (const partitionId of ["4", "XYZ"]) {
    const words = /The specified partition is invalid/;
    await rejects(client.getPartitionProperties(partitionId), code, words);
    await rejects(client.sendBatch([{ body: 1 }], { partitionId }), code, words);
  }
  await client.close();
  await assert.rejects(
    read(server, "houses", "4", earliestEventPosition, 1, { client: NO_RETRY }),
    (error) => error.code === code,
  );
}

// Everything that a message may have.
async function annotatedMessages(server) {
  const sent = [
    {
      body: "with a footer",
      bodyType: "data",
      footer: { propFooter: "foot" },
      header: { durable: true, priority: 7 },
      deliveryAnnotations: { hop: "one" },
      messageAnnotations: { mine: "annotation" },
    },
    { body: null },
    { body: null, bodyType: "value" },
  ];
  await send(server, "typed", sent, { partitionId: "0" });
  const [full, ...nothing] = await read(server, "typed", "0", earliestEventPosition, 3);
  const raw = full.getRawAmqpMessage();
  assert.equal(full.body, "with a footer");
  assert.deepEqual(raw.footer, { propFooter: "foot" });
  assert.equal(raw.header.durable, true);
  assert.equal(raw.header.priority, 7);
  assert.equal(raw.deliveryAnnotations.hop, "one");
  assert.equal(raw.messageAnnotations.mine, "annotation");
  for (const event of nothing) {
    assert.ok(event.body === null || event.body?.length === 0, event.body);
  }
}

async function overWebSocket(server) {
  const { said } = server;
  const text =
    `Endpoint=sb://localhost;SharedAccessKeyName=${said.key_name};` + `SharedAccessKey=${said.key}`;
  const client = {
    customEndpointAddress: `sb://localhost:${said.https}`,
    webSocketOptions: {
      webSocket: WebSocket,
      webSocketConstructorOptions: { rejectUnauthorized: false },
    },
  };
  const sender = new EventHubProducerClient(text, "houses", client);
  await sender.sendBatch([{ body: "web" }, { body: "socket" }], { partitionId: "3" });
  await sender.close();
  const events = await read(server, "houses", "3", earliestEventPosition, 2, { text, client });
  assert.deepEqual(
    events.map((event) => event.body),
    ["web", "socket"],
  );
}

export const scenarios = [
  properties,
  batchOf500,
  keyedSends,
  typedProperties,
  everyKindOfPosition,
  beyondTheEnd,
  unknownEventHub,
  badKey,
  tooLarge,
  stolenByOwnerLevel,
  lastEnqueuedProperties,
  bufferedAndIdempotent,
  lostAcknowledgements,
  refusedProducers,
  unknownPartition,
  annotatedMessages,
  overWebSocket,
];

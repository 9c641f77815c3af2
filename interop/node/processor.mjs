// A processor that runs until its input ends: processor.mjs <what the server said> <options>.
//
// Options are JSON: hub, group, container, interval and expiry in seconds. Every line that
// it prints is JSON: what it owns, what it got, what it gave up.

import { EventHubConsumerClient, earliestEventPosition } from "@azure/event-hubs";
import { BlobCheckpointStore } from "@azure/eventhubs-checkpointstore-blob";
import { ContainerClient } from "@azure/storage-blob";
import { serverOf } from "./server.mjs";

const server = serverOf(process.argv[2]);
const options = JSON.parse(process.argv[3]);
const say = (facts) => console.log(JSON.stringify(facts));

const container = new ContainerClient(server.blobs(), options.container);
const client = new EventHubConsumerClient(
  options.group,
  server.connectionString(),
  options.hub,
  new BlobCheckpointStore(container),
  {
    loadBalancingOptions: {
      strategy: options.strategy ?? "greedy",
      updateIntervalInMs: options.interval * 1000,
      partitionOwnershipExpirationIntervalInMs: options.expiry * 1000,
    },
  },
);
const subscription = client.subscribe(
  {
    async processInitialize(context) {
      say({ began: context.partitionId });
    },
    async processClose(reason, context) {
      say({ ended: context.partitionId, reason });
    },
    async processEvents(events, context) {
      for (const event of events) {
        say({ got: String(event.body), partition: context.partitionId, sequence: event.sequenceNumber });
      }
      if (events.length > 0) {
        await context.updateCheckpoint(events[events.length - 1]);
        events.forEach((event) => say({ kept: String(event.body) }));
      }
    },
    async processError(error) {
      say({ error: String(error) });
    },
  },
  { startPosition: earliestEventPosition, maxWaitTimeInSeconds: 1 },
);
process.stdin.resume();
process.stdin.on("end", async () => {
  await subscription.close();
  await client.close();
  say({ left: true });
  process.exit(0);
});

// The server that the scenarios talk to, and workers on it.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { NoOpLogger, OrchestrationStatus, TaskHubGrpcClient, TaskHubGrpcWorker } from "@microsoft/durabletask-js";

// How long anything may take before a scenario fails, in seconds.
export const PATIENCE = 60;

export class Server {
  constructor(said) {
    this.own = { hostAddress: `localhost:${said.port}`, useTLS: "certificate" in said, logger: new NoOpLogger() };
  }

  client() {
    return new TaskHubGrpcClient(this.own);
  }

  /** Has a client at hand while a worker with this code runs. */
  async running(code, use, options = {}) {
    const worker = new TaskHubGrpcWorker({ ...this.own, ...options });
    for (const own of code.orchestrators ?? []) worker.addOrchestrator(own);
    for (const own of code.activities ?? []) worker.addActivity(own);
    for (const [name, factory] of Object.entries(code.entities ?? {})) worker.addNamedEntity(name, factory);
    const client = this.client();
    await worker.start();
    try {
      await use(client);
    } finally {
      await worker.stop();
      await client.stop();
    }
  }
}

/** An id that nobody has used. */
export function fresh(name) {
  return `${name}-${randomUUID().slice(0, 13)}`;
}

/** The state of an instance that has ended. */
export async function ended(client, instance, seconds = PATIENCE) {
  const state = await client.waitForOrchestrationCompletion(instance, true, seconds);
  if (!state) throw new Error(`there is no ${instance}`);
  return state;
}

/** What an instance that has ended well came to. */
export async function output(client, instance, seconds = PATIENCE) {
  const state = await ended(client, instance, seconds);
  if (state.runtimeStatus !== OrchestrationStatus.COMPLETED) {
    throw new Error(`${instance} ended as ${state.runtimeStatus}: ${JSON.stringify(state.failureDetails)}`);
  }
  return state.serializedOutput === undefined ? undefined : JSON.parse(state.serializedOutput);
}

/** Waits for something that nobody tells us. */
export async function until(what, isSo) {
  const end = Date.now() + PATIENCE * 1000;
  while (Date.now() < end) {
    const found = await isSo();
    if (found) return found;
    await sleep(20);
  }
  throw new Error(`not in time: ${what}`);
}

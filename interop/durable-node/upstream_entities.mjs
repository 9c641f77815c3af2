// Scenarios of the e2e tests of durabletask-js on entities, in our words.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { EntityInstanceId, OrchestrationStatus, TaskEntity } from "@microsoft/durabletask-js";
import { refused } from "./scenarios.mjs";
import { ended, fresh, output, until } from "./server.mjs";

class Shelf extends TaskEntity {
  initializeState() {
    return { count: 0, items: [] };
  }

  add(amount) {
    this.state.count += amount;
    return this.state.count;
  }

  get() {
    return this.state.count;
  }

  put(item) {
    this.state.items.push(item);
    return this.state.items.length;
  }

  async later(amount) {
    await sleep(20);
    return this.add(amount);
  }

  nothing() {
    return "nothing";
  }

  reset() {
    this.state = { count: 0, items: [] };
  }

  delete() {
    this.state = null;
  }

  fail() {
    this.state.count = -1;
    throw new Error("the shelf broke");
  }

  ring() {
    const loop = { name: "loop" };
    loop.self = loop;
    this.state = { count: 5, items: [], loop };
  }

  pass([key, amount]) {
    this.context.signalEntity(new EntityInstanceId("shelf", key), "add", amount);
  }

  begin(input) {
    return this.context.scheduleNewOrchestration("told", input);
  }
}

const entities = { shelf: () => new Shelf(), crate: () => new Shelf() };
const at = (key, name = "shelf") => new EntityInstanceId(name, key);
const stateOf = async (client, id) => (await client.getEntity(id))?.state;
const counts = (client, id, count) => until(`${count}`, async () => (await stateOf(client, id))?.count === count);
const run = async (client, code, input) => output(client, await client.scheduleNewOrchestration(code, input));

const asking = async function* asking(ctx, [key, ...steps]) {
  const found = [];
  for (const [operation, input] of steps) {
    try {
      found.push(yield ctx.entities.callEntity(at(key), operation, input));
    } catch (error) {
      found.push(error.message);
    }
  }
  return found;
};

async function statesOfEntities(server) {
  await server.running({ entities }, async (client) => {
    const [one, other, third] = [at(fresh("k")), at(fresh("k")), at(fresh("k"), "crate")];
    assert.equal(await client.getEntity(one), undefined);
    for (const amount of [10, 5, -3]) await client.signalEntity(one, "add", amount);
    await client.signalEntity(other, "ADD", 7);
    await client.signalEntity(new EntityInstanceId("crate", one.key), "add", 1);
    await counts(client, one, 12);
    await counts(client, other, 7);
    await counts(client, new EntityInstanceId("crate", one.key), 1);
    for (const item of ["a", { b: [1, { c: null }] }, []]) await client.signalEntity(third, "put", item);
    await until("three items", async () => (await stateOf(client, third))?.items.length === 3);
    assert.deepEqual((await stateOf(client, third)).items, ["a", { b: [1, { c: null }] }, []]);
    await client.signalEntity(one, "reset");
    await counts(client, one, 0);
    await client.signalEntity(one, "fail");
    await client.signalEntity(one, "add", 2);
    await counts(client, one, 2);
  });
}

async function entitiesAreDeletedAndMadeAnew(server) {
  await server.running({ entities }, async (client) => {
    const id = at(fresh("k"));
    await client.signalEntity(id, "add", 5);
    await counts(client, id, 5);
    await client.signalEntity(id, "delete");
    await until("it is gone", async () => (await client.getEntity(id)) === undefined);
    const cleaned = await client.cleanEntityStorage();
    assert.deepEqual([cleaned.emptyEntitiesRemoved, cleaned.orphanedLocksReleased], [0, 0]);
    const some = await client.cleanEntityStorage({ removeEmptyEntities: true, releaseOrphanedLocks: false });
    assert.equal(some.emptyEntitiesRemoved, 0);
    await client.signalEntity(id, "add", 6);
    await counts(client, id, 6);
  });
}

async function manySignals(server) {
  await server.running({ entities }, async (client) => {
    const [one, other] = [at(fresh("k")), at(fresh("k"))];
    for (let number = 0; number < 20; number++) await client.signalEntity(one, "put", number);
    await until("twenty", async () => (await stateOf(client, one))?.items.length === 20);
    assert.deepEqual((await stateOf(client, one)).items, Array.from({ length: 20 }, (_, n) => n));
    const second = server.client();
    await Promise.all(Array.from({ length: 40 }, (_, n) => (n % 2 ? client : second).signalEntity(other, "add", 1)));
    await counts(client, other, 40);
    await second.stop();
  });
}

async function callsFromOrchestrations(server) {
  const mixed = async function* mixed(ctx, key) {
    ctx.entities.signalEntity(at(key), "add", 1);
    const first = yield ctx.entities.callEntity(at(key), "add", 2);
    ctx.entities.signalEntity(at(key), "add", 3);
    return [first, yield ctx.entities.callEntity(at(key), "get")];
  };
  const careless = async function* careless(ctx, key) {
    yield ctx.entities.callEntity(at(key), "fail");
  };
  await server.running({ orchestrators: [asking, mixed, careless], entities }, async (client) => {
    const key = fresh("k");
    const steps = [["add", 5], ["nothing"], ["later", 1], ["get"], ["fail"], ["get"]];
    const found = await run(client, asking, [key, ...steps]);
    assert.deepEqual(found.slice(0, 4), [5, "nothing", 6, 6]);
    assert.match(found[4], /the shelf broke/);
    assert.equal(found[5], 6);
    assert.deepEqual(await run(client, mixed, fresh("k")), [3, 6]);
    const state = await ended(client, await client.scheduleNewOrchestration(careless, key));
    assert.equal(state.runtimeStatus, OrchestrationStatus.FAILED);
    assert.match(state.failureDetails.message, /the shelf broke/);
    const instances = [];
    for (let number = 0; number < 5; number++) {
      instances.push(await client.scheduleNewOrchestration(asking, [key, ["add", 1]]));
    }
    for (const instance of instances) await output(client, instance);
    assert.deepEqual(await run(client, asking, [key, ["get"]]), [11]);
  });
}

async function statesThatCannotBeWritten(server) {
  await server.running({ orchestrators: [asking], entities }, async (client) => {
    const key = fresh("k");
    assert.deepEqual(await run(client, asking, [key, ["add", 3]]), [3]);
    const found = await run(client, asking, [key, ["ring"], ["get"], ["add", 1]]);
    assert.deepEqual(found.slice(1), [3, 4]);
    await client.signalEntity(at(key), "ring");
    await client.signalEntity(at(key), "add", 1);
    await counts(client, at(key), 5);
  });
}

async function entitiesSignalAndBegin(server) {
  const told = async function* told(_, input) {
    return input;
  };
  await server.running({ orchestrators: [told, asking], entities }, async (client) => {
    const [key, other] = [fresh("k"), fresh("k")];
    await client.signalEntity(at(key), "pass", [other, 4]);
    await counts(client, at(other), 4);
    const [instance] = await run(client, asking, [key, ["begin", "by an entity"]]);
    assert.equal(await output(client, instance), "by an entity");
  });
}

async function entitiesAreListed(server) {
  await server.running({ entities }, async (client) => {
    const prefix = fresh("list");
    const keys = ["1", "2", "3"].map((end) => `${prefix}-${end}`);
    for (const key of keys) await client.signalEntity(at(key), "add", 1);
    for (const key of keys) await counts(client, at(key), 1);
    const query = { instanceIdStartsWith: `@shelf@${prefix}`, includeState: true };
    const found = [];
    for await (const each of client.getEntities(query)) found.push([each.id.key, each.state.count]);
    assert.deepEqual(found, keys.map((key) => [key, 1]));
    const pages = [];
    for await (const page of client.getEntities({ ...query, pageSize: 2 }).asPages()) pages.push(page.values.length);
    assert.deepEqual(pages, [2, 1]);
  });
}

async function idsOfEntities(server) {
  await server.running({ entities }, async (client) => {
    for (const key of ["a-b_c.d:e", "with space", "ä€😀", "x".repeat(90)]) {
      const id = at(key === "x".repeat(90) ? key : `${key}-${fresh("k")}`);
      const before = (await stateOf(client, id))?.count ?? 0;
      await client.signalEntity(id, "add", 1);
      await counts(client, id, before + 1);
    }
    await refused(() => client.signalEntity(at("x".repeat(200)), "add", 1));
  });
}

async function locksOneByOne(server) {
  const locking = async function* locking(ctx, [keys, isTwice]) {
    const before = ctx.entities.isInCriticalSection().inSection;
    const lock = yield ctx.entities.lockEntities(...keys.map((key) => at(key)));
    const inside = ctx.entities.isInCriticalSection().inSection;
    const found = [];
    for (const key of new Set(keys)) {
      let signal = "allowed";
      try {
        ctx.entities.signalEntity(at(key), "add", 100);
      } catch {
        signal = "refused";
      }
      found.push([yield ctx.entities.callEntity(at(key), "add", 1), signal]);
    }
    lock.release();
    if (isTwice) lock.release();
    return [before, inside, ctx.entities.isInCriticalSection().inSection, found];
  };
  await server.running({ orchestrators: [locking, asking], entities }, async (client) => {
    const [a, b] = [fresh("a"), fresh("b")];
    for (const [keys, isTwice, counted] of [[[a], false, 1], [[b, a], true, 2], [[a, a, b], false, 2]]) {
      const [before, inside, after, found] = await run(client, locking, [keys, isTwice]);
      assert.deepEqual([before, inside, after, found.length], [false, true, false, counted]);
      assert.ok(found.every(([, signal]) => signal === "refused"));
      // The end was seen, so no lock is.
      for (const key of keys) assert.equal((await client.getEntity(at(key)))?.lockedBy, undefined);
    }
  });
}

async function lockedTurnsDoNotMix(server) {
  const careful = async function* careful(ctx, key) {
    const lock = yield ctx.entities.lockEntities(at(key));
    const count = yield ctx.entities.callEntity(at(key), "get");
    yield ctx.createTimer(0.02);
    yield ctx.entities.callEntity(at(key), "add", 1);
    lock.release();
    return count;
  };
  await server.running({ orchestrators: [careful], entities }, async (client) => {
    const key = fresh("k");
    const instances = [];
    for (let number = 0; number < 10; number++) instances.push(await client.scheduleNewOrchestration(careful, key));
    const seen = [];
    for (const instance of instances) seen.push(await output(client, instance));
    assert.deepEqual(seen.toSorted((a, b) => a - b), Array.from({ length: 10 }, (_, n) => n));
    assert.equal((await client.getEntity(at(key))).lockedBy, undefined);
  });
}

export const scenarios = [
  statesOfEntities,
  entitiesAreDeletedAndMadeAnew,
  manySignals,
  callsFromOrchestrations,
  statesThatCannotBeWritten,
  entitiesSignalAndBegin,
  entitiesAreListed,
  idsOfEntities,
  locksOneByOne,
  lockedTurnsDoNotMix,
];

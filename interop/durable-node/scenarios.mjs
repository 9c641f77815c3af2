// What orchestrations, clients and entities do.

import assert from "node:assert/strict";
import {
  EntityInstanceId,
  OrchestrationStatus,
  RetryPolicy,
  TaskEntity,
  TaskFailedError,
  terminateOptions,
  whenAll,
  whenAny,
} from "@microsoft/durabletask-js";
import { ended, fresh, output, PATIENCE, until } from "./server.mjs";

const STATUS = { NOT_FOUND: 5, ALREADY_EXISTS: 6, INVALID_ARGUMENT: 3, FAILED_PRECONDITION: 9 };

/** The refusal of a call, in words. */
export async function refused(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error("a refusal was expected");
}

const double = async (_, number) => number * 2;

const sequence = async function* sequence(ctx, number) {
  for (let round = 0; round < 5; round++) number = yield ctx.callActivity(double, number);
  return number;
};

async function activitiesInSequence(server) {
  await server.running({ orchestrators: [sequence], activities: [double] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(sequence, 1);
    assert.equal(await output(client, instance), 32);
    const state = await client.getOrchestrationState(instance);
    assert.equal(state.serializedInput, "1");
    assert.equal(state.name, "sequence");
  });
}

const fanOut = async function* fanOut(ctx, count) {
  const results = yield whenAll(Array.from({ length: count }, (_, n) => ctx.callActivity(double, n)));
  return results.reduce((sum, each) => sum + each, 0);
};

async function fanOutOfAThousand(server) {
  await server.running({ orchestrators: [fanOut], activities: [double] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(fanOut, 1000);
    assert.equal(await output(client, instance, 120), 999 * 1000);
  });
}

const echo = async (_, value) => value;

const echoes = async function* echoes(ctx, values) {
  const found = [];
  for (const value of values) found.push(yield ctx.callActivity(echo, value));
  return found;
};

async function falsyValuesSurvive(server) {
  const values = [0, false, "", null, [], {}, " ", "ä€😀"];
  await server.running({ orchestrators: [echoes], activities: [echo] }, async (client) => {
    const found = await output(client, await client.scheduleNewOrchestration(echoes, values));
    assert.deepEqual(found.map((each) => each ?? null), values);
  });
}

const sleepy = async function* sleepy(ctx, seconds) {
  const due = new Date(ctx.currentUtcDateTime.getTime() + seconds * 1000);
  yield ctx.createTimer(due);
  return [due.getTime(), ctx.currentUtcDateTime.getTime()];
};

async function timersFireInTime(server) {
  await server.running({ orchestrators: [sleepy] }, async (client) => {
    // The machine may be busy with other tests: the best of some counts.
    let late = Infinity;
    for (let round = 0; late >= 250 && round < 10; round++) {
      const [due, fired] = await output(client, await client.scheduleNewOrchestration(sleepy, 0.7));
      late = fired - due;
      assert.ok(late >= 0, `${-late} ms early`);
    }
    assert.ok(late < 250, `${late} ms late`);
  });
}

const listener = async function* listener(ctx, count) {
  const found = [];
  for (let number = 0; number < count; number++) found.push(yield ctx.waitForExternalEvent("note"));
  return found;
};

async function eventsArriveInOrder(server) {
  await server.running({ orchestrators: [listener] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(listener, 20);
    for (let number = 0; number < 20; number++) await client.raiseOrchestrationEvent(instance, "note", number);
    assert.deepEqual(await output(client, instance), Array.from({ length: 20 }, (_, n) => n));
  });
}

const countingEvents = async function* countingEvents(ctx, found) {
  for (let number = 0; number < 10; number++) found.push(yield ctx.waitForExternalEvent("note"));
  if (found.length >= 300) return found;
  ctx.continueAsNew(found, true);
};

async function eventsAcrossContinueAsNew(server) {
  await server.running({ orchestrators: [countingEvents] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(countingEvents, []);
    const all = Array.from({ length: 300 }, (_, n) => n);
    for (const number of all) await client.raiseOrchestrationEvent(instance, "note", number);
    assert.deepEqual(await output(client, instance, 120), all);
  });
}

const child = async function* child(ctx, number) {
  if (number < 0) throw new RangeError("negative");
  if (number === 0) yield ctx.waitForExternalEvent("never");
  return [number, ctx.parent?.instanceId];
};

const parent = async function* parent(ctx, number) {
  try {
    return yield ctx.callSubOrchestrator(child, number, { instanceId: `${ctx.instanceId}-child` });
  } catch (error) {
    if (!(error instanceof TaskFailedError)) throw error;
    return [error.details.errorType, error.details.message];
  }
};

async function childrenReportToTheirParent(server) {
  await server.running({ orchestrators: [parent, child] }, async (client) => {
    const good = await client.scheduleNewOrchestration(parent, 7);
    assert.deepEqual(await output(client, good), [7, good]);
    const [, message] = await output(client, await client.scheduleNewOrchestration(parent, -1));
    assert.match(message, /negative/);
    const cut = await client.scheduleNewOrchestration(parent, 0);
    await until("the child", () => client.getOrchestrationState(`${cut}-child`));
    await client.terminateOrchestration(`${cut}-child`, "enough");
    const [kind] = await output(client, cut);
    assert.equal(kind, "OrchestrationTerminated");
  });
}

const attempts = new Map();

const flaky = async (_, key) => {
  attempts.set(key, (attempts.get(key) ?? 0) + 1);
  if (attempts.get(key) < 3) throw new Error(`attempt ${attempts.get(key)}`);
  return attempts.get(key);
};

const persistent = async function* persistent(ctx, key) {
  const retry = new RetryPolicy({ maxNumberOfAttempts: 4, firstRetryIntervalInMilliseconds: 50 });
  return yield ctx.callActivity(flaky, key, { retry });
};

async function activitiesAreRetried(server) {
  await server.running({ orchestrators: [persistent], activities: [flaky] }, async (client) => {
    assert.equal(await output(client, await client.scheduleNewOrchestration(persistent, fresh("key"))), 3);
  });
}

const racing = async function* racing(ctx) {
  const timer = ctx.createTimer(30);
  const event = ctx.waitForExternalEvent("go");
  const winner = yield whenAny([timer, event]);
  return winner === event ? "event" : "timer";
};

async function aRaceOfTimerAndEvent(server) {
  await server.running({ orchestrators: [racing] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(racing);
    await client.raiseOrchestrationEvent(instance, "go", 1);
    assert.equal(await output(client, instance), "event");
  });
}

const simple = async function* simple(_, value) {
  return value;
};

async function idsAreTakenOnce(server) {
  await server.running({ orchestrators: [simple] }, async (client) => {
    const instance = fresh("once");
    await client.scheduleNewOrchestration(simple, 1, instance);
    const error = await refused(() => client.scheduleNewOrchestration(simple, 2, instance));
    assert.equal(error.code ?? error.cause?.code, STATUS.ALREADY_EXISTS);
    assert.equal(await output(client, instance), 1);
  });
}

async function terminateNeedsNoWorker(server) {
  const client = server.client();
  const instance = await client.scheduleNewOrchestration("nobody knows it", 1, fresh("end"));
  await client.terminateOrchestration(instance, terminateOptions({ output: { why: "enough" }, recursive: true }));
  const state = await ended(client, instance);
  assert.equal(state.runtimeStatus, OrchestrationStatus.TERMINATED);
  assert.deepEqual(JSON.parse(state.serializedOutput), { why: "enough" });
  await client.stop();
}

async function suspendAndResume(server) {
  await server.running({ orchestrators: [listener] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(listener, 3);
    await client.waitForOrchestrationStart(instance, false, PATIENCE);
    await client.suspendOrchestration(instance);
    for (let number = 0; number < 3; number++) await client.raiseOrchestrationEvent(instance, "note", number);
    const state = await client.getOrchestrationState(instance);
    assert.equal(state.runtimeStatus, OrchestrationStatus.SUSPENDED);
    await client.resumeOrchestration(instance);
    assert.deepEqual(await output(client, instance), [0, 1, 2]);
  });
}

const brittle = async function* brittle(ctx, key) {
  return yield ctx.callActivity(flaky, key);
};

async function rewindRunsWhatFailed(server) {
  await server.running({ orchestrators: [brittle], activities: [flaky] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(brittle, fresh("rewind"));
    for (let round = 0; round < 2; round++) {
      assert.equal((await ended(client, instance)).runtimeStatus, OrchestrationStatus.FAILED);
      await client.rewindInstance(instance, "repaired");
    }
    assert.equal(await output(client, instance), 3);
    await refused(() => client.rewindInstance(instance, "again"));
  });
}

async function restartKeepsTheInput(server) {
  await server.running({ orchestrators: [simple, listener] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(simple, { a: 1 });
    await output(client, instance);
    const other = await client.restartOrchestration(instance, true);
    assert.notEqual(other, instance);
    assert.deepEqual(await output(client, other), { a: 1 });
    assert.equal(await client.restartOrchestration(instance), instance);
    assert.deepEqual(await output(client, instance), { a: 1 });
    // One that still runs may be restarted under a new id only.
    const live = await client.scheduleNewOrchestration(listener, 1);
    await client.waitForOrchestrationStart(live, false, PATIENCE);
    await refused(() => client.restartOrchestration(live));
    const twin = await client.restartOrchestration(live, true);
    for (const each of [live, twin]) await client.terminateOrchestration(each, "done");
  });
}

async function purgeTakesWhatHasEnded(server) {
  await server.running({ orchestrators: [simple, listener] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(simple, 1);
    await output(client, instance);
    const live = await client.scheduleNewOrchestration(listener, 1);
    await client.waitForOrchestrationStart(live, false, PATIENCE);
    assert.equal((await client.purgeOrchestration(live)).deletedInstanceCount, 0);
    assert.equal((await client.purgeOrchestration(instance)).deletedInstanceCount, 1);
    assert.equal(await client.getOrchestrationState(instance), undefined);
    await client.terminateOrchestration(live, "done");
  });
}

async function instancesAreListed(server) {
  await server.running({ orchestrators: [simple] }, async (client) => {
    const prefix = fresh("list");
    const wanted = [];
    for (let number = 0; number < 25; number++) {
      wanted.push(await client.scheduleNewOrchestration(simple, number, `${prefix}-${String(number).padStart(2, "0")}`));
    }
    for (const each of wanted) await output(client, each);
    const found = [];
    const query = { instanceIdPrefix: prefix, pageSize: 7, fetchInputsAndOutputs: true };
    for await (const state of client.getAllInstances(query)) found.push(state.instanceId);
    assert.deepEqual(found.toSorted(), wanted);
    const ids = [];
    let page = await client.listInstanceIds({ pageSize: 10 });
    ids.push(...page.values);
    while (page.continuationToken) {
      page = await client.listInstanceIds({ pageSize: 10, lastInstanceKey: page.continuationToken });
      ids.push(...page.values);
    }
    assert.equal(new Set(ids).size, ids.length);
    assert.ok(wanted.every((each) => ids.includes(each)));
  });
}

async function historiesAreToldInOrder(server) {
  await server.running({ orchestrators: [sequence], activities: [double] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(sequence, 1);
    await output(client, instance);
    const events = await client.getOrchestrationHistory(instance);
    const ids = events.map(({ eventId }) => eventId).filter((id) => id >= 0);
    assert.deepEqual(ids, [...new Set(ids)].toSorted((a, b) => a - b));
    assert.match(String(events.at(-1).type), /ExecutionCompleted/);
    assert.deepEqual(await client.getOrchestrationHistory(fresh("nobody")), []);
  });
}

class Counter extends TaskEntity {
  initializeState() {
    return { value: 0, notes: [] };
  }

  add(amount) {
    if (amount === "bad") {
      this.state.value = -1;
      throw new TypeError("no amount");
    }
    this.state.value += amount;
    return this.state.value;
  }

  note(text) {
    this.state.notes.push(text);
  }

  get() {
    return this.state.value;
  }

  notes() {
    return this.state.notes;
  }

  tell(other) {
    this.context.signalEntity(new EntityInstanceId("counter", other), "add", this.state.value);
  }
}

const entities = { counter: () => new Counter() };
const stateOf = async (client, id) => (await client.getEntity(id))?.state;

const call = async function* call(ctx, [key, operation, input]) {
  try {
    return yield ctx.entities.callEntity(new EntityInstanceId("counter", key), operation, input);
  } catch (error) {
    return { message: error.message };
  }
};

async function entitiesAreSignalledAndCalled(server) {
  await server.running({ orchestrators: [call], entities }, async (client) => {
    const key = fresh("entity");
    const id = new EntityInstanceId("Counter", key);
    assert.equal(await client.getEntity(id), undefined);
    await client.signalEntity(id, "add", 5);
    await client.signalEntity(id, "add", 6);
    await until("both signals", async () => (await stateOf(client, id))?.value === 11);
    const ask = async (...wanted) => output(client, await client.scheduleNewOrchestration(call, wanted));
    assert.equal(await ask(key, "add", 1), 12);
    assert.match((await ask(key, "add", "bad")).message, /no amount/);
    assert.equal(await ask(key, "get"), 12);
    const other = fresh("other");
    await client.signalEntity(id, "tell", other);
    await until("the other", async () => (await stateOf(client, new EntityInstanceId("counter", other)))?.value === 12);
    const found = [];
    for await (const each of client.getEntities({ instanceIdStartsWith: `@counter@${key}` })) found.push(each.id.key);
    assert.deepEqual(found, [key]);
    const long = await refused(() => client.signalEntity(new EntityInstanceId("counter", "x".repeat(100)), "add", 1));
    assert.equal(long.code ?? long.cause?.code, STATUS.INVALID_ARGUMENT);
  });
}

async function scheduledSignalsWait(server) {
  await server.running({ entities }, async (client) => {
    const id = new EntityInstanceId("counter", fresh("later"));
    const due = Date.now() + 1500;
    await client.signalEntity(id, "add", 1, { signalTime: new Date(due) });
    await client.signalEntity(id, "add", 10);
    await until("the first", async () => (await stateOf(client, id))?.value === 10);
    await until("the second", async () => (await stateOf(client, id))?.value === 11);
    assert.ok(Date.now() >= due - 100);
  });
}

const transfer = async function* transfer(ctx, [source, target, amount]) {
  const [from, to] = [new EntityInstanceId("counter", source), new EntityInstanceId("counter", target)];
  const lock = yield ctx.entities.lockEntities(from, to);
  try {
    const balance = yield ctx.entities.callEntity(from, "get");
    if (balance < amount) return false;
    yield ctx.entities.callEntity(from, "add", -amount);
    yield ctx.entities.callEntity(to, "add", amount);
    return true;
  } finally {
    lock.release();
  }
};

async function moneyIsTransferred(server) {
  await server.running({ orchestrators: [transfer, call], entities }, async (client) => {
    const bank = fresh("bank");
    const [source, target] = [`${bank}-a`, `${bank}-b`];
    const ask = async (...wanted) => output(client, await client.scheduleNewOrchestration(call, wanted));
    for (const each of [source, target]) await ask(each, "add", 100);
    const ways = [[source, target], [target, source]];
    const instances = [];
    for (let number = 0; number < 20; number++) {
      instances.push(await client.scheduleNewOrchestration(transfer, [...ways[number % 2], 1]));
    }
    for (const instance of instances) assert.equal(await output(client, instance), true);
    assert.equal(await output(client, await client.scheduleNewOrchestration(transfer, [source, target, 1000])), false);
    assert.equal((await ask(source, "get")) + (await ask(target, "get")), 200);
  });
}

const holder = async function* holder(ctx, key) {
  const id = new EntityInstanceId("counter", key);
  const lock = yield ctx.entities.lockEntities(id);
  const before = yield ctx.entities.callEntity(id, "notes");
  ctx.setCustomStatus("locked");
  yield ctx.waitForExternalEvent("go");
  const after = yield ctx.entities.callEntity(id, "notes");
  lock.release();
  return [before, after];
};

async function locksKeepOthersOut(server) {
  await server.running({ orchestrators: [holder, call], entities }, async (client) => {
    const key = fresh("held");
    const id = new EntityInstanceId("counter", key);
    await client.signalEntity(id, "note", "first");
    await until("the entity", () => client.getEntity(id));
    const instance = await client.scheduleNewOrchestration(holder, key);
    await until("the lock", async () => (await client.getOrchestrationState(instance))?.serializedCustomStatus === '"locked"');
    assert.equal((await client.getEntity(id)).lockedBy, instance);
    for (const text of ["a", "b"]) await client.signalEntity(id, "note", text);
    await client.raiseOrchestrationEvent(instance, "go");
    assert.deepEqual(await output(client, instance), [["first"], ["first"]]);
    await until("the signals", async () => (await stateOf(client, id)).notes.length === 3);
    assert.deepEqual((await stateOf(client, id)).notes, ["first", "a", "b"]);
    await until("the release", async () => !(await client.getEntity(id)).lockedBy);
  });
}

export const scenarios = [
  activitiesInSequence,
  fanOutOfAThousand,
  falsyValuesSurvive,
  timersFireInTime,
  eventsArriveInOrder,
  eventsAcrossContinueAsNew,
  childrenReportToTheirParent,
  activitiesAreRetried,
  aRaceOfTimerAndEvent,
  idsAreTakenOnce,
  terminateNeedsNoWorker,
  suspendAndResume,
  rewindRunsWhatFailed,
  restartKeepsTheInput,
  purgeTakesWhatHasEnded,
  instancesAreListed,
  historiesAreToldInOrder,
  entitiesAreSignalledAndCalled,
  scheduledSignalsWait,
  moneyIsTransferred,
  locksKeepOthersOut,
];

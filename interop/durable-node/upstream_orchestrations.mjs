// Scenarios of the e2e tests of durabletask-js on orchestrations, in our words.

import assert from "node:assert/strict";
import {
  HistoryEventType,
  OrchestrationStatus,
  RetryPolicy,
  terminateOptions,
  VersionFailureStrategy,
  VersionMatchStrategy,
  whenAll,
  whenAny,
} from "@microsoft/durabletask-js";
import { refused } from "./scenarios.mjs";
import { ended, fresh, output, PATIENCE, until } from "./server.mjs";

const { COMPLETED, FAILED, PENDING, RUNNING, TERMINATED } = OrchestrationStatus;

/** Starts an orchestration and waits for what it comes to. */
const run = async (client, code, input, options) =>
  output(client, await client.scheduleNewOrchestration(code, input, options));

/** Starts an orchestration that fails; answers the details. */
async function failure(client, code, input, options) {
  const state = await ended(client, await client.scheduleNewOrchestration(code, input, options));
  assert.equal(state.runtimeStatus, FAILED);
  return state.failureDetails;
}

const echo = async function echo(_, value) {
  return value;
};
const explode = async function explode(_, text) {
  throw new Error(text ?? "it broke");
};
const slow = async function slow(_, [ms, value]) {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return value;
};
const activities = [echo, explode, slow];

async function nothingToDo(server) {
  const turns = [];
  const idle = async (_, input) => {
    turns.push(input);
  };
  await server.running({ orchestrators: [idle] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(idle, undefined, { tags: { colour: "red" } });
    const state = await ended(client, instance);
    assert.equal(state.runtimeStatus, COMPLETED);
    assert.equal(state.instanceId, instance);
    assert.equal(state.serializedOutput, undefined);
    assert.deepEqual(state.tags, { colour: "red" });
    assert.equal(turns.length, 1);
  });
}

async function joinsThatFail(server) {
  const orphans = async function* orphans(ctx) {
    // The slow one goes on although the join has failed.
    try {
      yield whenAll([ctx.callActivity(explode, "first"), ctx.callActivity(slow, [200, "late"])]);
    } catch (error) {
      return error.message;
    }
  };
  const uncaught = async function* uncaught(ctx) {
    yield whenAll([ctx.callActivity(slow, [50, 1]), ctx.callActivity(explode, "last")]);
  };
  const several = async function* several(ctx) {
    yield whenAll(["one", "two", "three"].map((text) => ctx.callActivity(explode, text)));
  };
  const orchestrators = [orphans, uncaught, several];
  await server.running({ orchestrators, activities }, async (client) => {
    assert.match(await run(client, orphans), /first/);
    assert.match((await failure(client, uncaught)).message, /last/);
    assert.match((await failure(client, several)).message, /one|two|three/);
  });
}

async function joinsOfJoins(server) {
  const nested = async function* nested(ctx) {
    const part = (...values) => whenAll(values.map((value) => ctx.callActivity(echo, value)));
    const all = yield whenAll([part(1, 2), part(3, 4)]);
    const quick = part(5, 6);
    const winner = yield whenAny([quick, whenAll([ctx.callActivity(slow, [3000, 7])])]);
    return [all, winner === quick];
  };
  const broken = async function* broken(ctx) {
    yield whenAll([whenAll([ctx.callActivity(echo, 1)]), whenAll([ctx.callActivity(explode, "inside")])]);
  };
  const speeds = async function* speeds(ctx) {
    const all = yield whenAll([150, 10, 80].map((ms) => ctx.callActivity(slow, [ms, ms])));
    return [all, yield ctx.callActivity(echo, "then")];
  };
  await server.running({ orchestrators: [nested, broken, speeds], activities }, async (client) => {
    assert.deepEqual(await run(client, nested), [[[1, 2], [3, 4]], true]);
    assert.match((await failure(client, broken)).message, /inside/);
    assert.deepEqual(await run(client, speeds), [[150, 10, 80], "then"]);
  });
}

async function whatIsNoTaskFails(server) {
  const wrong = async function* wrong(ctx, value) {
    try {
      yield ctx.callActivity(explode);
    } catch {
      yield value;
    }
  };
  const right = async function* right(ctx) {
    try {
      yield ctx.callActivity(explode);
    } catch {
      return yield ctx.callActivity(echo, "right");
    }
  };
  await server.running({ orchestrators: [wrong, right], activities }, async (client) => {
    await failure(client, wrong, 5);
    await failure(client, wrong, "text");
    assert.equal(await run(client, right), "right");
  });
}

async function eventsOfThreeNames(server) {
  const patient = async function* patient(ctx) {
    const found = [];
    for (const name of ["A", "B", "C"]) found.push(yield ctx.waitForExternalEvent(name));
    return found;
  };
  await server.running({ orchestrators: [patient] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(patient);
    for (const name of ["A", "B", "C"]) await client.raiseOrchestrationEvent(instance, name, name.toLowerCase());
    assert.deepEqual(await output(client, instance), ["a", "b", "c"]);
  });
}

async function eventsBetweenOrchestrations(server) {
  const receiver = async function* receiver(ctx) {
    return [yield ctx.waitForExternalEvent("first"), (yield ctx.waitForExternalEvent("second")) ?? null];
  };
  const sender = async function* sender(ctx, target) {
    ctx.sendEvent(target, "first", { from: "sender" });
    yield ctx.createTimer(0.05);
    ctx.sendEvent(target, "second");
    return "sent";
  };
  await server.running({ orchestrators: [receiver, sender] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(receiver);
    assert.equal(await run(client, sender, instance), "sent");
    assert.deepEqual(await output(client, instance), [{ from: "sender" }, null]);
  });
}

async function timersAreReplayed(server) {
  const times = [];
  const napping = async function* napping(ctx) {
    times.push(ctx.currentUtcDateTime.getTime());
    yield ctx.createTimer(0.3);
    yield ctx.callActivity(echo, 1);
    return "awake";
  };
  await server.running({ orchestrators: [napping], activities }, async (client) => {
    const instance = await client.scheduleNewOrchestration(napping);
    assert.equal(await output(client, instance), "awake");
    const state = await client.getOrchestrationState(instance);
    assert.ok(state.lastUpdatedAt - state.createdAt >= 290);
    assert.equal(new Set(times).size, 1, "every replay has the same time at its beginning");
  });
}

async function continuedAsNew(server) {
  const counting = async function* counting(ctx, number) {
    yield ctx.createTimer(0.01);
    if (number < 5) return ctx.continueAsNew(number + 1, true);
    return number;
  };
  const falling = async function* falling(ctx, number) {
    if (number > 0) return ctx.continueAsNew(0, false);
    return [number];
  };
  const kid = async function* kid(ctx) {
    return ctx.instanceId;
  };
  const families = async function* families(ctx, ids) {
    ids.push(yield ctx.callSubOrchestrator(kid));
    if (ids.length < 4) return ctx.continueAsNew(ids, false);
    return ids;
  };
  const nesting = async function* nesting(ctx, depth) {
    if (depth === 0) return ctx.instanceId.length;
    return yield ctx.callSubOrchestrator(nesting, depth - 1);
  };
  const orchestrators = [counting, falling, kid, families, nesting];
  await server.running({ orchestrators }, async (client) => {
    assert.equal(await run(client, counting, 0), 5);
    assert.deepEqual(await run(client, falling, 1), [0]);
    assert.equal(new Set(await run(client, families, [])).size, 4);
    assert.ok((await run(client, nesting, 5)) <= 100);
  });
}

async function retriesByPolicy(server) {
  const attempts = new Map();
  const times = [];
  const count = (key) => attempts.set(key, (attempts.get(key) ?? 0) + 1).get(key);
  const flaky = async function flaky(_, [key, good]) {
    times.push(Date.now());
    if (count(key) < good) throw new Error(`transient ${attempts.get(key)}`);
    return attempts.get(key);
  };
  const flakyKid = async function* flakyKid(_, [key, good]) {
    if (count(key) < good) throw new Error(`transient ${attempts.get(key)}`);
    return attempts.get(key);
  };
  const policy = (more) =>
    new RetryPolicy({ maxNumberOfAttempts: 3, firstRetryIntervalInMilliseconds: 100, ...more });
  const POLICIES = {
    plain: policy(),
    doubling: policy({ backoffCoefficient: 2, maxNumberOfAttempts: 4 }),
    capped: policy({ backoffCoefficient: 10, maxNumberOfAttempts: 4, maxRetryIntervalInMilliseconds: 150 }),
    hurried: policy({ maxNumberOfAttempts: 50, retryTimeoutInMilliseconds: 500 }),
    choosy: policy({ maxNumberOfAttempts: 10, handleFailure: (details) => !details.message.includes("transient 2") }),
  };
  const retrying = async function* retrying(ctx, [kind, policyName, ...wanted]) {
    const retry = POLICIES[policyName];
    const call = kind === "activity" ? ctx.callActivity(flaky, wanted, { retry }) : ctx.callSubOrchestrator(flakyKid, wanted, { retry });
    return yield call;
  };
  await server.running({ orchestrators: [retrying, flakyKid], activities: [flaky] }, async (client) => {
    for (const kind of ["activity", "child"]) {
      assert.equal(await run(client, retrying, [kind, "plain", fresh("k"), 3]), 3);
      const key = fresh("k");
      assert.match((await failure(client, retrying, [kind, "plain", key, 9])).message, /transient 3/);
      assert.equal(attempts.get(key), 3);
      const stopped = fresh("k");
      await failure(client, retrying, [kind, "choosy", stopped, 9]);
      assert.equal(attempts.get(stopped), 2);
      const single = fresh("k");
      await failure(client, retrying, [kind, "none", single, 9]);
      assert.equal(attempts.get(single), 1);
    }
    const gaps = async (name) => {
      times.length = 0;
      assert.equal(await run(client, retrying, ["activity", name, fresh("k"), 4]), 4);
      return times.slice(1).map((time, place) => time - times[place]);
    };
    const doubling = await gaps("doubling");
    assert.ok(doubling[0] >= 95 && doubling[1] >= 190 && doubling[2] >= 380, doubling);
    const capped = await gaps("capped");
    assert.ok(capped[1] >= 145 && capped[2] < 1000, capped);
    const late = fresh("k");
    await failure(client, retrying, ["activity", "hurried", late, 99]);
    assert.ok(attempts.get(late) < 20, attempts.get(late));
  });
}

async function retriesByHandler(server) {
  const attempts = new Map();
  const count = (key) => attempts.set(key, (attempts.get(key) ?? 0) + 1).get(key);
  const flaky = async function flaky(_, [key, good]) {
    if (count(key) < good) throw new TypeError(`transient ${attempts.get(key)}`);
    return attempts.get(key);
  };
  const flakyKid = async function* flakyKid(_, [key, good]) {
    if (count(key) < good) throw new Error(`transient ${attempts.get(key)}`);
    return attempts.get(key);
  };
  const HANDLERS = {
    always: async () => true,
    never: async () => false,
    nothing: async () => undefined,
    nil: async () => null,
    counted: async (context) => context.lastAttemptNumber < 3,
    delayed: async () => 150,
    growing: async (context) => 50 * context.lastAttemptNumber,
    sync: () => 20,
    wavering: async (context) => (context.lastAttemptNumber < 2 ? 20 : false),
    byType: async (context) => context.lastFailure.errorType === "TypeError",
  };
  const handled = async function* handled(ctx, [kind, name, ...wanted]) {
    const retry = HANDLERS[name];
    const call = kind === "activity" ? ctx.callActivity(flaky, wanted, { retry }) : ctx.callSubOrchestrator(flakyKid, wanted, { retry });
    return yield call;
  };
  await server.running({ orchestrators: [handled, flakyKid], activities: [flaky] }, async (client) => {
    for (const kind of ["activity", "child"]) {
      for (const name of ["always", "delayed", "growing", "sync"]) {
        const began = Date.now();
        assert.equal(await run(client, handled, [kind, name, fresh("k"), 3]), 3, name);
        if (name === "delayed") assert.ok(Date.now() - began >= 290);
      }
      for (const [name, most] of [["never", 1], ["nothing", 1], ["nil", 1], ["counted", 3], ["wavering", 2]]) {
        const key = fresh("k");
        await failure(client, handled, [kind, name, key, 9]);
        assert.equal(attempts.get(key), most, name);
      }
    }
    assert.equal(await run(client, handled, ["activity", "byType", fresh("k"), 3]), 3);
  });
}

async function guidsAreTheSameInReplays(server) {
  const seen = [];
  const naming = async function* naming(ctx) {
    const names = [ctx.newGuid(), ctx.newGuid()];
    seen.push(names.join());
    yield ctx.callActivity(echo, 1);
    return [...names, ctx.newGuid()];
  };
  await server.running({ orchestrators: [naming], activities }, async (client) => {
    const names = await run(client, naming);
    assert.equal(new Set(names).size, 3);
    assert.equal(new Set(seen).size, 1);
    for (const name of names) assert.match(name, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  });
}

async function statusesOfOnesOwn(server) {
  const telling = async function* telling(ctx) {
    ctx.setCustomStatus({ step: 1 });
    yield ctx.waitForExternalEvent("next");
    ctx.setCustomStatus("");
    yield ctx.waitForExternalEvent("end");
    return "done";
  };
  await server.running({ orchestrators: [telling] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(telling);
    const status = async () => (await client.getOrchestrationState(instance))?.serializedCustomStatus;
    await until("the first", async () => (await status()) === '{"step":1}');
    await client.raiseOrchestrationEvent(instance, "next");
    await until("the empty one", async () => ['""', ""].includes(await status()));
    await client.raiseOrchestrationEvent(instance, "end");
    assert.equal(await output(client, instance), "done");
  });
}

async function onlyNewTurnsAreLogged(server) {
  const lines = [];
  const note = (text) => lines.push(text);
  const logger = { debug: note, info: note, warn: note, error: note };
  const talking = async function* talking(ctx) {
    const own = ctx.createReplaySafeLogger(logger);
    own.info("before");
    yield ctx.callActivity(echo, 1);
    own.info("after");
  };
  await server.running({ orchestrators: [talking], activities }, async (client) => {
    await run(client, talking);
    assert.deepEqual(lines, ["before", "after"]);
  });
}

async function parentsAreKnown(server) {
  const kid = async function* kid(ctx) {
    return [ctx.parent?.name, ctx.parent?.instanceId];
  };
  const mother = async function* mother(ctx) {
    return [ctx.parent === undefined, yield ctx.callSubOrchestrator(kid)];
  };
  await server.running({ orchestrators: [mother, kid] }, async (client) => {
    const instance = await client.scheduleNewOrchestration(mother);
    assert.deepEqual(await output(client, instance), [true, ["mother", instance]]);
  });
}

const waiting = async function* waiting(ctx) {
  yield ctx.waitForExternalEvent("never");
};
const guardian = async function* guardian(ctx, child) {
  yield ctx.callSubOrchestrator(waiting, undefined, { instanceId: child });
};

async function terminatedFamilies(server) {
  await server.running({ orchestrators: [guardian, waiting] }, async (client) => {
    for (const recursive of [true, false]) {
      const child = fresh("child");
      const instance = await client.scheduleNewOrchestration(guardian, child);
      await until("the child", async () => (await client.getOrchestrationState(child))?.runtimeStatus === RUNNING);
      await client.terminateOrchestration(instance, terminateOptions({ output: "enough", recursive }));
      const state = await ended(client, instance);
      assert.equal(state.runtimeStatus, TERMINATED);
      assert.equal(state.serializedOutput, '"enough"');
      if (recursive) {
        assert.equal((await ended(client, child)).runtimeStatus, TERMINATED);
      } else {
        assert.equal((await client.getOrchestrationState(child)).runtimeStatus, RUNNING);
        await client.terminateOrchestration(child, "plain");
        assert.equal((await ended(client, child)).serializedOutput, '"plain"');
      }
    }
  });
}

async function purgedFamilies(server) {
  const leaf = async function* leaf() {
    return 1;
  };
  const stem = async function* stem(ctx, child) {
    return yield ctx.callSubOrchestrator(leaf, undefined, { instanceId: child });
  };
  await server.running({ orchestrators: [stem, leaf] }, async (client) => {
    for (const recursive of [true, false]) {
      const child = fresh("child");
      const instance = await client.scheduleNewOrchestration(stem, child);
      await output(client, instance);
      const purged = await client.purgeOrchestration(instance, { recursive });
      assert.equal(purged.deletedInstanceCount, recursive ? 2 : 1);
      assert.equal(await client.getOrchestrationState(instance), undefined);
      assert.equal((await client.getOrchestrationState(child)) === undefined, recursive);
    }
  });
}

async function falsyValues(server) {
  const VALUES = [0, "", false, null];
  const through = async function* through(ctx, value) {
    return [yield ctx.callActivity(echo, value), yield ctx.callSubOrchestrator(same, value)];
  };
  const same = async function* same(_, value) {
    return value;
  };
  await server.running({ orchestrators: [through, same], activities }, async (client) => {
    for (const value of VALUES) {
      assert.deepEqual(await run(client, through, value), [value, value]);
      if (value !== null) assert.equal(await run(client, same, value), value);
    }
  });
}

const versioned = async function* versioned(ctx) {
  return ctx.version;
};

async function versionsMatchOrFail(server) {
  const { None, Strict, CurrentOrOlder } = VersionMatchStrategy;
  const { Fail } = VersionFailureStrategy;
  await server.running({ orchestrators: [versioned] }, async (client) => {
    assert.equal(await run(client, versioned, undefined, { version: "1.2.3" }), "1.2.3");
    assert.equal(await run(client, versioned), "");
  });
  const cases = [
    [None, "2.0.0", "1.0.0", true],
    [Strict, "1.0.0", "1.0.0", true],
    [Strict, "1.0.0", "2.0.0", false],
    [CurrentOrOlder, "2.0.0", "1.0.0", true],
    [CurrentOrOlder, "2.0.0", "2.0.0", true],
    [CurrentOrOlder, "1.0.0", "2.0.0", false],
  ];
  for (const [matchStrategy, version, wanted, isGood] of cases) {
    const versioning = { version, matchStrategy, failureStrategy: Fail };
    const use = async (client) => {
      if (isGood) assert.equal(await run(client, versioned, undefined, { version: wanted }), wanted);
      else await failure(client, versioned, undefined, { version: wanted });
    };
    await server.running({ orchestrators: [versioned] }, use, { versioning });
  }
}

async function filtersOfWorkers(server) {
  const greet = async function greet(_, name) {
    return `Hello, ${name}!`;
  };
  const greeting = async function* greeting(ctx, name) {
    return yield ctx.callActivity(greet, name);
  };
  const aside = async function* aside() {
    return "aside";
  };
  const code = { orchestrators: [greeting], activities: [greet] };
  const workItemFilters = {
    orchestrations: [{ name: "greeting", versions: ["3.0.0"] }],
    activities: [{ name: "greet", versions: ["3.0.0"] }],
  };
  await server.running(code, async (client) => assert.equal(await run(client, greeting, "a"), "Hello, a!"));
  const use = async (client) => {
    // The activity is scheduled without a version.
    assert.equal(await run(client, greeting, "b", { version: "3.0.0" }), "Hello, b!");
    const other = await client.scheduleNewOrchestration(greeting, "c", { version: "9.9.9" });
    const unlisted = await client.scheduleNewOrchestration(aside);
    assert.equal(await run(client, greeting, "d", { version: "3.0.0" }), "Hello, d!");
    for (const instance of [other, unlisted]) {
      assert.equal((await client.getOrchestrationState(instance)).runtimeStatus, PENDING);
      await client.terminateOrchestration(instance);
    }
  };
  await server.running({ ...code, orchestrators: [greeting, aside] }, use, { workItemFilters });
  const auto = async (client) => {
    const unknown = await client.scheduleNewOrchestration("nobody has it");
    assert.equal(await run(client, greeting, "e"), "Hello, e!");
    assert.equal((await client.getOrchestrationState(unknown)).runtimeStatus, PENDING);
    await client.terminateOrchestration(unknown);
  };
  await server.running(code, auto, { workItemFilters: "auto" });
}

async function queriesOfInstances(server) {
  const same = async function* same(_, value) {
    return value;
  };
  await server.running({ orchestrators: [same, waiting] }, async (client) => {
    const from = new Date(Date.now() - 1000);
    const prefix = fresh("query");
    const done = [];
    for (let number = 0; number < 5; number++) {
      done.push(await client.scheduleNewOrchestration(same, number, `${prefix}-${number}`));
    }
    for (const each of done) await output(client, each);
    const live = await client.scheduleNewOrchestration(waiting, undefined, `${prefix}-live`);
    await client.waitForOrchestrationStart(live, false, PATIENCE);
    const all = async (query) => {
      const found = [];
      for await (const state of client.getAllInstances({ instanceIdPrefix: prefix, ...query })) found.push(state);
      return found;
    };
    const ids = (states) => states.map(({ instanceId }) => instanceId).toSorted();
    assert.deepEqual(ids(await all({})), [...done, live].toSorted());
    assert.deepEqual(ids(await all({ statuses: [COMPLETED], pageSize: 2 })), done);
    assert.deepEqual(ids(await all({ statuses: [RUNNING] })), [live]);
    assert.deepEqual(ids(await all({ createdFrom: from })), [...done, live].toSorted());
    assert.deepEqual(await all({ createdTo: from }), []);
    assert.deepEqual(await all({ instanceIdPrefix: fresh("none") }), []);
    const [one] = await all({ instanceIdPrefix: done[3], fetchInputsAndOutputs: true });
    assert.deepEqual([one.serializedInput, one.serializedOutput], ["3", "3"]);
    const listed = [];
    const options = { runtimeStatus: [COMPLETED], pageSize: 2, completedTimeFrom: from };
    let page = await client.listInstanceIds(options);
    for (;;) {
      assert.ok(page.values.length <= 2);
      listed.push(...page.values);
      if (!page.continuationToken) break;
      page = await client.listInstanceIds({ ...options, lastInstanceKey: page.continuationToken });
    }
    assert.ok(done.every((each) => listed.includes(each)) && !listed.includes(live));
    assert.equal(new Set(listed).size, listed.length);
    const none = await client.listInstanceIds({ completedTimeFrom: new Date(Date.now() + 3_600_000) });
    assert.deepEqual(none.values, []);
    await client.terminateOrchestration(live);
  });
}

async function restartsOfEveryEnd(server) {
  const fickle = async function* fickle(ctx, how) {
    if (how === "fail") throw new Error("as planned");
    if (how === "wait") yield ctx.waitForExternalEvent("never");
    return how;
  };
  await server.running({ orchestrators: [fickle] }, async (client) => {
    for (const [how, status] of [["fail", FAILED], ["wait", TERMINATED], ["end", COMPLETED]]) {
      const instance = await client.scheduleNewOrchestration(fickle, how);
      await client.waitForOrchestrationStart(instance, false, PATIENCE);
      if (how === "wait") {
        await refused(() => client.restartOrchestration(instance));
        await client.suspendOrchestration(instance);
        await refused(() => client.restartOrchestration(instance, false));
        await client.terminateOrchestration(instance);
      }
      assert.equal((await ended(client, instance)).runtimeStatus, status);
      assert.equal(await client.restartOrchestration(instance), instance);
      if (how === "wait") {
        await client.waitForOrchestrationStart(instance, false, PATIENCE);
        await client.terminateOrchestration(instance);
      }
      const state = await ended(client, instance);
      assert.equal(state.runtimeStatus, status);
      assert.equal(state.serializedInput, JSON.stringify(how));
    }
    await refused(() => client.restartOrchestration(fresh("nobody")));
  });
}

async function rewindsThatAreRefused(server) {
  const same = async function* same(_, value) {
    return value;
  };
  await server.running({ orchestrators: [same, waiting] }, async (client) => {
    const done = await client.scheduleNewOrchestration(same, 1);
    await output(client, done);
    const live = await client.scheduleNewOrchestration(waiting);
    await client.waitForOrchestrationStart(live, false, PATIENCE);
    for (const instance of [done, live, fresh("nobody"), ""]) {
      await refused(() => client.rewindInstance(instance, "why not"));
    }
    await client.terminateOrchestration(live);
    await ended(client, live);
    await refused(() => client.rewindInstance(live, "why not"));
  });
}

async function historiesEventByEvent(server) {
  const { OrchestratorStarted, ExecutionStarted, TaskScheduled, TaskCompleted, TimerCreated, TimerFired } =
    HistoryEventType;
  const { SubOrchestrationInstanceCreated, SubOrchestrationInstanceCompleted, ExecutionCompleted, EventRaised } =
    HistoryEventType;
  const kid = async function* kid() {
    return "kid";
  };
  const steps = async function* steps(ctx) {
    yield ctx.callActivity(echo, 1);
    yield ctx.createTimer(0.05);
    return yield ctx.callSubOrchestrator(kid);
  };
  const listening = async function* listening(ctx) {
    return yield ctx.waitForExternalEvent("note");
  };
  await server.running({ orchestrators: [steps, kid, listening], activities }, async (client) => {
    const instance = await client.scheduleNewOrchestration(steps);
    await output(client, instance);
    const events = await client.getOrchestrationHistory(instance);
    assert.deepEqual(
      events.map(({ type }) => type),
      [
        OrchestratorStarted, ExecutionStarted, TaskScheduled,
        OrchestratorStarted, TaskCompleted, TimerCreated,
        OrchestratorStarted, TimerFired, SubOrchestrationInstanceCreated,
        OrchestratorStarted, SubOrchestrationInstanceCompleted, ExecutionCompleted,
      ],
    );
    assert.equal(events[4].taskScheduledId, events[2].eventId);
    assert.equal(events[7].timerId, events[5].eventId);
    assert.equal(events[10].taskScheduledId, events[8].eventId);
    assert.ok(events.every(({ timestamp }) => timestamp instanceof Date));
    const heard = await client.scheduleNewOrchestration(listening);
    await client.raiseOrchestrationEvent(heard, "note", "text");
    await output(client, heard);
    const raised = (await client.getOrchestrationHistory(heard)).find(({ type }) => type === EventRaised);
    assert.deepEqual([raised.name, raised.input], ["note", '"text"']);
    assert.deepEqual(await client.getOrchestrationHistory(fresh("nobody")), []);
    await refused(() => client.getOrchestrationHistory(""));
  });
}

export const scenarios = [
  nothingToDo,
  joinsThatFail,
  joinsOfJoins,
  whatIsNoTaskFails,
  eventsOfThreeNames,
  eventsBetweenOrchestrations,
  timersAreReplayed,
  continuedAsNew,
  retriesByPolicy,
  retriesByHandler,
  guidsAreTheSameInReplays,
  statusesOfOnesOwn,
  onlyNewTurnsAreLogged,
  parentsAreKnown,
  terminatedFamilies,
  purgedFamilies,
  falsyValues,
  versionsMatchOrFail,
  filtersOfWorkers,
  queriesOfInstances,
  restartsOfEveryEnd,
  rewindsThatAreRefused,
  historiesEventByEvent,
];

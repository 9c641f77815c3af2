// What every client must be able to do; it runs in Node and in a browser.
//
// `signalr` and `msgpack` are the two packages, `check` compares.

export function builder(signalr, msgpack, server, { transport, packed }) {
  const url = `${server.url}/client/?hub=room&colour=blue`;
  const made = new signalr.HubConnectionBuilder()
    .withUrl(url, { transport, accessTokenFactory: () => server.token })
    .configureLogging(signalr.LogLevel.Error);
  return packed ? made.withHubProtocol(new msgpack.MessagePackHubProtocol()) : made;
}

export function check(actual, expected, what) {
  const [one, other] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (one !== other) {
    throw new Error(`${what}: ${one} instead of ${other}`);
  }
}

export async function refused(call, words) {
  try {
    await call;
  } catch (error) {
    if (!String(error).includes(words)) {
      throw new Error(`'${error}' does not say '${words}'`);
    }
    return;
  }
  throw new Error(`nothing was refused with '${words}'`);
}

// The next `count` calls of a method of this client.
export function calls(connection, method, count) {
  return new Promise((resolve) => {
    const seen = [];
    const note = (...values) => {
      seen.push(values);
      if (seen.length === count) {
        connection.off(method, note);
        resolve(seen);
      }
    };
    connection.on(method, note);
  });
}

export function items(stream) {
  return new Promise((resolve, reject) => {
    const seen = [];
    stream.subscribe({
      next: (item) => seen.push(item),
      complete: () => resolve(seen),
      error: reject,
    });
  });
}

export async function everything(signalr, msgpack, server, kind) {
  const connection = builder(signalr, msgpack, server, kind).build();
  const elsewhere = { ...server, url: server.other ?? server.url };
  const other = builder(signalr, msgpack, elsewhere, { ...kind, packed: false }).build();
  const closed = new Promise((resolve) => connection.onclose(resolve));
  await connection.start();
  await other.start();
  await simple(connection);
  await streams(signalr, connection);
  await asks(connection);
  await groups(connection, other);
  if (kind.packed) {
    await bytes(connection);
  }
  await other.stop();
  await connection.stop();
  check((await closed) === undefined, true, "a clean end");
}

async function simple(connection) {
  check(await connection.invoke("Add", 40, 2), 42, "a result");
  check((await connection.invoke("nothing")) ?? null, null, "no result");
  check(await connection.invoke("who"), ["alice", "?hub=room&colour=blue"], "the caller");
  await refused(connection.invoke("fail", true), "HubException: as you wish");
  await refused(connection.invoke("fail", false), "invoking 'fail' on the server.");
  await refused(connection.invoke("missing"), "Method does not exist");
  const text = "x".repeat(20000) + "äöü\n€";
  check(await connection.invoke("echo_text", text), text, "a long text");
  const told = calls(connection, "told", 3);
  for (const number of [1, 2, 3]) {
    await connection.send("tell_me", number);
  }
  check(await told, [[1], [2], [3]], "sends in order");
}

async function streams(signalr, connection) {
  check(await items(connection.stream("count", 5, false)), [0, 1, 2, 3, 4], "a stream");
  await refused(items(connection.stream("count", 2, true)), "HubException: enough");
  await refused(items(connection.stream("Add", 1, 2)), "is not a stream");
  await new Promise((resolve, reject) => {
    const subscription = connection.stream("forever").subscribe({
      next: (item) => {
        if (item === 10) {
          subscription.dispose();
          resolve();
        }
      },
      complete: () => {},
      error: reject,
    });
  });
  const subject = new signalr.Subject();
  const total = connection.invoke("total", 10, subject);
  for (let number = 1; number <= 50; number += 1) {
    subject.next(number);
  }
  subject.complete();
  check(await total, 12750, "an upload");
}

async function asks(connection) {
  connection.on("name", () => "Bob");
  check(await connection.invoke("ask"), "it is Bob", "a client's result");
  connection.off("name");
  connection.on("name", () => {
    throw new Error("I will not say");
  });
  await refused(connection.invoke("ask"), "invoking 'ask' on the server.");
  connection.off("name");
  await refused(connection.invoke("ask"), "invoking 'ask' on the server.");
}

async function groups(connection, other) {
  await connection.invoke("enter", "g");
  await other.invoke("enter", "g");
  const told = calls(other, "told", 2);
  await connection.invoke("tell_others", "g", "first");
  await connection.invoke("tell_others", "g", "second");
  check(await told, [["first"], ["second"]], "a group");
  const all = [calls(connection, "told", 1), calls(other, "told", 1)];
  await connection.invoke("tell_all", "everybody");
  check(await Promise.all(all), [[["everybody"]], [["everybody"]]], "all");
}

async function bytes(connection) {
  const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
  const echoed = await connection.invoke("echo_bytes", all);
  check(Array.from(echoed), Array.from(all), "all bytes");
}

// What real clients in Node do, one function per question.

import { createServer, connect } from "node:net";
import * as signalr from "@microsoft/signalr";
import * as msgpack from "@microsoft/signalr-protocol-msgpack";
import { builder, calls, check, everything, refused } from "./talk.mjs";

const { WebSockets, ServerSentEvents, LongPolling } = signalr.HttpTransportType;

function kind(transport, packed) {
  return (server) => everything(signalr, msgpack, server, { transport, packed });
}

// A wrong token is refused with its status, by all transports.
async function wrongToken(server) {
  const wrong = { ...server, token: `${server.token}x` };
  for (const transport of [WebSockets, ServerSentEvents, LongPolling]) {
    const connection = builder(signalr, msgpack, wrong, { transport }).build();
    await refused(connection.start(), "401");
  }
}

// Another hub's token is refused.
async function otherHub(server) {
  const wrong = { ...server, token: server.other_token };
  const connection = builder(signalr, msgpack, wrong, { transport: WebSockets }).build();
  await refused(connection.start(), "403");
}

// A server that says so makes the client come back with a new id; one that does
// not ends it.
async function closes(server) {
  const kind = { transport: WebSockets };
  const connection = builder(signalr, msgpack, server, kind).withAutomaticReconnect([0]).build();
  const back = new Promise((resolve) => connection.onreconnected(resolve));
  await connection.start();
  const before = connection.connectionId;
  await connection.send("end_me", true);
  const after = await back;
  check(after !== before && after === connection.connectionId, true, "a new id");
  const closed = new Promise((resolve) => connection.onclose(resolve));
  await connection.send("end_me", false);
  await closed;
  check(connection.state, "Disconnected", "the end");
}

// An app server's hub at two nodes, by all transports: calls, and sends in order.
async function appServer(server) {
  for (const transport of [WebSockets, ServerSentEvents, LongPolling]) {
    const [one, other] = [server.url, server.other].map((url) =>
      new signalr.HubConnectionBuilder()
        .withUrl(`${url}/client/?hub=far`, { transport, accessTokenFactory: () => server.token })
        .configureLogging(signalr.LogLevel.Error)
        .build(),
    );
    await one.start();
    await other.start();
    check(await one.invoke("echo", "hi"), "hi", "a result");
    const told = calls(other, "tick", 3);
    for (const number of [1, 2, 3]) {
      await one.invoke("shout", number);
    }
    check(await told, [[1], [2], [3]], "sends in order");
    other.on("name", () => "Bob");
    check(await one.invoke("ask", other.connectionId), "Bob", "a client's result");
    await one.stop();
    await other.stop();
  }
}

// A client of an app server's hub comes back by itself when its node leaves, wherever
// its way leads then. Somebody makes the node leave when it says that it is here.
async function comesBack(server) {
  const connection = new signalr.HubConnectionBuilder()
    .withUrl(`${server.url}/client/?hub=far`, { accessTokenFactory: () => server.token })
    .withAutomaticReconnect([0, 200, 1000, 5000])
    .configureLogging(signalr.LogLevel.Error)
    .build();
  const back = new Promise((resolve, reject) => {
    connection.onreconnected(resolve);
    connection.onclose(reject);
  });
  await connection.start();
  check(await connection.invoke("echo", "here"), "here", "a result");
  console.log("here");
  await back;
  check(await connection.invoke("echo", "again"), "again", "a result");
  await connection.stop();
}

// Without negotiation: only a socket, with the token.
async function withoutNegotiation(server) {
  const connection = new signalr.HubConnectionBuilder()
    .withUrl(`${server.url}/client/?hub=room`, {
      transport: WebSockets,
      skipNegotiation: true,
      accessTokenFactory: () => server.token,
    })
    .build();
  await connection.start();
  check(await connection.invoke("Add", 1, 2), 3, "a result");
  await connection.stop();
}

// An open hub by its own path, without a token.
async function openHub(server) {
  const connection = new signalr.HubConnectionBuilder().withUrl(`${server.url}/open`).build();
  await connection.start();
  check(await connection.invoke("Add", 1, 2), 3, "a result");
  await connection.stop();
}

// Sockets that are cut under load: the client sees nothing, and misses nothing.
async function statefulReconnect(server) {
  const port = Number(new URL(server.url).port);
  const sockets = new Set();
  const proxy = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    sockets.add(near);
    near.on("error", () => far.destroy()).on("close", () => far.destroy());
    far.on("error", () => near.destroy()).on("close", () => near.destroy());
    near.pipe(far);
    far.pipe(near);
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const near = { ...server, url: `http://127.0.0.1:${proxy.address().port}` };
  for (const packed of [false, true]) {
    const made = builder(signalr, msgpack, near, { transport: WebSockets, packed });
    const connection = made.withStatefulReconnect().build();
    connection.onclose((error) => console.error("closed", error));
    await connection.start();
    const id = connection.connectionId;
    const told = calls(connection, "told", 200);
    for (let number = 0; number < 200; number += 1) {
      await connection.send("tell_me", number);
      if (number % 50 === 25) {
        for (const socket of sockets) {
          socket.destroy();
        }
        sockets.clear();
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const seen = (await told).map(([number]) => number);
    check(seen, Array.from({ length: 200 }, (_, number) => number), "all of them, once");
    check(connection.connectionId, id, "the id");
    check(await connection.invoke("connected"), 1, "connected once");
    await connection.stop();
  }
  proxy.close();
}

// Scenarios that need somebody who does something meanwhile.
export const led = [comesBack];

const named = (name, run) => Object.defineProperty(run, "name", { value: name });

export const scenarios = [
  named("webSocketsJson", kind(WebSockets, false)),
  named("webSocketsPacked", kind(WebSockets, true)),
  named("eventsJson", kind(ServerSentEvents, false)),
  named("pollingJson", kind(LongPolling, false)),
  named("pollingPacked", kind(LongPolling, true)),
  wrongToken,
  otherHub,
  closes,
  withoutNegotiation,
  openHub,
  statefulReconnect,
  appServer,
];

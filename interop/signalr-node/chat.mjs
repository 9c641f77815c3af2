// A client that talks to all others: chat.mjs <what the server said>.
//
// It says when it is connected, sends each line of its input to all clients of the hub, and
// prints what it receives, until its input ends.

import { createInterface } from "node:readline";
import * as signalr from "@microsoft/signalr";
import { builder } from "./talk.mjs";

const connection = builder(signalr, undefined, JSON.parse(process.argv[2]), {}).build();
connection.on("told", (text) => console.log(`told ${text}`));
await connection.start();
console.log("connected");
for await (const line of createInterface({ input: process.stdin })) {
  await connection.invoke("tell_all", line);
}
await connection.stop();
process.exit(0);

// A worker with one activity in JavaScript, until its input ends: languages.mjs <server>.
//
// Its orchestration is in Java, and the other activities are in other languages; it sets no
// filters, so that it is offered those too.

import { TaskHubGrpcWorker } from "@microsoft/durabletask-js";
import { Server } from "./server.mjs";

const { own } = new Server(JSON.parse(process.argv[2]));
const worker = new TaskHubGrpcWorker(own);
worker.addNamedActivity("say_javascript", async (_, number) => `javascript ${number}`);
await worker.start();
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));

// The load of the peer: so many jobs of BullMQ, each one call to an address.
// Arguments: port of Redis, address, number of jobs. Prints jobs per second.

const http = require("node:http");
const { Queue, Worker } = require("bullmq");

const [port, address, count] = process.argv.slice(-3);
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
const call = () =>
  new Promise((resolve, reject) => {
    const request = http.get(address, { agent }, (answer) => {
      answer.resume();
      answer.on("end", resolve);
    });
    request.on("error", reject);
  });

async function main() {
  const queue = new Queue("bench", { connection });
  for (let made = 0; made < Number(count); made += 1000) {
    const length = Math.min(1000, Number(count) - made);
    await queue.addBulk(Array.from({ length }, () => ({ name: "call", data: {} })));
  }
  const started = process.hrtime.bigint();
  let done = 0;
  const worker = new Worker("bench", call, { connection, concurrency: 64 });
  await new Promise((resolve, reject) => {
    worker.on("completed", () => {
      done += 1;
      if (done === Number(count)) resolve();
    });
    worker.on("failed", (_, error) => reject(error));
    worker.on("error", reject);
  });
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  console.log(done / seconds);
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

import { Worker } from 'node:worker_threads';

/** How many threads of this process were ever started, by the number of one more. */
export async function threadsStarted(): Promise<number> {
  const worker = new Worker('', { eval: true });
  const { threadId } = worker;
  await worker.terminate();
  return threadId;
}

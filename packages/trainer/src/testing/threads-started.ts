import { Worker } from 'node:worker_threads';

/** Read from the id of a new thread. */
export async function threadsStarted(): Promise<number> {
  const worker = new Worker('', { eval: true });
  const { threadId } = worker;
  await worker.terminate();
  return threadId;
}

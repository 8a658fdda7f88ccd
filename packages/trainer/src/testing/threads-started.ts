import { Worker } from 'node:worker_threads';

/** Number of threads that this process ever started, from the id of a new one. */
export async function threadsStarted(): Promise<number> {
  const worker = new Worker('', { eval: true });
  const { threadId } = worker;
  await worker.terminate();
  return threadId;
}

/**
 * Main module of a transfer host: one export or one import, in a process that ends with it. llama.cpp and
 * ONNX Runtime run the written model, and the memory of a second copy of the weights is freed completely.
 */
import { exportCheckpoint, importAdapter } from '@trainyard/trainer';

import { connectHost, failureOf, hostOptions } from '../process/host-main.ts';
import type { TransferHostCommand, TransferHostMessage, TransferHostOptions } from '../process/messages.ts';

const { numThreads } = hostOptions<TransferHostOptions>();
const { send, lease } = connectHost<TransferHostCommand, TransferHostMessage>(onCommand);
send({ kind: 'ready' });

function onCommand(command: TransferHostCommand): void {
  if (command.kind === 'shutdown') process.exit(0);
  else void runAndReport(command);
}

async function runAndReport(command: Exclude<TransferHostCommand, { kind: 'shutdown' }>): Promise<void> {
  try {
    send(await run(command));
  } catch (error) {
    send({ kind: 'transfer-failed', failure: failureOf(error) });
  } finally {
    lease.giveBack();
  }
}

async function run(command: Exclude<TransferHostCommand, { kind: 'shutdown' }>): Promise<TransferHostMessage> {
  if (command.kind === 'export-checkpoint') {
    return { kind: 'exported', result: await exportCheckpoint(command.request, { numThreads, gate: lease }) };
  }
  await lease.acquire();
  try {
    return { kind: 'imported', adapter: importAdapter(command.request) };
  } finally {
    lease.release();
  }
}

/**
 * Main module of the engine host: llama.cpp and the scheduler, in a process of their own so that a native crash cannot take the API down.
 *
 * One loop: while the engine has work, take the cores, run one step, give the step's events to the API process, let commands in.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

import { toFailure } from '@trainyard/backend';
import type { EngineEvent } from '@trainyard/generation';

import { connectHost, hostOptions, openOrRefuse } from './host-main.ts';
import { openEngine, type OpenEngineOptions } from './open-engine.ts';
import type { CodecCommand, CodecReply, EngineHostCommand, EngineHostMessage } from './messages.ts';

const opened = await openOrRefuse(() => openEngine(hostOptions<OpenEngineOptions>()));
const { engine, model, codec } = opened;
const { send, lease, letCommandsIn } = connectHost<EngineHostCommand, EngineHostMessage>(onCommand);
const NEVER = new AbortController().signal;
let outbox: [string, EngineEvent][] = [];
let isFlushPlanned = false;
let isStepping = false;
let isPreparing = false;

// Prompts that are prepared elsewhere arrive between commands.
engine.onWork = goOn;
send({ kind: 'ready', model });

function onCommand(command: EngineHostCommand): void {
  switch (command.kind) {
    case 'generate': {
      const { requestId } = command.request;
      engine.submit(command.request, (event) => outbox.push([requestId, event]));
      break;
    }
    case 'abort':
      engine.abort(command.requestId);
      break;
    case 'pause':
      engine.setPaused(command.requestId, command.isPaused);
      break;
    case 'retire':
      engine.retire(command.digest);
      return;
    case 'tokenize':
    case 'detokenize':
      void runCodec(command).then(send);
      return;
    case 'ping':
      send({ kind: 'pong', stats: engine.stats() });
      return;
    case 'shutdown':
      opened.close();
      process.exit(0);
      break;
    default:
      command satisfies never;
  }
  goOn();
}

/** Once for all commands that came together, so that a burst of them is answered in one message. */
function goOn(): void {
  if (!isFlushPlanned) {
    isFlushPlanned = true;
    setImmediate(flush);
  }
  if (!isStepping && engine.hasWork) void stepWhileThereIsWork();
  if (!isPreparing && engine.hasPromptsToMake) void prepareWhileThereIsSome();
}

/** Prompts of a burst are made also while the cores are somebody else's: who is refused waits for no step. */
async function prepareWhileThereIsSome(): Promise<void> {
  isPreparing = true;
  while (engine.hasPromptsToMake) {
    engine.prepareSome();
    flush();
    if (!isStepping && engine.hasWork) void stepWhileThereIsWork();
    await nextTurn();
  }
  isPreparing = false;
}

/** A bug in a step ends the process: the supervisor starts a clean one, and every request in flight gets its error there. */
async function stepWhileThereIsWork(): Promise<void> {
  isStepping = true;
  while (engine.hasWork) {
    await lease.acquire();
    await engine.step();
    lease.release();
    flush();
    await letCommandsIn();
  }
  isStepping = false;
  lease.giveBack();
}

function flush(): void {
  isFlushPlanned = false;
  if (outbox.length === 0) return;
  const events = outbox;
  outbox = [];
  send({ kind: 'engine-events', events, stats: engine.stats() });
}

/** Takes no turn on the cores: a whole context is tokenised in some milliseconds, and templates of requests run in other processes. */
async function runCodec(command: CodecCommand): Promise<CodecReply> {
  const { requestId } = command;
  try {
    if (command.kind === 'detokenize') {
      return { kind: 'detokenized', requestId, text: codec.detokenize(command.tokenIds) };
    }
    // A caller that left has no use for it, and its template is stopped in half a second anyway.
    const tokenIds = await codec.tokenize(command.input, NEVER);
    return { kind: 'tokenized', requestId, tokenIds, texts: command.withTexts ? codec.tokenTexts(tokenIds) : null };
  } catch (error) {
    return { kind: 'codec-failed', requestId, ...toFailure(error) };
  }
}

import { setImmediate as nextTurn } from 'node:timers/promises';

import { type ComputeTurns, toFailure } from '@trainyard/backend';
import type { EngineEvent, TextEngine } from '@trainyard/generation';

import { requestEventsText } from '../../seams/contract/event-texts.ts';
import { readRequest } from '../../seams/contract/request-texts.ts';
import { connectHost, openOrRefuse, type HostLine } from '../process/host-main.ts';
import type { CodecCommand, CodecReply, EngineHostCommand, EngineHostMessage } from '../process/messages.ts';
import type { OpenedText } from '../process/opened-text.ts';

/**
 * Runs a host that serves text, until shutdown.
 * @param open gets this host's claim on the shared cores, usable once requests come
 */
export async function serveText(open: (turns: ComputeTurns) => Promise<OpenedText>): Promise<void> {
  let line: HostLine<EngineHostMessage> | null = null;
  // There is no computing before the first request, which comes over this line.
  const turns: ComputeTurns = {
    acquire: () => line!.lease.acquire(),
    release: () => line!.lease.release(),
    giveBack: () => line!.lease.giveBack(),
  };
  const opened = await openOrRefuse(() => open(turns));
  const host = new TextHost(opened);
  line = connectHost<EngineHostCommand, EngineHostMessage>((command) => host.onCommand(command));
  host.begin(line);
}

const NEVER = new AbortController().signal;

/**
 * The loop of a text host: while there is work, acquire the cores if needed, run one step, send its events to
 * the API process, take commands.
 */
class TextHost {
  readonly #opened: OpenedText;
  readonly #engine: TextEngine;
  #line!: HostLine<EngineHostMessage>;
  #outbox: [string, EngineEvent][] = [];
  #isFlushPlanned = false;
  #isStepping = false;
  #isPreparing = false;

  constructor(opened: OpenedText) {
    this.#opened = opened;
    this.#engine = opened.engine;
  }

  begin(line: HostLine<EngineHostMessage>): void {
    this.#line = line;
    line.lease.use = this.#opened.coreUse ?? 'alone';
    // Prompts prepared on another thread arrive between commands.
    this.#engine.onWork = () => this.#advance();
    line.send({ kind: 'ready', model: this.#opened.model });
  }

  onCommand(command: EngineHostCommand): void {
    const engine = this.#engine;
    switch (command.kind) {
      case 'generate': {
        const request = readRequest(command.request);
        const { requestId } = request;
        engine.submit(request, (event) => this.#receive(requestId, event));
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
      case 'token-texts':
      case 'publish':
        void this.#runCodec(command).then(this.#line.send);
        return;
      case 'ping':
        void this.#pong();
        return;
      case 'shutdown':
        void this.#end();
        return;
      default:
        command satisfies never;
    }
    this.#advance();
  }

  /** Events of a step are sent after it; other events with those of the same turn. */
  #receive(requestId: string, event: EngineEvent): void {
    this.#outbox.push([requestId, event]);
    if (!this.#isStepping) this.#planFlush();
  }

  /** Runs once for all commands that arrive together, so that a burst is answered in one message. */
  #advance(): void {
    this.#planFlush();
    if (!this.#isStepping && this.#engine.hasWork) void this.#stepWhileThereIsWork();
    if (!this.#isPreparing && this.#engine.hasPromptsToMake) void this.#prepareWhileThereIsSome();
  }

  #planFlush(): void {
    if (this.#isFlushPlanned) return;
    this.#isFlushPlanned = true;
    setImmediate(() => this.#flush());
  }

  /** Prepares the prompts of a burst even without the cores, so that refusals do not wait for a step. */
  async #prepareWhileThereIsSome(): Promise<void> {
    this.#isPreparing = true;
    while (this.#engine.hasPromptsToMake) {
      this.#engine.prepareSome();
      this.#flush();
      if (!this.#isStepping && this.#engine.hasWork) void this.#stepWhileThereIsWork();
      await nextTurn();
    }
    this.#isPreparing = false;
  }

  /** A bug in a step ends the process: the supervisor starts a clean one, and fails every request in flight. */
  async #stepWhileThereIsWork(): Promise<void> {
    const takesCores = this.#opened.coreUse !== null;
    const { lease, yieldToCommands, whenRead } = this.#line;
    this.#isStepping = true;
    while (this.#engine.hasWork) {
      if (takesCores) await lease.acquire();
      await this.#engine.step();
      if (takesCores) lease.release();
      this.#flush();
      // Without this, events of several hundred KB per step would pile up, and a short answer would wait for
      // all of them.
      await whenRead();
      // A step that does not compute is short: later commands come before the next one, and none waits long.
      if (takesCores) await yieldToCommands();
      else await nextTurn();
    }
    this.#isStepping = false;
    // For events after the last step.
    this.#planFlush();
    if (takesCores) lease.giveBack();
  }

  #flush(): void {
    this.#isFlushPlanned = false;
    if (this.#outbox.length === 0) return;
    const events = this.#outbox;
    this.#outbox = [];
    this.#line.send({
      kind: 'engine-events',
      events: requestEventsText(events),
      stats: JSON.stringify(this.#engine.stats()),
    });
  }

  /** A remote back end may never answer; then there is no pong either. */
  async #pong(): Promise<void> {
    const {
      problem,
      members = [],
      adapters = [],
    } = await this.#opened
      .health()
      .catch((error: unknown) => ({ problem: messageOf(error), members: [], adapters: [] }));
    this.#line.send({ kind: 'pong', stats: this.#engine.stats(), problem, members, adapters });
  }

  async #end(): Promise<void> {
    await this.#opened.close();
    process.exit(0);
  }

  /**
   * Takes no turn on the cores: tokenising a whole context takes milliseconds, and request templates run in
   * other processes.
   */
  async #runCodec(command: CodecCommand): Promise<CodecReply> {
    const { requestId } = command;
    const { codec } = this.#opened;
    try {
      if (command.kind === 'detokenize') {
        return { kind: 'detokenized', requestId, text: codec.detokenize(command.tokenIds) };
      }
      if (command.kind === 'token-texts') {
        return { kind: 'token-texts', requestId, texts: codec.tokenTexts(command.tokenIds) };
      }
      if (command.kind === 'publish') {
        const partial = await this.#engine.publish(command.adapter);
        return { kind: 'published', requestId, partial };
      }
      // Not cancelled: a template is stopped after half a second anyway.
      const tokenIds = await codec.tokenize(command.input, NEVER);
      return { kind: 'tokenized', requestId, tokenIds, texts: command.withTexts ? codec.tokenTexts(tokenIds) : null };
    } catch (error) {
      return { kind: 'codec-failed', requestId, ...toFailure(error) };
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

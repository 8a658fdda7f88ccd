import type { RunnerAdapter } from './model-runner.ts';
import type { EngineEvent, GenerateRequest, Usage } from './generate-request.ts';
import type { EngineErrorCode } from './errors.ts';

/**
 * One request in flight and the only way its events go out: after `completed` or `failed` nothing more is sent.
 */
export class ActiveRequest {
  readonly request: GenerateRequest;
  /** Order of arrival, unique. */
  readonly arrival: number;
  readonly promptIds: readonly number[];
  /** Resolved: fits the context behind the prompt. */
  readonly maxTokens: number;
  readonly minTokens: number;
  /** Tenant, salt and adapter digest: prompts share memory only inside it. */
  readonly namespace: string;
  readonly #emit: (event: EngineEvent) => void;
  /** Held from the admission of the first choice to the end. */
  adapter: RunnerAdapter | null = null;
  isPaused = false;
  isAborted = false;
  isStarted = false;
  hasEnded = false;
  /** True once the receiver threw: nobody listens any more. */
  isReceiverLost = false;
  numUnfinishedChoices: number;
  readonly usage: Usage;
  #promptIdSet: ReadonlySet<number> | null = null;

  constructor(
    request: GenerateRequest,
    arrival: number,
    promptIds: readonly number[],
    limits: { maxTokens: number },
    emit: (event: EngineEvent) => void,
  ) {
    this.request = request;
    this.arrival = arrival;
    this.promptIds = promptIds;
    this.maxTokens = limits.maxTokens;
    this.minTokens = Math.min(request.minTokens, limits.maxTokens);
    this.namespace = JSON.stringify([request.tenant, request.cacheSalt, request.adapter?.digest ?? null]);
    this.numUnfinishedChoices = request.n;
    this.usage = { promptTokens: promptIds.length, completionTokens: 0, cachedTokens: 0 };
    this.#emit = emit;
  }

  get id(): string {
    return this.request.requestId;
  }
  /** null = the base model. */
  get adapterDigest(): string | null {
    return this.request.adapter?.digest ?? null;
  }

  /** Distinct ids of the prompt, made on first use. */
  get promptIdSet(): ReadonlySet<number> {
    this.#promptIdSet ??= new Set(this.promptIds);
    return this.#promptIdSet;
  }

  start(cachedTokens: number): void {
    if (this.isStarted) return;
    this.isStarted = true;
    this.usage.cachedTokens = cachedTokens;
    this.send({ kind: 'started', promptTokenIds: [...this.promptIds], cachedTokens });
  }

  complete(): void {
    this.send({ kind: 'completed', usage: { ...this.usage } });
    this.hasEnded = true;
  }

  fail(code: EngineErrorCode, message: string, param: string | null = null): void {
    this.send({ kind: 'failed', code, message, param });
    this.hasEnded = true;
  }

  /** A receiver that throws has gone: its request is dropped at the next step, and no other request feels it. */
  send(event: EngineEvent): void {
    if (this.hasEnded || this.isReceiverLost) return;
    try {
      this.#emit(event);
    } catch {
      this.isReceiverLost = true;
    }
  }
}

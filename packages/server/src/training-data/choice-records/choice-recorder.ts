import { randomUUID } from 'node:crypto';

import { MIN_LOGPROB } from '@trainyard/protocol/fields';
import { choiceRecordId, type Store } from '@trainyard/store';

import type { ResolvedModel } from '../../seams/contract/model-names.ts';
import type { OutputEvent, OutputRecorder } from '../../seams/streams/chat-events.ts';

interface SampledSoFar {
  tokenIds: number[];
  logprobs: number[];
}

/** Keeps what one answer's choices were sampled as, each when it ends: who is told of a record can train by it at once, whichever process is asked. */
export class ChoiceRecorder implements OutputRecorder {
  readonly #store: Pick<Store, 'recordChoice'>;
  readonly #source: { entityId: string; modelId: string; step: number; digest: string | null };
  readonly #answerId: string;
  readonly #choices = new Map<number, SampledSoFar>();
  #promptTokenIds = new Int32Array();

  constructor(
    store: Pick<Store, 'recordChoice'>,
    {
      entityId,
      model,
      answerId = randomUUID(),
    }: { entityId: string; model: Extract<ResolvedModel, { kind: 'checkpoint' }>; answerId?: string | undefined },
  ) {
    this.#store = store;
    this.#answerId = answerId;
    this.#source = { entityId, modelId: model.modelId, step: model.step, digest: model.digest };
  }

  /** The id that the record of a choice will have when it ends, unless nothing can be kept of it. */
  idOf(choiceIndex: number): string {
    return choiceRecordId({ answerId: this.#answerId, choiceIndex });
  }

  begin(promptTokenIds: readonly number[]): void {
    this.#promptTokenIds = Int32Array.from(promptTokenIds);
  }

  /** @returns the event; one that ends a choice tells the id of its record */
  async record(event: OutputEvent): Promise<OutputEvent> {
    const choice = this.#choices.get(event.index) ?? { tokenIds: [], logprobs: [] };
    this.#choices.set(event.index, choice);
    for (const id of event.tokenIds) choice.tokenIds.push(id);
    for (const { logprob } of event.logprobs ?? []) choice.logprobs.push(Math.max(logprob, MIN_LOGPROB));
    if (event.kind === 'delta') return event;
    this.#choices.delete(event.index);
    const { sampling, ...ended } = event;
    // Tokens of a backend that does not tell log-probabilities cannot be trained by, and an id would say that they can.
    if (choice.logprobs.length !== choice.tokenIds.length) return ended;
    const recordId = await this.#store.recordChoice({
      ...this.#source,
      answerId: this.#answerId,
      choiceIndex: event.index,
      promptTokenIds: this.#promptTokenIds,
      tokenIds: Int32Array.from(choice.tokenIds),
      logprobs: Float32Array.from(choice.logprobs),
      ...(sampling === undefined ? {} : { sampling }),
    });
    return { ...ended, recordId };
  }
}

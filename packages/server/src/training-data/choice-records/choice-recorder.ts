import { randomUUID } from 'node:crypto';

import { MIN_LOGPROB } from '@trainyard/protocol/fields';
import { choiceRecordId, type Store } from '@trainyard/store';

import type { ResolvedModel } from '../../seams/contract/model-names.ts';
import type { OutputEvent, OutputRecorder } from '../../seams/streams/chat-events.ts';

interface SampledSoFar {
  tokenIds: number[];
  logprobs: number[];
}

/**
 * Records the sampled tokens of each choice at its end. Any process can train on a record as soon as its id
 * was sent.
 */
export class ChoiceRecorder implements OutputRecorder {
  readonly #store: Pick<Store, 'choiceRecords'>;
  readonly #source: { entityId: string; modelId: string; step: number; digest: string | null };
  readonly #answerId: string;
  readonly #choices = new Map<number, SampledSoFar>();
  #promptTokenIds = new Int32Array();

  constructor(
    store: Pick<Store, 'choiceRecords'>,
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

  /** Record id of a choice once it ends, unless it cannot be recorded. */
  idOf(choiceIndex: number): string {
    return choiceRecordId({ answerId: this.#answerId, choiceIndex });
  }

  begin(promptTokenIds: readonly number[]): void {
    this.#promptTokenIds = Int32Array.from(promptTokenIds);
  }

  /** @returns the event; with the record's id if it ends a choice */
  async record(event: OutputEvent): Promise<OutputEvent> {
    const choice = this.#choices.get(event.index) ?? { tokenIds: [], logprobs: [] };
    this.#choices.set(event.index, choice);
    for (const id of event.tokenIds) choice.tokenIds.push(id);
    for (const { logprob } of event.logprobs ?? []) choice.logprobs.push(Math.max(logprob, MIN_LOGPROB));
    if (event.kind === 'delta') return event;
    this.#choices.delete(event.index);
    const { sampling, ...ended } = event;
    // Tokens without log-probabilities cannot be trained on, and an id would promise that they can.
    if (choice.logprobs.length !== choice.tokenIds.length) return ended;
    const recordId = await this.#store.choiceRecords.add({
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

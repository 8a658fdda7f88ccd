import type { SampledEnd, SampledOutput, SampleEvent, TokenLogprob } from '@trainyard/backend';

/** Events of one request, collected. Engines with text have the same kinds of events with more fields. */
export class Transcript<Event extends { readonly kind: string } = SampleEvent> {
  readonly events: Event[] = [];

  readonly receive = (event: Event): void => {
    this.events.push(event);
  };
  text(index = 0): string {
    return this.#choice(index).reduce((text, event) => text + event.text, '');
  }
  tokenIds(index = 0): number[] {
    return this.#choice(index).flatMap((event) => event.tokenIds);
  }
  logprobs(index = 0): TokenLogprob[] {
    return this.#choice(index).flatMap((event) => event.logprobs ?? []);
  }
  get started(): Extract<Event, { kind: 'started' }> | undefined {
    return this.#first('started');
  }
  get completed(): Extract<Event, { kind: 'completed' }> | undefined {
    return this.#first('completed');
  }
  get failed(): Extract<Event, { kind: 'failed' }> | undefined {
    return this.#first('failed');
  }
  finished(index = 0): Extract<Event, { kind: 'finished' }> | undefined {
    return this.#choice(index).find(({ kind }) => kind === 'finished') as never;
  }
  /** `completed` and `failed` events: must be 1 in the end. */
  get numEnds(): number {
    return this.events.filter(({ kind }) => kind === 'completed' || kind === 'failed').length;
  }

  #first<Kind extends string>(kind: Kind): Extract<Event, { kind: Kind }> | undefined {
    return this.events.find((event) => event.kind === kind) as never;
  }
  #choice(index: number): ({ kind: string } & (SampledOutput | SampledEnd))[] {
    const outputs = this.events.filter(({ kind }) => kind === 'delta' || kind === 'finished') as never[];
    return (outputs as ({ kind: string } & SampledOutput)[]).filter((event) => event.index === index);
  }
}

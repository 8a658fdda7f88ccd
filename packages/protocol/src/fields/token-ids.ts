/** Parameters that hold ids of the vocabulary. */
export interface TokenIdParams {
  readonly sampling: { readonly logitBias: readonly (readonly [number, number])[] };
  readonly stopTokenIds: readonly number[];
  readonly logprobTokenIds: readonly number[] | null;
  readonly allowedTokenIds: readonly number[] | null;
}

/** Rule broken by a parameter with an id outside the vocabulary. */
export interface ForeignToken {
  readonly name: 'logitBias' | 'stopTokenIds' | 'logprobTokenIds' | 'allowedTokenIds';
  readonly rule: string;
  readonly id: number;
}

/** The first id outside the vocabulary, or null. Such an id is outside a row of logits. */
export function findForeignToken(params: TokenIdParams, vocabSize: number): ForeignToken | null {
  for (const [id] of params.sampling.logitBias)
    if (isForeign(id, vocabSize)) return foreign('logitBias', id, vocabSize);
  for (const name of ['stopTokenIds', 'logprobTokenIds', 'allowedTokenIds'] as const) {
    for (const id of params[name] ?? []) if (isForeign(id, vocabSize)) return foreign(name, id, vocabSize);
  }
  return null;
}

function isForeign(id: number, vocabSize: number): boolean {
  return !Number.isInteger(id) || id < 0 || id >= vocabSize;
}

function foreign(name: ForeignToken['name'], id: number, vocabSize: number): ForeignToken {
  return { name, rule: `hold token ids in [0, ${vocabSize})`, id };
}

/** The parameters that hold ids of the vocabulary. */
export interface TokenIdParams {
  readonly sampling: { readonly logitBias: readonly (readonly [number, number])[] };
  readonly stopTokenIds: readonly number[];
  readonly logprobTokenIds: readonly number[] | null;
  readonly allowedTokenIds: readonly number[] | null;
}

/** The rule that a parameter breaks which holds an id outside the vocabulary. */
export interface ForeignToken {
  readonly name: keyof TokenIdParams | 'logitBias';
  readonly rule: string;
  readonly id: number;
}

/** The first id that the vocabulary does not have; null when there is none. An id outside it is a place outside a row of logits. */
export function findForeignToken(params: TokenIdParams, vocabSize: number): ForeignToken | null {
  const lists = {
    logitBias: params.sampling.logitBias.map(([id]) => id),
    stopTokenIds: params.stopTokenIds,
    logprobTokenIds: params.logprobTokenIds ?? [],
    allowedTokenIds: params.allowedTokenIds ?? [],
  };
  const isForeign = (id: number): boolean => !Number.isInteger(id) || id < 0 || id >= vocabSize;
  for (const [name, ids] of Object.entries(lists)) {
    const id = ids.find(isForeign);
    if (id !== undefined) return { name: name as keyof typeof lists, rule: `hold token ids in [0, ${vocabSize})`, id };
  }
  return null;
}

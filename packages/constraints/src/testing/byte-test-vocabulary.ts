import type { ConstraintSpec } from '../contract/constraint-spec.ts';
import type { Constraints } from '../constraints.ts';
import type { ConstraintVocabulary } from '../contract/vocabulary.ts';

/** Test vocabulary: one token per byte, then `<|start|>`, and two that end a completion. */
export const BYTES: ConstraintVocabulary = {
  vocabSize: 259,
  tokenBytes: (id) => (id < 256 ? Uint8Array.of(id) : Buffer.from(['<|start|>', '<|end|>', '<|stop|>'][id - 256]!)),
  isControl: (id) => id >= 256,
  eosTokenId: 257,
  endTokenIds: [257, 258],
};

/** True if exactly this text is allowed and may end there. */
export function allows(constraints: Constraints, spec: ConstraintSpec, text: string): boolean {
  const matcher = constraints.compile(spec);
  try {
    for (const byte of Buffer.from(text)) if (!matcher.accept(byte)) return false;
    return matcher.canEnd;
  } finally {
    matcher.close();
  }
}

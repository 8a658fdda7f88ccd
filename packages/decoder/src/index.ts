export { KvFullError } from './contract/errors.ts';

export { PagedDecoder, type PagedDecoderOptions } from './batch/paged-decoder.ts';
export { type DecoderWeights, openWeights, weightBytes } from './batch/open-weights.ts';
export { DecoderBatch } from './batch/decoder-batch.ts';
export { DecoderAdapter } from './adapters/decoder-adapter.ts';
export { DecoderGraphs } from './graphs/decoder-graphs.ts';
export { hasBf16Steps } from './products/bf16-matrices.ts';
export { StreamedMatrices } from './products/streamed-matrices.ts';
export { DeltaStates } from './delta-net/delta-states.ts';
export { PagedAttention } from './attention/paged-attention.ts';
export { HEAD_GRANULARITY } from './attention/page-format.ts';

export { centreOf, drawnLogprob, type DrawableTokens } from './logits/drawn-logprob.ts';
export { FlatLogits } from './logits/flat-logits.ts';
export {
  argmax,
  BLOCK_SIZE,
  countAtLeast,
  expNegative,
  logSumExp,
  RowScan,
  scanMaxima,
  scanSums,
} from './logits/row-scan.ts';
export {
  adjustLogits,
  isNeutral,
  NO_ADJUSTMENTS,
  penalisedLogit,
  UndoLog,
  type TokenAdjustments,
} from './logits/token-adjustments.ts';

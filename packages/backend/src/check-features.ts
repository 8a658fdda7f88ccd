import { isLogitsMode, isProcessedMode, naming } from '@trainyard/protocol/fields';
import { refusal } from './check-field.ts';
import type { EngineError } from './errors.ts';
import type { SampleFeature, SampleParams, TokenBackendCapabilities } from './token-backend.ts';

/** Field that requests each feature, and a test for it. Traces have no such field. */
const ASKED: Readonly<
  Record<Exclude<SampleFeature, 'tracesSampling'>, { field: string; isAsked: (params: SampleParams) => boolean }>
> = {
  adapters: { field: 'adapter', isAsked: ({ adapter }) => adapter !== null },
  allowedTokenIds: { field: 'allowedTokenIds', isAsked: ({ allowedTokenIds }) => allowedTokenIds !== null },
  bannedSequences: { field: 'bannedSequences', isAsked: ({ bannedSequences }) => bannedSequences.length > 0 },
  beamSearch: { field: 'beamSearch', isAsked: ({ beamSearch }) => beamSearch !== null },
  logits: {
    field: 'logprobsMode',
    isAsked: ({ logprobs, logprobsMode }) => logprobs !== null && isLogitsMode(logprobsMode),
  },
  logprobTokenIds: { field: 'logprobTokenIds', isAsked: ({ logprobTokenIds }) => logprobTokenIds !== null },
  priorities: { field: 'priority', isAsked: ({ priority, beamSearch }) => priority !== 0 && beamSearch === null },
  processedLogprobs: {
    field: 'logprobsMode',
    isAsked: ({ logprobs, logprobsMode }) => logprobs !== null && isProcessedMode(logprobsMode),
  },
  promptLogprobs: { field: 'promptLogprobs', isAsked: ({ promptLogprobs }) => promptLogprobs !== null },
  repetitionDetection: {
    field: 'repetitionDetection',
    isAsked: ({ repetitionDetection }) => (repetitionDetection?.maxPatternSize ?? 0) > 0,
  },
  seeds: { field: 'seed', isAsked: ({ sampling }) => sampling.seed !== null && sampling.temperature > 0 },
};

/**
 * Refuses features outside a back end's capabilities before anything is computed.
 * @throws {EngineError} engine.invalid_request, naming the field
 */
export function checkFeatures(
  params: SampleParams,
  { features, constraints, reasons = {} }: Pick<TokenBackendCapabilities, 'features' | 'constraints' | 'reasons'>,
): void {
  for (const [feature, { field, isAsked }] of Object.entries(ASKED)) {
    if (!features.has(feature as SampleFeature) && isAsked(params))
      throw unsupported(field, reasons[feature as SampleFeature]);
  }
  const { constraint } = params;
  if (constraint !== null && !constraints.has(constraint.kind)) throw unsupported('constraint');
}

function unsupported(param: string, reason?: string): EngineError {
  const why = reason === undefined ? '' : ` (${reason})`;
  return refusal(param, naming`${{ field: param }} is not supported by this sampling backend: remove it${why}`);
}

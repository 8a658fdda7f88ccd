import { multipliesBf16, needsBf16, oneDnnProblem, ServerError, type ServiceConfig } from '@trainyard/server';

import { ONEDNN } from '../../../../scripts/lib/model-source.mjs';
import { npmScript } from '../terminal/this-program.ts';

/**
 * Steps to install the library for bf16. The package has no script for it; pip puts it into the folder `lib`.
 */
export const ONEDNN_STEPS =
  npmScript('bf16') === null
    ? `set TRAINYARD_ONEDNN to the ${ONEDNN.fileName} that "pip install ${ONEDNN.wheel.requirement}" puts into lib`
    : `run "${npmScript('bf16')}", or set TRAINYARD_ONEDNN`;

/** Reasons why this machine cannot multiply in bf16, with remedies; null if a check finds none. */
export async function bf16Problem(config: ServiceConfig): Promise<string | null> {
  const libraryProblem = await oneDnnProblem(config);
  const problems = [
    multipliesBf16() === false ? 'this processor has no bf16 instructions (AVX512-BF16 or AMX)' : null,
    libraryProblem === null ? null : `${libraryProblem}: ${ONEDNN_STEPS}`,
  ].filter((problem) => problem !== null);
  return problems.join('; ') || null;
}

/**
 * Refuses a start before a model is fetched or anything is written.
 *
 * @throws {ServerError} `server.config_invalid`
 */
export async function refuseMissingBf16(config: ServiceConfig): Promise<void> {
  const problem = needsBf16(config) ? await bf16Problem(config) : null;
  if (problem !== null) throw new ServerError('server.config_invalid', `precision is bf16, and ${problem}`);
}

import { resolve } from 'node:path';

import { BaseSequencer } from 'vitest/node';

const ROOT = resolve(import.meta.dirname, '../..');

/**
 * Files that take longest, the longest first: `npm test` prints the ten slowest. Started last, one of them
 * would run while other cores are idle. Vitest knows the times of earlier runs, but only within a project; in
 * a fresh checkout it knows only sizes.
 */
export const LONG_FILES = [
  'tests/path/default-model.test.ts',
  'packages/tinker/src/driver/tinker-learner.test.ts',
  'packages/trainer/src/lanes/ort-policy-model.test.ts',
  'packages/trainer/src/job/steps-that-learn.test.ts',
  'packages/store/src/drivers/sqlite/sqlite-store.test.ts',
  'packages/store/src/testing/memory-sql.test.ts',
  'packages/server/src/hosts/process/supervised-host.test.ts',
  'packages/generation/src/text-engine.property.test.ts',
  'packages/decoder/src/products/graph-products.test.ts',
  'packages/server/src/hosts/process/remote-training.test.ts',
  'packages/tokenizer/src/sandbox/template-sandbox.test.ts',
  'packages/server/src/service/parts/open-inference.test.ts',
  'packages/trainer/src/deterministic/deterministic-policy.test.ts',
  'packages/server/src/gateway/bodies/body-intake.test.ts',

  'packages/store/src/drivers/postgres/postgres-store.postgres.test.ts',
  'tests/e2e/examples.test.ts',
  'tests/e2e/readme.test.ts',
  'tests/browser/long-run.test.ts',
  'tests/e2e/doc-blocks.test.ts',
  'tests/e2e/packed-command.test.ts',
  'tests/e2e/same-bits.test.ts',
  'tests/clients/art-training.test.ts',
  'tests/clients/schemathesis.test.ts',
  'tests/e2e/background-answers.postgres.test.ts',
  'tests/e2e/pytorch-step.test.ts',
  'tests/e2e/moving-jobs.postgres.test.ts',
  'tests/browser/rollouts-and-chat.test.ts',
  'packages/trainer/src/export/export-checkpoint.model.test.ts',
  'tests/e2e/exports.test.ts',
  'packages/server/src/testing/schedules/schedules.postgres.test.ts',
  'tests/packages/sdk-loop.test.ts',
  'tests/e2e/vllm-draws.test.ts',
  'tests/e2e/remote-servers.test.ts',
  'tests/e2e/your-own-model.test.ts',
  'tests/browser/dashboard.test.ts',
  'tests/e2e/crowd.test.ts',
  'tests/e2e/commands.test.ts',
  'packages/server/src/hosts/inference/text-host.model.test.ts',
  'tests/e2e/roles.postgres.test.ts',
  'tests/e2e/engines.postgres.test.ts',
  'tests/training/pytorch-step.model.test.ts',
  'tests/e2e/killed-roles.postgres.test.ts',
  'tests/clients/art-sft.test.ts',
  'tests/e2e/lifecycle.test.ts',
  'tests/e2e/bench-serving.test.ts',
  'tests/clients/forms.test.ts',
  'packages/trainer/src/job/run-training-job.model.test.ts',
  'tests/e2e/demo.test.ts',
  'tests/e2e/observed.postgres.test.ts',
  'packages/generation/src/text-engine.model.test.ts',
  'tests/e2e/several-models.test.ts',
  'tests/e2e/postgres.postgres.test.ts',
  'tests/clients/art.test.ts',
  'tests/e2e/several-turns.test.ts',
  'packages/trainer/src/sft/sft.model.test.ts',
  'tests/packages/sdk-package.test.ts',
  'tests/e2e/sft.test.ts',
  'tests/e2e/hanging-database.postgres.test.ts',
];

/**
 * Sorts {@link LONG_FILES} first, in that order; a project that shares its workers among its files stays
 * together.
 */
export class LongFilesFirst extends BaseSequencer {
  /**
   * @override
   * @param {import('vitest/node').TestSpecification[]} files
   */
  async sort(files) {
    const sorted = await super.sort(files);
    const projects = [...new Set(sorted.map(({ project }) => project))];
    /** @param {import('vitest/node').TestSpecification} file @returns {[stage: number, project: number, rank: number]} */
    const place = ({ project, moduleId }) => {
      const rank = LONG_FILES.findIndex((path) => resolve(ROOT, path) === resolve(moduleId));
      return [
        project.config.sequence.groupOrder,
        project.config.isolate ? 0 : projects.indexOf(project),
        rank === -1 ? LONG_FILES.length : rank,
      ];
    };
    const placed = sorted.map((file) => ({ file, place: place(file) }));
    return placed
      .toSorted((a, b) => {
        const differs = /** @type {const} */ ([0, 1, 2]).find((at) => a.place[at] !== b.place[at]) ?? 0;
        return a.place[differs] - b.place[differs];
      })
      .map(({ file }) => file);
  }
}

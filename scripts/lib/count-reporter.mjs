import { writeFileSync } from 'node:fs';

/** Variable with the file for the counts. */
export const COUNTS_FILE_VARIABLE = 'TRAINYARD_TEST_COUNTS_FILE';

/**
 * @import { Reporter, TestModule } from 'vitest/node'
 *
 * @typedef {object} TestCounts
 * @property {number} passed
 * @property {number} failed tests, files that could not be loaded, and errors outside any test
 * @property {number} skipped skipped and todo
 * @property {number} repeated passed tests that other projects run too, over another back end or database
 *
 * @typedef {{ path: string, project: string, ms: number }} SlowFile
 * @typedef {{ path: string, project: string, counts: TestCounts }} FailedFile its counts include errors outside any test
 * @typedef {TestCounts & { slowest: SlowFile[], failedFiles: FailedFile[] }} TestReport
 */

/**
 * @param {readonly TestModule[]} modules
 * @param {number} numUnhandledErrors
 * @returns {TestCounts}
 */
export function countTests(modules, numUnhandledErrors) {
  const counts = { passed: 0, failed: numUnhandledErrors, skipped: 0, repeated: 0 };
  for (const module of modules) {
    let hasFailed = false;
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      // A test that never ended (its process died) has not passed.
      counts[state === 'pending' ? 'failed' : state]++;
      if (state === 'passed' && REPEATS.test(module.project.name)) counts.repeated++;
      hasFailed ||= state === 'failed' || state === 'pending';
    }
    // The file did not load, or one of its hooks failed.
    if (module.state() === 'failed' && !hasFailed) counts.failed++;
  }
  return counts;
}

/**
 * Files with a failed test, hook or an error that Vitest found while they ran.
 *
 * @param {readonly TestModule[]} modules
 * @param {readonly unknown[]} unhandledErrors
 * @returns {FailedFile[]}
 */
export function failedFiles(modules, unhandledErrors) {
  const left = new Set(unhandledErrors);
  const failed = [];
  for (const module of modules) {
    const own = [...left].filter((error) => pathOf(error) === module.moduleId);
    for (const error of own) left.delete(error);
    const counts = countTests([module], own.length);
    if (counts.failed > 0) failed.push({ path: module.relativeModuleId, project: module.project.name, counts });
  }
  return failed;
}

/** @param {unknown} error @returns {unknown} absolute path of the file that ran, where Vitest knows it */
function pathOf(error) {
  return typeof error === 'object' && error !== null && 'VITEST_TEST_PATH' in error ? error.VITEST_TEST_PATH : null;
}

/** Projects whose files are also in the project `unit`. */
const REPEATS = /^(?:guest-|engine-port$|service-postgres$)/;

/** Number of files that `slowestFiles` returns. */
const NUM_SLOWEST = 10;

/**
 * Slowest files by the time of tests and hooks, the slowest first.
 *
 * @param {readonly TestModule[]} modules
 * @returns {SlowFile[]}
 */
export function slowestFiles(modules) {
  return modules
    .map((module) => {
      const { duration, setupDuration, collectDuration } = module.diagnostic();
      return {
        path: module.relativeModuleId,
        project: module.project.name,
        ms: duration + setupDuration + collectDuration,
      };
    })
    .toSorted((first, second) => second.ms - first.ms)
    .slice(0, NUM_SLOWEST);
}

/** @param {readonly SlowFile[]} files @returns {string} */
export function slowestLines(files) {
  const lines = files.map(
    ({ path, project, ms }) => `  ${(ms / 1000).toFixed(1).padStart(7)} s  ${project.padEnd(6)}  ${path}`,
  );
  return ['the slowest files:', ...lines].join('\n');
}

/** Result line for any CI. @param {TestCounts} counts */
export function countLine({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

/**
 * Vitest reporter that passes the sums of all projects to the process that started Vitest.
 * @implements {Reporter}
 */
export default class CountReporter {
  /**
   * @param {readonly TestModule[]} modules
   * @param {readonly unknown[]} unhandledErrors
   */
  onTestRunEnd(modules, unhandledErrors) {
    const path = process.env[COUNTS_FILE_VARIABLE];
    if (!path) return;
    /** @type {TestReport} */
    const report = {
      ...countTests(modules, unhandledErrors.length),
      slowest: slowestFiles(modules),
      failedFiles: failedFiles(modules, unhandledErrors),
    };
    writeFileSync(path, JSON.stringify(report));
  }
}

/**
 * Runs test files of one tree repeatedly in the same Vitest, which saves its start. Child process of `TestSession`.
 *
 *   in   { tests: string[], changed: string[] }   absolute paths: tests to run, and files changed since the last run
 *   out  { isPassed: boolean }                    also false if nothing ran
 */
import { createVitest } from 'vitest/node';

const [root = process.cwd()] = process.argv.slice(2);
const vitest = await createVitest('test', {
  root,
  watch: false,
  silent: true,
  reporters: [{}],
  // Vite's runner loads changed files again; Node keeps them.
  experimental: { viteModuleRunner: true },
});

process.on('message', async (/** @type {{ tests: string[], changed: string[] }} */ { tests, changed }) => {
  try {
    for (const path of changed) vitest.invalidateFile(path);
    process.send?.({ isPassed: await runs(tests) });
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
});
process.on('disconnect', () => void vitest.close().finally(() => process.exit()));
process.send?.('ready');

/** @param {string[]} tests */
async function runs(tests) {
  const files = await vitest.globTestSpecifications(tests);
  const run = await vitest.runTestSpecifications(files);
  const { unhandledErrors } = run;
  // The result includes files of earlier runs.
  const testModules = run.testModules.filter(({ moduleId }) => tests.includes(moduleId));
  return (
    testModules.length > 0 &&
    unhandledErrors.length === 0 &&
    testModules.every((file) => file.ok() && file.errors().length === 0)
  );
}

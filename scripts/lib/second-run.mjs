/**
 * Files that failed next to others run once more, alone. Failures that only a busy machine causes must not hide whether the code works, and must
 * not be hidden either: each such file is named at the end of the run.
 *
 * @import { FailedFile, TestReport } from './count-reporter.mjs'
 *
 * @typedef {{ report: TestReport, exitCode: number }} Outcome
 */

/** With more failed files, the code is wrong rather than the machine busy. */
const MAX_FILES = 3;

/**
 * Runs the failed files again, one after the other, and replaces their counts. Nothing runs if a failure belongs to no file, or too many files failed.
 *
 * @param {Outcome} first
 * @param {(file: FailedFile) => Promise<Outcome>} runAlone
 * @returns {Promise<Outcome & { lines: string[] }>} with a line for each file that ran again
 */
export async function runFailedAgain(first, runAlone) {
  const { failed, failedFiles } = first.report;
  const numKnown = failedFiles.reduce((sum, { counts }) => sum + counts.failed, 0);
  if (failed === 0 || numKnown !== failed || failedFiles.length > MAX_FILES) return { ...first, lines: [] };
  let { report } = first;
  let exitCode = 0;
  const lines = [];
  for (const file of failedFiles) {
    const second = await runAlone(file);
    report = withSecondRun(report, file, second.report);
    const hasPassed = second.exitCode === 0 && second.report.failed === 0 && second.report.passed > 0;
    if (!hasPassed) exitCode = second.exitCode || 1;
    const result = hasPassed ? 'passed alone: it depends on the load' : 'failed alone too';
    lines.push(`RAN AGAIN  ${file.project}  ${file.path}: ${file.counts.failed} failed next to others, ${result}`);
  }
  return { report, exitCode, lines };
}

/**
 * @param {TestReport} report
 * @param {FailedFile} file
 * @param {TestReport} second of this file alone
 * @returns {TestReport} the report with the second counts of the file
 */
function withSecondRun(report, { counts }, second) {
  const names = /** @type {const} */ (['passed', 'failed', 'skipped', 'repeated']);
  const sums = Object.fromEntries(names.map((name) => [name, report[name] - counts[name] + second[name]]));
  return { ...report, ...sums };
}

/** Thread of `Validator`: compiles one source at a time and reports the verdict. */
import { parentPort, workerData } from 'node:worker_threads';
import { ConstraintError } from '../contract/constraint-error.ts';
import type { GrammarSource, LlguidanceSnapshot } from '../llguidance/llguidance.ts';
import { compileError } from '../llguidance/refusal.ts';
import { Sandbox } from '../llguidance/sandbox.ts';
import { READY, type Verdict } from './validator.ts';
import type { WasmModule } from '../llguidance/web-assembly.ts';

const { module, snapshot } = workerData as { module: WasmModule; snapshot: LlguidanceSnapshot };
const sandbox = Sandbox.fromSnapshot(module, snapshot);

parentPort!.on('message', (source: GrammarSource) => {
  parentPort!.postMessage(judge(source));
});
parentPort!.postMessage(READY);

function judge(source: GrammarSource): Verdict {
  try {
    sandbox.instance.freeMatcher(sandbox.compile(source));
    return { isValid: true };
  } catch (thrown) {
    const error = compileError(thrown);
    if (!(error instanceof ConstraintError)) throw error;
    return { isValid: false, code: error.code, message: error.message };
  }
}

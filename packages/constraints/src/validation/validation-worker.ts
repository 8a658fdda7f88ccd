/** Thread of `Validator`: compiles one source at a time and reports the verdict. */
import { parentPort, workerData } from 'node:worker_threads';
import { ConstraintError } from '../contract/constraint-error.ts';
import type { GrammarSource } from '../llguidance/llguidance.ts';
import { compileError } from '../llguidance/refusal.ts';
import { Sandbox, type SandboxOrigin } from '../llguidance/sandbox.ts';
import type { Message, Verdict } from './validator.ts';

const sandbox = new Sandbox(workerData as SandboxOrigin);

parentPort!.on('message', (source: GrammarSource) => {
  send(judge(source));
});
send({ base: sandbox.open() });

function send(message: Message): void {
  parentPort!.postMessage(message);
}

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

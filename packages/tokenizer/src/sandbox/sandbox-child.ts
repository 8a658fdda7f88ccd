/** Child process that runs templates and can be killed. It imports nothing native and never writes to a file. */
import { TemplateProgram } from '../template/template-program.ts';
import type { SandboxAnswer, SandboxQuestion } from './sandbox-messages.ts';

// A template chooses the text of its refusal.
const MAX_REASON_CHARACTERS = 1_000;

let program: TemplateProgram | null = null;

process.on('message', (question: SandboxQuestion) => {
  try {
    send(answer(question));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    send({ kind: 'failed', reason: reason.slice(0, MAX_REASON_CHARACTERS) });
  }
});
process.on('disconnect', () => process.exit(0));
warmUp();
send({ kind: 'ready' });

function answer(question: SandboxQuestion): SandboxAnswer {
  if (question.kind === 'inspect') {
    const { source, probesTurns } = question;
    // The parent kills long runs. If it has died, the step limit ends the run.
    if (program?.source !== source) program = new TemplateProgram(source);
    const { contentFormat, toolSupport } = program;
    const turnSupport = probesTurns ? program.turnSupport : null;
    return { kind: 'traits', contentFormat, toolSupport, turnSupport };
  }
  if (program === null) throw new Error('no template to render');
  const text = program.run(question.variables);
  if (text.length <= question.maxOutputCharacters) return { kind: 'text', text };
  throw new Error(`the chat template wrote ${text.length} characters; the limit is ${question.maxOutputCharacters}`);
}

/** Loads and compiles the engine, so that its start does not count against a template's time. */
function warmUp(): void {
  void new TemplateProgram('{% for message in messages %}{{ message.content }}{% endfor %}').toolSupport;
}

function send(message: SandboxAnswer): void {
  process.send?.(message);
}

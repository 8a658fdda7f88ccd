/** Runs templates in a process of its own, which can be killed. It imports nothing native, and never writes to a file. */
import { TemplateProgram } from '../template/template-program.ts';
import type { SandboxAnswer, SandboxQuestion } from './sandbox-messages.ts';

// A template chooses the words of its refusal.
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
    // The parent kills what runs too long. If it has died, the limit of steps ends the run.
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

/** Loads and compiles the engine's code, so that no template's time is spent on it. */
function warmUp(): void {
  void new TemplateProgram('{% for message in messages %}{{ message.content }}{% endfor %}').toolSupport;
}

function send(message: SandboxAnswer): void {
  process.send?.(message);
}

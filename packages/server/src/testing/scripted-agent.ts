/**
 * Reply of a model that plays a coding agent. Only the conversation decides, so it continues after a
 * compaction and in another process.
 *
 * The last line `plan: COMMAND | COMMAND …` is the plan. Each command prints its own mark, `mark-WORD`, and
 * is done once the mark is in a result, or in a summary.
 *
 * | the conversation | reply |
 * |---|---|
 * | ends with a request for a summary of it | the plan, and the marks of finished commands |
 * | has an unfinished command | a thought, and a call of the tool that runs commands |
 * | has none | the marks, such as `Done: mark-one, mark-two` |
 */
export function agentReply(prompt: string): string {
  const messages = prompt.split('<|im_start|>').slice(1, -1).map(readMessage);
  const plan = messages.flatMap(({ role, text }) => (role === 'tool' ? [] : [...text.matchAll(PLAN)])).at(-1)?.[1];
  if (plan === undefined) return 'There is no plan.';
  const commands = plan.split('|').map((command) => command.trim());
  const seen = new Set(
    messages.flatMap(({ role, text }) =>
      role === 'tool' ? marksOf(text) : [...text.matchAll(PROGRESS)].flatMap(([line]) => marksOf(line)),
    ),
  );
  const done = commands.flatMap(marksOf).filter((mark) => seen.has(mark));
  if (ASKS_FOR_SUMMARY.test(messages.at(-1)?.text ?? ''))
    return `<summary>\nplan: ${plan}\nprogress: ${done.join(', ')}\n</summary>`;
  const next = commands.find((command) => marksOf(command).some((mark) => !seen.has(mark)));
  if (next === undefined) return `Done: ${done.join(', ')}`;
  return `<think>${done.length} of ${commands.length} are done.</think>${callOf(prompt, next)}`;
}

/** Codex's prompt, then Claude Code's. */
const ASKS_FOR_SUMMARY = /CONTEXT CHECKPOINT COMPACTION|Your task is to create a detailed summary/;
const PLAN = /^\s*plan: (.+)$/gm;
const PROGRESS = /^\s*progress: .*$/gm;

function readMessage(turn: string): { role: string; text: string } {
  const [role = '', ...lines] = turn.split('\n');
  return { role, text: lines.join('\n').replace('<|im_end|>', '') };
}

function marksOf(text: string): string[] {
  return [...text.matchAll(/mark-\w+/g)].map(([mark]) => mark);
}

/** A call of Codex's tool, or else of Claude Code's. */
function callOf(prompt: string, command: string): string {
  const call = prompt.includes('"name": "exec_command"')
    ? { name: 'exec_command', arguments: { cmd: command } }
    : { name: 'Bash', arguments: { command, description: 'Runs a command' } };
  return `<tool_call>\n${JSON.stringify(call)}\n</tool_call>`;
}

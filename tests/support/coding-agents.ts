import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Address and key of a service, and one of its models. */
export interface AgentService {
  /** ends in `/v1` */
  readonly url: string;
  readonly apiKey: string;
  readonly model: string;
}

/** A coding agent with its own home and working folder. */
export interface CodingAgent {
  /** Runs a turn without a terminal. @returns its events @throws with its output, if it fails */
  run(prompt: string, options?: { readonly goesOn?: boolean }): Promise<readonly AgentEvent[]>;
  close(): Promise<void>;
}

/** A line of the agent's JSON output. */
export type AgentEvent = Readonly<Record<string, unknown>> & { readonly type: string };

/** Time limit of a session that hangs, below the limit of a test. */
const RUN_TIMEOUT_MS = 300_000;

/** Tokens of a context, and the number from which Codex compacts the conversation. */
export interface Window {
  readonly contextLength: number;
  readonly compactAt?: number;
}

/** Codex with the guide's provider. @param folder with its package */
export async function openCodex(folder: string, service: AgentService, window: Window): Promise<CodingAgent> {
  const places = await makePlaces();
  const { contextLength, compactAt = contextLength } = window;
  await writeFile(
    join(places.home, 'config.toml'),
    `model = ${JSON.stringify(service.model)}
model_provider = "trainyard"
model_context_window = ${contextLength}
model_auto_compact_token_limit = ${compactAt}
web_search = "disabled"

[model_providers.trainyard]
name = "Trainyard"
base_url = "${service.url}"
env_key = "TRAINYARD_API_KEY"
wire_api = "responses"
`,
  );
  const environment = { CODEX_HOME: places.home, TRAINYARD_API_KEY: service.apiKey };
  // Its sandbox needs rights that a test may lack.
  const flags = ['--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'];
  const program = join(folder, 'node_modules/@openai/codex/bin/codex.js');
  return {
    run: (prompt, { goesOn = false } = {}) =>
      runAgent(process.execPath, [program, 'exec', ...(goesOn ? ['resume', '--last'] : []), ...flags, prompt], {
        ...places,
        environment,
      }),
    close: places.remove,
  };
}

/** Claude Code with the guide's variables. @param folder with its package */
export async function openClaudeCode(folder: string, service: AgentService, window: Window): Promise<CodingAgent> {
  const places = await makePlaces();
  const environment = {
    ANTHROPIC_BASE_URL: service.url.replace(/\/v1$/, ''),
    ANTHROPIC_AUTH_TOKEN: service.apiKey,
    ANTHROPIC_MODEL: service.model,
    ANTHROPIC_SMALL_FAST_MODEL: service.model,
    CLAUDE_CODE_MAX_CONTEXT_TOKENS: String(window.contextLength),
    CLAUDE_CODE_MAX_OUTPUT_TOKENS: '8000',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    // As root it only runs without questions in a container.
    IS_SANDBOX: '1',
  };
  const flags = ['--output-format', 'stream-json', '--verbose', '--dangerously-skip-permissions'];
  const program = join(folder, `node_modules/@anthropic-ai/claude-code-${process.platform}-${process.arch}/claude`);
  return {
    run: (prompt, { goesOn = false } = {}) =>
      runAgent(program, [...(goesOn ? ['--continue'] : []), ...flags, '-p', prompt], { ...places, environment }),
    close: places.remove,
  };
}

interface Places {
  readonly home: string;
  readonly work: string;
}

async function makePlaces(): Promise<Places & { readonly remove: () => Promise<void> }> {
  const root = await mkdtemp(join(tmpdir(), 'trainyard-agent-'));
  const [home, work] = [join(root, 'home'), join(root, 'work')];
  for (const folder of [home, work]) await mkdir(folder);
  return { home, work, remove: () => rm(root, { recursive: true, force: true, maxRetries: 5 }) };
}

async function runAgent(
  program: string,
  args: readonly string[],
  { home, work, environment }: Places & { environment: Readonly<Record<string, string>> },
): Promise<AgentEvent[]> {
  // Excludes the caller's settings, keys and proxies.
  const { PATH = '' } = process.env;
  const child = spawn(program, args, {
    cwd: work,
    env: { PATH, HOME: home, SHELL: '/bin/bash', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: RUN_TIMEOUT_MS,
  });
  let [output, errors] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`${program} ended with ${code}:\n${errors.slice(-3000)}\n${output.slice(-3000)}`);
  return output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as AgentEvent);
}
